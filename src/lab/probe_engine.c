// SPDX-License-Identifier: Apache-2.0

#include "lab/probe_engine.h"

#include "base/base.h"
#include "base/text.h"
#include "config/endpoint.h"
#include "feed/engine_metrics.h"
#include "lab/probe_stream.h"
#include "net/dns.h"
#include "net/tcp.h"
#include "net/tls.h"
#include "sim/workload/content.h"
#include "sys/clock.h"
#include "sys/loop.h"
#include "sys/signals.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum {
    batch_max = 128,
    rounds_max = 9,
    answer_tokens = 20, // of a stream that is timed while it runs
    tail_tokens = 16,   // of such a stream, that are its own
    gap_count_min = 4,
    page_size_max = 1 << 20,
    host_size_max = 256,
    head_size_max = 8192, // of a request, and what its body has beside the prompt
    key_size_max = 4096,
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

// The longest is not quite a step of 8192: our words are not exactly so many tokens.
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

struct probe {
    const struct probe_engine_options *options;
    struct loop *loop;
    struct signals *signals;
    struct dns *dns;
    struct tls_context *tls;
    struct address address;
    char host[host_size_max];
    char authority[host_size_max + 8];
    uint64_t end_us;
    bool is_stopped;
    uint64_t next_id; // of text that was never sent before
    double words_per_token;
    double overhead_us; // of a response without computation
    uint64_t kv_tokens;
    uint32_t block_tokens;
    struct point points[point_max];
    uint32_t point_count;
    struct probe_stream *streams; // batch_max of them
    uint8_t *requests[batch_max];
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
    uint32_t answer_tokens;
};

static uint32_t words_of(const struct probe *probe, uint32_t tokens)
{
    double words = floor(tokens * probe->words_per_token);
    return words >= 1 || tokens == 0 ? (uint32_t)words : 1;
}

static void probe_add_head(const struct probe *probe, const char *line, struct text *out)
{
    text_add_format(out, "%s HTTP/1.1\r\nhost: %s\r\n", line, probe->authority);
    if (probe->options->key != NULL) {
        text_add_format(out, "authorization: Bearer %s\r\n", probe->options->key);
    }
    text_add_str(out, "user-agent: warmpath\r\naccept: */*\r\nconnection: close\r\n");
}

static void probe_add_words(struct text *out, uint64_t id, uint32_t words)
{
    content_text(id, 0, words, (char *)out->bytes + out->size);
    out->size += (size_t)words * content_token_size;
}

// The whole request in memory of its own; NULL when that is short.
static uint8_t *probe_write_request(struct probe *probe, const struct probe_prompt *prompt,
                                    struct slice *out)
{
    uint32_t shared = words_of(probe, prompt->shared);
    uint32_t own = words_of(probe, prompt->own);
    size_t text_size = ((size_t)shared + own) * content_token_size;
    uint8_t *space = malloc(head_size_max + text_size);
    char front[head_size_max / 4];
    char back[256];
    if (space == NULL) {
        return NULL;
    }
    struct text begin = text_over(front, sizeof(front));
    struct text end = text_over(back, sizeof(back));
    text_add_str(&begin, "{\"model\": ");
    text_add_json(&begin, slice_str(probe->options->model));
    text_add_str(&begin, ", \"prompt\": \"");
    text_add_format(&end,
                    "\", \"max_tokens\": %u, \"temperature\": 0, \"ignore_eos\": true, "
                    "\"stream\": true, \"stream_options\": {\"include_usage\": true}}",
                    prompt->answer_tokens);
    struct text text = text_over(space, head_size_max + text_size);
    probe_add_head(probe, "POST /v1/completions", &text);
    text_add_format(&text, "content-type: application/json\r\ncontent-length: %zu\r\n\r\n",
                    begin.size + text_size + end.size);
    text_add(&text, text_slice(&begin));
    probe_add_words(&text, prompt->shared_id, shared);
    probe_add_words(&text, probe->next_id++, own);
    text_add(&text, text_slice(&end));
    ASSERT(!begin.overflow && !end.overflow && !text.overflow);
    *out = text_slice(&text);
    return space;
}

static bool are_over(const struct probe *probe, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!probe->streams[i].is_over) {
            return false;
        }
    }
    return true;
}

// Turns the loop until streams[0 .. count) are over, or stops them when time is.
static void probe_finish(struct probe *probe, uint32_t count)
{
    while (!are_over(probe, count)) {
        if (is_time_over(probe)) {
            for (uint32_t i = 0; i < count; i++) {
                probe_stream_stop(&probe->streams[i], "the time is over");
            }
        }
        loop_turn(probe->loop, are_over(probe, count) ? 0 : wait_ms_max);
    }
    loop_turn(probe->loop, 0); // what they left to the end of a turn
}

static void probe_start(struct probe *probe, uint32_t index, struct slice request,
                        struct text *body)
{
    probe_stream_start(&probe->streams[index], &(struct probe_stream_options){
                                                   .loop = probe->loop,
                                                   .address = &probe->address,
                                                   .tls = probe->tls,
                                                   .host = probe->host,
                                                   .request = request,
                                                   .body = body,
                                               });
}

// `count` such requests at once, to streams[0 .. count).  Whether all came to a good end.
static bool probe_ask(struct probe *probe, const struct probe_prompt *prompt, uint32_t count)
{
    bool is_good = true;
    uint32_t begun = 0;
    for (; begun < count && is_good; begun++) {
        struct slice request = {0};
        probe->requests[begun] = probe_write_request(probe, prompt, &request);
        is_good = probe->requests[begun] != NULL;
        if (is_good) {
            probe_start(probe, begun, request, NULL);
        }
    }
    probe_finish(probe, is_good ? begun : begun - 1);
    for (uint32_t i = 0; i < begun; i++) {
        const struct probe_stream *stream = &probe->streams[i];
        is_good = is_good && stream->why == NULL && stream->status == 200 &&
                  stream->token_count > 0 && stream->prompt_tokens > 0;
        free(probe->requests[i]);
        probe->requests[i] = NULL;
    }
    return is_good;
}

// GET; `body` may be NULL.
static bool ask_page(struct probe *probe, const char *line, struct text *body)
{
    char request[head_size_max];
    struct text text = text_over(request, sizeof(request));
    probe_add_head(probe, line, &text);
    text_add_str(&text, "\r\n");
    ASSERT(!text.overflow);
    probe_start(probe, 0, text_slice(&text), body);
    probe_finish(probe, 1);
    return probe->streams[0].why == NULL && probe->streams[0].status == 200;
}

// ---- measuring

static int probe_compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double probe_median(double *values, uint32_t count)
{
    qsort(values, count, sizeof(values[0]), probe_compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static void probe_keep(struct point *point, double first, double second, double ms)
{
    if (ms > 0 && first >= 0 && second >= 1) {
        point->samples[point->sample_count++] = (struct calibration_row){first, second, ms};
    }
}

// Sends the prefix of a prompt, so that it is cached.  Returns the cached tokens, 0 on failure.
static uint64_t warm(struct probe *probe, uint64_t id, uint32_t tokens)
{
    struct probe_prompt prompt = {.shared_id = id, .shared = tokens, .answer_tokens = 1};
    if (!probe_ask(probe, &prompt, 1)) {
        return 0;
    }
    uint64_t told = probe->streams[0].prompt_tokens;
    return told / probe->block_tokens * probe->block_tokens;
}

static void measure_prefill(struct probe *probe, struct point *point, uint64_t id, uint64_t cached)
{
    struct probe_prompt prompt = {
        .shared_id = id, .shared = point->cached, .own = point->fresh, .answer_tokens = 1};
    const struct probe_stream *stream = &probe->streams[0];
    if (!probe_ask(probe, &prompt, 1)) {
        point->is_refused = stream->status >= 400 && stream->status < 500;
        return;
    }
    cached = stream->tells_cached ? stream->cached_tokens : cached;
    probe_keep(point, (double)cached, (double)stream->prompt_tokens - (double)cached,
               ((double)(stream->token_us[0] - stream->sent_us) - probe->overhead_us) / 1e3);
}

struct probe_window {
    uint64_t from_us; // all have their first token
    uint64_t to_us;   // none has had its last
};

static uint32_t timed(const struct probe_stream *stream)
{
    return stream->token_count < probe_stream_token_max ? stream->token_count
                                                        : probe_stream_token_max;
}

static struct probe_window window_of(const struct probe *probe, uint32_t batch)
{
    struct probe_window window = {.to_us = UINT64_MAX};
    for (uint32_t i = 0; i < batch; i++) {
        const struct probe_stream *stream = &probe->streams[i];
        uint64_t first = stream->token_us[0];
        uint64_t last = stream->token_us[timed(stream) - 1];
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
        const struct probe_stream *stream = &probe->streams[i];
        // Some engines put several tokens into an event.
        double each = (double)stream->output_tokens / stream->token_count;
        each = each > 1.5 ? each : 1;
        for (uint32_t k = 1; k < timed(stream); k++) {
            if (stream->token_us[k - 1] >= window.from_us && stream->token_us[k] <= window.to_us) {
                gaps[count++] = (double)(stream->token_us[k] - stream->token_us[k - 1]) / each;
                tokens += k * each;
            }
        }
    }
    *made = count > 0 ? tokens / count : 0;
    return count;
}

static void measure_decode(struct probe *probe, struct point *point, uint64_t id)
{
    static double gaps[batch_max * probe_stream_token_max];
    struct probe_prompt prompt = {.shared_id = id,
                                  .shared = point->cached - tail_tokens,
                                  .own = tail_tokens,
                                  .answer_tokens = answer_tokens};
    double made = 0;
    if (!probe_ask(probe, &prompt, point->batch)) {
        uint16_t status = probe->streams[0].status;
        point->is_refused = status >= 400 && status < 500;
        return;
    }
    uint32_t count = gaps_of(probe, point->batch, gaps, &made);
    if (count >= gap_count_min) {
        double context = floor((double)probe->streams[0].prompt_tokens + made);
        probe_keep(point, point->batch, context, probe_median(gaps, count) / 1e3);
    }
}

// ---- the plan

static void plan(struct probe *probe, bool is_decode, uint32_t cached, uint32_t other)
{
    const struct probe_engine_options *options = probe->options;
    uint64_t sequences = is_decode ? other : 1;
    uint64_t fresh = is_decode ? tail_tokens + answer_tokens : other;
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

struct resolution {
    struct dns_answer answer;
    bool is_done;
};

static void probe_resolved(void *owner, const struct dns_answer *answer)
{
    struct resolution *resolution = owner;
    resolution->answer = *answer;
    resolution->is_done = true;
}

static bool probe_resolve(struct probe *probe, uint16_t port)
{
    struct resolution resolution = {0};
    if (address_from_literal(probe->host, port, &probe->address) == STATUS_OK) {
        return true;
    }
    if (dns_create(probe->loop, NULL, &probe->dns) != STATUS_OK) {
        return probe_fail(probe, "names cannot be resolved");
    }
    dns_resolve(probe->dns, probe->host, port, probe_resolved, &resolution);
    while (!resolution.is_done && !is_time_over(probe)) {
        loop_turn(probe->loop, wait_ms_max);
    }
    dns_destroy(&probe->dns);
    if (!resolution.is_done || resolution.answer.status != STATUS_OK) {
        return probe_fail(probe,
                          resolution.is_done ? resolution.answer.why : "the name takes too long");
    }
    probe->address = resolution.answer.addresses[0];
    return true;
}

static bool find_engine(struct probe *probe)
{
    struct config_endpoint endpoint = {0};
    const char *why = config_url_split(slice_str(probe->options->url), &endpoint);
    char tls_error[tls_error_size];
    if (why != NULL || endpoint.host.size >= host_size_max) {
        return probe_fail(probe, why != NULL ? why : "the host's name is too long");
    }
    bool is_v6 = memchr(endpoint.host.bytes, ':', endpoint.host.size) != NULL;
    snprintf(probe->host, sizeof(probe->host), "%.*s", (int)endpoint.host.size,
             (const char *)endpoint.host.bytes);
    snprintf(probe->authority, sizeof(probe->authority), is_v6 ? "[%s]:%u" : "%s:%u", probe->host,
             endpoint.port);
    if (endpoint.tls && tls_client_create(&(struct tls_client_options){.verify = true}, &probe->tls,
                                          tls_error) != STATUS_OK) {
        return probe_fail(probe, tls_error);
    }
    return probe_resolve(probe, endpoint.port);
}

// The size of its cache, and the time of a response without computation.
static bool read_limits(struct probe *probe)
{
    double times[rounds_max];
    struct load_report report;
    uint8_t *page = malloc(page_size_max);
    if (page == NULL) {
        return probe_fail(probe, "memory is short");
    }
    struct text text = text_over(page, page_size_max);
    bool has_page = ask_page(probe, "GET /metrics", &text);
    engine_metrics_read(has_page ? text_slice(&text) : (struct slice){0}, engine_metrics_all_ranks,
                        &report);
    free(page);
    if (probe->streams[0].status == 0) {
        return probe_fail(probe, probe->streams[0].why);
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
    for (uint32_t i = 0; i < rounds_max; i++) {
        if (!ask_page(probe, "GET /v1/models", NULL)) {
            return probe_fail(probe, "it does not list its models");
        }
        times[i] = (double)(probe->streams[0].end_us - probe->streams[0].sent_us);
    }
    probe->overhead_us = probe_median(times, rounds_max);
    return true;
}

// One request that tells whether the others will do, and how many tokens our words are.
static bool read_words(struct probe *probe)
{
    struct probe_prompt prompt = {.own = 256, .answer_tokens = 2};
    const struct probe_stream *stream = &probe->streams[0];
    probe->words_per_token = 1;
    if (!probe_ask(probe, &prompt, 1)) {
        char what[128];
        snprintf(what, sizeof(what), "a streamed completion failed: %s, status %u",
                 stream->why != NULL ? stream->why : "no tokens or no usage", stream->status);
        return probe_fail(probe, what);
    }
    probe->words_per_token = fmin(256.0 / (double)stream->prompt_tokens, 1);
    return true;
}

// ---- the whole

static int compare_rows(const void *a, const void *b)
{
    return probe_compare(&((const struct calibration_row *)a)->ms,
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
    struct probe_stream *streams = calloc(batch_max, sizeof(*streams));
    bool is_good = false;
    if (probe == NULL || streams == NULL) {
        snprintf(error, probe_engine_error_size, "memory is short");
    } else {
        probe->options = options;
        probe->streams = streams;
        probe->error = error;
        probe->end_us = probe_now_us() + (uint64_t)(options->seconds * 1e6);
        probe->next_id = clock_entropy();
        is_good = probe_run(probe, out);
        signals_close(&probe->signals, probe->loop);
        loop_destroy(&probe->loop);
        tls_context_destroy(&probe->tls);
    }
    free(streams);
    free(probe);
    return is_good;
}
