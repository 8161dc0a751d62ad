// SPDX-License-Identifier: Apache-2.0

#include "chronicle/shadow.h"

#include "base/base.h"
#include "base/hash.h"
#include "base/prefill_curve.h"
#include "base/rng.h"
#include "chronicle/shadow_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Both fleets have the same members.
enum fleet { REAL, ROTATION, FLEET_COUNT };

struct queue {
    double backlog_ms;
    uint64_t at_us;
};

struct shadow_member {
    uint64_t id; // 0: unused
    double token_ms;
    struct queue queues[FLEET_COUNT];
};

// The usable members of one pool: a stretch of `order`.
struct rotation {
    uint32_t first;
    uint32_t count;
    uint32_t next;
};

// The evidence of the last requests of a pool, fading.
struct tally {
    double tokens; // of their blocks, really
    double seen;   // that the kept keys stood for
    double found[FLEET_COUNT];
};

// A request after both models.
struct done {
    uint64_t request; // 0: none
    uint32_t slots[FLEET_COUNT];
    double shares[FLEET_COUNT]; // of the prompt that was found
    double waits_ms[FLEET_COUNT];
    double drawn_ms; // the random draw made the second wait this much shorter
};

// Requests that have begun and not ended, by a hash.  A request that is displaced is replayed at
// its end.
enum { begun_max = 8192 };

struct shadow {
    uint32_t member_max;
    struct shadow_sieve sieve;
    struct rng rng; // always with the same seed
    struct tally tallies[shadow_pool_max];
    struct shadow_member *members; // by slot
    uint32_t *order;               // slots, pool by pool
    struct rotation pools[shadow_pool_max];
    struct shadow_cache *caches; // two for each slot
    struct done *begun;
};

struct shadow *shadow_create(uint32_t member_max)
{
    struct shadow *shadow = calloc(1, sizeof(*shadow));
    if (shadow == NULL) {
        return NULL;
    }
    shadow->member_max = member_max;
    shadow->members = calloc(member_max + 1, sizeof(*shadow->members));
    shadow->order = calloc(member_max + 1, sizeof(*shadow->order));
    shadow->caches = shadow_cache_create(member_max * FLEET_COUNT);
    shadow->begun = calloc(begun_max, sizeof(*shadow->begun));
    if (shadow->members == NULL || shadow->order == NULL || shadow->caches == NULL ||
        shadow->begun == NULL) {
        shadow_destroy(&shadow);
    }
    return shadow;
}

void shadow_destroy(struct shadow **shadow)
{
    if (*shadow != NULL) {
        shadow_cache_destroy(&(*shadow)->caches);
        free((*shadow)->members);
        free((*shadow)->order);
        free((*shadow)->begun);
        free(*shadow);
        *shadow = NULL;
    }
}

static uint32_t cache_of(uint32_t slot, enum fleet fleet)
{
    return slot * FLEET_COUNT + fleet;
}

void shadow_forget(struct shadow *shadow, uint32_t slot)
{
    ASSERT(slot < shadow->member_max);
    shadow->members[slot] = (struct shadow_member){0};
    shadow_cache_clear(shadow->caches, cache_of(slot, REAL));
    shadow_cache_clear(shadow->caches, cache_of(slot, ROTATION));
}

// Returns the size of its cache in tokens.
static uint64_t set_member(struct shadow *shadow, const struct chronicle_member *told)
{
    ASSERT(told->slot < shadow->member_max);
    struct shadow_member *member = &shadow->members[told->slot];
    uint64_t tokens = told->cache_tokens > 0 ? told->cache_tokens : shadow_cache_tokens;

    member->id = told->id;
    member->token_ms = told->token_ms > 0 ? told->token_ms : PREFILL_SHIPPED_TOKEN_MS;
    shadow_cache_set_size(shadow->caches, cache_of(told->slot, REAL), tokens);
    shadow_cache_set_size(shadow->caches, cache_of(told->slot, ROTATION), tokens);
    return tokens;
}

static bool has_turn(const struct chronicle_member *member)
{
    return member->is_usable && member->pool < shadow_pool_max;
}

void shadow_set_members(struct shadow *shadow, const struct chronicle_member *members,
                        uint32_t count)
{
    ASSERT(count <= shadow->member_max);
    uint64_t tokens = 0;
    for (uint32_t pool = 0; pool < shadow_pool_max; pool++) {
        shadow->pools[pool].count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        tokens += set_member(shadow, &members[i]);
        if (has_turn(&members[i])) {
            shadow->pools[members[i].pool].count++;
        }
    }
    shadow_cache_expect(shadow->caches, tokens * FLEET_COUNT);
    uint32_t first = 0;
    for (uint32_t pool = 0; pool < shadow_pool_max; pool++) {
        shadow->pools[pool].first = first;
        first += shadow->pools[pool].count;
        shadow->pools[pool].count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (has_turn(&members[i])) {
            struct rotation *pool = &shadow->pools[members[i].pool];
            shadow->order[pool->first + pool->count++] = members[i].slot;
        }
    }
}

// The slot that has the turn; chronicle_no_slot: the pool has no usable member.
static uint32_t take_turn(struct shadow *shadow, uint32_t pool)
{
    if (pool >= shadow_pool_max || shadow->pools[pool].count == 0) {
        return chronicle_no_slot;
    }
    struct rotation *rotation = &shadow->pools[pool];
    // Members change between turns, so the remainder is taken here and not stored.
    return shadow->order[rotation->first + rotation->next++ % rotation->count];
}

// Returns the time from arrival to the first token.
static double queue_up(struct queue *queue, uint64_t now_us, double work_ms)
{
    // The wall clock may jump: back does no work, far ahead does all of it.
    if (now_us > queue->at_us) {
        queue->backlog_ms -= (double)(now_us - queue->at_us) / 1000;
        queue->backlog_ms = queue->backlog_ms > 0 ? queue->backlog_ms : 0;
    }
    queue->at_us = now_us;
    double wait_ms = queue->backlog_ms + work_ms;
    queue->backlog_ms = wait_ms < shadow_queue_ms ? wait_ms : shadow_queue_ms;
    return wait_ms;
}

// The measured cached tokens, moved from one share of the model to the other.
static double moved(double measured, double prompt, double from, double to)
{
    if (to < from) {
        return measured * to / from;
    }
    if (to > from) {
        return measured + (prompt - measured) * (to - from) / (1 - from);
    }
    return measured;
}

// Likewise, but all or nothing, with the same average.
static double drawn(struct rng *rng, double measured, double prompt, double from, double to)
{
    double chance = (double)(rng_next(rng) >> 11) / (double)(1ULL << 53);
    if (to < from) {
        return chance * from < to ? measured : 0;
    }
    if (to > from) {
        return chance * (1 - from) < to - from ? prompt : measured;
    }
    return measured;
}

static struct shadow_prompt prompt_of(const struct receipt *receipt)
{
    struct receipt_parts parts;
    receipt_parts(receipt, &parts);
    uint32_t block_tokens = receipt->block_tokens > 0 ? receipt->block_tokens : 1;
    uint32_t block_count = receipt->prompt_tokens / block_tokens;

    return (struct shadow_prompt){
        .sampled = parts.sampled,
        .sampled_count = receipt->sampled_count,
        .depths = parts.depths,
        .depth_count = receipt->depth_count,
        .block_count = block_count,
        .block_tokens = block_tokens,
        .other_tokens =
            receipt->prompt_tokens - block_count * block_tokens + receipt->output_tokens,
    };
}

// Cached tokens of the prompt: as reported, or else as expected.
static double measured_tokens(const struct receipt *receipt)
{
    uint32_t tokens = receipt->has_cached_tokens ? receipt->cached_tokens
                                                 : receipt->decision.chosen.expected_tokens;
    return tokens < receipt->prompt_tokens ? tokens : receipt->prompt_tokens;
}

void shadow_set_sieve(struct shadow *shadow, struct shadow_sieve sieve)
{
    shadow->sieve = sieve;
}

void shadow_fade(struct shadow *shadow, uint64_t elapsed_ms)
{
    double factor = exp2(-(double)elapsed_ms / shadow_half_ms);
    for (uint32_t pool = 0; pool < shadow_pool_max; pool++) {
        struct tally *tally = &shadow->tallies[pool];
        tally->tokens *= factor;
        tally->seen *= factor;
        tally->found[REAL] *= factor;
        tally->found[ROTATION] *= factor;
    }
}

static double share_of(const struct tally *tally, enum fleet fleet)
{
    double found = tally->found[fleet] + tally->tokens - tally->seen;
    if (!(found > 0)) {
        return 0;
    }
    return found < tally->tokens ? found / tally->tokens : 1;
}

// Computes the prompt in both models, and the share of it that each found.
static void compute(struct shadow *shadow, const struct shadow_prompt *prompt, uint32_t pool,
                    const uint32_t caches[FLEET_COUNT], double shares[FLEET_COUNT])
{
    struct tally *tally = &shadow->tallies[pool];
    double tokens = shadow_prompt_tokens(prompt);
    double seen = tokens;

    for (uint32_t fleet = 0; fleet < FLEET_COUNT; fleet++) {
        if (shadow->sieve.judge_shift == 0) {
            shares[fleet] = shadow_cache_use(shadow->caches, caches[fleet], prompt);
            tally->found[fleet] += shares[fleet] * tokens;
        } else {
            struct shadow_evidence evidence =
                shadow_cache_use_sieved(shadow->caches, caches[fleet], prompt, shadow->sieve);
            tally->found[fleet] += evidence.found_tokens;
            seen = evidence.seen_tokens;
        }
    }
    tally->tokens += tokens;
    tally->seen += seen;
    if (shadow->sieve.judge_shift > 0) {
        shares[REAL] = share_of(tally, REAL);
        shares[ROTATION] = share_of(tally, ROTATION);
    }
}

// Replays the request in both models.  False: no member has the turn, or the real one has left.
static bool do_both(struct shadow *shadow, const struct receipt *receipt, uint32_t slot,
                    uint64_t now_us, struct done *out)
{
    uint32_t turn = take_turn(shadow, receipt->decision.pool);
    if (turn == chronicle_no_slot || slot == chronicle_no_slot) {
        return false;
    }
    struct shadow_prompt prompt = prompt_of(receipt);
    struct shadow_member *real = &shadow->members[slot];
    struct shadow_member *other = &shadow->members[turn];
    double size = receipt->prompt_tokens;
    double measured = measured_tokens(receipt);

    *out = (struct done){.slots = {[REAL] = slot, [ROTATION] = turn}};
    const uint32_t caches[FLEET_COUNT] = {cache_of(slot, REAL), cache_of(turn, ROTATION)};
    compute(shadow, &prompt, receipt->decision.pool, caches, out->shares);
    double cached = moved(measured, size, out->shares[REAL], out->shares[ROTATION]);
    // With an average for every request, queues would be too short and waits too equal.
    double queued =
        shadow->sieve.judge_shift == 0
            ? cached
            : drawn(&shadow->rng, measured, size, out->shares[REAL], out->shares[ROTATION]);
    out->waits_ms[REAL] = queue_up(&real->queues[REAL], now_us, (size - measured) * real->token_ms);
    out->waits_ms[ROTATION] =
        queue_up(&other->queues[ROTATION], now_us, (size - queued) * other->token_ms);
    out->drawn_ms = (queued - cached) * other->token_ms;
    return true;
}

static struct done *begun(struct shadow *shadow, const struct receipt *receipt, uint64_t *request)
{
    *request = hash_pair(receipt->worker, receipt->number) | 1;
    return &shadow->begun[*request >> 1 & (begun_max - 1)];
}

void shadow_begin(struct shadow *shadow, const struct receipt *receipt, uint32_t slot)
{
    uint64_t request;
    struct done *done = begun(shadow, receipt, &request);
    struct done fresh;

    // At rates where few keys are followed, only some requests are announced: those alone would be
    // in the right order.
    if (shadow->sieve.judge_shift > 0 || done->request == request) {
        return;
    }
    if (do_both(shadow, receipt, slot, receipt->wall_us + receipt->complete_us, &fresh)) {
        fresh.request = request;
        *done = fresh;
    }
}

// Takes the result of shadow_begin, if there is one; the response takes space in both caches.
static bool finish_begun(struct shadow *shadow, const struct receipt *receipt, struct done *out)
{
    uint64_t request;
    struct done *done = begun(shadow, receipt, &request);

    if (done->request != request) {
        return false;
    }
    *out = *done;
    done->request = 0;
    for (uint32_t fleet = 0; fleet < FLEET_COUNT; fleet++) {
        shadow_cache_add(shadow->caches, cache_of(out->slots[fleet], (enum fleet)fleet),
                         receipt->output_tokens);
    }
    return true;
}

void shadow_note(struct shadow *shadow, const struct receipt *receipt, uint32_t slot,
                 struct shadow_estimate *out)
{
    double measured = measured_tokens(receipt);
    double ttft_ms = receipt_ttft_ms(receipt);
    struct done done;

    *out = (struct shadow_estimate){.cached_tokens = measured,
                                    .saved_s = (double)receipt->saved_us / 1e6,
                                    .ttft_ms = ttft_ms,
                                    .model_ms = (double)NAN,
                                    .shadow_model_ms = (double)NAN};
    if (!finish_begun(shadow, receipt, &done) &&
        !do_both(shadow, receipt, slot, receipt->wall_us + receipt->end_us, &done)) {
        return;
    }
    const struct shadow_member *real = &shadow->members[done.slots[REAL]];
    const struct shadow_member *other = &shadow->members[done.slots[ROTATION]];
    double cached =
        moved(measured, receipt->prompt_tokens, done.shares[REAL], done.shares[ROTATION]);

    out->backend = other->id;
    out->cached_tokens = cached;
    out->model_ms = done.waits_ms[REAL];
    out->shadow_model_ms = done.waits_ms[ROTATION];
    out->saved_s = measured > 0
                       ? out->saved_s * cached * other->token_ms / (measured * real->token_ms)
                       : cached * other->token_ms / 1000;
    if (ttft_ms >= 0) {
        ttft_ms += out->shadow_model_ms + done.drawn_ms - out->model_ms;
        out->ttft_ms = ttft_ms > 0 ? ttft_ms : 0;
    }
}
