// SPDX-License-Identifier: Apache-2.0

#include "sim/lab_router.h"

#include "base/base.h"
#include "base/hash.h"
#include "base/slice.h"
#include "fleet/fleet.h"
#include "knowledge/knowledge.h"
#include "prefix/prefix_tap.h"
#include "replica/replica.h"
#include "route/route.h"
#include "sim/array.h"
#include "sim/workload/content.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    index_memory_per_backend = 8 << 20,
    index_memory_min = 64 << 20,
    // Of a replica.  A window of 65,536 keys is 1,000 prompts of 4,000 tokens.
    replica_window_bits = 16,
    replica_open_max = 4096,
    replica_session_max = 65536,
    outbox_size_min = 1 << 16,
    speeds_us = 1000000, // as the thread of a cluster
};

// The one pool, as other routers know it, and the space of keys.
static const uint64_t lab_pool_name = 1;
static const uint64_t lab_key_space = 1;

uint64_t lab_router_id(uint32_t number)
{
    return (uint64_t)number + 1;
}

static void lab_sink_pause(void)
{
}

static void lab_sink_apply(void *owner, const struct prefix_update *update)
{
    struct lab_router *router = owner;
    knowledge_merge(router->knowledge, 0, update, lab_sink_pause);
}

static void lab_sink_load(void *owner, uint32_t slot, const struct replica_load *others)
{
    struct lab_router *router = owner;
    ASSERT(slot < router->backend_count);
    load_set_others(&router->backends[slot]->load,
                    &(struct load_others){.requests = others->requests,
                                          .sequences = others->sequences,
                                          .queued_tokens = others->queued_tokens,
                                          .context_tokens = others->context_tokens});
}

static void lab_sink_begun(void *owner, uint32_t slot, uint64_t requests, uint64_t tokens)
{
    struct lab_router *router = owner;
    ASSERT(slot < router->backend_count);
    load_note_begun(&router->backends[slot]->load, requests, tokens, router->now_us / 1000);
}

static void lab_sink_arrivals(void *owner, uint64_t pool, float per_ms)
{
    struct lab_router *router = owner;
    ASSERT(pool == lab_pool_name);
    traffic_set_others(knowledge_traffic(router->knowledge, 0), per_ms);
}

// The lab has no operators.
static void lab_sink_setting(void *owner, uint32_t slot, enum setting_field field, uint64_t value)
{
    struct lab_router *router = owner;
    if (field == SETTING_CAPACITY) {
        knowledge_set_learned_capacity(router->knowledge, router->backends[slot],
                                       saturate_u32(value));
    }
}

static void lab_sink_speed(void *owner, uint32_t slot, float prefill_ms, float step_ms)
{
    struct lab_router *router = owner;
    load_hear_speed(&router->backends[slot]->load, prefill_ms, step_ms, router->now_us);
}

static bool lab_sink_send(void *owner, uint64_t to, struct slice frame)
{
    struct lab_outbox *outbox = &((struct lab_router *)owner)->outbox;

    if (outbox->size + frame.size > outbox->capacity) {
        outbox->capacity = 2 * (outbox->size + frame.size) + outbox_size_min;
        outbox->bytes = realloc(outbox->bytes, outbox->capacity);
        ASSERT(outbox->bytes != NULL); // a run cannot go on without its memory
    }
    outbox->frames = array_grow(outbox->frames, outbox->frame_count, &outbox->frame_capacity,
                                sizeof(struct lab_frame));
    outbox->frames[outbox->frame_count++] =
        (struct lab_frame){.to = to, .at = outbox->size, .size = frame.size};
    memcpy(outbox->bytes + outbox->size, frame.bytes, frame.size);
    outbox->size += frame.size;
    return true;
}

static size_t lab_sink_room(void *owner, uint64_t to)
{
    (void)owner;
    (void)to;
    return SIZE_MAX;
}

static const struct replica_sink lab_sink = {.apply = lab_sink_apply,
                                             .load = lab_sink_load,
                                             .begun = lab_sink_begun,
                                             .arrivals = lab_sink_arrivals,
                                             .setting = lab_sink_setting,
                                             .speed = lab_sink_speed,
                                             .send = lab_sink_send,
                                             .room = lab_sink_room};

static bool lab_router_open_knowledge(struct lab_router *router,
                                      const struct lab_router_options *options)
{
    size_t memory = (size_t)options->backend_max * index_memory_per_backend;

    router->knowledge = knowledge_create(&(struct knowledge_options){
        .memory = memory > index_memory_min ? memory : index_memory_min,
        .backend_count_max = options->backend_max,
        .sender_count = 1,
        .ttl_s = 0,
        .is_tapped = options->is_sharing,
    });
    return router->knowledge != NULL;
}

static bool lab_router_open_route(struct lab_router *router,
                                  const struct lab_router_options *options)
{
    router->route = route_create(&(struct route_options){
        .policies = &options->policy,
        .pool_count = 1,
        .target_count_max = options->backend_max,
        .knobs = options->knobs != NULL ? *options->knobs : policy_knobs_default,
        .block_size = options->block_tokens * content_token_size,
        .block_tokens = options->block_tokens,
        .knowledge = router->knowledge,
        .seed = options->number == 0 ? options->seed : hash_pair(options->seed, options->number),
    });
    return router->route != NULL;
}

static bool lab_router_open_replica(struct lab_router *router,
                                    const struct lab_router_options *options)
{
    if (!options->is_sharing) {
        return true;
    }
    router->replica = replica_create(&(struct replica_options){
        .router = router->id,
        .space = lab_key_space,
        .backend_max = options->backend_max,
        .window_bits = replica_window_bits,
        .open_max = replica_open_max,
        .session_max = replica_session_max,
        .index = knowledge_index(router->knowledge),
        .sink = &lab_sink,
        .owner = router,
    });
    return router->replica != NULL;
}

bool lab_router_open(struct lab_router *router, const struct lab_router_options *options)
{
    *router = (struct lab_router){
        .id = lab_router_id(options->number),
        .backend_max = options->backend_max,
        .backends = calloc(options->backend_max, sizeof(struct backend *)),
        .has_left = calloc(options->backend_max, sizeof(bool)),
        .told = calloc(options->backend_max, sizeof(struct load_told)),
        .fleet = fleet_create(
            &(struct fleet_limits){.backend_count_max = options->backend_max, .pool_count = 1},
            options->reclaim),
    };
    return router->backends != NULL && router->has_left != NULL && router->told != NULL &&
           router->fleet != NULL && lab_router_open_knowledge(router, options) &&
           lab_router_open_route(router, options) && lab_router_open_replica(router, options);
}

void lab_router_close(struct lab_router *router)
{
    replica_destroy(&router->replica);
    route_destroy(&router->route);
    knowledge_destroy(&router->knowledge);
    fleet_destroy(&router->fleet);
    free(router->backends);
    free(router->has_left);
    free(router->told);
    free(router->outbox.frames);
    free(router->outbox.bytes);
    *router = (struct lab_router){0};
}

bool lab_router_join(struct lab_router *router)
{
    uint32_t slot = router->backend_count;
    char url[64];

    ASSERT(slot < router->backend_max);
    snprintf(url, sizeof(url), "http://replica-%u:8000", slot);
    struct fleet_spec spec = {.url = url, .host = url + 7, .port = 8000, .weight = 1};
    struct backend *backend = fleet_add(router->fleet, &spec);
    if (backend == NULL) {
        return false;
    }
    ASSERT(backend->slot == slot);
    router->backends[slot] = backend;
    router->backend_count++;
    return true;
}

void lab_router_leave(struct lab_router *router, uint32_t slot)
{
    ASSERT(slot < router->backend_count && !router->has_left[slot]);
    router->has_left[slot] = true;
    fleet_remove(router->fleet, router->backends[slot]);
}

// A slot that no request has used yet belongs to no backend, and the first one to use it would
// forget what other routers told of it: it is taken over here.
static void lab_router_set_backends(struct lab_router *router)
{
    for (uint32_t i = 0; i < router->backend_count; i++) {
        if (!router->has_left[i]) {
            const struct backend *backend = router->backends[i];
            unsigned lives = atomic_load_explicit(&backend->shared.lives, memory_order_relaxed);
            (void)knowledge_owns(router->knowledge, 0, backend);
            replica_set_backend(router->replica, backend->identity, i, lives);
        }
    }
    replica_end_backends(router->replica);
}

bool lab_router_publish(struct lab_router *router)
{
    if (!fleet_publish(router->fleet)) {
        return false;
    }
    router->view = fleet_view(router->fleet);
    if (router->replica != NULL) {
        lab_router_set_backends(router);
    }
    return true;
}

void lab_router_set_now(struct lab_router *router, uint64_t now_us)
{
    router->now_us = now_us;
    if (router->replica != NULL) {
        replica_set_now(router->replica, now_us / 1000, now_us / 1000);
    }
}

void lab_router_note(struct lab_router *router)
{
    struct prefix_note note;

    ASSERT(router->replica != NULL);
    while (prefix_tap_take(knowledge_tap(router->knowledge), &note)) {
        replica_note(router->replica, &note);
    }
}

static struct record_load lab_record_of(const struct load *load)
{
    return (struct record_load){
        .requests = (uint32_t)atomic_load_explicit(&load->requests, memory_order_relaxed),
        .sequences = (uint32_t)atomic_load_explicit(&load->sequences, memory_order_relaxed),
        .queued_tokens = (uint64_t)atomic_load_explicit(&load->queued_tokens, memory_order_relaxed),
        .context_tokens =
            (uint64_t)atomic_load_explicit(&load->context_tokens, memory_order_relaxed),
        .begun_requests = atomic_load_explicit(&load->begun_requests, memory_order_relaxed),
        .begun_tokens = atomic_load_explicit(&load->begun_tokens, memory_order_relaxed),
    };
}

void lab_router_pump(struct lab_router *router)
{
    bool is_time = router->now_us >= router->speeds_us + speeds_us;
    router->speeds_us = is_time ? router->now_us : router->speeds_us;
    lab_router_note(router);
    for (uint32_t i = 0; i < router->backend_count; i++) {
        struct record_load load = lab_record_of(&router->backends[i]->load);
        replica_set_load(router->replica, router->backends[i]->identity, &load);
        if (is_time) {
            struct load_speeds speeds =
                load_take_measured(&router->backends[i]->load, &router->told[i]);
            replica_tell_speed(router->replica, router->backends[i]->identity, speeds.prefill_ms,
                               speeds.step_ms);
        }
    }
    replica_set_arrivals(
        router->replica, lab_pool_name,
        traffic_own_arrivals(knowledge_traffic(router->knowledge, 0), router->now_us));
    replica_pump(router->replica);
}

struct slice lab_router_frame(const struct lab_router *router, uint32_t index)
{
    const struct lab_frame *frame = &router->outbox.frames[index];
    ASSERT(index < router->outbox.frame_count);
    return slice_of(router->outbox.bytes + frame->at, frame->size);
}

void lab_router_clear(struct lab_router *router)
{
    router->outbox.frame_count = 0;
    router->outbox.size = 0;
}

void lab_router_take(struct lab_router *router, uint64_t from, struct slice frame)
{
    replica_take(router->replica, from, frame);
}
