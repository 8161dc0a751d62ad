// SPDX-License-Identifier: Apache-2.0
//
// The paths of a simulated engine: those of vLLM that routers and clients use, and /sim for those
// who experiment.

#include "base/base.h"
#include "base/hash.h"
#include "base/text.h"
#include "engine/engine_site_internal.h"
#include "sys/clock.h"

#include <stdio.h>

static const char json_type[] = "application/json";

static void api_refuse(struct engine_api_answer *out, uint32_t status, const char *message)
{
    out->status = status;
    out->type = json_type;
    out->body->size = 0;
    engine_answer_error(status, message, out->body);
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

static void answer_generation(struct engine_site *site, const struct engine_api_request *request,
                              struct engine_api_answer *out)
{
    const struct engine_faults *faults = &site->faults;
    struct engine_refusal refusal;
    uint32_t rank = 0;

    if (faults->error_rate > 0 && api_draw(site) < faults->error_rate) {
        api_refuse(out, faults->error_status, "a simulated failure, as ordered");
        return;
    }
    if (!choose_rank(site, request->rank, &rank)) {
        char message[128];
        snprintf(message, sizeof(message), "data_parallel_rank %u is out of range [0, %u)", rank,
                 site->rank_count);
        api_refuse(out, 400, message);
        return;
    }
    struct engine_job *job =
        engine_job_read(&site->rules, engine_node_engine(site->ranks[rank].node),
                        site->group->reader, prompt_api_of(request->path), request->body, &refusal);
    if (job == NULL) {
        api_refuse(out, refusal.status, refusal.message);
        return;
    }
    job->rank = rank;
    // The number of this response to the prompt, so that ids differ.
    job->answer.number = hash_pair(job->answer.text_id, ++site->request_count);
    job->answer.created_s = wall_s();
    if (faults->stall_ms > 0 && api_draw(site) < faults->stall_rate) {
        job->stall_token = job->is_streamed ? rng_below(&site->rng, job->request.output_tokens) : 0;
    }
    out->job = job;
}

static void answer_models(struct engine_site *site,
                          [[maybe_unused]] const struct engine_api_request *request,
                          struct engine_api_answer *out)
{
    out->type = json_type;
    engine_answer_models(site->rules.models, site->rules.model_count,
                         site->rules.profile->context_max, wall_s(), out->body);
}

static void answer_nothing([[maybe_unused]] struct engine_site *site,
                           [[maybe_unused]] const struct engine_api_request *request,
                           [[maybe_unused]] struct engine_api_answer *out)
{
}

static void answer_version([[maybe_unused]] struct engine_site *site,
                           [[maybe_unused]] const struct engine_api_request *request,
                           struct engine_api_answer *out)
{
    out->type = json_type;
    text_add_str(out->body, "{\"version\":\"" WARMPATH_VERSION "+simulated\"}");
}

static void answer_metrics(struct engine_site *site,
                           [[maybe_unused]] const struct engine_api_request *request,
                           struct engine_api_answer *out)
{
    struct engine_metrics_rank ranks[engine_rank_max];

    out->type = "text/plain; version=0.0.4; charset=utf-8";
    for (uint32_t i = 0; i < site->rank_count; i++) {
        engine_node_measure(site->ranks[i].node, &ranks[i]);
    }
    engine_metrics_page_write(&(struct engine_metrics_page){.model = site->rules.models[0].name,
                                                            .profile = site->rules.profile,
                                                            .ranks = ranks,
                                                            .rank_count = site->rank_count},
                              out->body);
}

static void flush_cache(struct engine_site *site,
                        [[maybe_unused]] const struct engine_api_request *request,
                        [[maybe_unused]] struct engine_api_answer *out)
{
    for (uint32_t i = 0; i < site->rank_count; i++) {
        engine_node_flush(site->ranks[i].node);
    }
}

static void answer_faults(struct engine_site *site,
                          [[maybe_unused]] const struct engine_api_request *request,
                          struct engine_api_answer *out)
{
    out->type = json_type;
    engine_faults_write(&site->faults, out->body);
}

static void set_faults(struct engine_site *site, const struct engine_api_request *request,
                       struct engine_api_answer *out)
{
    char error[engine_faults_error_size];
    if (engine_site_order(site, request->body, error) != STATUS_OK) {
        api_refuse(out, 400, error);
        return;
    }
    answer_faults(site, request, out);
}

static void clear_faults(struct engine_site *site, const struct engine_api_request *request,
                         struct engine_api_answer *out)
{
    engine_site_heal(site);
    answer_faults(site, request, out);
}

// Every thread applies it at the end of its turn, ours as well; the response shows the new state.
static void set_faults_of_all(struct engine_site *site, const struct engine_api_request *request,
                              struct engine_api_answer *out)
{
    struct engine_faults faults = site->faults;
    struct engine_mishap mishap;
    char error[engine_faults_error_size];

    if (engine_faults_read(request->body, &faults, &mishap, error) != STATUS_OK) {
        api_refuse(out, 400, error);
        return;
    }
    site->group->tell_all(site->group->owner, request->body, false);
    out->type = json_type;
    engine_faults_write(&faults, out->body);
}

static void clear_faults_of_all(struct engine_site *site,
                                [[maybe_unused]] const struct engine_api_request *request,
                                struct engine_api_answer *out)
{
    site->group->tell_all(site->group->owner, slice_of(NULL, 0), true);
    out->type = json_type;
    engine_faults_write(&engine_faults_none, out->body);
}

static const struct route_row {
    const char *method;
    const char *path;
    void (*answer)(struct engine_site *site, const struct engine_api_request *request,
                   struct engine_api_answer *out);
} rows[] = {
    {"POST", "/v1/chat/completions", answer_generation},
    {"POST", "/v1/completions", answer_generation},
    {"GET", "/v1/models", answer_models},
    {"GET", "/health", answer_nothing},
    {"GET", "/metrics", answer_metrics},
    {"GET", "/version", answer_version},
    {"POST", "/reset_prefix_cache", flush_cache},
    {"GET", "/sim/faults", answer_faults},
    {"POST", "/sim/faults", set_faults},
    {"DELETE", "/sim/faults", clear_faults},
    {"POST", "/sim/faults/all", set_faults_of_all},
    {"DELETE", "/sim/faults/all", clear_faults_of_all},
};

void engine_api_answer(struct engine_site *site, const struct engine_api_request *request,
                       struct engine_api_answer *out)
{
    bool is_known = false;

    out->status = 200;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (!slice_is(request->path, rows[i].path)) {
            continue;
        }
        is_known = true;
        if (slice_is(request->method, rows[i].method)) {
            rows[i].answer(site, request, out);
            return;
        }
    }
    api_refuse(out, is_known ? 405 : 404,
               is_known ? "this path does not know the method" : "there is nothing at this path");
}
