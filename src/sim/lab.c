// SPDX-License-Identifier: Apache-2.0

#include "sim/lab.h"

#include "base/base.h"
#include "base/hash.h"
#include "base/reclaim.h"
#include "fleet/fleet.h"
#include "knowledge/feedback.h"
#include "knowledge/knowledge.h"
#include "route/route.h"
#include "sim/array.h"
#include "sim/engine/due_queue.h"
#include "sim/engine/engine.h"
#include "sim/workload/affinity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    default_router_block = 64,
    index_memory_per_backend = 8 << 20,
    index_memory_min = 64 << 20,
    // Some places of the router take 0 for "never": the run starts at one second.
    begin_us = 1000000,
};

static const uint64_t never = UINT64_MAX;

struct lab;

// A simulated engine and its place in the fleet.
struct lab_replica {
    struct lab *lab;
    struct engine *engine;
    struct backend *backend;
    uint32_t number;
    bool is_stepping;
    bool has_left;
};

// A request between its sending and its last token.
struct lab_flight {
    struct engine_request request;
    struct work_item item;
    struct feedback feedback;
    struct decision decision;
    uint32_t replica;
    bool on_trial;
    uint64_t first_us;
    uint32_t router_key_count; // of prompt and response
    uint64_t *router_keys;
    uint64_t space[]; // keys, keys of the router, numbers of blocks
};

struct lab {
    struct reclaim reclaim; // the first, since it fills cache lines of its own
    const struct lab_options *options;
    struct lab_changes changes;
    uint32_t router_block;
    uint64_t now_us;
    uint64_t scrape_us;
    double change_s;    // when the next backend joins or leaves
    uint64_t change_us; // the same time
    struct fleet *fleet;
    const struct fleet_view *view;
    struct knowledge *knowledge;
    struct route *route;
    struct prefix_chain chain; // says only that there is one
    struct workload *workload;
    struct lab_replica *replicas; // by slot: none is used twice
    uint32_t replica_count;
    struct affinity affinity;
    struct due_queue steps; // when those that run now end
    struct figure_sample *samples;
    uint32_t sample_count;
    uint32_t sample_capacity;
    uint32_t failed_count;
    uint32_t flying_count;
};

static double lab_now_s(const struct lab *lab)
{
    return (double)(lab->now_us - begin_us) / 1e6;
}

static void lab_begin_step(struct lab *lab, struct lab_replica *replica)
{
    double ms = engine_step(replica->engine) *
                lab_changes_slowness(&lab->changes, replica->number + 1, lab_now_s(lab));

    replica->is_stepping = ms > 0;
    if (replica->is_stepping) {
        due_queue_push(&lab->steps,
                       (struct due){.at_us = lab->now_us + (uint64_t)llround(ms * 1000),
                                    .order = replica->number,
                                    .what = replica});
    }
}

static void lab_note_sample(struct lab *lab, const struct lab_flight *flight)
{
    lab->samples = array_grow(lab->samples, lab->sample_count, &lab->sample_capacity,
                              sizeof(struct figure_sample));
    lab->samples[lab->sample_count++] = (struct figure_sample){
        .due_ms = (double)(flight->item.due_us) / 1000,
        .first_ms = (double)(flight->first_us - begin_us - flight->item.due_us) / 1000,
        .last_ms = (double)(lab->now_us - begin_us - flight->item.due_us) / 1000,
        .prompt_tokens = flight->item.prompt_tokens,
        .cached_tokens = flight->request.cached_tokens,
        .output_tokens = flight->item.output_tokens,
        .backend = flight->replica,
    };
}

static void lab_finish(struct lab *lab, struct lab_flight *flight)
{
    lab_note_sample(lab, flight);
    feedback_complete(&flight->feedback,
                      &(struct feedback_usage){.has_cached_tokens = true,
                                               .cached_tokens = flight->request.cached_tokens,
                                               .output_tokens = flight->item.output_tokens},
                      flight->router_keys, flight->router_key_count, lab->now_us);
    feedback_end(&flight->feedback, flight->router_keys);
    backend_end(flight->feedback.backend, flight->on_trial);
    workload_done(lab->workload, &flight->item, lab->now_us - begin_us);
    lab->flying_count--;
    free(flight);
}

static void lab_got_token(void *owner, struct engine_request *request, bool is_last)
{
    struct lab_replica *replica = owner;
    struct lab *lab = replica->lab;
    struct lab_flight *flight = CONTAINER_OF(request, struct lab_flight, request);

    if (flight->first_us == 0) {
        flight->first_us = lab->now_us;
        feedback_confirm(&flight->feedback, flight->router_keys, lab->now_us);
    }
    load_output(&replica->backend->load, &flight->feedback.load, 1, lab->now_us);
    if (is_last) {
        lab_finish(lab, flight);
    }
}

// The router's blocks are several of the engine's, or else are made anew.
static void lab_make_keys(const struct lab *lab, struct lab_flight *flight)
{
    const struct work_item *item = &flight->item;
    uint32_t block_tokens = lab->options->profile->block_tokens;
    uint32_t tokens = item->prompt_tokens + item->output_tokens;
    uint32_t pieces = item->piece_count + 1;
    uint64_t *keys = flight->space;

    flight->request.keys = keys;
    flight->request.key_count =
        content_keys(item->pieces, pieces, block_tokens, keys, tokens / block_tokens);
    flight->router_keys = keys + flight->request.key_count;
    flight->router_key_count = tokens / lab->router_block;
    if (lab->router_block % block_tokens == 0) {
        uint32_t each = lab->router_block / block_tokens;
        for (uint32_t i = 0; i < flight->router_key_count; i++) {
            flight->router_keys[i] = keys[(i + 1) * each - 1];
        }
    } else {
        content_keys(item->pieces, pieces, lab->router_block, flight->router_keys,
                     flight->router_key_count);
    }
    flight->request.blocks = (uint32_t *)(flight->router_keys + flight->router_key_count);
}

static struct lab_flight *lab_make_flight(const struct lab *lab, const struct work_item *item)
{
    uint32_t block_tokens = lab->options->profile->block_tokens;
    uint32_t tokens = item->prompt_tokens + item->output_tokens;
    size_t words = tokens / block_tokens + tokens / lab->router_block;
    size_t size = sizeof(struct lab_flight) + words * sizeof(uint64_t) +
                  (tokens / block_tokens + 1) * sizeof(uint32_t);
    struct lab_flight *flight = malloc(size);

    ASSERT(flight != NULL);
    *flight = (struct lab_flight){.item = *item};
    flight->request.prompt_tokens = item->prompt_tokens;
    flight->request.output_tokens = item->output_tokens;
    lab_make_keys(lab, flight);
    return flight;
}

static void lab_choose(struct lab *lab, struct lab_flight *flight)
{
    const struct work_item *item = &flight->item;
    const struct prompt prompt = {.api = PROMPT_COMPLETION,
                                  .form = PROMPT_TOKENS,
                                  .text_size = item->prompt_tokens,
                                  .history_size = item->history_tokens,
                                  .token_count = item->prompt_tokens,
                                  .turns = item->turn,
                                  .stream = true};
    const struct route_request request = {
        .session_key = item->session == 0 ? 0 : hash_pair(item->session, 0) | 1,
        .prompt = &prompt,
        .chain = lab->options->policy->reads_prompt ? &lab->chain : NULL,
        .keys = flight->router_keys,
        .key_count = item->prompt_tokens / lab->router_block,
        .prompt_tokens = item->prompt_tokens,
        .block_tokens = lab->router_block,
        .block_share = (float)lab->router_block,
    };
    struct route_tried tried = {0};
    struct route_choice choice = {.decision = &flight->decision};
    enum route_verdict verdict =
        route_choose(lab->route, lab->view, &request, &tried, lab->now_us, &choice);

    ASSERT(verdict == ROUTE_CHOSEN);
    flight->replica = choice.backend->slot;
    flight->on_trial = choice.on_trial;
    feedback_begin(&flight->feedback,
                   &(struct feedback_input){.knowledge = lab->knowledge,
                                            .backend = choice.backend,
                                            .decision = &flight->decision,
                                            .session_key = request.session_key,
                                            .keys = request.keys,
                                            .key_count = request.key_count,
                                            .block_tokens = request.block_tokens,
                                            .is_named = true},
                   lab->now_us);
    affinity_note(&lab->affinity, item->pieces[0].id, (double)item->due_us / 1000, flight->replica);
}

static void lab_send(struct lab *lab)
{
    struct work_item item;
    workload_take(lab->workload, &item);

    if (!engine_fits(lab->replicas[0].engine, item.prompt_tokens, item.output_tokens)) {
        lab->failed_count++;
        workload_done(lab->workload, &item, lab->now_us - begin_us);
        return;
    }
    struct lab_flight *flight = lab_make_flight(lab, &item);
    lab_choose(lab, flight);
    lab->flying_count++;
    struct lab_replica *replica = &lab->replicas[flight->replica];
    engine_submit(replica->engine, &flight->request);
    if (!replica->is_stepping) {
        lab_begin_step(lab, replica);
    }
}

static void lab_scrape(struct lab *lab)
{
    for (uint32_t i = 0; i < lab->replica_count; i++) {
        struct engine_status status;
        if (lab->replicas[i].has_left) {
            continue;
        }
        engine_status(lab->replicas[i].engine, &status);
        load_report(&lab->replicas[i].backend->load,
                    &(struct load_report){
                        .running = (float)status.running,
                        .waiting = (float)status.waiting,
                        .kv_usage = (float)status.used_tokens / (float)status.kv_tokens,
                        .cache_tokens = (double)status.kv_tokens,
                        .block_tokens = lab->options->profile->block_tokens,
                    },
                    lab->now_us / 1000);
    }
    lab->scrape_us += (uint64_t)lab->options->scrape_ms * 1000;
}

static bool set_up_replica(struct lab *lab)
{
    uint32_t number = lab->replica_count;
    struct lab_replica *replica = &lab->replicas[number];
    char url[64];

    snprintf(url, sizeof(url), "http://replica-%u:8000", number);
    struct fleet_spec spec = {.url = url, .host = url + 7, .port = 8000, .weight = 1};
    *replica = (struct lab_replica){.lab = lab, .number = number};
    replica->backend = fleet_add(lab->fleet, &spec);
    replica->engine = engine_create(
        lab->options->profile, &(struct engine_observer){.owner = replica, .token = lab_got_token});
    ASSERT(replica->backend == NULL || replica->backend->slot == number);
    lab->replica_count++;
    return replica->backend != NULL && replica->engine != NULL;
}

static void lab_plan_change(struct lab *lab, double at_s)
{
    lab->change_s = lab_changes_next(&lab->changes, at_s);
    lab->change_us =
        lab->change_s < INFINITY ? begin_us + (uint64_t)llround(lab->change_s * 1e6) : never;
}

// Backends join and leave.  The fleet reclaims nothing, so a slot is not used again.
static void lab_change_fleet(struct lab *lab)
{
    bool complete = true;

    for (uint32_t i = 0; i < lab->changes.count; i++) {
        const struct lab_change *change = &lab->changes.items[i];
        if (change->kind == LAB_SLOW || change->at_s != lab->change_s) {
            continue;
        }
        for (uint32_t k = 0; k < change->number && change->kind == LAB_JOIN; k++) {
            complete = complete && set_up_replica(lab);
        }
        if (change->kind == LAB_LEAVE) {
            struct lab_replica *replica = &lab->replicas[change->number - 1];
            replica->has_left = true;
            fleet_remove(lab->fleet, replica->backend);
        }
    }
    complete = complete && fleet_publish(lab->fleet);
    ASSERT(complete); // a run cannot go on without its memory
    lab->view = fleet_view(lab->fleet);
    lab_plan_change(lab, nextafter(lab->change_s, INFINITY));
}

// Advances to the next event: the fleet changes, a step ends, a request is due, metrics are read.
static bool lab_advance(struct lab *lab)
{
    const struct due *step = due_queue_first(&lab->steps);
    uint64_t step_us = step != NULL ? step->at_us : never;
    uint64_t due_us = never;

    if (workload_peek(lab->workload, &due_us)) {
        due_us += begin_us;
        due_us = due_us > lab->now_us ? due_us : lab->now_us;
    } else {
        due_us = never;
    }
    uint64_t next_us = step_us < due_us ? step_us : due_us;
    if (next_us == never) {
        return false;
    }
    if (lab->change_us <= next_us && lab->change_us <= lab->scrape_us) {
        lab->now_us = lab->change_us;
        lab_change_fleet(lab);
    } else if (lab->scrape_us <= next_us) {
        lab->now_us = lab->scrape_us;
        lab_scrape(lab);
    } else if (step_us <= due_us) {
        lab->now_us = step_us;
        struct lab_replica *replica = due_queue_pop(&lab->steps).what;
        engine_step_end(replica->engine);
        lab_begin_step(lab, replica);
    } else {
        lab->now_us = due_us;
        lab_send(lab);
    }
    return true;
}

static bool set_up_router(struct lab *lab)
{
    uint32_t count = lab_changes_total(&lab->changes);
    size_t memory = (size_t)count * index_memory_per_backend;

    lab->knowledge = knowledge_create(&(struct knowledge_options){
        .memory = memory > index_memory_min ? memory : index_memory_min,
        .backend_count_max = count,
        .sender_count = 1,
        .ttl_s = 0,
    });
    lab->route = lab->knowledge == NULL
                     ? NULL
                     : route_create(&(struct route_options){
                           .policies = &lab->options->policy,
                           .pool_count = 1,
                           .target_count_max = count,
                           .knobs = lab->options->knobs != NULL ? *lab->options->knobs
                                                                : policy_knobs_default,
                           .block_size = lab->router_block * content_token_size,
                           .block_tokens = lab->router_block,
                           .knowledge = lab->knowledge,
                           .seed = lab->options->seed,
                       });
    return lab->route != NULL;
}

static bool lab_set_up(struct lab *lab)
{
    uint32_t count = lab_changes_total(&lab->changes);

    reclaim_init(&lab->reclaim, 1);
    lab->fleet = fleet_create(&(struct fleet_limits){.backend_count_max = count, .pool_count = 1},
                              &lab->reclaim);
    lab->replicas = calloc(count, sizeof(struct lab_replica));
    bool complete = lab->fleet != NULL && lab->replicas != NULL;
    for (uint32_t i = 0; complete && i < lab->options->backend_count; i++) {
        complete = set_up_replica(lab);
    }
    if (!complete || !fleet_publish(lab->fleet) || !set_up_router(lab)) {
        return false;
    }
    lab->view = fleet_view(lab->fleet);
    lab->now_us = begin_us;
    lab->scrape_us = lab->options->scrape_ms > 0 ? begin_us : never;
    lab_plan_change(lab, 0);
    return true;
}

static void lab_tear_down(struct lab *lab)
{
    for (uint32_t i = 0; i < lab->replica_count; i++) {
        engine_destroy(&lab->replicas[i].engine);
    }
    route_destroy(&lab->route);
    knowledge_destroy(&lab->knowledge);
    fleet_destroy(&lab->fleet);
    workload_destroy(&lab->workload);
    free(lab->replicas);
    due_queue_fini(&lab->steps);
    free(lab->samples);
    affinity_fini(&lab->affinity);
}

// From when on requests count.
static double end_of_warm_up(const struct lab *lab)
{
    uint32_t skipped = (uint32_t)(lab->options->warm_up * (double)lab->sample_count);
    if (skipped == 0 || skipped >= lab->sample_count) {
        return 0;
    }
    double *dues = malloc(lab->sample_count * sizeof(double));
    ASSERT(dues != NULL);
    for (uint32_t i = 0; i < lab->sample_count; i++) {
        dues[i] = lab->samples[i].due_ms;
    }
    qsort(dues, lab->sample_count, sizeof(double), figures_order);
    double from_ms = dues[skipped];
    free(dues);
    return from_ms;
}

// Completions after the last arrival say nothing about capacity: they do not count.
static double completed_per_s(const struct lab *lab, double from_ms)
{
    double last_ms = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < lab->sample_count; i++) {
        last_ms = fmax(last_ms, lab->samples[i].due_ms);
    }
    for (uint32_t i = 0; i < lab->sample_count; i++) {
        double end_ms = lab->samples[i].due_ms + lab->samples[i].last_ms;
        count += end_ms >= from_ms && end_ms <= last_ms;
    }
    return last_ms > from_ms ? count * 1000.0 / (last_ms - from_ms) : 0;
}

static void lab_sum_up(struct lab *lab, struct lab_result *out)
{
    *out = (struct lab_result){.virtual_s = lab_now_s(lab)};
    uint64_t preemptions = 0;

    for (uint32_t i = 0; i < lab->replica_count; i++) {
        struct engine_status status;
        engine_status(lab->replicas[i].engine, &status);
        out->step_count += status.step_count;
        preemptions += status.preemptions;
    }
    double from_ms = end_of_warm_up(lab);
    out->completed_per_s = completed_per_s(lab, from_ms);
    figures_sum(lab->samples, lab->sample_count, from_ms, lab->replica_count, &out->figures);
    for (uint32_t i = 0; i < lab->changes.count; i++) {
        lab_changes_sum(&lab->changes, i, lab->samples, lab->sample_count, &out->changes[i]);
    }
    out->figures.affinity = affinity_rate(&lab->affinity, from_ms);
    out->figures.preemptions = (double)preemptions;
    out->figures.failed_count = lab->failed_count;
}

// Requests still in flight when time is up have failed.
static void lab_abandon(struct lab *lab)
{
    for (uint32_t i = 0; i < lab->replica_count; i++) {
        struct engine_request *request;
        while ((request = engine_any(lab->replicas[i].engine)) != NULL) {
            struct lab_flight *flight = CONTAINER_OF(request, struct lab_flight, request);
            engine_cancel(lab->replicas[i].engine, request);
            feedback_end(&flight->feedback, flight->router_keys);
            backend_end(flight->feedback.backend, flight->on_trial);
            free(flight);
            lab->failed_count++;
            lab->flying_count--;
        }
    }
    ASSERT(lab->flying_count == 0);
}

bool lab_run(const struct lab_options *options, struct lab_result *out, char error[lab_error_size])
{
    struct lab *lab = calloc(1, sizeof(*lab));
    ASSERT(lab != NULL);
    lab->options = options;
    lab->router_block =
        options->router_block_tokens > 0 ? options->router_block_tokens : default_router_block;
    lab->changes = (struct lab_changes){.items = options->changes,
                                        .count = options->change_count,
                                        .backend_count = options->backend_count};
    bool runs = lab_changes_check(&lab->changes, error);
    lab->workload = runs ? workload_create(&options->workload, error) : NULL;
    runs = lab->workload != NULL;
    if (runs && !lab_set_up(lab)) {
        snprintf(error, lab_error_size, "no memory for %u engines", options->backend_count);
        runs = false;
    }
    uint64_t end_us = options->limit_s > 0 ? begin_us + (uint64_t)(options->limit_s * 1e6) : never;
    while (runs && lab->now_us < end_us && lab_advance(lab)) {
    }
    if (runs) {
        lab_abandon(lab);
        lab_sum_up(lab, out);
    }
    lab_tear_down(lab);
    free(lab);
    return runs;
}
