// SPDX-License-Identifier: Apache-2.0
//
// Routers that share over a network which drops, delays, repeats, reorders and parts, then heals:
// they end with the same beliefs, and with those that a list of what really happened asks for.

#include "base/rng.h"
#include "prefix/prefix_index.h"
#include "prefix/prefix_tap.h"
#include "replica/replica.h"
#include "test.h"

#include <stdlib.h>

// How much is done: more where it is fast.  REPLICA_SEEDS=5000 for a long run, REPLICA_SEED=7 for
// one seed, REPLICA_DEBUG=1 for what each router counted.
#if defined(__SANITIZE_THREAD__)
enum { seed_count = 4 };
#elif defined(__SANITIZE_ADDRESS__)
enum { seed_count = 15 };
#elif defined(SLOW_CHECKS)
enum { seed_count = 30 };
#else
enum { seed_count = 300 };
#endif

enum {
    router_max = 8,
    engine_count = 4,
    chain_count = 40,
    length_max = 60,
    session_count = 12,
    request_max = 64,
    frame_max = 4096,
    step_ms = 5,
    trouble_ms = 30000,
    calm_ms = 6000,
    quiet_ms = 60000, // a snapshot that took seconds puts the next one off by ten times as long
    down_ms = 3000,
    silence_ms = 2000,
};

struct engine {
    uint64_t up_at_ms;
    uint32_t life;
};

struct request {
    bool is_open;
    uint32_t engine;
    uint32_t chain;
    uint32_t length;
    uint32_t from;
    uint32_t engine_life;
    uint64_t number;
};

struct router {
    struct replica *replica;
    struct prefix_index *index;
    struct prefix_tap *tap;
    uint64_t id;
    uint32_t lives[engine_count];
    uint64_t sees_at_ms[engine_count]; // it will have been refused then; 0: nothing to see
    uint64_t pump_at_ms;
    struct request requests[request_max];
    uint64_t parted_ms[router_max]; // since when a peer is not heard; 0: it is
    bool is_there[router_max];      // the peer, as the link tells
    uint64_t there_id[router_max];  // its id then
    uint64_t settings[engine_count][SETTING_COUNT];
    struct scene *scene;
};

struct flying_frame {
    uint64_t at_ms;
    uint32_t from;
    uint32_t to;
    uint64_t from_id;
    uint64_t to_id;
    uint32_t size;
    uint8_t *bytes;
};

// The facts, whatever routers believe.
struct truth {
    // Blocks of a chain that a router which is still there has seen the engine compute, in its
    // present life.
    uint32_t shown[engine_count][chain_count];
    // Blocks that nobody has seen in any life: they were predicted at most.
    uint32_t ever[engine_count][chain_count];
};

struct scene {
    struct rng rng;
    uint64_t now_ms;
    uint32_t router_count;
    uint32_t drop_percent;
    uint32_t repeat_percent;
    uint32_t delay_max_ms;
    bool reorders;
    uint64_t last_at_ms[router_max][router_max]; // of a frame on its way
    bool has_restarts;
    bool has_crashes;
    struct router routers[router_max];
    struct engine engines[engine_count];
    bool is_parted[router_max][router_max];
    uint64_t chains[chain_count][length_max];
    struct truth truth;
    uint32_t shown_by[router_max][engine_count][chain_count];
    struct flying_frame frames[frame_max];
    uint32_t frame_count;
    uint64_t next_id;
};

static void sink_apply(void *owner, const struct prefix_update *update)
{
    prefix_update_apply(((struct router *)owner)->index, update);
}

static void sink_load(void *owner, uint32_t slot, const struct replica_load *others)
{
    (void)owner;
    (void)slot;
    (void)others;
}

static void sink_begun(void *owner, uint32_t slot, uint64_t requests, uint64_t tokens)
{
    (void)owner;
    (void)slot;
    (void)requests;
    (void)tokens;
}

static void sink_arrivals(void *owner, uint64_t pool, float per_ms)
{
    (void)owner;
    (void)pool;
    (void)per_ms;
}

static void sink_setting(void *owner, uint32_t slot, enum setting_field field, uint64_t value)
{
    struct router *router = owner;
    router->settings[slot][field] = value;
}

static void sink_speed(void *owner, uint32_t slot, float prefill, float step)
{
    (void)owner;
    (void)slot;
    (void)prefill;
    (void)step;
}

static void fly(struct scene *scene, uint32_t from, uint32_t to, struct slice frame)
{
    if (scene->is_parted[from][to] || rng_below(&scene->rng, 100) < scene->drop_percent ||
        scene->frame_count == frame_max) {
        return;
    }
    uint64_t at_ms = scene->now_ms + 1 + rng_below(&scene->rng, scene->delay_max_ms);
    uint64_t *last = &scene->last_at_ms[from][to];
    at_ms = !scene->reorders && at_ms < *last ? *last : at_ms;
    *last = at_ms;
    struct flying_frame *flying = &scene->frames[scene->frame_count++];
    *flying = (struct flying_frame){
        .at_ms = at_ms,
        .from = from,
        .to = to,
        .from_id = scene->routers[from].id,
        .to_id = scene->routers[to].id,
        .size = (uint32_t)frame.size,
        .bytes = malloc(frame.size),
    };
    ASSERT(flying->bytes != NULL);
    memcpy(flying->bytes, frame.bytes, frame.size);
}

static bool sink_send(void *owner, uint64_t to, struct slice frame)
{
    struct router *router = owner;
    struct scene *scene = router->scene;
    uint32_t self = (uint32_t)(router - scene->routers);
    for (uint32_t i = 0; i < scene->router_count; i++) {
        if (i == self || !router->is_there[i] || (to != 0 && router->there_id[i] != to)) {
            continue;
        }
        fly(scene, self, i, frame);
        if (rng_below(&scene->rng, 100) < scene->repeat_percent) {
            fly(scene, self, i, frame);
        }
    }
    return true;
}

static size_t sink_room(void *owner, uint64_t to)
{
    (void)owner;
    (void)to;
    return 1 << 20;
}

static const struct replica_sink sink = {.apply = sink_apply,
                                         .load = sink_load,
                                         .begun = sink_begun,
                                         .arrivals = sink_arrivals,
                                         .setting = sink_setting,
                                         .speed = sink_speed,
                                         .send = sink_send,
                                         .room = sink_room};

static uint64_t identity_of(uint32_t engine)
{
    return 0x1000 + engine;
}

static void set_moment(struct router *router)
{
    // Their clocks began at different times, and those on the wall disagree.
    uint32_t self = (uint32_t)(router - router->scene->routers);
    uint64_t now_ms = router->scene->now_ms;
    replica_set_now(router->replica, 1000000 * (self + 1) + now_ms, 5000 + now_ms * (self + 1));
}

static void set_backends(struct router *router)
{
    for (uint32_t i = 0; i < engine_count; i++) {
        replica_set_backend(router->replica, identity_of(i), i, router->lives[i]);
    }
    replica_end_backends(router->replica);
}

static void router_start(struct scene *scene, uint32_t self)
{
    struct router *router = &scene->routers[self];
    *router = (struct router){.scene = scene, .id = ++scene->next_id};
    router->index = prefix_index_create(
        &(struct prefix_limits){.memory = 8 << 20, .backend_count_max = engine_count});
    router->tap = prefix_tap_create(2);
    ASSERT(router->index != NULL && router->tap != NULL);
    router->replica = replica_create(&(struct replica_options){.router = router->id,
                                                               .space = 7,
                                                               .backend_max = engine_count,
                                                               .window_bits = 10,
                                                               .open_max = 256,
                                                               .session_max = 256,
                                                               .index = router->index,
                                                               .sink = &sink,
                                                               .owner = router});
    ASSERT(router->replica != NULL);
    set_moment(router);
    set_backends(router);
}

static void router_stop(struct router *router)
{
    replica_destroy(&router->replica);
    prefix_tap_destroy(&router->tap);
    prefix_index_destroy(&router->index);
}

static void note(struct router *router, uint32_t sender, struct prefix_note note, uint32_t engine)
{
    note.backend = identity_of(engine);
    note.lives = router->lives[engine];
    prefix_tap_put(router->tap, sender, &note);
}

static void worker_store(struct router *router, const struct request *request,
                         enum prefix_residency residency)
{
    struct scene *scene = router->scene;
    prefix_index_store(router->index,
                       &(struct prefix_span){.keys = scene->chains[request->chain],
                                             .key_count = request->length,
                                             .block_tokens = 16,
                                             .backend = request->engine,
                                             .now_s = (uint32_t)(scene->now_ms / 1000),
                                             .residency = residency});
}

// A request is sent, if the engine can be reached.
static void worker_begin(struct router *router, uint32_t engine)
{
    struct scene *scene = router->scene;
    uint32_t at = rng_below(&scene->rng, request_max);
    struct request *request = &router->requests[at];
    if (request->is_open || scene->now_ms < scene->engines[engine].up_at_ms) {
        return;
    }
    *request = (struct request){.is_open = true,
                                .engine = engine,
                                .chain = rng_below(&scene->rng, chain_count),
                                .length = 1 + rng_below(&scene->rng, length_max),
                                .engine_life = scene->engines[engine].life,
                                .number = prefix_tap_number(router->tap, at % 2)};
    struct prefix_hit hits[engine_count];
    uint32_t count =
        prefix_index_match(router->index, scene->chains[request->chain], request->length,
                           (uint32_t)(scene->now_ms / 1000), hits, engine_count);
    for (uint32_t i = 0; i < count; i++) {
        request->from = hits[i].backend == engine ? hits[i].blocks : request->from;
    }
    worker_store(router, request, PREFIX_PREDICTED);
    note(router, at % 2,
         (struct prefix_note){.kind = PREFIX_NOTE_PREDICT,
                              .prediction = request->number,
                              .block_tokens = 16,
                              .keys = scene->chains[request->chain],
                              .key_count = request->length},
         engine);
}

static void worker_withdraw(struct router *router, struct request *request, uint32_t sender)
{
    prefix_index_drop(router->index, request->engine, PREFIX_PREDICTED,
                      router->scene->chains[request->chain], request->length, request->from);
    note(router, sender,
         (struct prefix_note){.kind = PREFIX_NOTE_WITHDRAW, .prediction = request->number},
         request->engine);
    request->is_open = false;
}

static void worker_end(struct router *router, uint32_t at)
{
    struct scene *scene = router->scene;
    struct request *request = &router->requests[at];
    const struct engine *engine = &scene->engines[request->engine];
    if (!request->is_open) {
        return;
    }
    if (request->engine_life != engine->life || scene->now_ms < engine->up_at_ms ||
        rng_below(&scene->rng, 4) == 0) {
        worker_withdraw(router, request, at % 2);
        return;
    }
    uint32_t self = (uint32_t)(router - scene->routers);
    worker_store(router, request, PREFIX_CONFIRMED);
    note(router, at % 2,
         (struct prefix_note){.kind = PREFIX_NOTE_CONFIRM,
                              .prediction = request->number,
                              .block_tokens = 16,
                              .keys = scene->chains[request->chain],
                              .key_count = request->length},
         request->engine);
    uint32_t *shown = &scene->shown_by[self][request->engine][request->chain];
    *shown = request->length > *shown ? request->length : *shown;
    uint32_t *ever = &scene->truth.ever[request->engine][request->chain];
    *ever = request->length > *ever ? request->length : *ever;
    request->is_open = false;
}

static void worker_move_session(struct router *router)
{
    struct scene *scene = router->scene;
    uint64_t key = 0x5e55 + rng_below(&scene->rng, session_count);
    uint32_t engine = rng_below(&scene->rng, engine_count);
    struct prefix_hit hits[engine_count];
    uint32_t count = prefix_index_match(router->index, &key, 1, 0, hits, engine_count);
    for (uint32_t i = 0; i < count; i++) {
        prefix_index_drop(router->index, hits[i].backend, PREFIX_PREDICTED, &key, 1, 0);
    }
    prefix_index_store(router->index,
                       &(struct prefix_span){.keys = &key, .key_count = 1, .backend = engine});
    note(router, 0, (struct prefix_note){.kind = PREFIX_NOTE_SESSION, .keys = &key, .key_count = 1},
         engine);
}

// An operator of this router sets a weight, or drains.
static void operator_sets(struct router *router)
{
    struct rng *rng = &router->scene->rng;
    uint32_t engine = rng_below(rng, engine_count);
    enum setting_field field = rng_below(rng, 2) == 0 ? SETTING_WEIGHT : SETTING_DRAINING;
    uint64_t value = rng_below(rng, 5);
    router->settings[engine][field] = value;
    replica_set(router->replica, identity_of(engine), field, value);
}

// The process ends; every router is refused while it is down.
static void engine_restart(struct scene *scene, uint32_t engine)
{
    if (scene->now_ms < scene->engines[engine].up_at_ms + 12000) {
        return; // one outage at a time
    }
    scene->engines[engine].life++;
    scene->engines[engine].up_at_ms = scene->now_ms + down_ms;
    for (uint32_t i = 0; i < scene->router_count; i++) {
        scene->routers[i].sees_at_ms[engine] =
            scene->now_ms + 300 + rng_below(&scene->rng, down_ms - 500);
        memset(scene->shown_by[i][engine], 0, sizeof(scene->shown_by[i][engine]));
    }
}

static void see_outages(struct router *router)
{
    struct scene *scene = router->scene;
    for (uint32_t i = 0; i < engine_count; i++) {
        if (router->sees_at_ms[i] != 0 && scene->now_ms >= router->sees_at_ms[i]) {
            router->sees_at_ms[i] = 0;
            router->lives[i]++;
            prefix_index_forget(router->index, i);
        }
    }
}

static void router_pump(struct router *router)
{
    struct prefix_note taken;
    set_moment(router);
    set_backends(router);
    while (prefix_tap_take(router->tap, &taken)) {
        replica_note(router->replica, &taken);
    }
    replica_pump(router->replica);
}

// As a link does: a peer is there while it is heard.
static void follow_peers(struct scene *scene, uint32_t self)
{
    struct router *router = &scene->routers[self];
    for (uint32_t i = 0; i < scene->router_count; i++) {
        if (i == self) {
            continue;
        }
        uint64_t id = scene->routers[i].id;
        bool is_heard = !scene->is_parted[i][self] && !scene->is_parted[self][i];
        router->parted_ms[i] = is_heard ? scene->now_ms : router->parted_ms[i];
        bool is_there = router->is_there[i] && router->there_id[i] == id &&
                        scene->now_ms < router->parted_ms[i] + silence_ms;
        if (router->is_there[i] && !is_there) {
            router->is_there[i] = false;
            replica_peer_left(router->replica, router->there_id[i]);
        }
        if (!router->is_there[i] && is_heard) {
            router->is_there[i] = true;
            router->there_id[i] = id;
            replica_peer_came(router->replica, id);
        }
    }
}

static void deliver(struct scene *scene)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < scene->frame_count; i++) {
        struct flying_frame frame = scene->frames[i];
        if (frame.at_ms > scene->now_ms) {
            scene->frames[left++] = frame;
            continue;
        }
        struct router *to = &scene->routers[frame.to];
        if (to->id == frame.to_id && !scene->is_parted[frame.from][frame.to]) {
            set_moment(to);
            replica_take(to->replica, frame.from_id, slice_of(frame.bytes, frame.size));
        }
        free(frame.bytes);
    }
    scene->frame_count = left;
}

static void trouble(struct scene *scene)
{
    uint32_t dice = rng_below(&scene->rng, 4000);
    uint32_t a = rng_below(&scene->rng, scene->router_count);
    uint32_t b = rng_below(&scene->rng, scene->router_count);
    if (dice < 10) {
        scene->is_parted[a][b] = a != b; // one way is enough
    } else if (dice < 20) {
        memset(scene->is_parted, 0, sizeof(scene->is_parted));
    } else if (dice < 23 && scene->has_restarts) {
        engine_restart(scene, rng_below(&scene->rng, engine_count));
    } else if (dice < 25 && scene->has_crashes) {
        router_stop(&scene->routers[a]);
        router_start(scene, a);
        memset(scene->shown_by[a], 0, sizeof(scene->shown_by[a]));
    }
}

static void work(struct router *router)
{
    struct rng *rng = &router->scene->rng;
    if (rng_below(rng, 8) == 0) {
        worker_begin(router, rng_below(rng, engine_count));
    }
    worker_end(router, rng_below(rng, request_max));
    if (rng_below(rng, 50) == 0) {
        worker_move_session(router);
    }
    if (rng_below(rng, 500) == 0) {
        operator_sets(router);
    }
}

static void turn(struct scene *scene, bool is_working)
{
    scene->now_ms += step_ms;
    deliver(scene);
    for (uint32_t i = 0; i < scene->router_count; i++) {
        struct router *router = &scene->routers[i];
        set_moment(router);
        see_outages(router);
        follow_peers(scene, i);
        if (is_working) {
            work(router);
        }
        if (scene->now_ms >= router->pump_at_ms) {
            router->pump_at_ms = scene->now_ms + 10 + rng_below(&scene->rng, 20);
            router_pump(router);
        }
    }
}

static void make_chains(struct scene *scene)
{
    for (uint32_t i = 0; i < chain_count; i++) {
        uint32_t other = i > 0 ? rng_below(&scene->rng, i) : 0;
        uint32_t shared = i > 0 ? rng_below(&scene->rng, length_max) : 0;
        for (uint32_t k = 0; k < length_max; k++) {
            scene->chains[i][k] = k < shared ? scene->chains[other][k]
                                             : (rng_next(&scene->rng) & ~(uint64_t)0xff) | k;
        }
    }
}

static void play(struct scene *scene, uint64_t seed, bool has_restarts, bool has_crashes)
{
    *scene = (struct scene){.rng = {.state = seed}, .now_ms = 1000};
    scene->router_count = 2 + rng_below(&scene->rng, router_max - 1);
    scene->drop_percent = rng_below(&scene->rng, 3) * 5;
    scene->repeat_percent = rng_below(&scene->rng, 2) * 10;
    scene->delay_max_ms = 1 + rng_below(&scene->rng, 2) * rng_below(&scene->rng, 200);
    scene->reorders = rng_below(&scene->rng, 3) == 0;
    scene->has_restarts = has_restarts;
    scene->has_crashes = has_crashes;
    make_chains(scene);
    for (uint32_t i = 0; i < scene->router_count; i++) {
        router_start(scene, i);
    }
    uint64_t until = scene->now_ms + trouble_ms;
    while (scene->now_ms < until) {
        trouble(scene);
        turn(scene, true);
    }
    // All heals; then requests end, and nothing new begins.
    memset(scene->is_parted, 0, sizeof(scene->is_parted));
    scene->drop_percent = 0;
    scene->reorders = false;
    until = scene->now_ms + calm_ms;
    while (scene->now_ms < until) {
        turn(scene, true);
    }
    for (uint32_t i = 0; i < scene->router_count; i++) {
        for (uint32_t k = 0; k < request_max; k++) {
            worker_end(&scene->routers[i], k);
        }
    }
    until = scene->now_ms + quiet_ms;
    while (scene->now_ms < until) {
        turn(scene, false);
    }
}

static void end_play(struct scene *scene)
{
    for (uint32_t i = 0; i < scene->router_count; i++) {
        router_stop(&scene->routers[i]);
    }
    for (uint32_t i = 0; i < scene->frame_count; i++) {
        free(scene->frames[i].bytes);
    }
}

static uint32_t held(const struct router *router, uint32_t engine, const uint64_t *keys,
                     uint32_t key_count)
{
    struct prefix_hit hits[engine_count];
    uint32_t count = prefix_index_match(router->index, keys, key_count, 0, hits, engine_count);
    for (uint32_t i = 0; i < count; i++) {
        if (hits[i].backend == engine) {
            return hits[i].blocks;
        }
    }
    return 0;
}

// Blocks of a chain that are blocks of another, too, count where they were shown.
static uint32_t shown(const struct scene *scene, uint32_t engine, uint32_t chain, bool is_ever)
{
    uint32_t most = 0;
    for (uint32_t other = 0; other < chain_count; other++) {
        uint32_t blocks = is_ever ? scene->truth.ever[engine][other] : 0;
        for (uint32_t i = 0; i < scene->router_count && !is_ever; i++) {
            uint32_t by = scene->shown_by[i][engine][other];
            blocks = by > blocks ? by : blocks;
        }
        uint32_t same = 0;
        while (same < blocks && scene->chains[other][same] == scene->chains[chain][same]) {
            same++;
        }
        most = same > most ? same : most;
    }
    return most;
}

// Every router has what was shown to one that is still there; none has what was never shown, or not
// in this life.  Blocks that a crashed router had told to some of them only may be missing
// elsewhere.
static const char *difference(const struct scene *scene)
{
    static char text[200];
    for (uint32_t engine = 0; engine < engine_count; engine++) {
        for (uint32_t chain = 0; chain < chain_count; chain++) {
            const uint64_t *keys = scene->chains[chain];
            uint32_t first = held(&scene->routers[0], engine, keys, length_max);
            uint32_t least = shown(scene, engine, chain, false);
            uint32_t most = shown(scene, engine, chain, true);
            for (uint32_t i = 0; i < scene->router_count; i++) {
                uint32_t blocks = held(&scene->routers[i], engine, keys, length_max);
                bool is_right = (blocks == first || scene->has_crashes) && blocks <= most &&
                                (blocks >= least || scene->has_restarts);
                if (!is_right) {
                    snprintf(text, sizeof(text),
                             "chain %u of engine %u: router %u has %u blocks, router 0 has %u; "
                             "shown to those there %u, ever %u",
                             chain, engine, i, blocks, first, least, most);
                    return text;
                }
            }
        }
    }
    return "";
}

static const char *session_difference(const struct scene *scene)
{
    static char text[200];
    for (uint32_t i = 0; i < session_count; i++) {
        uint64_t key = 0x5e55 + i;
        for (uint32_t router = 1; router < scene->router_count; router++) {
            for (uint32_t engine = 0; engine < engine_count; engine++) {
                uint32_t a = held(&scene->routers[0], engine, &key, 1);
                uint32_t b = held(&scene->routers[router], engine, &key, 1);
                if (a != b) {
                    snprintf(text, sizeof(text),
                             "session %u at engine %u: router %u says %u, router 0 %u", i, engine,
                             router, b, a);
                    return text;
                }
            }
        }
    }
    return "";
}

static void show(const struct scene *scene)
{
    printf("# %u routers, drop %u, repeat %u, delay %u\n", scene->router_count, scene->drop_percent,
           scene->repeat_percent, scene->delay_max_ms);
    for (uint32_t i = 0; i < scene->router_count; i++) {
        struct replica_status status;
        replica_read_status(scene->routers[i].replica, &status);
        printf("# router %u: sent %lu taken %lu repeated %lu gaps %lu orphans %lu malformed %lu "
               "asked %lu "
               "taken %lu given %lu open %u eras %lu\n",
               i, status.batches_sent, status.batches_taken, status.repeated, status.gaps,
               status.orphans, status.malformed, status.snapshots_asked, status.snapshots_taken,
               status.snapshots_given, status.open_predictions, status.eras);
        for (uint32_t k = 0; k < status.peer_count; k++) {
            printf("#    peer %lu there %d gap %d batches %lu\n", status.peers[k].router,
                   status.peers[k].is_there, status.peers[k].has_gap, status.peers[k].batches);
        }
    }
}

static const char *setting_difference(const struct scene *scene)
{
    for (uint32_t i = 1; i < scene->router_count; i++) {
        if (memcmp(scene->routers[i].settings, scene->routers[0].settings,
                   sizeof(scene->routers[i].settings)) != 0) {
            return "settings differ";
        }
    }
    return "";
}

static uint32_t seeds(void)
{
    const char *wanted = getenv("REPLICA_SEEDS");
    return wanted != NULL ? (uint32_t)strtoul(wanted, NULL, 10) : seed_count;
}

static void play_seeds(bool has_restarts, bool has_crashes)
{
    static struct scene scene;
    const char *only = getenv("REPLICA_SEED");
    uint32_t first = only != NULL ? (uint32_t)strtoul(only, NULL, 10) : 1;
    uint32_t count = only != NULL ? 1 : seeds();
    for (uint64_t seed = first; seed < first + count; seed++) {
        play(&scene, seed, has_restarts, has_crashes);
        char why[300];
        snprintf(why, sizeof(why), "seed %u: %s", (unsigned)seed, difference(&scene));
        if (getenv("REPLICA_DEBUG") != NULL) {
            show(&scene);
        }
        char empty[40];
        snprintf(empty, sizeof(empty), "seed %u: ", (unsigned)seed);
        char sessions[300];
        snprintf(sessions, sizeof(sessions), "seed %u: %s", (unsigned)seed,
                 has_restarts || has_crashes ? "" : session_difference(&scene));
        char settings[300];
        snprintf(settings, sizeof(settings), "seed %u: %s", (unsigned)seed,
                 has_crashes ? "" : setting_difference(&scene));
        end_play(&scene);
        CHECK_STR(why, empty);
        CHECK_STR(sessions, empty);
        CHECK_STR(settings, empty);
    }
}

TEST(routers_that_stay_believe_the_same_and_all_that_any_was_shown)
{
    play_seeds(false, false);
}

TEST(a_router_that_crashes_and_comes_back_learns_from_the_others)
{
    play_seeds(false, true);
}

TEST(no_router_believes_blocks_of_a_life_that_has_ended)
{
    play_seeds(true, false);
}
