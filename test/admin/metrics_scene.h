// SPDX-License-Identifier: Apache-2.0
//
// metrics_scene.h -- two backends and all that a page of metrics can tell of them, in numbers that
// are easy to tell apart.
#pragma once

#include "admin/document/metrics_page.h"
#include "admin/keeper_scene.h"
#include "cluster/cluster.h"
#include "dialect/tiny_dialect.h"
#include "feed/kv/kv_feeder.h"
#include "knowledge/knowledge.h"
#include "metrics/meters.h"
#include "proxy/proxy.h"
#include "scribe/scribe.h"
#include "worker/recorder.h"

#include <stdlib.h>
#include <string.h>

struct metrics_scene {
    struct scene scene;
    struct tiny_set tiny;
    struct meters *meters[2];
    struct proxy_totals totals;
    struct knowledge_status known;
    struct prefix_ledger_usage ledger;
    struct cluster_status cluster;
    struct scribe_totals scribe;
    struct recorder_totals recorded;
    struct process_figures process;
    struct metrics_page_input input;
};

static inline struct meters *scene_meters(void)
{
    size_t size = (meters_size(backend_count_max) + 63) / 64 * 64;
    void *block = aligned_alloc(64, size);
    ASSERT(block != NULL);
    memset(block, 0, size);
    return meters_over(block, backend_count_max);
}

// The first backend is heard, the second is not.
static inline bool scene_events(void *owner, uint64_t backend_id, struct kv_feed_status *out)
{
    const struct metrics_scene *scene = owner;
    if (backend_id != fleet_at(scene->scene.fleet, 0)->id) {
        return false;
    }
    *out = (struct kv_feed_status){
        .state = KV_LIVE,
        .is_connected = true,
        .block_count = 501,
        .orphan_count = 502,
        .last_ms = 1234,
        .lag_ms = 56,
        .follower = {.messages = 503,
                     .gaps = 504,
                     .lost = 505,
                     .replays = 506,
                     .replays_failed = 507,
                     .restarts = 508,
                     .purges = 509,
                     .malformed = 510},
        .holdings = {.stored = 511, .removed = 512, .orphans = 513},
    };
    return true;
}

static inline void scene_note(struct meters *meters, const struct backend *backend,
                              const char *model, enum receipt_outcome outcome)
{
    struct receipt receipt = {.decision.chosen.backend = backend->id,
                              .outcome = outcome,
                              .decision.policy = &policy_warm,
                              .first_us = 250000,
                              .last_us = 350000,
                              .end_us = 400000,
                              .stage_ns = {[RECEIPT_STAGE_PARSE] = 1500},
                              .prompt_tokens = 1000,
                              .decision.chosen.expected_tokens = 640,
                              .cached_tokens = 600,
                              .output_tokens = 11,
                              .has_cached_tokens = true,
                              .saved_us = 1500000};
    struct receipt_parts parts = {.model = slice_str(model)};
    meters_note(meters, &receipt, &parts, backend->slot, true);
}

static inline void scene_count(struct metrics_scene *scene)
{
    const struct backend *first = fleet_at(scene->scene.fleet, 0);
    const struct backend *second = fleet_at(scene->scene.fleet, 1);
    struct receipt refused = {.outcome = RECEIPT_REFUSED};
    struct receipt_parts parts = {.model = slice_str("?")};

    scene_note(scene->meters[0], first, "m", RECEIPT_OK);
    scene_note(scene->meters[1], first, "n\"", RECEIPT_OK);
    scene_note(scene->meters[1], first, "m", RECEIPT_OK);
    scene_note(scene->meters[1], second, "m", RECEIPT_GONE);
    meters_note(scene->meters[0], &refused, &parts, 0, false);
}

// Two routers that are there, one of them with a gap, and one that has left.
static inline struct cluster_status scene_cluster(void)
{
    return (struct cluster_status){
        .now_ms = 10000,
        .notes_dropped = 701,
        .replica = {.notes = 702,
                    .batches_sent = 703,
                    .batches_dropped = 704,
                    .batches_taken = 705,
                    .gaps = 706,
                    .orphans = 707,
                    .malformed = 708,
                    .foreign = 709,
                    .eras = 710,
                    .snapshots_asked = 711,
                    .snapshots_taken = 712,
                    .snapshots_given = 713,
                    .snapshot_ms = 714,
                    .snapshot_at_ms = 9285,
                    .open_predictions = 716,
                    .memory = 717,
                    .peer_count = 3,
                    .peers = {{.router = 1,
                               .is_there = true,
                               .requests = 300,
                               .has_gap = true,
                               .lag_ms = 722},
                              {.router = 2, .is_there = true, .requests = 418},
                              {.router = 3, .has_gap = true}}},
        .link = {.kind = "mesh",
                 .is_up = true,
                 .bytes_in = 719,
                 .bytes_out = 720,
                 .peer_count = 3,
                 .peers = {{.router = 1, .is_there = true, .heard_ms = 9279},
                           {.router = 2, .is_there = true, .heard_ms = 9990},
                           {.router = 3, .heard_ms = 4000}}},
    };
}

static inline void metrics_scene_open(struct metrics_scene *scene)
{
    *scene = (struct metrics_scene){
        .totals = {.request_count = 101,
                   .retry_count = 102,
                   .upstream_opened = 103,
                   .upstream_reused = 104,
                   .upstream_idle = 105,
                   .in_flight = 106,
                   .connection_count = 107,
                   .body_memory = 108,
                   .buffers_in_use = 109,
                   .poison_count = 111},
        .known = {.index = {.memory = 201, .run_count = 202, .evictions = 203, .expiries = 204},
                  .letters_lost = 205},
        .ledger = {.memory = 301, .limit = 302, .run_count = 303, .refused = 304},
        .cluster = scene_cluster(),
        .scribe = {.written = 401,
                   .dropped_lines = 402,
                   .exported = 403,
                   .dropped_spans = 404,
                   .lost = 405},
        .recorded = {.recorded = 406, .dropped = 407},
        .process = {.cpu_us = 1500000,
                    .resident_bytes = 601,
                    .virtual_bytes = 602,
                    .open_fds = 603,
                    .max_fds = 604,
                    .start_ms = 1763234567890},
    };
    scene_open(&scene->scene,
               "'http://10.0.0.1:8000', {url: 'http://10.0.0.2:8000', pool: other, weight: 3}");
    scene->totals.problems[HTTP_PROBLEM_NO_BACKEND] = 110;
    scene->meters[0] = scene_meters();
    scene->meters[1] = scene_meters();
    scene_count(scene);
    tiny_set_open(&scene->tiny, tiny_dialect((struct dialect_options){.name = "/models/tiny"}));
    scene->input = (struct metrics_page_input){
        .fleet = scene->scene.fleet,
        .config = scene->scene.config,
        .now_ms = loop_now_ms(scene->scene.loop),
        .totals = &scene->totals,
        .meters = (const struct meters *const *)scene->meters,
        .worker_count = 2,
        .known = &scene->known,
        .ledger = &scene->ledger,
        .stray_count = 305,
        .events = scene_events,
        .events_owner = scene,
        .dialects = &scene->tiny.set,
        .cluster = &scene->cluster,
        .scribe = &scene->scribe,
        .recorded = &scene->recorded,
        .process = &scene->process,
    };
}

static inline void metrics_scene_close(struct metrics_scene *scene)
{
    tiny_set_close(&scene->tiny);
    free(scene->meters[0]);
    free(scene->meters[1]);
    scene_close(&scene->scene);
}
