// SPDX-License-Identifier: Apache-2.0

#include "sim/lab.h"

#include "base/base.h"
#include "base/hash.h"
#include "base/reclaim.h"
#include "fleet/fleet.h"
#include "knowledge/feedback.h"
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
    // Some places of the router take 0 for "never": the run starts at one second.
    begin_us = 1000000,
};

static const uint64_t never = UINT64_MAX;

struct lab;

// A simulated engine and its place in the fleets: the slot of its number.
struct lab_place {
    struct lab *lab;
    struct engine *engine;
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
    uint32_t place;
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
    struct lab_cluster cluster;
    struct prefix_chain chain; // says only that there is one
    struct workload *workload;
    struct lab_place *places; // by number
    uint32_t place_count;
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

static void lab_begin_step(struct lab *lab, struct lab_place *place)
{
    double ms = engine_step(place->engine) *
                lab_changes_slowness(&lab->changes, place->number + 1, lab_now_s(lab));

    place->is_stepping = ms > 0;
    if (place->is_stepping) {
        due_queue_push(&lab->steps,
                       (struct due){.at_us = lab->now_us + (uint64_t)llround(ms * 1000),
                                    .order = place->number,
                                    .what = place});
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
        .backend = flight->place,
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
    struct lab_place *place = owner;
    struct lab *lab = place->lab;
    struct lab_flight *flight = CONTAINER_OF(request, struct lab_flight, request);

    if (flight->first_us == 0) {
        flight->first_us = lab->now_us;
        feedback_confirm(&flight->feedback, flight->router_keys, lab->now_us);
    }
    load_output(&flight->feedback.backend->load, &flight->feedback.load, 1, lab->now_us);
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
    struct lab_router *router = lab_cluster_pick(&lab->cluster, item);
    struct route_tried tried = {0};
    struct route_choice choice = {.decision = &flight->decision};
    enum route_verdict verdict =
        route_choose(router->route, router->view, &request, &tried, lab->now_us, &choice);

    ASSERT(verdict == ROUTE_CHOSEN);
    flight->place = choice.backend->slot;
    flight->on_trial = choice.on_trial;
    feedback_begin(&flight->feedback,
                   &(struct feedback_input){.knowledge = router->knowledge,
                                            .backend = choice.backend,
                                            .decision = &flight->decision,
                                            .session_key = request.session_key,
                                            .keys = request.keys,
                                            .key_count = request.key_count,
                                            .block_tokens = request.block_tokens,
                                            .is_named = true},
                   lab->now_us);
    affinity_note(&lab->affinity, item->pieces[0].id, (double)item->due_us / 1000, flight->place);
}

static void lab_send(struct lab *lab)
{
    struct work_item item;
    workload_take(lab->workload, &item);

    if (!engine_fits(lab->places[0].engine, item.prompt_tokens, item.output_tokens)) {
        lab->failed_count++;
        workload_done(lab->workload, &item, lab->now_us - begin_us);
        return;
    }
    struct lab_flight *flight = lab_make_flight(lab, &item);
    lab_choose(lab, flight);
    lab->flying_count++;
    struct lab_place *place = &lab->places[flight->place];
    engine_submit(place->engine, &flight->request);
    if (!place->is_stepping) {
        lab_begin_step(lab, place);
    }
}

static void lab_scrape_place(struct lab *lab, const struct lab_place *place)
{
    struct engine_status status;

    engine_status(place->engine, &status);
    for (uint32_t i = 0; i < lab->cluster.router_count; i++) {
        load_report(&lab->cluster.routers[i].backends[place->number]->load,
                    &(struct load_report){
                        .running = (float)status.running,
                        .waiting = (float)status.waiting,
                        .kv_usage = (float)status.used_tokens / (float)status.kv_tokens,
                        .cache_tokens = (double)status.kv_tokens,
                        .block_tokens = lab->options->profile->block_tokens,
                    },
                    lab->now_us / 1000);
    }
}

static void lab_scrape(struct lab *lab)
{
    for (uint32_t i = 0; i < lab->place_count; i++) {
        if (!lab->places[i].has_left) {
            lab_scrape_place(lab, &lab->places[i]);
        }
    }
    lab->scrape_us += (uint64_t)lab->options->scrape_ms * 1000;
}

static bool lab_set_up_place(struct lab *lab)
{
    uint32_t number = lab->place_count;
    struct lab_place *place = &lab->places[number];

    *place = (struct lab_place){.lab = lab, .number = number};
    place->engine = engine_create(
        lab->options->profile, &(struct engine_observer){.owner = place, .token = lab_got_token});
    lab->place_count++;
    return place->engine != NULL && lab_cluster_join(&lab->cluster);
}

static void lab_plan_change(struct lab *lab, double at_s)
{
    lab->change_s = lab_changes_next(&lab->changes, at_s);
    lab->change_us =
        lab->change_s < INFINITY ? begin_us + (uint64_t)llround(lab->change_s * 1e6) : never;
}

// Backends join and leave.  The fleets reclaim nothing, so a slot is not used again.
static void lab_change_fleet(struct lab *lab)
{
    bool complete = true;

    for (uint32_t i = 0; i < lab->changes.count; i++) {
        const struct lab_change *change = &lab->changes.items[i];
        if (change->kind == LAB_SLOW || change->at_s != lab->change_s) {
            continue;
        }
        for (uint32_t k = 0; k < change->number && change->kind == LAB_JOIN; k++) {
            complete = complete && lab_set_up_place(lab);
        }
        if (change->kind == LAB_LEAVE) {
            struct lab_place *place = &lab->places[change->number - 1];
            place->has_left = true;
            lab_cluster_leave(&lab->cluster, place->number);
        }
    }
    complete = complete && lab_cluster_publish(&lab->cluster);
    ASSERT(complete); // a run cannot go on without its memory
    lab_plan_change(lab, nextafter(lab->change_s, INFINITY));
}

// Advances to the next event: the fleet changes, metrics are read, a router shares, a step ends, a
// request is due.
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
    if (lab->change_us <= next_us && lab->change_us <= lab->scrape_us &&
        lab->change_us <= lab->cluster.next_us) {
        lab->now_us = lab->change_us;
        lab_change_fleet(lab);
    } else if (lab->scrape_us <= next_us && lab->scrape_us <= lab->cluster.next_us) {
        lab->now_us = lab->scrape_us;
        lab_scrape(lab);
    } else if (lab->cluster.next_us <= next_us) {
        lab->now_us = lab->cluster.next_us;
    } else if (step_us <= due_us) {
        lab->now_us = step_us;
        struct lab_place *place = due_queue_pop(&lab->steps).what;
        engine_step_end(place->engine);
        lab_begin_step(lab, place);
    } else {
        lab->now_us = due_us;
        lab_send(lab);
    }
    lab_cluster_follow(&lab->cluster, lab->now_us);
    return true;
}

static bool lab_set_up(struct lab *lab)
{
    uint32_t count = lab_changes_total(&lab->changes);

    reclaim_init(&lab->reclaim, 1);
    lab->now_us = begin_us;
    lab->places = calloc(count, sizeof(struct lab_place));
    bool complete = lab_cluster_open(&lab->cluster, &lab->options->sharing,
                                     &(struct lab_router_options){
                                         .policy = lab->options->policy,
                                         .knobs = lab->options->knobs,
                                         .backend_max = count,
                                         .block_tokens = lab->router_block,
                                         .seed = lab->options->seed,
                                         .reclaim = &lab->reclaim,
                                     },
                                     begin_us) &&
                    lab->places != NULL;
    for (uint32_t i = 0; complete && i < lab->options->backend_count; i++) {
        complete = lab_set_up_place(lab);
    }
    if (!complete || !lab_cluster_publish(&lab->cluster)) {
        return false;
    }
    lab->scrape_us = lab->options->scrape_ms > 0 ? begin_us : never;
    lab_plan_change(lab, 0);
    return true;
}

static void lab_tear_down(struct lab *lab)
{
    for (uint32_t i = 0; i < lab->place_count; i++) {
        engine_destroy(&lab->places[i].engine);
    }
    lab_cluster_close(&lab->cluster);
    workload_destroy(&lab->workload);
    free(lab->places);
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

    for (uint32_t i = 0; i < lab->place_count; i++) {
        struct engine_status status;
        engine_status(lab->places[i].engine, &status);
        out->step_count += status.step_count;
        preemptions += status.preemptions;
    }
    double from_ms = end_of_warm_up(lab);
    out->completed_per_s = completed_per_s(lab, from_ms);
    figures_sum(lab->samples, lab->sample_count, from_ms, lab->place_count, &out->figures);
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
    for (uint32_t i = 0; i < lab->place_count; i++) {
        struct engine_request *request;
        while ((request = engine_any(lab->places[i].engine)) != NULL) {
            struct lab_flight *flight = CONTAINER_OF(request, struct lab_flight, request);
            engine_cancel(lab->places[i].engine, request);
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
