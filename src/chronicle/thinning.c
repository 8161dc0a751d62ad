// SPDX-License-Identifier: Apache-2.0

#include "chronicle/thinning.h"

enum { second_least_ms = 500 };

static uint32_t shift_for(double rate)
{
    uint32_t shift = 0;
    while (shift < thinning_most && rate > (double)((uint64_t)thinning_rate << shift)) {
        shift += thinning_step;
    }
    return shift;
}

static void calm_down(struct thinning *self, uint32_t shift)
{
    if (shift >= self->keep_shift) {
        self->calm_s = 0;
        self->calm_shift = 0;
        return;
    }
    self->calm_shift = shift > self->calm_shift ? shift : self->calm_shift;
    self->calm_s++;
    if (self->calm_s == thinning_calm_s) {
        self->keep_shift = self->calm_shift;
        self->settled_s = 0;
        self->calm_s = 0;
        self->calm_shift = 0;
    }
}

static void settle(struct thinning *self)
{
    if (self->judge_shift <= self->keep_shift) {
        self->judge_shift = self->keep_shift;
        return;
    }
    self->settled_s++;
    if (self->settled_s >= thinning_settle_s) {
        self->judge_shift = self->keep_shift;
    }
}

void thinning_tick(struct thinning *thinning, uint64_t wall_ms)
{
    bool has_begun = thinning->begin_ms != 0 && wall_ms >= thinning->begin_ms;
    if (has_begun && wall_ms - thinning->begin_ms < second_least_ms) {
        return;
    }
    if (has_begun) {
        double rate = (double)thinning->count * 1000 / (double)(wall_ms - thinning->begin_ms);
        uint32_t needed = shift_for(rate);
        thinning->rate = (uint64_t)rate;
        if (needed > thinning->keep_shift) {
            thinning->keep_shift = needed;
            thinning->settled_s = 0;
        }
        calm_down(thinning, shift_for(2 * rate));
        settle(thinning);
    }
    thinning->begin_ms = wall_ms;
    thinning->count = 0;
}
