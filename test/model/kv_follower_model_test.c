// SPDX-License-Identifier: Apache-2.0
//
// 64 engines publish over a network that loses, repeats and swaps messages, cuts connections and
// lets replays stop in the middle; engines drop old messages, die and come back.  When it is
// quiet again, the ledger has for each engine the blocks that it holds: all of them if the
// follower says that it knows all; otherwise those reported since, and no block that is not
// there.

#include "base/rng.h"
#include "kvevent/batch_fixture.h"
#include "kvevent/kv_follower.h"
#include "test.h"

#include <stdlib.h>

enum {
    engine_count = 64,
    block_count = 32, // names 1..32
    copies_max = 3,
    batch_events_max = 3,
    log_max = 1 << 14, // batches of one life
    kept_max = 160,    // of them for replays
    frame_max = 256,   // on their way
    step_ms = 20,
    quiet_steps = 6000, // two minutes: longer than any rest of a follower
};

struct event {
    enum kv_event_kind kind;
    uint64_t name;
};

struct record {
    struct event events[batch_events_max];
    uint32_t count;
};

struct engine {
    // The process.
    uint32_t copies[block_count + 1];
    struct record *log; // all that this process has published
    uint64_t log_count;
    bool is_deep; // blocks follow each other: n behind n / 2
    // Its connections.
    uint64_t frames[frame_max]; // numbers on their way to us
    uint32_t frame_count;
    bool is_connected;
    bool is_bound; // it connects to us: connects and disconnects are not reported
    bool is_fresh; // its first message is still to come
    bool has_replay;
    bool is_replaying;
    bool has_answered; // to this question
    uint64_t replay_next;
    uint32_t replay_wait; // steps until it moves on
    struct kv_follower *follower;
};

struct world {
    struct rng rng;
    struct prefix_ledger *ledger;
    struct kv_names_budget budget;
    struct kv_reader *reader;
    uint64_t now_ms;
    bool is_wild;
    struct engine engines[engine_count];
};

static bool chance(struct world *world, uint32_t percent)
{
    return world->is_wild && rng_below(&world->rng, 100) < percent;
}

static uint64_t parent_of(const struct engine *engine, uint64_t name)
{
    return engine->is_deep ? name / 2 : 0;
}

// Something that the engine can do now, done.
static struct event do_something(struct world *world, struct engine *engine)
{
    for (;;) {
        uint64_t name = 1 + rng_below(&world->rng, block_count);
        uint64_t parent = parent_of(engine, name);
        uint32_t what = rng_below(&world->rng, 200);
        if (what == 0) {
            memset(engine->copies, 0, sizeof(engine->copies));
            return (struct event){KV_EVENT_CLEARED, name};
        }
        if (what < 100 && engine->copies[name] > 0) {
            engine->copies[name]--;
            return (struct event){KV_EVENT_REMOVED, name};
        }
        if (what >= 100 && engine->copies[name] < copies_max &&
            (parent == 0 || engine->copies[parent] > 0)) {
            engine->copies[name]++;
            return (struct event){KV_EVENT_STORED, name};
        }
    }
}

static void put_frame(struct engine *engine, uint64_t number)
{
    if (engine->frame_count < frame_max) {
        engine->frames[engine->frame_count++] = number;
    }
}

static void publish(struct world *world, struct engine *engine)
{
    // Nobody would notice another process of a shared socket whose beginning is lost.  And without
    // a replay, a publisher whose number 0 is lost seems to count from 1.
    bool is_sure = engine->is_fresh && (engine->is_bound || !engine->has_replay);
    bool is_heard = engine->is_connected || engine->is_bound;
    if (engine->log_count == log_max || (is_sure && !is_heard)) {
        return;
    }
    uint64_t number = engine->log_count++;
    struct record *record = &engine->log[number];
    record->count = 1 + rng_below(&world->rng, batch_events_max);
    for (uint32_t i = 0; i < record->count; i++) {
        record->events[i] = do_something(world, engine);
    }
    engine->is_fresh = false;
    if (!is_heard) {
        return;
    }
    if (is_sure || !chance(world, 5)) {
        put_frame(engine, number);
    }
    if (chance(world, 2)) {
        put_frame(engine, number);
    }
    if (engine->frame_count >= 2 && !is_sure && number > 1 && chance(world, 2)) {
        uint64_t *last = &engine->frames[engine->frame_count - 1];
        uint64_t swapped = last[0];
        last[0] = last[-1];
        last[-1] = swapped;
    }
}

static struct slice payload_of(const struct engine *engine, uint64_t number, struct batch *batch)
{
    const struct record *record = &engine->log[number];

    batch_begin(batch);
    for (uint32_t i = 0; i < record->count; i++) {
        batch_add(batch, record->events[i].kind, record->events[i].name,
                  parent_of(engine, record->events[i].name));
    }
    return batch_end(batch);
}

static void deliver(struct world *world, struct engine *engine, uint32_t count_max)
{
    uint32_t count = engine->frame_count < count_max ? engine->frame_count : count_max;

    for (uint32_t i = 0; i < count; i++) {
        struct batch batch;
        struct kv_numbered message = {engine->frames[i],
                                      payload_of(engine, engine->frames[i], &batch)};
        kv_follower_live(engine->follower, &message, world->now_ms);
    }
    engine->frame_count -= count;
    memmove(engine->frames, engine->frames + count, engine->frame_count * sizeof(uint64_t));
}

static void answer(struct world *world, struct engine *engine)
{
    for (uint32_t i = 0; i < 16 && engine->is_replaying; i++) {
        uint64_t oldest = engine->log_count > kept_max ? engine->log_count - kept_max : 0;
        uint64_t number = engine->replay_next > oldest ? engine->replay_next : oldest;
        struct batch batch;
        if (chance(world, 1)) {
            engine->is_replaying = false; // and its end never comes
        } else if (number == engine->log_count) {
            engine->is_replaying = false;
            kv_follower_replay_ended(engine->follower, world->now_ms);
        } else if (engine->has_answered && chance(world, 1)) {
            engine->replay_next = number + 1; // left out, as when the peer's queue is full
        } else {
            struct kv_numbered message = {number, payload_of(engine, number, &batch)};
            engine->replay_next = number + 1;
            engine->has_answered = true;
            kv_follower_replayed(engine->follower, &message, world->now_ms);
        }
    }
}

static void disconnect(struct world *world, struct engine *engine)
{
    // Messages in flight arrive, or not.
    deliver(world, engine, rng_below(&world->rng, frame_max));
    engine->frame_count = 0;
    engine->is_connected = false;
    if (!engine->is_bound) {
        kv_follower_disconnected(engine->follower);
    }
}

static void restart(struct world *world, struct engine *engine)
{
    if (engine->is_connected) {
        disconnect(world, engine);
    }
    engine->frame_count = 0;
    engine->is_replaying = false;
    memset(engine->copies, 0, sizeof(engine->copies));
    engine->log_count = 0;
    engine->is_fresh = true;
}

static void connect(struct world *world, struct engine *engine)
{
    engine->is_connected = true;
    if (!engine->is_bound) {
        kv_follower_connected(engine->follower, world->now_ms);
    }
}

static void obey(struct world *world, struct engine *engine)
{
    struct kv_follower_action action = kv_follower_next_action(engine->follower, world->now_ms);

    if (action.drops_replay) {
        engine->is_replaying = false;
    }
    if (action.wants_replay) {
        engine->is_replaying = true;
        engine->has_answered = false;
        engine->replay_next = action.from;
        engine->replay_wait = rng_below(&world->rng, world->is_wild ? 10 : 2);
    }
}

static void step(struct world *world, struct engine *engine, bool publishes)
{
    if (chance(world, 1) && rng_below(&world->rng, 5) == 0) {
        restart(world, engine);
    } else if (engine->is_connected && chance(world, 1)) {
        disconnect(world, engine);
    }
    if (!engine->is_connected && (!world->is_wild || chance(world, 30))) {
        connect(world, engine);
    }
    if (publishes && rng_below(&world->rng, 2) == 0) {
        publish(world, engine);
    }
    deliver(world, engine, rng_below(&world->rng, 5));
    if (engine->is_replaying && engine->replay_wait > 0) {
        engine->replay_wait--;
    } else if (engine->is_replaying) {
        answer(world, engine);
    }
    obey(world, engine);
}

static void run(struct world *world, uint32_t steps, bool publishes)
{
    for (uint32_t i = 0; i < steps; i++) {
        world->now_ms += step_ms;
        for (uint32_t j = 0; j < engine_count; j++) {
            step(world, &world->engines[j], publishes);
        }
    }
}

// The holdings of a follower that saw every message from number `since` on.
static void copies_since(const struct engine *engine, uint64_t since, uint32_t *copies)
{
    for (uint64_t i = since; i < engine->log_count; i++) {
        for (uint32_t j = 0; j < engine->log[i].count; j++) {
            struct event event = engine->log[i].events[j];
            if (event.kind == KV_EVENT_CLEARED) {
                memset(copies, 0, (block_count + 1) * sizeof(*copies));
            } else if (event.kind == KV_EVENT_STORED) {
                copies[event.name]++;
            } else if (copies[event.name] > 0) {
                copies[event.name]--;
            }
        }
    }
}

// The keys of a block and all before it, from the first.
static uint32_t path_of(const struct engine *engine, uint64_t name, uint64_t *names, uint64_t *keys)
{
    uint64_t reversed[8];
    uint32_t count = 0;

    for (uint64_t at = name; at != 0; at = parent_of(engine, at)) {
        reversed[count++] = at;
    }
    for (uint32_t i = 0; i < count; i++) {
        names[i] = reversed[count - 1 - i];
        keys[i] = batch_key(names[i], i == 0 ? 0 : keys[i - 1]);
    }
    return count;
}

static uint32_t held_of(const uint64_t *names, uint32_t count, const uint32_t *copies)
{
    uint32_t held = 0;
    while (held < count && copies[names[held]] > 0) {
        held++;
    }
    return held;
}

// Compares every beginning that there is.  False: the ledger is wrong.
static bool is_true(const struct world *world, uint32_t index)
{
    const struct engine *engine = &world->engines[index];
    bool is_live = kv_follower_state(engine->follower) == KV_LIVE;
    uint64_t since = kv_follower_since(engine->follower);
    uint32_t reported[block_count + 1] = {0};

    copies_since(engine, since, reported);
    for (uint64_t name = 1; name <= block_count; name++) {
        uint64_t names[8];
        uint64_t keys[8];
        uint32_t count = path_of(engine, name, names, keys);
        uint32_t matched = batch_match(world->ledger, index, keys, count);
        uint32_t held = held_of(names, count, engine->copies);
        uint32_t known = held_of(names, count, reported);
        // Where blocks follow each other, some reported ones may have no place.
        bool is_right = is_live           ? matched == held
                        : engine->is_deep ? matched <= held
                                          : matched == known && matched <= held;
        if (!is_right) {
            printf("# engine %u, block %" PRIu64 ": matched %u, held %u, reported since %" PRIu64
                   " %u, %s\n",
                   index, name, matched, held, since, known, is_live ? "live" : "learning");
            return false;
        }
    }
    return true;
}

static struct world *world_open(uint64_t seed)
{
    struct world *world = calloc(1, sizeof(*world));

    ASSERT(world != NULL);
    world->rng.state = seed;
    world->now_ms = 1000;
    world->budget.limit = 64 << 20;
    world->reader = kv_reader_create();
    world->ledger = prefix_ledger_create(
        &(struct prefix_ledger_limits){.memory = 64 << 20, .backend_count_max = engine_count});
    ASSERT(world->reader != NULL && world->ledger != NULL);
    for (uint32_t i = 0; i < engine_count; i++) {
        struct engine *engine = &world->engines[i];
        engine->log = calloc(log_max, sizeof(*engine->log));
        engine->is_deep = i % 2 == 0;
        engine->is_bound = i % 8 == 5;
        engine->has_replay = i % 4 != 3;
        engine->is_fresh = true;
        engine->follower = kv_follower_create(&(struct kv_follower_options){
            .holdings = {.ledger = world->ledger, .budget = &world->budget, .backend = i},
            .reader = world->reader,
            .has_replay = engine->has_replay,
        });
        ASSERT(engine->log != NULL && engine->follower != NULL);
    }
    return world;
}

static void world_close(struct world *world)
{
    for (uint32_t i = 0; i < engine_count; i++) {
        kv_follower_destroy(&world->engines[i].follower);
        free(world->engines[i].log);
    }
    kv_reader_destroy(&world->reader);
    prefix_ledger_destroy(&world->ledger);
    free(world);
}

struct tally {
    uint64_t messages;
    uint64_t replays;
    uint64_t restarts;
    uint64_t purges;
    uint64_t live;
    uint64_t learning;
};

// False: a follower is not up to date, or wrong.
static bool settles(struct world *world, struct tally *tally)
{
    world->is_wild = false;
    run(world, 20, true);
    run(world, quiet_steps, false);
    for (uint32_t i = 0; i < engine_count; i++) {
        const struct engine *engine = &world->engines[i];
        if (kv_follower_next(engine->follower) != engine->log_count) {
            printf("# engine %u is at %" PRIu64 " and its follower at %" PRIu64 "\n", i,
                   engine->log_count, kv_follower_next(engine->follower));
            return false;
        }
        if (!is_true(world, i)) {
            return false;
        }
        bool is_live = kv_follower_state(engine->follower) == KV_LIVE;
        tally->live += is_live;
        tally->learning += !is_live;
    }
    return true;
}

TEST(when_it_is_quiet_the_ledger_has_the_blocks_of_the_engines)
{
    enum { rounds = 24, wild_steps = 300 };
    struct tally tally = {0};
    struct world *world = world_open(42);
    bool is_right = true;
    uint32_t round = 0;

    for (; round < rounds && is_right; round++) {
        world->is_wild = true;
        run(world, wild_steps, true);
        is_right = settles(world, &tally);
    }
    for (uint32_t i = 0; i < engine_count; i++) {
        const struct kv_follower_counts *counts = kv_follower_counts(world->engines[i].follower);
        tally.messages += counts->messages + counts->replayed;
        tally.replays += counts->replays;
        tally.restarts += counts->restarts;
        tally.purges += counts->purges;
    }
    printf("# %u rounds: %" PRIu64 " messages, %" PRIu64 " replays, %" PRIu64 " restarts, %" PRIu64
           " purges; live %" PRIu64 " times, learning %" PRIu64 "\n",
           round, tally.messages, tally.replays, tally.restarts, tally.purges, tally.live,
           tally.learning);
    world_close(world);
    CHECK(is_right);
    // It was worth running.
    CHECK(tally.live > tally.learning / 4);
    CHECK(tally.learning > 0);
    CHECK(tally.replays > 1000);
}
