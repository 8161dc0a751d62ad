// SPDX-License-Identifier: Apache-2.0
//
// The paths of a simulated engine: those of vLLM that routers and clients use, and /sim for
// experiments.

#include "base/base.h"
#include "base/hash.h"
#include "base/text.h"
#include "engine/engine_site_internal.h"
#include "sys/clock.h"

#include <stdio.h>

static const char json_type[] = "application/json";

static void api_refuse(struct engine_api_call *call, uint32_t status, const char *message)
{
    call->status = status;
    call->type = json_type;
    call->body->size = 0;
    engine_response_error(status, message, call->body);
}

static uint64_t wall_s(void)
{
    return clock_wall_ms() / 1000;
}

static double api_draw(struct engine_site *site)
{
    return (double)(rng_next(&site->rng) >> 11) * 0x1p-53;
}

// As vLLM: the rank with the fewest requests; the first candidate rotates.
static uint32_t least_busy(struct engine_site *site)
{
    uint32_t first = site->next_rank++ % site->rank_count;
    uint32_t best = first;
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < site->rank_count; i++) {
        uint32_t rank = (first + i) % site->rank_count;
        struct engine_status status;
        engine_status(engine_node_engine(site->ranks[rank].node), &status);
        if (status.running + status.waiting < least) {
            least = status.running + status.waiting;
            best = rank;
        }
    }
    return best;
}

// False: it names an unknown rank.  A value that is not a number names none.
static bool choose_rank(struct engine_site *site, struct slice named, uint32_t *out)
{
    uint64_t rank = 0;

    for (size_t i = 0; i < named.size; i++) {
        if (named.bytes[i] < '0' || named.bytes[i] > '9' || i == 9) {
            named.size = 0;
            break;
        }
        rank = rank * 10 + (named.bytes[i] - (uint64_t)'0');
    }
    if (named.size == 0) {
        rank = least_busy(site);
    }
    *out = (uint32_t)rank;
    return rank < site->rank_count;
}

static void api_generate(struct engine_api_call *call)
{
    struct engine_site *site = call->site;
    const struct engine_faults *faults = &site->faults;
    struct engine_refusal refusal;
    uint32_t rank = 0;

    if (faults->error_rate > 0 && api_draw(site) < faults->error_rate) {
        api_refuse(call, faults->error_status, "a simulated failure, as ordered");
        return;
    }
    if (!choose_rank(site, call->rank, &rank)) {
        char message[128];
        snprintf(message, sizeof(message), "data_parallel_rank %u is out of range [0, %u)", rank,
                 site->rank_count);
        api_refuse(call, 400, message);
        return;
    }
    struct engine_job *job =
        engine_job_read(&site->rules, engine_node_engine(site->ranks[rank].node),
                        site->group->reader, prompt_api_of(call->path), call->request, &refusal);
    if (job == NULL) {
        api_refuse(call, refusal.status, refusal.message);
        return;
    }
    job->rank = rank;
    // The number of this response to the prompt, so that ids differ.
    job->response.number = hash_pair(job->response.text_id, ++site->request_count);
    job->response.created_s = wall_s();
    if (faults->stall_ms > 0 && api_draw(site) < faults->stall_rate) {
        job->stall_token = job->is_streamed ? rng_below(&site->rng, job->request.output_tokens) : 0;
    }
    call->job = job;
}

static void api_models(struct engine_api_call *call)
{
    const struct engine_job_rules *rules = &call->site->rules;
    call->type = json_type;
    engine_response_models(rules->models, rules->model_count, rules->profile->context_max, wall_s(),
                           call->body);
}

static void api_health(struct engine_api_call *call)
{
    ASSERT(call->status == 200);
}

static void api_version(struct engine_api_call *call)
{
    call->type = json_type;
    text_add_str(call->body, "{\"version\":\"" WARMPATH_VERSION "+simulated\"}");
}

static void api_metrics(struct engine_api_call *call)
{
    const struct engine_site *site = call->site;
    struct engine_metrics_rank ranks[engine_server_rank_max];

    call->type = "text/plain; version=0.0.4; charset=utf-8";
    for (uint32_t i = 0; i < site->rank_count; i++) {
        engine_node_measure(site->ranks[i].node, &ranks[i]);
    }
    engine_metrics_page_write(&(struct engine_metrics_page){.model = site->rules.models[0].name,
                                                            .profile = site->rules.profile,
                                                            .ranks = ranks,
                                                            .rank_count = site->rank_count},
                              call->body);
}

static void api_flush_cache(struct engine_api_call *call)
{
    for (uint32_t i = 0; i < call->site->rank_count; i++) {
        engine_node_flush(call->site->ranks[i].node);
    }
}

static void api_write_faults(struct engine_api_call *call, const struct engine_faults *faults)
{
    call->type = json_type;
    engine_faults_write(faults, call->body);
}

static void api_faults(struct engine_api_call *call)
{
    api_write_faults(call, &call->site->faults);
}

static void api_set_faults(struct engine_api_call *call)
{
    char error[engine_faults_error_size];
    if (engine_site_order(call->site, call->request, error) != STATUS_OK) {
        api_refuse(call, 400, error);
        return;
    }
    api_faults(call);
}

static void api_clear_faults(struct engine_api_call *call)
{
    engine_site_clear_faults(call->site);
    api_faults(call);
}

// Every thread applies it at the end of its turn, ours as well; the response shows the new state.
static void api_set_all_faults(struct engine_api_call *call)
{
    struct engine_group *group = call->site->group;
    struct engine_faults faults = call->site->faults;
    struct engine_mishap mishap;
    char error[engine_faults_error_size];

    if (engine_faults_read(call->request, &faults, &mishap, error) != STATUS_OK) {
        api_refuse(call, 400, error);
        return;
    }
    group->tell_all(group->owner, call->request, false);
    api_write_faults(call, &faults);
}

static void api_clear_all_faults(struct engine_api_call *call)
{
    struct engine_group *group = call->site->group;
    group->tell_all(group->owner, slice_of(NULL, 0), true);
    api_write_faults(call, &engine_faults_none);
}

static const struct api_row {
    const char *method;
    const char *path;
    void (*respond)(struct engine_api_call *call);
} rows[] = {
    {"POST", "/v1/chat/completions", api_generate},
    {"POST", "/v1/completions", api_generate},
    {"GET", "/v1/models", api_models},
    {"GET", "/health", api_health},
    {"GET", "/metrics", api_metrics},
    {"GET", "/version", api_version},
    {"POST", "/reset_prefix_cache", api_flush_cache},
    {"GET", "/sim/faults", api_faults},
    {"POST", "/sim/faults", api_set_faults},
    {"DELETE", "/sim/faults", api_clear_faults},
    {"POST", "/sim/faults/all", api_set_all_faults},
    {"DELETE", "/sim/faults/all", api_clear_all_faults},
};

void engine_api_respond(struct engine_api_call *call)
{
    bool is_known = false;

    call->status = 200;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (!slice_is(call->path, rows[i].path)) {
            continue;
        }
        is_known = true;
        if (slice_is(call->method, rows[i].method)) {
            rows[i].respond(call);
            return;
        }
    }
    api_refuse(call, is_known ? 405 : 404,
               is_known ? "this path does not know the method" : "there is nothing at this path");
}
