// SPDX-License-Identifier: Apache-2.0

#include "drive/probe_engine.h"

#include "base/base.h"
#include "base/text.h"
#include "drive/drive_client.h"
#include "drive/drive_endpoint.h"
#include "drive/drive_result.h"
#include "feed/engine_metrics.h"
#include "net/tls.h"
#include "sys/clock.h"
#include "sys/loop.h"
#include "sys/signals.h"

#include <math.h>
#include <stdlib.h>

enum {
    batch_max = 128,
    rounds_max = 9,
    output_tokens = 20, // of a stream that is timed while it runs
    tail_tokens = 16,   // of such a stream, that are its own
    gap_count_min = 4,
    token_max = 128, // of a stream, that are timed
    key_size_max = 4096,
    head_size_max = key_size_max + 2048,
    wait_ms_max = 50,
};

// A point to measure: a prompt of `fresh` tokens behind `cached`, or `batch` streams of `cached`
// tokens.
struct point {
    bool is_decode;
    bool is_refused; // the engine does not take it
    uint32_t cached;
    uint32_t fresh;
    uint32_t batch;
    uint32_t sample_count;
    struct calibration_row samples[rounds_max];
};

// The longest stays below a step of 8192 tokens: a word of ours may be more than one token.
static const uint32_t fresh_lengths[] = {16, 64, 256, 1024, 4096, 7680};
static const uint32_t cached_lengths[] = {1024, 4096, 16384};
static const uint32_t behind_lengths[] = {16, 256, 1024, 4096};
static const uint32_t contexts[] = {512, 2048, 8192};
static const uint32_t batches[] = {1, 4, 16, 64, batch_max};

enum {
    point_max = ARRAY_COUNT(fresh_lengths) +
                ARRAY_COUNT(cached_lengths) * ARRAY_COUNT(behind_lengths) +
                ARRAY_COUNT(contexts) * ARRAY_COUNT(batches),
};

// A request with a prompt in two pieces, and its result.
struct probe_request {
    struct drive_request request;
    struct piece pieces[2];
    enum drive_error error;
    uint16_t status; // 0: no response
    struct response_usage usage;
    uint32_t token_count;
    uint64_t token_us[token_max];
};

struct probe {
    const struct probe_engine_options *options;
    struct loop *loop;
    struct signals *signals;
    struct tls_context *tls;
    struct drive_endpoint endpoint;
    struct drive_shape shape;
    struct drive_client *client;
    char authorization[key_size_max + 16]; // empty: none
    char head[head_size_max];
    uint64_t end_us;
    bool is_stopped;
    uint64_t next_id; // of text that was never sent before
    double words_per_token;
    double overhead_us; // of a response without computation
    uint64_t kv_tokens;
    uint32_t block_tokens;
    struct point points[point_max];
    uint32_t point_count;
    struct probe_request requests[batch_max];
    char *error;
};

static bool probe_fail(struct probe *probe, const char *what)
{
    snprintf(probe->error, probe_engine_error_size, "%s", what);
    return false;
}

static uint64_t probe_now_us(void)
{
    return clock_monotonic_ns() / 1000;
}

static bool is_time_over(const struct probe *probe)
{
    return probe->is_stopped || probe_now_us() >= probe->end_us;
}

// ---- requests

struct probe_prompt {
    uint64_t shared_id; // of its prefix
    uint32_t shared;    // tokens
    uint32_t own;       // tokens that were never sent before
    uint32_t output_tokens;
};

static uint32_t words_of(const struct probe *probe, uint32_t tokens)
{
    double words = floor(tokens * probe->words_per_token);
    return words >= 1 || tokens == 0 ? (uint32_t)words : 1;
}

static void probe_request_done(void *owner, struct drive_request *request,
                               const struct drive_response *response)
{
    struct probe_request *done = CONTAINER_OF(request, struct probe_request, request);
    (void)owner;
    done->error = response->error;
    done->status = response->status;
    done->usage = response->usage;
    done->token_count = response->token_events;
}

static void probe_send(struct probe *probe, const struct probe_prompt *prompt,
                       struct probe_request *request)
{
    request->pieces[0] = (struct piece){prompt->shared_id, words_of(probe, prompt->shared)};
    request->pieces[1] = (struct piece){probe->next_id++, words_of(probe, prompt->own)};
    request->request = (struct drive_request){
        .item = {.output_tokens = prompt->output_tokens,
                 .piece_count = ARRAY_COUNT(request->pieces),
                 .pieces = request->pieces},
        .token_us = request->token_us,
        .token_max = token_max,
    };
    drive_client_send(probe->client, &request->request);
}

// Sends `count` such requests at once, requests[0 .. count).  Whether all succeeded.
static bool probe_ask(struct probe *probe, const struct probe_prompt *prompt, uint32_t count)
{
    bool is_good = true;

    probe->requests[0].status = 0;
    for (uint32_t i = 0; i < count && !is_time_over(probe); i++) {
        probe_send(probe, prompt, &probe->requests[i]);
    }
    while (!is_time_over(probe) && drive_client_counts(probe->client).in_flight > 0) {
        loop_turn(probe->loop, wait_ms_max);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct probe_request *request = &probe->requests[i];
        is_good = is_good && request->error == DRIVE_FINE && request->token_count > 0 &&
                  request->usage.prompt_tokens > 0;
    }
    // Requests that are still in flight end with the client.
    return is_good && !is_time_over(probe);
}

// ---- measuring

static void probe_keep(struct point *point, double first, double second, double ms)
{
    if (ms > 0 && first >= 0 && second >= 1) {
        point->samples[point->sample_count++] = (struct calibration_row){first, second, ms};
    }
}

// Sends the prefix of a prompt, so that it is cached.  Returns the cached tokens, 0 on failure.
static uint64_t warm(struct probe *probe, uint64_t id, uint32_t tokens)
{
    struct probe_prompt prompt = {.shared_id = id, .shared = tokens, .output_tokens = 1};
    if (!probe_ask(probe, &prompt, 1)) {
        return 0;
    }
    uint64_t told = probe->requests[0].usage.prompt_tokens;
    return told / probe->block_tokens * probe->block_tokens;
}

static void measure_prefill(struct probe *probe, struct point *point, uint64_t id, uint64_t cached)
{
    struct probe_prompt prompt = {
        .shared_id = id, .shared = point->cached, .own = point->fresh, .output_tokens = 1};
    const struct probe_request *request = &probe->requests[0];
    if (!probe_ask(probe, &prompt, 1)) {
        point->is_refused = request->status >= 400 && request->status < 500;
        return;
    }
    const struct response_usage *usage = &request->usage;
    cached = usage->has_cached_tokens ? usage->cached_tokens : cached;
    double took_us = (double)(request->token_us[0] - request->request.written_us);
    probe_keep(point, (double)cached, (double)usage->prompt_tokens - (double)cached,
               (took_us - probe->overhead_us) / 1e3);
}

struct probe_window {
    uint64_t from_us; // all have their first token
    uint64_t to_us;   // none has had its last
};

static uint32_t timed(const struct probe_request *request)
{
    return request->token_count < token_max ? request->token_count : token_max;
}

static struct probe_window window_of(const struct probe *probe, uint32_t batch)
{
    struct probe_window window = {.to_us = UINT64_MAX};
    for (uint32_t i = 0; i < batch; i++) {
        const struct probe_request *request = &probe->requests[i];
        uint64_t first = request->token_us[0];
        uint64_t last = request->token_us[timed(request) - 1];
        window.from_us = first > window.from_us ? first : window.from_us;
        window.to_us = last < window.to_us ? last : window.to_us;
    }
    return window;
}

// The gaps between tokens while all streams ran, and how many tokens a stream had by the middle of
// them.
static uint32_t gaps_of(const struct probe *probe, uint32_t batch, double *gaps, double *made)
{
    struct probe_window window = window_of(probe, batch);
    uint32_t count = 0;
    double tokens = 0;
    for (uint32_t i = 0; i < batch; i++) {
        const struct probe_request *request = &probe->requests[i];
        // Some engines put several tokens into an event.
        double each = (double)request->usage.completion_tokens / request->token_count;
        each = each > 1.5 ? each : 1;
        for (uint32_t k = 1; k < timed(request); k++) {
            if (request->token_us[k - 1] >= window.from_us &&
                request->token_us[k] <= window.to_us) {
                gaps[count++] = (double)(request->token_us[k] - request->token_us[k - 1]) / each;
                tokens += k * each;
            }
        }
    }
    *made = count > 0 ? tokens / count : 0;
    return count;
}

static void measure_decode(struct probe *probe, struct point *point, uint64_t id)
{
    static double gaps[batch_max * token_max];
    struct probe_prompt prompt = {.shared_id = id,
                                  .shared = point->cached - tail_tokens,
                                  .own = tail_tokens,
                                  .output_tokens = output_tokens};
    double made = 0;
    if (!probe_ask(probe, &prompt, point->batch)) {
        uint16_t status = probe->requests[0].status;
        point->is_refused = status >= 400 && status < 500;
        return;
    }
    uint32_t count = gaps_of(probe, point->batch, gaps, &made);
    if (count >= gap_count_min) {
        double context = floor((double)probe->requests[0].usage.prompt_tokens + made);
        probe_keep(point, point->batch, context, figures_median(gaps, count) / 1e3);
    }
}

// ---- the plan

static void plan(struct probe *probe, bool is_decode, uint32_t cached, uint32_t other)
{
    const struct probe_engine_options *options = probe->options;
    uint64_t sequences = is_decode ? other : 1;
    uint64_t fresh = is_decode ? tail_tokens + output_tokens : other;
    uint64_t step_tokens = options->step_tokens;
    bool fits = cached + fresh + 1 <= options->context_max &&
                cached + sequences * fresh <= probe->kv_tokens / 2 &&
                sequences <= options->sequences_max &&
                sequences * (is_decode ? tail_tokens : fresh) <= step_tokens / 16 * 15;
    if (fits) {
        probe->points[probe->point_count++] = (struct point){.is_decode = is_decode,
                                                             .cached = cached,
                                                             .fresh = is_decode ? 0 : other,
                                                             .batch = is_decode ? other : 0};
    }
}

static void plan_all(struct probe *probe)
{
    for (size_t i = 0; i < ARRAY_COUNT(fresh_lengths); i++) {
        plan(probe, false, 0, fresh_lengths[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(cached_lengths); i++) {
        for (size_t k = 0; k < ARRAY_COUNT(behind_lengths); k++) {
            plan(probe, false, cached_lengths[i], behind_lengths[k]);
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(contexts); i++) {
        for (size_t k = 0; k < ARRAY_COUNT(batches); k++) {
            plan(probe, true, contexts[i], batches[k]);
        }
    }
}

// Each point once.
static void run_round(struct probe *probe)
{
    uint64_t id = 0;
    uint32_t warmed = 0;      // tokens of the prefix with that id
    uint64_t warmed_told = 0; // as many as are cached
    // The first one after a large batch has to wait until the engine has cleared up behind that.
    (void)warm(probe, probe->next_id++, fresh_lengths[0]);
    for (uint32_t i = 0; i < probe->point_count && !is_time_over(probe); i++) {
        struct point *point = &probe->points[i];
        if (point->is_refused) {
            continue;
        }
        uint32_t shared = point->is_decode ? point->cached - tail_tokens : point->cached;
        if (shared > 0 && shared != warmed) {
            id = probe->next_id++;
            warmed = shared;
            warmed_told = warm(probe, id, shared);
        }
        if (point->is_decode) {
            measure_decode(probe, point, id);
        } else {
            measure_prefill(probe, point, id, shared > 0 ? warmed_told : 0);
        }
    }
}

static uint32_t measured(const struct probe *probe, uint32_t sample_count_min)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < probe->point_count; i++) {
        count += probe->points[i].sample_count >= sample_count_min;
    }
    return count;
}

static void run_rounds(struct probe *probe)
{
    for (uint32_t round = 1; round <= rounds_max && !is_time_over(probe); round++) {
        run_round(probe);
        if (probe->options->progress != NULL) {
            fprintf(probe->options->progress, "round %u: %u of %u points measured\n", round,
                    measured(probe, round), probe->point_count);
        }
    }
}

// ---- what must be known first

static void probe_on_signal(void *owner, enum signal_kind kind)
{
    struct probe *probe = owner;
    (void)kind;
    probe->is_stopped = true;
}

static bool find_engine(struct probe *probe)
{
    const struct probe_engine_options *options = probe->options;
    struct drive_endpoint *endpoint = &probe->endpoint;
    struct text head = text_over(probe->head, sizeof(probe->head) - 1);
    const char *why = drive_endpoint_parse(options->url, endpoint);
    char tls_error[tls_error_size];

    if (why != NULL) {
        return probe_fail(probe, why);
    }
    if (endpoint->tls && tls_client_create(&(struct tls_client_options){.verify = true},
                                           &probe->tls, tls_error) != STATUS_OK) {
        return probe_fail(probe, tls_error);
    }
    if (options->key != NULL) {
        snprintf(probe->authorization, sizeof(probe->authorization), "Bearer %s", options->key);
    }
    probe->shape = (struct drive_shape){.api = DRIVE_COMPLETIONS,
                                        .model = options->model,
                                        .stream = true,
                                        .ignore_eos = true,
                                        .is_greedy = true};
    drive_endpoint_add_head(endpoint, DRIVE_COMPLETIONS, probe->authorization, &head);
    ASSERT(!head.overflow);
    if (!drive_endpoint_resolve(endpoint, probe->loop, probe->error)) {
        return false;
    }
    probe->client = drive_client_create(&(struct drive_client_options){
        .loop = probe->loop,
        .addresses = endpoint->addresses,
        .address_count = 1,
        .host = endpoint->host,
        .tls = probe->tls,
        .head = probe->head,
        .shape = &probe->shape,
        .connections_max = batch_max,
        .timeout_ms = (uint32_t)(options->seconds * 1000),
        .done = probe_request_done,
    });
    return probe->client != NULL || probe_fail(probe, "memory is short");
}

struct probe_page {
    struct load_report *report; // NULL: the page is not read
    uint16_t status;
    uint64_t took_us;
    char why[64]; // if status is 0
};

static void probe_page_came(void *owner, const struct fetch_result *result)
{
    struct probe_page *page = owner;
    page->status = result->status;
    page->took_us = result->took_us;
    if (result->status == 0) {
        snprintf(page->why, sizeof(page->why), "%s", result->why);
    }
    if (page->report != NULL) {
        engine_metrics_read(result->status == 200 ? result->body : (struct slice){0},
                            exposition_all_ranks, page->report);
    }
}

static bool probe_get(struct probe *probe, const char *path, struct probe_page *page)
{
    struct fetch_options options = {.loop = probe->loop,
                                    .tls = probe->tls,
                                    .path = path,
                                    .done = probe_page_came,
                                    .owner = page};
    return drive_endpoint_get(&probe->endpoint, probe->authorization, options) ||
           probe_fail(probe, "memory or descriptors are short");
}

// The size of its cache, and the time of a response without computation.
static bool read_limits(struct probe *probe)
{
    double times[rounds_max];
    struct load_report report;
    struct probe_page page = {.report = &report};

    if (!probe_get(probe, "/metrics", &page)) {
        return false;
    }
    if (page.status == 0) {
        return probe_fail(probe, page.why);
    }
    probe->block_tokens =
        report.block_tokens >= 1 ? (uint32_t)report.block_tokens : profile_block_tokens;
    probe->kv_tokens = probe->options->kv_tokens;
    if (probe->kv_tokens == 0 && report.cache_tokens >= 1) {
        probe->kv_tokens = (uint64_t)report.cache_tokens;
    }
    if (probe->kv_tokens == 0) {
        return probe_fail(probe, "its metrics do not say how many tokens its cache holds; "
                                 "say it with --kv-tokens");
    }
    page.report = NULL;
    for (uint32_t i = 0; i < rounds_max; i++) {
        if (!probe_get(probe, "/v1/models", &page)) {
            return false;
        }
        if (page.status != 200) {
            return probe_fail(probe, "it does not list its models");
        }
        times[i] = (double)page.took_us;
    }
    probe->overhead_us = figures_median(times, rounds_max);
    return true;
}

// One request that shows whether the others will succeed, and how many tokens our words are.
static bool read_words(struct probe *probe)
{
    struct probe_prompt prompt = {.own = 256, .output_tokens = 2};
    const struct probe_request *request = &probe->requests[0];
    probe->words_per_token = 1;
    if (!probe_ask(probe, &prompt, 1)) {
        char what[128];
        snprintf(what, sizeof(what), "a streamed completion failed: %s, status %u",
                 request->error != DRIVE_FINE ? drive_error_meaning(request->error)
                                              : "no tokens or no usage",
                 request->status);
        return probe_fail(probe, what);
    }
    probe->words_per_token = fmin(256.0 / (double)request->usage.prompt_tokens, 1);
    return true;
}

// ---- the whole

static int compare_rows(const void *a, const void *b)
{
    return figures_order(&((const struct calibration_row *)a)->ms,
                         &((const struct calibration_row *)b)->ms);
}

// One that was measured, with its own counts: an engine may have cached more or less in another
// round.
static struct calibration_row median_sample(struct point *point)
{
    qsort(point->samples, point->sample_count, sizeof(point->samples[0]), compare_rows);
    return point->samples[(point->sample_count - 1) / 2];
}

static bool take_rows(struct probe *probe, struct calibration *out)
{
    struct calibration_model *model = &out->models[0];
    *out = (struct calibration){.model_count = 1};
    model->prefill = calloc(point_max, sizeof(*model->prefill));
    model->decode = calloc(point_max, sizeof(*model->decode));
    if (model->prefill == NULL || model->decode == NULL) {
        calibration_destroy(out);
        return probe_fail(probe, "memory is short");
    }
    for (uint32_t i = 0; i < probe->point_count; i++) {
        struct point *point = &probe->points[i];
        if (point->sample_count > 0 && point->is_decode) {
            model->decode[model->decode_count++] = median_sample(point);
        } else if (point->sample_count > 0) {
            model->prefill[model->prefill_count++] = median_sample(point);
        }
    }
    snprintf(model->profile.name, sizeof(model->profile.name), "%s", probe->options->model);
    model->profile.kv_tokens = probe->kv_tokens;
    model->profile.block_tokens = probe->block_tokens;
    model->profile.step_tokens = probe->options->step_tokens;
    model->profile.sequences_max = probe->options->sequences_max;
    model->profile.context_max = probe->options->context_max;
    return true;
}

static bool probe_run(struct probe *probe, struct calibration *out)
{
    if (strlen(probe->options->model) >= profile_name_size) {
        return probe_fail(probe, "the model's name is too long");
    }
    if (probe->options->key != NULL && strlen(probe->options->key) > key_size_max) {
        return probe_fail(probe, "the key is too long");
    }
    if (loop_create(&probe->loop) != STATUS_OK ||
        signals_open(probe->loop, probe_on_signal, probe, &probe->signals) != STATUS_OK) {
        return probe_fail(probe, "no event loop");
    }
    if (!find_engine(probe) || !read_limits(probe) || !read_words(probe)) {
        return false;
    }
    plan_all(probe);
    run_rounds(probe);
    return take_rows(probe, out);
}

bool probe_engine(const struct probe_engine_options *options, struct calibration *out,
                  char error[probe_engine_error_size])
{
    struct probe *probe = calloc(1, sizeof(*probe));
    if (probe == NULL) {
        snprintf(error, probe_engine_error_size, "memory is short");
        return false;
    }
    probe->options = options;
    probe->error = error;
    probe->end_us = probe_now_us() + (uint64_t)(options->seconds * 1e6);
    probe->next_id = clock_entropy();
    bool is_good = probe_run(probe, out);
    drive_client_destroy(&probe->client);
    signals_close(&probe->signals, probe->loop);
    loop_destroy(&probe->loop);
    tls_context_destroy(&probe->tls);
    free(probe);
    return is_good;
}
