// SPDX-License-Identifier: Apache-2.0
//
// The engine against its twin.  Caches are tiny, so that requests block, preempt and evict each
// other all the time; both sides see the same requests, cancellations and flushes, also from
// inside a step.

#include "base/rng.h"
#include "engine_twin.h"
#include "sim/engine/engine.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

// How many worlds: more where it is fast.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { world_count = 1000 };
#else
enum { world_count = 6000 };
#endif

enum { load_steps = 60, step_max = 20000 };

// The two, and the requests, whose upper part both read.
struct world {
    struct rng rng;
    struct profile profile;
    struct engine *engine;
    struct engine_request requests[slot_count];
    uint64_t keys[slot_count][block_max];
    uint32_t blocks[slot_count][block_max];
    bool is_ours[slot_count]; // submitted, and neither ended nor cancelled
    bool is_loaded;           // new requests come
    uint32_t token_count;     // told by the engine
    uint32_t twin_token_count;
    uint64_t deeds_seed; // what is done from inside callbacks follows from it
    struct events events;
    struct twin twin;
    uint64_t digest;
};

// The action at the n-th token.  Both sides look it up, and do the same.
enum deed { NOTHING, CANCEL, FLUSH, AGAIN };

static enum deed deed_of(const struct world *world, uint32_t token, uint32_t *slot)
{
    struct rng rng = {.state = world->deeds_seed + token};
    uint32_t dice = rng_below(&rng, 100);
    *slot = rng_below(&rng, slot_count);
    if (!world->is_loaded) {
        return NOTHING;
    }
    return dice < 4 ? CANCEL : dice < 5 ? FLUSH : dice < 25 ? AGAIN : NOTHING;
}

static void on_token(void *owner, struct engine_request *request, bool is_last)
{
    struct world *world = owner;
    uint32_t number = (uint32_t)(request - world->requests);
    uint32_t slot;

    note(&world->events, (struct event){.kind = is_last ? LAST_TOKEN : TOKEN, .subject = number});
    enum deed deed = deed_of(world, world->token_count++, &slot);
    world->is_ours[number] = !is_last;
    if (is_last) {
        ASSERT(request->made_tokens == request->output_tokens && request->block_count == 0);
    }
    if (deed == CANCEL) {
        engine_cancel(world->engine, &world->requests[slot]);
        world->is_ours[slot] = false;
    } else if (deed == FLUSH) {
        engine_flush(world->engine);
    } else if (deed == AGAIN && is_last) {
        engine_submit(world->engine, request);
        world->is_ours[number] = true;
    }
}

static void twin_tell(struct world *world, uint32_t number)
{
    struct twin *twin = &world->twin;
    struct twin_request *request = &twin->requests[number];
    bool is_last = request->made == request->asked->output_tokens;
    uint32_t slot;

    if (is_last) {
        twin_cancel(twin, number);
    }
    note(&twin->events, (struct event){.kind = is_last ? LAST_TOKEN : TOKEN, .subject = number});
    enum deed deed = deed_of(world, world->twin_token_count++, &slot);
    if (deed == CANCEL) {
        twin_cancel(twin, slot);
    } else if (deed == FLUSH) {
        twin_flush(twin);
    } else if (deed == AGAIN && is_last) {
        twin_submit(twin, number, request->asked);
    }
}

static void twin_step_end(struct world *world)
{
    struct twin *twin = &world->twin;
    struct queue told = twin->running;

    for (uint32_t i = 0; i < told.count; i++) {
        uint32_t number = told.items[i];
        struct twin_request *request = &twin->requests[number];
        if (!has_item(&twin->running, number) || request->chunk == 0) {
            continue;
        }
        request->computed += request->chunk;
        request->chunk = 0;
        if (request->computed == known(request)) {
            request->made++;
            twin->status.output_tokens++;
            twin_tell(world, number);
        }
    }
}

static void on_stored(void *owner, struct engine_request *request, uint32_t first, uint32_t count)
{
    struct world *world = owner;
    note(&world->events, (struct event){.kind = STORED,
                                        .subject = (uint64_t)(request - world->requests),
                                        .first = first,
                                        .count = count});
}

static void on_removed(void *owner, uint64_t key)
{
    struct world *world = owner;
    note(&world->events, (struct event){.kind = REMOVED, .subject = key});
}

static void on_cleared(void *owner)
{
    struct world *world = owner;
    note(&world->events, (struct event){.kind = CLEARED});
}

static void on_kept(void *owner, uint32_t block, uint64_t key)
{
    struct world *world = owner;
    note(&world->events, (struct event){.kind = KEPT, .subject = key, .first = block});
}

static void on_dropped(void *owner, uint64_t key)
{
    struct world *world = owner;
    note(&world->events, (struct event){.kind = DROPPED, .subject = key});
}

static void make_world(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    world->rng = (struct rng){.state = seed};
    world->deeds_seed = rng_next(&world->rng);
    uint32_t block_tokens = 1 + rng_below(&world->rng, 4);
    uint32_t block_count = 2 + rng_below(&world->rng, 20);
    uint32_t host_count = rng_below(&world->rng, 2) * rng_below(&world->rng, 12);
    world->profile = (struct profile){
        .step = {5, 0.02, 2, 1e-6, 5e-7, 8e-7, 1e-4, 3e-5, 1e-3},
        .block_tokens = block_tokens,
        .kv_tokens = (uint64_t)block_tokens * block_count + rng_below(&world->rng, block_tokens),
        .step_tokens = 1 + rng_below(&world->rng, 24),
        .sequences_max = 1 + rng_below(&world->rng, slot_count),
        .context_max = 100,
        .host_tokens = (uint64_t)block_tokens * host_count,
        .host_token_ms = 0.1,
    };
    world->engine =
        engine_create(&world->profile, &(struct engine_observer){.owner = world,
                                                                 .token = on_token,
                                                                 .stored = on_stored,
                                                                 .removed = on_removed,
                                                                 .cleared = on_cleared,
                                                                 .kept = on_kept,
                                                                 .dropped = on_dropped});
    ASSERT(world->engine != NULL);
    struct twin *twin = &world->twin;
    twin->profile = &world->profile;
    twin->cell_count = block_count;
    twin->host_count = host_count;
    for (uint32_t i = 0; i < block_count; i++) {
        insert_at(&twin->free, i, i);
    }
}

// Prompts and answers are words of two letters, so that many begin alike.
static void invent(struct world *world, uint32_t slot)
{
    uint32_t capacity = world->twin.cell_count * world->profile.block_tokens;
    uint32_t most = least(capacity, world->profile.context_max);
    uint32_t tokens = 2 + rng_below(&world->rng, most - 1);
    uint32_t output = 1 + rng_below(&world->rng, tokens - 1);
    uint32_t blocks = round_up(&world->twin, tokens);
    uint64_t key = 0;

    for (uint32_t i = 0; i < blocks; i++) {
        struct rng letter = {.state = key + (rng_below(&world->rng, 4) == 0)};
        key = world->keys[slot][i] = rng_next(&letter);
    }
    world->requests[slot] = (struct engine_request){
        .keys = world->keys[slot],
        .blocks = world->blocks[slot],
        .key_count = rng_below(&world->rng, 8) == 0 ? rng_below(&world->rng, blocks + 1) : blocks,
        .prompt_tokens = tokens - output,
        .output_tokens = output,
        .reads_no_cache = rng_below(&world->rng, 10) == 0,
    };
}

static void submit_one(struct world *world)
{
    uint32_t slot = rng_below(&world->rng, slot_count);
    if (!world->is_ours[slot] && engine_fits(world->engine, 1, 1)) {
        invent(world, slot);
        engine_submit(world->engine, &world->requests[slot]);
        twin_submit(&world->twin, slot, &world->requests[slot]);
        world->is_ours[slot] = true;
    }
}

static void meddle(struct world *world)
{
    uint32_t dice = rng_below(&world->rng, 100);
    uint32_t slot = rng_below(&world->rng, slot_count);
    if (dice < 3) {
        engine_cancel(world->engine, &world->requests[slot]);
        twin_cancel(&world->twin, slot);
        world->is_ours[slot] = false;
    } else if (dice < 4) {
        engine_flush(world->engine);
        twin_flush(&world->twin);
    } else if (dice < 40) {
        submit_one(world);
    }
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static bool are_equal(const struct event *a, const struct event *b)
{
    return a->kind == b->kind && a->subject == b->subject && a->first == b->first &&
           a->count == b->count;
}

// Empties both.
static bool same_events(struct world *world)
{
    struct events *ours = &world->events;
    struct events *theirs = &world->twin.events;
    bool is_same = ours->count == theirs->count;
    for (uint32_t i = 0; is_same && i < ours->count; i++) {
        is_same = are_equal(&ours->list[i], &theirs->list[i]);
        struct rng mix = {.state = world->digest ^ ours->list[i].subject};
        world->digest = rng_next(&mix) + ours->list[i].kind;
    }
    ours->count = theirs->count = 0;
    return is_same;
}

static bool same_request(const struct world *world, uint32_t number)
{
    const struct engine_request *ours = &world->requests[number];
    const struct twin_request *twins = &world->twin.requests[number];
    enum engine_phase phase = has_item(&world->twin.running, number)   ? ENGINE_RUNNING
                              : has_item(&world->twin.waiting, number) ? ENGINE_WAITING
                                                                       : ENGINE_NOWHERE;

    if (ours->phase != phase || ours->made_tokens != twins->made ||
        ours->cached_tokens != twins->cached || ours->host_tokens != twins->host ||
        ours->computed != twins->computed || ours->chunk != twins->chunk ||
        ours->preemptions != twins->preemptions || ours->block_count != twins->block_count ||
        ours->named_count != twins->named_count) {
        return false;
    }
    for (uint32_t i = 0; i < ours->block_count; i++) {
        if (ours->blocks[i] != twins->blocks[i]) {
            return false;
        }
    }
    return true;
}

static bool same_status(const struct world *world)
{
    const struct engine_status *twins = &world->twin.status;
    struct engine_status ours;
    engine_status(world->engine, &ours);
    uint32_t used = world->twin.cell_count - world->twin.free.count;

    return ours.running == world->twin.running.count && ours.waiting == world->twin.waiting.count &&
           ours.used_tokens == (uint64_t)used * world->profile.block_tokens &&
           ours.kv_tokens == (uint64_t)world->twin.cell_count * world->profile.block_tokens &&
           ours.query_tokens == twins->query_tokens && ours.hit_tokens == twins->hit_tokens &&
           ours.prompt_tokens == twins->prompt_tokens &&
           ours.output_tokens == twins->output_tokens && ours.preemptions == twins->preemptions &&
           ours.step_count == twins->step_count && is_near(ours.busy_ms, twins->busy_ms);
}

// A block that two requests have is at the same place in both, under the same name; and all blocks
// in use are those that the engine reports as used.
static bool blocks_add_up(const struct world *world)
{
    struct {
        const struct engine_request *user;
        uint32_t at;
    } first[block_max] = {0};
    struct engine_status status;
    uint64_t used = 0;

    for (uint32_t r = 0; r < slot_count; r++) {
        const struct engine_request *request = &world->requests[r];
        for (uint32_t i = 0; i < request->block_count; i++) {
            uint32_t block = request->blocks[i];
            const struct engine_request *other = first[block].user;
            used += other == NULL;
            if (other != NULL &&
                (other == request || first[block].at != i || other->keys[i] != request->keys[i])) {
                return false;
            }
            first[block].user = request;
            first[block].at = i;
        }
    }
    engine_status(world->engine, &status);
    return used * world->profile.block_tokens == status.used_tokens;
}

static bool limits_hold(const struct world *world)
{
    uint32_t running = 0;
    uint32_t tokens = 0;
    for (uint32_t r = 0; r < slot_count; r++) {
        const struct engine_request *request = &world->requests[r];
        running += request->phase == ENGINE_RUNNING;
        tokens += request->chunk;
        // A running request advances in every step: the budget had room when it was admitted.
        if (request->phase == ENGINE_RUNNING && request->chunk == 0) {
            return false;
        }
        if (request->prompt_tokens > 0 && request->cached_tokens >= request->prompt_tokens) {
            return false;
        }
    }
    return running <= world->profile.sequences_max && tokens <= world->profile.step_tokens;
}

static const char *compare(struct world *world)
{
    for (uint32_t i = 0; i < slot_count; i++) {
        if (!same_request(world, i)) {
            return "a request differs";
        }
        if (world->is_ours[i] != (world->requests[i].phase != ENGINE_NOWHERE)) {
            return "a request is lost";
        }
    }
    return !same_events(world)     ? "what is told differs"
           : !same_status(world)   ? "the status differs"
           : !blocks_add_up(world) ? "blocks do not add up"
                                   : NULL;
}

// One step on both sides; *is_idle: there was nothing to do.
static const char *advance(struct world *world, bool *is_idle)
{
    double ours = engine_step(world->engine);
    double twins = twin_step(&world->twin);
    if (!is_near(ours, twins)) {
        return "a step's time differs";
    }
    *is_idle = ours == 0;
    const char *problem = compare(world);
    if (problem == NULL && !limits_hold(world)) {
        problem = "a limit is broken";
    }
    if (problem != NULL) {
        return problem;
    }
    if (world->is_loaded) {
        meddle(world);
    }
    engine_step_end(world->engine);
    twin_step_end(world);
    return compare(world);
}

static const char *live(struct world *world)
{
    const char *problem = NULL;
    bool is_idle = false;

    world->is_loaded = true;
    for (uint32_t i = 0; problem == NULL && i < load_steps; i++) {
        meddle(world);
        problem = advance(world, &is_idle);
    }
    world->is_loaded = false;
    is_idle = false;
    for (uint32_t i = 0; problem == NULL && !is_idle; i++) {
        problem = i < step_max ? advance(world, &is_idle) : "a request starves";
    }
    for (uint32_t i = 0; problem == NULL && i < slot_count; i++) {
        if (world->is_ours[i]) {
            problem = "a request got no response";
        }
    }
    return problem;
}

static bool live_once(struct world *world, uint64_t seed, struct engine_status *status)
{
    make_world(world, seed);
    const char *problem = live(world);
    engine_status(world->engine, status);
    engine_destroy(&world->engine);
    if (problem != NULL) {
        test_fail(__FILE__, __LINE__, "seed %" PRIu64 ", step %" PRIu64 ": %s", seed,
                  status->step_count, problem);
    }
    return problem == NULL;
}

TEST(the_engine_acts_as_its_twin)
{
    struct world *world = malloc(sizeof(*world));
    ASSERT(world != NULL);
    struct engine_status sum = {0};
    bool is_right = true;
    for (uint64_t seed = 0; is_right && seed < world_count; seed++) {
        struct engine_status status;
        is_right = live_once(world, seed, &status);
        sum.preemptions += status.preemptions;
        sum.hit_tokens += status.hit_tokens;
        sum.step_count += status.step_count;
    }
    free(world);
    printf("# %" PRIu64 " steps, %" PRIu64 " preemptions, %" PRIu64 " tokens found\n",
           sum.step_count, sum.preemptions, sum.hit_tokens);
    // The worlds are as crowded as they should be.
    CHECK(sum.preemptions / world_count > 2);
    CHECK(sum.hit_tokens / world_count > 20);
}

TEST(the_same_inputs_give_the_same_outputs)
{
    struct world *world = malloc(sizeof(*world));
    ASSERT(world != NULL);
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct engine_status first;
        struct engine_status second;
        CHECK(live_once(world, seed, &first));
        uint64_t digest = world->digest;
        CHECK(live_once(world, seed, &second));
        CHECK_EQ(world->digest, digest);
        CHECK(first.busy_ms == second.busy_ms);
    }
    free(world);
}
