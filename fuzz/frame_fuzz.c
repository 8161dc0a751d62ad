// SPDX-License-Identifier: Apache-2.0
//
// The input is a list of events: a byte that says which, two bytes of a number, and for a frame so
// many bytes of it.  For any input: records stay within the limits of their frame, the replica of a
// router takes every frame without an assertion, and the loads of routers that left are gone.

#include "base/base.h"
#include "fuzz.h"
#include "prefix/prefix_index.h"
#include "replica/replica.h"

enum { slots = 4, router_space = 7, window_bits = 10, peer_count = 2 };

struct scene {
    struct replica *replica;
    struct prefix_index *index;
    struct replica_load others[slots];
    uint64_t now_ms;
};

static void scene_apply(void *owner, const struct prefix_update *update)
{
    ASSERT(update->backend < slots && update->key_count <= prefix_update_keys_max);
    prefix_update_apply(((struct scene *)owner)->index, update);
}

static void scene_load(void *owner, uint32_t slot, const struct replica_load *others)
{
    ASSERT(slot < slots);
    ((struct scene *)owner)->others[slot] = *others;
}

static void scene_begun(void *owner, uint32_t slot, uint64_t requests, uint64_t tokens)
{
    (void)owner;
    ASSERT(slot < slots && requests > 0 && requests < UINT32_MAX && tokens < UINT32_MAX);
}

static void scene_arrivals(void *owner, uint64_t pool, float per_ms)
{
    (void)owner;
    ASSERT(pool != 0 && per_ms >= 0 && per_ms < 1e6F);
}

static bool scene_send(void *owner, uint64_t to, struct slice frame)
{
    (void)owner;
    ASSERT(to <= peer_count + 1 && frame.size > 0 && frame.size <= frame_size_max);
    return true;
}

static size_t scene_room(void *owner, uint64_t to)
{
    (void)owner;
    (void)to;
    return 1 << 20;
}

static void scene_setting(void *owner, uint32_t slot, enum setting_field field, uint64_t value)
{
    (void)owner;
    (void)value;
    ASSERT(slot < slots && field < SETTING_COUNT);
}

static void scene_speed(void *owner, uint32_t slot, float prefill_ms, float step_ms)
{
    (void)owner;
    ASSERT(slot < slots && prefill_ms >= 0 && step_ms >= 0);
}

static const struct replica_sink sink = {.apply = scene_apply,
                                         .load = scene_load,
                                         .begun = scene_begun,
                                         .arrivals = scene_arrivals,
                                         .setting = scene_setting,
                                         .speed = scene_speed,
                                         .send = scene_send,
                                         .room = scene_room};

static void scene_pump(struct scene *scene, uint64_t passed_ms)
{
    static const struct record_load load = {.requests = 1};
    scene->now_ms += passed_ms;
    replica_set_now(scene->replica, scene->now_ms, scene->now_ms);
    for (uint32_t slot = 0; slot < slots; slot++) {
        replica_set_backend(scene->replica, 0x1000 + slot, slot, 0);
        replica_set_load(scene->replica, 0x1000 + slot, &load);
    }
    replica_end_backends(scene->replica);
    replica_pump(scene->replica);
}

static void scene_open(struct scene *scene)
{
    *scene = (struct scene){.now_ms = 50000};
    scene->index = prefix_index_create(
        &(struct prefix_limits){.memory = 256 << 10, .backend_count_max = slots});
    ASSERT(scene->index != NULL);
    scene->replica = replica_create(&(struct replica_options){.router = 1,
                                                              .space = router_space,
                                                              .backend_max = slots,
                                                              .window_bits = window_bits,
                                                              .open_max = 128,
                                                              .session_max = 64,
                                                              .index = scene->index,
                                                              .sink = &sink,
                                                              .owner = scene});
    ASSERT(scene->replica != NULL);
    for (uint64_t peer = 2; peer < 2 + peer_count; peer++) {
        replica_peer_came(scene->replica, peer);
    }
    scene_pump(scene, 0);
}

static void scene_close(struct scene *scene)
{
    struct replica_status status;
    for (uint64_t peer = 2; peer < 2 + peer_count; peer++) {
        replica_peer_left(scene->replica, peer);
    }
    for (uint32_t slot = 0; slot < slots; slot++) {
        const struct replica_load *others = &scene->others[slot];
        ASSERT(others->requests == 0 && others->sequences == 0);
        ASSERT(others->queued_tokens == 0 && others->context_tokens == 0);
    }
    replica_read_status(scene->replica, &status);
    ASSERT(status.open_predictions == 0 && status.peer_count == peer_count);
    replica_destroy(&scene->replica);
    prefix_index_destroy(&scene->index);
}

static void try_records(struct slice frame, struct key_window *window)
{
    static uint64_t keys[frame_key_max];
    static struct frame_head head;
    struct frame_record record;
    struct wire_reader reader = wire_reader_of(frame);

    if (!frame_read_head(&reader, &head)) {
        return;
    }
    ASSERT(head.backend_count <= frame_backend_max);
    (void)key_window_skip_to(window, head.position);
    while (frame_read_record(&reader, &head, window, keys, &record)) {
        ASSERT(record.kind > RECORD_NONE && record.kind < RECORD_COUNT);
        ASSERT(record.key_count <= frame_key_max);
        ASSERT(record.key_count == 0 || record.keys == keys);
        ASSERT(record.backend == 0 || record.backend < head.backend_count);
        ASSERT(reader.left <= frame.size);
    }
    ASSERT(reader.left == 0);
}

static void take_event(struct scene *scene, struct key_window *window, uint8_t kind,
                       struct slice frame, uint32_t number)
{
    uint64_t peer = 2 + (kind >> 2) % peer_count;
    switch (kind % 4) {
    case 0:
    case 1:
        try_records(frame, window);
        replica_take(scene->replica, peer, frame);
        break;
    case 2:
        scene_pump(scene, number);
        break;
    default:
        replica_peer_left(scene->replica, peer);
        replica_peer_came(scene->replica, peer);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct scene scene;
    struct key_window window;
    scene_open(&scene);
    ASSERT(key_window_open_receiver(&window, window_bits));
    while (size >= 3) {
        uint8_t kind = bytes[0];
        uint32_t number = bytes[1] | (uint32_t)bytes[2] << 8;
        size_t most = size - 3 < frame_size_max ? size - 3 : frame_size_max;
        size_t used = kind % 4 < 2 ? (number < most ? number : most) : 0;
        take_event(&scene, &window, kind, slice_of(bytes + 3, used), number);
        bytes += 3 + used;
        size -= 3 + used;
    }
    key_window_close(&window);
    scene_close(&scene);
    return 0;
}
