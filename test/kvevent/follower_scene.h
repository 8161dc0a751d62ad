// SPDX-License-Identifier: Apache-2.0
//
// follower_scene.h -- one follower, and the messages and replays of its publisher by hand.
#pragma once

#include "kvevent/batch_fixture.h"
#include "kvevent/kv_follower.h"
#include "test.h"

enum { backend = 3 };

// One publisher, whose message `n` stores block n + 1.
struct scene {
    struct prefix_ledger *ledger;
    struct kv_names_budget budget;
    struct kv_reader *reader;
    struct kv_follower *follower;
    struct kv_follower_action action; // the last
    uint64_t now_ms;
};

static inline struct scene *scene_open(bool has_replay)
{
    static struct scene scene;

    scene = (struct scene){.budget.limit = 16 << 20, .now_ms = 5000};
    scene.ledger = prefix_ledger_create(
        &(struct prefix_ledger_limits){.memory = 16 << 20, .backend_count_max = 8});
    scene.reader = kv_reader_create();
    ASSERT(scene.ledger != NULL && scene.reader != NULL);
    scene.follower = kv_follower_create(&(struct kv_follower_options){
        .holdings = {.ledger = scene.ledger, .budget = &scene.budget, .backend = backend},
        .reader = scene.reader,
        .has_replay = has_replay,
    });
    ASSERT(scene.follower != NULL);
    return &scene;
}

static inline void scene_close(struct scene *scene)
{
    kv_follower_destroy(&scene->follower);
    ASSERT(scene->follower == NULL);
    kv_reader_destroy(&scene->reader);
    prefix_ledger_destroy(&scene->ledger);
}

static inline bool holds(const struct scene *scene, uint64_t number)
{
    uint64_t key = batch_key(number + 1, 0);
    return batch_match(scene->ledger, backend, &key, 1) == 1;
}

// Exactly messages first to last, of the first 50.
static inline bool holds_only(const struct scene *scene, uint64_t first, uint64_t last)
{
    for (uint64_t i = 0; i < 50; i++) {
        if (holds(scene, i) != (i >= first && i <= last)) {
            printf("# message %" PRIu64 " is %s\n", i, holds(scene, i) ? "known" : "missing");
            return false;
        }
    }
    return true;
}

static inline void live(struct scene *scene, uint64_t number)
{
    struct batch batch;
    struct slice payload = batch_write(&batch, KV_EVENT_STORED, number + 1, 0);
    kv_follower_live(scene->follower, &(struct kv_numbered){number, payload}, scene->now_ms);
}

// Block `name` comes without a message.
static inline void take_notice(struct scene *scene, uint64_t name)
{
    struct batch batch;
    struct kv_notice notice;
    struct slice payload = batch_write(&batch, KV_EVENT_STORED, name, 0);
    ASSERT(kv_reader_begin(scene->reader, payload) == STATUS_OK);
    ASSERT(kv_reader_next(scene->reader, &notice) == STATUS_OK);
    kv_follower_apply(scene->follower, &notice, scene->now_ms);
}

static inline void replayed(struct scene *scene, uint64_t first, uint64_t last)
{
    for (uint64_t number = first; number <= last; number++) {
        struct batch batch;
        struct slice payload = batch_write(&batch, KV_EVENT_STORED, number + 1, 0);
        kv_follower_replayed(scene->follower, &(struct kv_numbered){number, payload},
                             scene->now_ms);
    }
}

static inline void replay_ends(struct scene *scene)
{
    kv_follower_replay_ended(scene->follower, scene->now_ms);
}

// Whether a replay is wanted by now; the number is in scene->action.from.
static inline bool wants(struct scene *scene)
{
    scene->action = kv_follower_next_action(scene->follower, scene->now_ms);
    return scene->action.wants_replay;
}

static inline void pass(struct scene *scene, uint64_t ms)
{
    scene->now_ms += ms;
}

static inline enum kv_follower_state state(const struct scene *scene)
{
    return kv_follower_state(scene->follower);
}

static inline const struct kv_follower_counts *counts(const struct scene *scene)
{
    return kv_follower_counts(scene->follower);
}

// It has followed messages 0 to last.
static inline struct scene *scene_at(bool has_replay, uint64_t last)
{
    struct scene *scene = scene_open(has_replay);
    for (uint64_t i = 0; i <= last; i++) {
        live(scene, i);
    }
    ASSERT(!wants(scene) && state(scene) == KV_LIVE);
    return scene;
}
