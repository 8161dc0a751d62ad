// SPDX-License-Identifier: Apache-2.0

#include "replica/life.h"

static enum life_verdict life_move(struct life *life, uint64_t era, uint64_t now_ms)
{
    life->era = era;
    life->moved_ms = now_ms > 0 ? now_ms : 1;
    life->is_out = false;
    return LIFE_ENDED;
}

static uint64_t life_next(const struct life *life)
{
    return life->era + 1 != 0 ? life->era + 1 : life->era;
}

enum life_verdict life_count(struct life *life, uint32_t lives, uint64_t now_ms)
{
    if (lives == life->lives) {
        return LIFE_GOES_ON;
    }
    life->lives = lives;
    if (life->moved_ms != 0 && now_ms < life->moved_ms + life_same_outage_ms) {
        return LIFE_REJOINED;
    }
    life->is_out = true;
    life->out_since_ms = now_ms;
    return LIFE_GOES_ON;
}

enum life_verdict life_prove(struct life *life, uint64_t now_ms)
{
    if (!life->is_out) {
        return LIFE_GOES_ON;
    }
    return life_move(life, life_next(life), now_ms);
}

enum life_verdict life_hear(struct life *life, uint64_t era, uint64_t now_ms)
{
    bool is_later = era > life->era && era - life->era <= LIFE_STEP_MAX;
    return is_later ? life_move(life, era, now_ms) : LIFE_GOES_ON;
}

enum life_verdict life_hear_output(struct life *life, uint64_t era, uint64_t now_ms)
{
    if (era != life->era || !life->is_out || now_ms < life->out_since_ms + life_grace_ms) {
        return LIFE_GOES_ON;
    }
    life->is_out = false;
    return LIFE_REJOINED;
}

enum life_verdict life_empty(struct life *life, uint64_t now_ms)
{
    if (life->emptied_ms != 0 && now_ms < life->emptied_ms + life_emptied_ms) {
        return LIFE_GOES_ON;
    }
    life->emptied_ms = now_ms > 0 ? now_ms : 1;
    return life_move(life, life_next(life), now_ms);
}
