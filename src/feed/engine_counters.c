// SPDX-License-Identifier: Apache-2.0

#include "feed/engine_counters.h"

#include "base/base.h"
#include "feed/engine_page.h"

enum counter_field {
    FIELD_REQUESTS,
    FIELD_PROMPT,
    FIELD_ASKED,
    FIELD_CACHED,
    FIELD_CACHED_BEHIND, // by a cache behind the engine's own: these are added to FIELD_CACHED
    FIELD_COMPUTED,
    FIELD_PREFILL_SECONDS,
    FIELD_PREFILL_US,
    FIELD_STARTED,
    FIELD_HIT_RATE,
    FIELD_BLOCKS_FOUND,
    FIELD_BLOCKS_MISSED,
    FIELD_BLOCK_TOKENS,
    FIELD_TTFT_BUCKET,
    FIELD_TTFT_COUNT,
    FIELD_COUNT,
};

// The others are added up over series; block sizes and start times are the first of many alike.
static const enum engine_combine combines[FIELD_COUNT] = {
    [FIELD_HIT_RATE] = ENGINE_MEAN,
    [FIELD_BLOCK_TOKENS] = ENGINE_FIRST,
    [FIELD_STARTED] = ENGINE_FIRST,
};

#define BUCKETS(name, kind)                                                                        \
    {                                                                                              \
        (name), FIELD_TTFT_BUCKET, (kind), .is_special = true                                      \
    }

// `extra` is the kind of the engine.  If a page has several names for one field, the first row here
// counts: vLLM 0.9.2 to 0.10 has both of its names for the prefix cache.
static const struct engine_row rows[] = {
    {.name = "vllm:request_success", FIELD_REQUESTS, ENGINE_VLLM},
    {.name = "vllm:prompt_tokens", FIELD_PROMPT, ENGINE_VLLM},
    {.name = "vllm:prefix_cache_queries", FIELD_ASKED, ENGINE_VLLM},
    {.name = "vllm:gpu_prefix_cache_queries", FIELD_ASKED, ENGINE_VLLM},
    {.name = "vllm:prefix_cache_hits", FIELD_CACHED, ENGINE_VLLM},
    {.name = "vllm:gpu_prefix_cache_hits", FIELD_CACHED, ENGINE_VLLM},
    {.name = "vllm:external_prefix_cache_hits", FIELD_CACHED_BEHIND, ENGINE_VLLM},
    {.name = "vllm:request_prefill_kv_computed_tokens_sum", FIELD_COMPUTED, ENGINE_VLLM},
    {.name = "vllm:prompt_tokens_by_source",
     FIELD_COMPUTED,
     ENGINE_VLLM,
     "source",
     "local_compute"},
    {.name = "vllm:request_prefill_time_seconds_sum", FIELD_PREFILL_SECONDS, ENGINE_VLLM},
    BUCKETS("vllm:time_to_first_token_seconds_bucket", ENGINE_VLLM),
    {.name = "vllm:time_to_first_token_seconds_count", FIELD_TTFT_COUNT, ENGINE_VLLM},

    {.name = "sglang:num_requests", FIELD_REQUESTS, ENGINE_SGLANG},
    {.name = "sglang:prompt_tokens", FIELD_PROMPT, ENGINE_SGLANG},
    {.name = "sglang:cached_tokens", FIELD_CACHED, ENGINE_SGLANG},
    BUCKETS("sglang:time_to_first_token_seconds_bucket", ENGINE_SGLANG),
    {.name = "sglang:time_to_first_token_seconds_count", FIELD_TTFT_COUNT, ENGINE_SGLANG},

    {.name = "trtllm_request_success", FIELD_REQUESTS, ENGINE_TENSORRT_LLM},
    {.name = "trtllm_prompt_tokens", FIELD_PROMPT, ENGINE_TENSORRT_LLM},
    {.name = "trtllm_kv_cache_hit_rate", FIELD_HIT_RATE, ENGINE_TENSORRT_LLM},
    {.name = "trtllm_request_prefill_time_seconds_sum", FIELD_PREFILL_SECONDS, ENGINE_TENSORRT_LLM},
    BUCKETS("trtllm_time_to_first_token_seconds_bucket", ENGINE_TENSORRT_LLM),
    {.name = "trtllm_time_to_first_token_seconds_count", FIELD_TTFT_COUNT, ENGINE_TENSORRT_LLM},
    {.name = "request_success", FIELD_REQUESTS, ENGINE_TENSORRT_LLM}, // before there was a prefix
    BUCKETS("time_to_first_token_seconds_bucket", ENGINE_TENSORRT_LLM),
    {.name = "time_to_first_token_seconds_count", FIELD_TTFT_COUNT, ENGINE_TENSORRT_LLM},

    {.name = "llamacpp:prompt_tokens", FIELD_COMPUTED, ENGINE_LLAMA_CPP},
    {.name = "llamacpp:prompt_seconds", FIELD_PREFILL_SECONDS, ENGINE_LLAMA_CPP},

    {.name = "process_start_time_seconds", FIELD_STARTED, ENGINE_UNKNOWN},

    // TensorRT-LLM, GET /metrics: blocks since the start, in each step.
    {.name = "reusedBlocks", FIELD_BLOCKS_FOUND, ENGINE_TENSORRT_LLM},
    {.name = "missedBlocks", FIELD_BLOCKS_MISSED, ENGINE_TENSORRT_LLM},
    {.name = "tokensPerBlock", FIELD_BLOCK_TOKENS, ENGINE_TENSORRT_LLM},

    // SGLang, GET /v1/loads.
    {.name = "total_prefill_uncached_tokens", FIELD_COMPUTED, ENGINE_SGLANG},
    {.name = "total_prefill_busy_us", FIELD_PREFILL_US, ENGINE_SGLANG},
};

struct counters_reader {
    struct engine_tally tallies[ARRAY_COUNT(rows)];
    struct counter_histogram ttft;
    double unbounded;    // count of the bucket without a bound
    uint32_t bucket_row; // whose buckets these are; buckets of another name are skipped
};

static bool is_unbounded(struct slice bound)
{
    return slice_is_nocase(bound, "+inf") || slice_is_nocase(bound, "inf");
}

// Engines write buckets in ascending order, so the search from the end finds the place at once.
static void bucket_add(struct counter_histogram *histogram, double bound, double count)
{
    uint32_t at = histogram->bucket_count;
    while (at > 0 && histogram->bounds[at - 1] >= bound) {
        at--;
    }
    if (at < histogram->bucket_count && histogram->bounds[at] == bound) {
        histogram->counts[at] += count;
        return;
    }
    if (histogram->bucket_count == counter_bucket_max) {
        return;
    }
    size_t rest = histogram->bucket_count - at;
    memmove(&histogram->bounds[at + 1], &histogram->bounds[at], rest * sizeof(double));
    memmove(&histogram->counts[at + 1], &histogram->counts[at], rest * sizeof(double));
    histogram->bounds[at] = bound;
    histogram->counts[at] = count;
    histogram->bucket_count++;
}

static void counters_take_bucket(void *owner, uint32_t row, const struct exposition_sample *sample)
{
    struct counters_reader *reader = owner;
    struct slice label = exposition_label(sample->labels, "le");
    double bound = 0;

    if (!sample->has_value) {
        return;
    }
    if (reader->bucket_row == ARRAY_COUNT(rows)) {
        reader->bucket_row = row;
    }
    if (reader->bucket_row != row) {
        return;
    }
    if (is_unbounded(label)) {
        reader->unbounded += sample->value;
    } else if (exposition_number(label, &bound)) {
        bucket_add(&reader->ttft, bound, sample->value);
    }
}

static enum engine_kind counters_kind(const struct counters_reader *reader)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        bool is_there = reader->tallies[i].count > 0 || i == reader->bucket_row;
        if (is_there && rows[i].extra != ENGINE_UNKNOWN) {
            return (enum engine_kind)rows[i].extra;
        }
    }
    return ENGINE_UNKNOWN;
}

static void fill_unknown(double *value, double from)
{
    if (*value < 0 && from >= 0) {
        *value = from;
    }
}

static double sum_or_unknown(double a, double b)
{
    return a < 0 || b < 0 ? -1 : a + b;
}

static double product_or_unknown(double a, double b)
{
    return a < 0 || b < 0 ? -1 : a * b;
}

// The header's table.
static void counters_derive(const double *fields, double first_tokens, double *values)
{
    double cached = fields[FIELD_CACHED];
    double behind = fields[FIELD_CACHED_BEHIND];
    double rate = fields[FIELD_HIT_RATE] > 1 ? 1 : fields[FIELD_HIT_RATE];
    double block_tokens = fields[FIELD_BLOCK_TOKENS];
    double blocks = sum_or_unknown(fields[FIELD_BLOCKS_FOUND], fields[FIELD_BLOCKS_MISSED]);

    values[COUNTER_REQUESTS] = fields[FIELD_REQUESTS];
    values[COUNTER_PROMPT] = fields[FIELD_PROMPT];
    values[COUNTER_ASKED] = fields[FIELD_ASKED];
    values[COUNTER_CACHED] = cached >= 0 && behind >= 0 ? cached + behind : cached;
    values[COUNTER_COMPUTED] = fields[FIELD_COMPUTED];
    values[COUNTER_PREFILL_SECONDS] = fields[FIELD_PREFILL_SECONDS];

    fill_unknown(&values[COUNTER_REQUESTS], first_tokens);
    fill_unknown(&values[COUNTER_PREFILL_SECONDS],
                 product_or_unknown(fields[FIELD_PREFILL_US], 1e-6));
    if (blocks >= 0) {
        fill_unknown(&values[COUNTER_ASKED], product_or_unknown(blocks, block_tokens));
        fill_unknown(&values[COUNTER_CACHED],
                     product_or_unknown(fields[FIELD_BLOCKS_FOUND], block_tokens));
    }
    fill_unknown(&values[COUNTER_PROMPT], values[COUNTER_ASKED]);
    fill_unknown(&values[COUNTER_CACHED], product_or_unknown(rate, values[COUNTER_PROMPT]));
    if (values[COUNTER_CACHED] >= 0) {
        fill_unknown(&values[COUNTER_ASKED], values[COUNTER_PROMPT]);
    }
    if (values[COUNTER_CACHED] >= 0 && values[COUNTER_PROMPT] >= values[COUNTER_CACHED]) {
        fill_unknown(&values[COUNTER_COMPUTED], values[COUNTER_PROMPT] - values[COUNTER_CACHED]);
    }
}

// Whatever the page says, counts do not fall from bucket to bucket.
static void make_monotonic(struct counter_histogram *histogram)
{
    double highest = 0;
    for (uint32_t i = 0; i < histogram->bucket_count; i++) {
        highest = histogram->counts[i] > highest ? histogram->counts[i] : highest;
        histogram->counts[i] = highest;
    }
    histogram->count = histogram->count > highest ? histogram->count : highest;
}

void engine_counters_read(struct slice page, struct engine_counters *out)
{
    struct counters_reader reader = {.bucket_row = ARRAY_COUNT(rows)};
    const struct engine_page_options options = {.rows = rows,
                                                .row_count = ARRAY_COUNT(rows),
                                                .rank = exposition_all_ranks,
                                                .special = counters_take_bucket,
                                                .owner = &reader};
    double fields[FIELD_COUNT];

    engine_page_read(page, &options, reader.tallies);
    for (uint32_t i = 0; i < FIELD_COUNT; i++) {
        fields[i] = engine_page_field(&options, reader.tallies, i, combines[i]);
    }
    reader.ttft.count = reader.unbounded > 0 ? reader.unbounded : fields[FIELD_TTFT_COUNT];
    make_monotonic(&reader.ttft);
    *out = (struct engine_counters){
        .kind = counters_kind(&reader),
        .lists_steps = exposition_json_bracket(page) == '[',
        .started_s = fields[FIELD_STARTED],
        .ttft = reader.ttft,
    };
    counters_derive(fields, reader.bucket_row < ARRAY_COUNT(rows) ? reader.ttft.count : -1,
                    out->values);
}

bool engine_counters_has_any(const struct engine_counters *counters)
{
    for (uint32_t i = 0; i < COUNTER_COUNT; i++) {
        if (counters->values[i] >= 0) {
            return true;
        }
    }
    return false;
}

void engine_counters_complete(struct engine_counters *counters, const struct engine_counters *other)
{
    for (uint32_t i = 0; i < COUNTER_COUNT; i++) {
        fill_unknown(&counters->values[i], other->values[i]);
    }
    fill_unknown(&counters->started_s, other->started_s);
    counters->lists_steps = counters->lists_steps || other->lists_steps;
    if (counters->kind == ENGINE_UNKNOWN) {
        counters->kind = other->kind;
    }
    if (counters->ttft.bucket_count == 0) {
        counters->ttft = other->ttft;
    }
}

static bool has_same_bounds(const struct counter_histogram *a, const struct counter_histogram *b)
{
    return a->bucket_count == b->bucket_count &&
           memcmp(a->bounds, b->bounds, a->bucket_count * sizeof(double)) == 0;
}

static bool has_fallen(const struct engine_counters *before, const struct engine_counters *after)
{
    for (uint32_t i = 0; i < COUNTER_COUNT; i++) {
        // One token less: a rate was rounded.
        if (after->values[i] >= 0 && after->values[i] < before->values[i] - 1) {
            return true;
        }
    }
    return after->ttft.bucket_count > 0 && after->ttft.count < before->ttft.count;
}

static double counter_increase(double before, double after)
{
    return after > before ? after - before : 0;
}

bool engine_counters_since(const struct engine_counters *before,
                           const struct engine_counters *after, struct engine_counters *out)
{
    if (has_fallen(before, after)) {
        *out = *after;
        return false;
    }
    struct engine_counters result = *after;
    for (uint32_t i = 0; i < COUNTER_COUNT; i++) {
        bool is_born = before->values[i] < 0 && !before->lists_steps && !after->lists_steps;
        bool is_known = after->values[i] >= 0 && (before->values[i] >= 0 || is_born);
        result.values[i] =
            is_known ? counter_increase(is_born ? 0 : before->values[i], after->values[i]) : -1;
    }
    if (before->ttft.bucket_count == 0) {
        *out = result;
        return true;
    }
    if (has_same_bounds(&before->ttft, &after->ttft)) {
        for (uint32_t i = 0; i < result.ttft.bucket_count; i++) {
            result.ttft.counts[i] = counter_increase(before->ttft.counts[i], after->ttft.counts[i]);
        }
        result.ttft.count = counter_increase(before->ttft.count, after->ttft.count);
        make_monotonic(&result.ttft);
    } else {
        result.ttft.bucket_count = 0;
    }
    *out = result;
    return true;
}

const char *engine_kind_name(enum engine_kind kind)
{
    static const char *const names[] = {
        [ENGINE_UNKNOWN] = "unknown",     [ENGINE_VLLM] = "vLLM",
        [ENGINE_SGLANG] = "SGLang",       [ENGINE_TENSORRT_LLM] = "TensorRT-LLM",
        [ENGINE_LLAMA_CPP] = "llama.cpp",
    };
    return names[kind];
}
