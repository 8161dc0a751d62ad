// SPDX-License-Identifier: Apache-2.0
//
// replica_scene.h -- routers with an index each, and a wire between them that a test can cut.
//
// Routers have the ids 1, 2, ...; engines the identities 0x1000, 0x1001, ...  Frames wait in a
// queue until scene_deliver, so a test can drop or repeat them.
#pragma once

#include "base/rng.h"
#include "prefix/prefix_index.h"
#include "prefix/prefix_tap.h"
#include "replica/replica.h"
#include "test.h"

#include <stdlib.h>

enum {
    scene_router_max = 4,
    scene_engine_max = 200,
    scene_frame_max = 4096,
    scene_pool = 77,
    scene_block_tokens = 16,
};

struct scene_router {
    struct replica *replica;
    struct prefix_index *index;
    uint64_t id;
    bool is_mute;       // what it sends is lost on the way
    bool fails_to_send; // and it is told so
    size_t room;
    uint64_t sends;
    uint32_t lives[scene_engine_max];
    struct record_load own[scene_engine_max];
    struct replica_load others[scene_engine_max];
    uint64_t begun_requests[scene_engine_max];
    uint64_t begun_tokens[scene_engine_max];
    float own_arrivals;
    float arrivals;
    uint64_t settings[scene_engine_max][SETTING_COUNT];
    float prefill_ms[scene_engine_max];
    float step_ms[scene_engine_max];
};

struct scene_frame {
    uint64_t from;
    uint64_t to; // 0: all
    size_t size;
    uint8_t *bytes;
};

struct scene {
    struct scene_router routers[scene_router_max];
    uint32_t router_count;
    uint32_t engine_count;
    uint64_t now_ms;
    struct scene_frame frames[scene_frame_max];
    uint32_t frame_count;
    uint32_t delivered;
};

static struct scene scene;

static inline uint64_t scene_identity(uint32_t engine)
{
    return 0x1000 + engine;
}

static inline void scene_apply(void *owner, const struct prefix_update *update)
{
    ASSERT(update->backend < scene_engine_max);
    prefix_update_apply(((struct scene_router *)owner)->index, update);
}

static inline void scene_set_others(void *owner, uint32_t slot, const struct replica_load *others)
{
    ((struct scene_router *)owner)->others[slot] = *others;
}

static inline void scene_note_begun(void *owner, uint32_t slot, uint64_t requests, uint64_t tokens)
{
    struct scene_router *router = owner;
    router->begun_requests[slot] += requests;
    router->begun_tokens[slot] += tokens;
}

static inline void scene_set_arrivals(void *owner, uint64_t pool, float per_ms)
{
    if (pool == scene_pool) {
        ((struct scene_router *)owner)->arrivals = per_ms;
    }
}

static inline void scene_set(void *owner, uint32_t slot, enum setting_field field, uint64_t value)
{
    ((struct scene_router *)owner)->settings[slot][field] = value;
}

static inline void scene_hear_speed(void *owner, uint32_t slot, float prefill_ms, float step_ms)
{
    struct scene_router *router = owner;
    router->prefill_ms[slot] = prefill_ms;
    router->step_ms[slot] = step_ms;
}

static inline bool scene_send(void *owner, uint64_t to, struct slice frame)
{
    struct scene_router *router = owner;
    router->sends++;
    if (router->is_mute || router->fails_to_send) {
        return !router->fails_to_send;
    }
    ASSERT(scene.frame_count < scene_frame_max && frame.size <= frame_size_max);
    struct scene_frame *sent = &scene.frames[scene.frame_count++];
    *sent = (struct scene_frame){
        .from = router->id, .to = to, .size = frame.size, .bytes = malloc(frame.size)};
    ASSERT(sent->bytes != NULL);
    memcpy(sent->bytes, frame.bytes, frame.size);
    return true;
}

static inline size_t scene_room(void *owner, uint64_t to)
{
    (void)to;
    return ((struct scene_router *)owner)->room;
}

static const struct replica_sink scene_sink = {.apply = scene_apply,
                                               .load = scene_set_others,
                                               .begun = scene_note_begun,
                                               .arrivals = scene_set_arrivals,
                                               .setting = scene_set,
                                               .speed = scene_hear_speed,
                                               .send = scene_send,
                                               .room = scene_room};

static inline struct scene_router *router_at(uint32_t i)
{
    ASSERT(i < scene_router_max);
    return &scene.routers[i];
}

static inline void scene_set_now(uint64_t now_ms)
{
    scene.now_ms = now_ms;
    for (uint32_t i = 0; i < scene.router_count; i++) {
        if (router_at(i)->replica != NULL) {
            // Clocks of different hosts have nothing to do with each other.
            replica_set_now(router_at(i)->replica, now_ms + i * UINT64_C(1000000),
                            now_ms + i * UINT64_C(500000));
        }
    }
}

static inline uint32_t router_now_s(uint32_t i)
{
    return (uint32_t)((scene.now_ms + i * UINT64_C(1000000)) / 1000);
}

static inline void router_tell_fleet(uint32_t i)
{
    struct scene_router *router = router_at(i);
    for (uint32_t engine = 0; engine < scene.engine_count; engine++) {
        replica_set_backend(router->replica, scene_identity(engine), engine, router->lives[engine]);
        replica_set_load(router->replica, scene_identity(engine), &router->own[engine]);
    }
    replica_end_backends(router->replica);
    replica_set_arrivals(router->replica, scene_pool, router->own_arrivals);
}

static inline void router_open_in(uint32_t i, uint64_t space)
{
    struct scene_router *router = router_at(i);
    *router = (struct scene_router){.id = i + 1, .room = 1 << 20};
    router->index = prefix_index_create(
        &(struct prefix_limits){.memory = 16 << 20, .backend_count_max = scene_engine_max});
    ASSERT(router->index != NULL);
    router->replica = replica_create(&(struct replica_options){.router = router->id,
                                                               .space = space,
                                                               .backend_max = scene_engine_max,
                                                               .window_bits = 12,
                                                               .open_max = 4096,
                                                               .session_max = 1024,
                                                               .index = router->index,
                                                               .sink = &scene_sink,
                                                               .owner = router});
    ASSERT(router->replica != NULL);
    scene.router_count = i >= scene.router_count ? i + 1 : scene.router_count;
    scene_set_now(scene.now_ms);
    for (uint32_t engine = 0; engine < scene.engine_count; engine++) {
        replica_set_backend(router->replica, scene_identity(engine), engine, 0);
    }
    replica_end_backends(router->replica);
}

static inline void router_close(uint32_t i)
{
    replica_destroy(&router_at(i)->replica);
    prefix_index_destroy(&router_at(i)->index);
}

static inline void router_meet(uint32_t a, uint32_t b)
{
    replica_peer_came(router_at(a)->replica, router_at(b)->id);
    replica_peer_came(router_at(b)->replica, router_at(a)->id);
}

static inline void router_part(uint32_t a, uint32_t b)
{
    replica_peer_left(router_at(a)->replica, router_at(b)->id);
    replica_peer_left(router_at(b)->replica, router_at(a)->id);
}

// Frames on the wire arrive, and those that are sent in reply.
static inline void scene_deliver(void)
{
    for (; scene.delivered < scene.frame_count; scene.delivered++) {
        struct scene_frame *frame = &scene.frames[scene.delivered];
        for (uint32_t i = 0; i < scene.router_count; i++) {
            struct scene_router *router = router_at(i);
            if (router->replica != NULL && router->id != frame->from &&
                (frame->to == 0 || frame->to == router->id)) {
                replica_take(router->replica, frame->from, slice_of(frame->bytes, frame->size));
            }
        }
        free(frame->bytes);
    }
    scene.frame_count = 0;
    scene.delivered = 0;
}

static inline void scene_drop_frames(void)
{
    for (uint32_t i = 0; i < scene.frame_count; i++) {
        free(scene.frames[i].bytes);
    }
    scene.frame_count = 0;
}

static inline void router_pump(uint32_t i)
{
    router_tell_fleet(i);
    replica_pump(router_at(i)->replica);
}

// Every router sends what it has, and takes what the others have sent.
static inline void scene_turn(void)
{
    for (uint32_t i = 0; i < scene.router_count; i++) {
        if (router_at(i)->replica != NULL) {
            router_pump(i);
        }
    }
    scene_deliver();
}

static inline void scene_pass(uint64_t ms)
{
    enum { step_ms = 50 };
    for (uint64_t end_ms = scene.now_ms + ms; scene.now_ms < end_ms;) {
        scene_set_now(scene.now_ms + step_ms);
        scene_turn();
    }
}

static inline struct replica_status status_of(uint32_t i)
{
    struct replica_status status;
    replica_read_status(router_at(i)->replica, &status);
    return status;
}

// Routers that know each other, of which none lacks anything.
static inline void scene_open(uint32_t router_count, uint32_t engine_count)
{
    scene = (struct scene){.engine_count = engine_count, .now_ms = 50000};
    for (uint32_t i = 0; i < router_count; i++) {
        router_open_in(i, 7);
    }
    for (uint32_t a = 0; a < router_count; a++) {
        for (uint32_t b = a + 1; b < router_count; b++) {
            router_meet(a, b);
        }
    }
    scene_pass(5000);
}

static inline void scene_close(void)
{
    scene_drop_frames();
    for (uint32_t i = 0; i < scene_router_max; i++) {
        router_close(i);
    }
}

// Key `position` of a chain.
static inline uint64_t chain_key(uint32_t chain, uint32_t position)
{
    return rng_mix((uint64_t)chain << 32 | (position + 1)) | 1;
}

static inline const uint64_t *chain_keys(uint32_t chain, uint32_t key_count)
{
    static uint64_t keys[prefix_tap_keys_max];
    ASSERT(key_count <= prefix_tap_keys_max);
    for (uint32_t i = 0; i < key_count; i++) {
        keys[i] = chain_key(chain, i);
    }
    return keys;
}

static inline struct prefix_hit hit_of(uint32_t i, uint32_t engine, const uint64_t *keys,
                                       uint32_t key_count)
{
    struct prefix_hit hits[scene_engine_max];
    uint32_t count = prefix_index_match(router_at(i)->index, keys, key_count, router_now_s(i), hits,
                                        scene_engine_max);
    for (uint32_t k = 0; k < count; k++) {
        if (hits[k].backend == engine) {
            return hits[k];
        }
    }
    return (struct prefix_hit){0};
}

static inline uint32_t held_by(uint32_t i, uint32_t engine, uint32_t chain)
{
    return hit_of(i, engine, chain_keys(chain, 100), 100).blocks;
}

static inline uint32_t confirmed_by(uint32_t i, uint32_t engine, uint32_t chain)
{
    return hit_of(i, engine, chain_keys(chain, 100), 100).confirmed;
}

static inline void router_note(uint32_t i, uint32_t engine, struct prefix_note note)
{
    note.backend = scene_identity(engine);
    note.lives = router_at(i)->lives[engine];
    note.block_tokens = scene_block_tokens;
    replica_note(router_at(i)->replica, &note);
}

// As a worker does: it changes the index of its router, and notes that.
static inline void worker_store(uint32_t i, uint32_t engine, uint64_t number,
                                enum prefix_residency residency, uint32_t chain, uint32_t key_count)
{
    static const enum prefix_note_kind kinds[] = {[PREFIX_PREDICTED] = PREFIX_NOTE_PREDICT,
                                                  [PREFIX_EXPECTED] = PREFIX_NOTE_EXPECT,
                                                  [PREFIX_CONFIRMED] = PREFIX_NOTE_CONFIRM};
    const uint64_t *keys = chain_keys(chain, key_count);
    prefix_index_store(router_at(i)->index,
                       &(struct prefix_span){.keys = keys,
                                             .key_count = key_count,
                                             .block_tokens = scene_block_tokens,
                                             .backend = engine,
                                             .now_s = router_now_s(i),
                                             .residency = residency});
    router_note(
        i, engine,
        (struct prefix_note){
            .kind = kinds[residency], .prediction = number, .keys = keys, .key_count = key_count});
}

static inline void worker_predict(uint32_t i, uint32_t engine, uint64_t number, uint32_t chain,
                                  uint32_t key_count)
{
    worker_store(i, engine, number, PREFIX_PREDICTED, chain, key_count);
}

static inline void worker_confirm(uint32_t i, uint32_t engine, uint64_t number, uint32_t chain,
                                  uint32_t key_count)
{
    worker_store(i, engine, number, PREFIX_CONFIRMED, chain, key_count);
}

static inline void worker_withdraw(uint32_t i, uint32_t engine, uint64_t number, uint32_t chain,
                                   uint32_t key_count)
{
    prefix_index_drop(router_at(i)->index, engine, PREFIX_PREDICTED, chain_keys(chain, key_count),
                      key_count, 0);
    router_note(i, engine,
                (struct prefix_note){.kind = PREFIX_NOTE_WITHDRAW, .prediction = number});
}

// A worker is refused a connection: its router's index forgets the engine.
static inline void worker_refused(uint32_t i, uint32_t engine)
{
    router_at(i)->lives[engine]++;
    prefix_index_forget(router_at(i)->index, engine);
}

static inline void worker_emptied(uint32_t i, uint32_t engine)
{
    prefix_index_forget(router_at(i)->index, engine);
    router_note(i, engine, (struct prefix_note){.kind = PREFIX_NOTE_EMPTIED});
}

// The session moves to the engine; the index had it at `before`.
static inline void worker_session(uint32_t i, uint32_t engine, uint64_t key, uint32_t before)
{
    if (before != UINT32_MAX) {
        prefix_index_drop(router_at(i)->index, before, PREFIX_PREDICTED, &key, 1, 0);
    }
    prefix_index_store(router_at(i)->index, &(struct prefix_span){.keys = &key,
                                                                  .key_count = 1,
                                                                  .block_tokens = 1,
                                                                  .backend = engine,
                                                                  .now_s = router_now_s(i)});
    router_note(i, engine,
                (struct prefix_note){.kind = PREFIX_NOTE_SESSION, .keys = &key, .key_count = 1});
}

// The engine of a session; UINT32_MAX: none, or several.
static inline uint32_t session_engine(uint32_t i, uint64_t key)
{
    struct prefix_hit hits[scene_engine_max];
    uint32_t count =
        prefix_index_match(router_at(i)->index, &key, 1, router_now_s(i), hits, scene_engine_max);
    return count == 1 ? hits[0].backend : UINT32_MAX;
}
