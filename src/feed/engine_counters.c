// SPDX-License-Identifier: Apache-2.0

#include "feed/engine_counters.h"

#include "base/base.h"
#include "feed/exposition.h"
#include "feed/stats_json.h"

enum field {
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

// Of several series of one name `label` tells those apart that have `word`; NULL: all count.
struct row {
    const char *name;
    enum engine_kind kind;
    enum field field;
    const char *label;
    const char *word;
};

// Every name that is known.  Of several names for one field that a page has, the first here counts: vLLM
// 0.9.2 to 0.10 says both of its names for the prefix cache.
static const struct row rows[] = {
    {.name = "vllm:request_success", ENGINE_VLLM, FIELD_REQUESTS},
    {.name = "vllm:prompt_tokens", ENGINE_VLLM, FIELD_PROMPT},
    {.name = "vllm:prefix_cache_queries", ENGINE_VLLM, FIELD_ASKED},
    {.name = "vllm:gpu_prefix_cache_queries", ENGINE_VLLM, FIELD_ASKED},
    {.name = "vllm:prefix_cache_hits", ENGINE_VLLM, FIELD_CACHED},
    {.name = "vllm:gpu_prefix_cache_hits", ENGINE_VLLM, FIELD_CACHED},
    {.name = "vllm:external_prefix_cache_hits", ENGINE_VLLM, FIELD_CACHED_BEHIND},
    {.name = "vllm:request_prefill_kv_computed_tokens_sum", ENGINE_VLLM, FIELD_COMPUTED},
    {.name = "vllm:prompt_tokens_by_source",
     ENGINE_VLLM,
     FIELD_COMPUTED,
     "source",
     "local_compute"},
    {.name = "vllm:request_prefill_time_seconds_sum", ENGINE_VLLM, FIELD_PREFILL_SECONDS},
    {.name = "vllm:time_to_first_token_seconds_bucket", ENGINE_VLLM, FIELD_TTFT_BUCKET},
    {.name = "vllm:time_to_first_token_seconds_count", ENGINE_VLLM, FIELD_TTFT_COUNT},

    {.name = "sglang:num_requests", ENGINE_SGLANG, FIELD_REQUESTS},
    {.name = "sglang:prompt_tokens", ENGINE_SGLANG, FIELD_PROMPT},
    {.name = "sglang:cached_tokens", ENGINE_SGLANG, FIELD_CACHED},
    {.name = "sglang:time_to_first_token_seconds_bucket", ENGINE_SGLANG, FIELD_TTFT_BUCKET},
    {.name = "sglang:time_to_first_token_seconds_count", ENGINE_SGLANG, FIELD_TTFT_COUNT},

    {.name = "trtllm_request_success", ENGINE_TENSORRT_LLM, FIELD_REQUESTS},
    {.name = "trtllm_prompt_tokens", ENGINE_TENSORRT_LLM, FIELD_PROMPT},
    {.name = "trtllm_kv_cache_hit_rate", ENGINE_TENSORRT_LLM, FIELD_HIT_RATE},
    {.name = "trtllm_request_prefill_time_seconds_sum", ENGINE_TENSORRT_LLM, FIELD_PREFILL_SECONDS},
    {.name = "trtllm_time_to_first_token_seconds_bucket", ENGINE_TENSORRT_LLM, FIELD_TTFT_BUCKET},
    {.name = "trtllm_time_to_first_token_seconds_count", ENGINE_TENSORRT_LLM, FIELD_TTFT_COUNT},
    {.name = "request_success", ENGINE_TENSORRT_LLM, FIELD_REQUESTS}, // before there was a prefix
    {.name = "time_to_first_token_seconds_bucket", ENGINE_TENSORRT_LLM, FIELD_TTFT_BUCKET},
    {.name = "time_to_first_token_seconds_count", ENGINE_TENSORRT_LLM, FIELD_TTFT_COUNT},

    {.name = "llamacpp:prompt_tokens", ENGINE_LLAMA_CPP, FIELD_COMPUTED},
    {.name = "llamacpp:prompt_seconds", ENGINE_LLAMA_CPP, FIELD_PREFILL_SECONDS},

    {.name = "process_start_time_seconds", ENGINE_UNKNOWN, FIELD_STARTED},

    // TensorRT-LLM, GET /metrics: blocks since the start, in each step.
    {.name = "reusedBlocks", ENGINE_TENSORRT_LLM, FIELD_BLOCKS_FOUND},
    {.name = "missedBlocks", ENGINE_TENSORRT_LLM, FIELD_BLOCKS_MISSED},
    {.name = "tokensPerBlock", ENGINE_TENSORRT_LLM, FIELD_BLOCK_TOKENS},

    // SGLang, GET /v1/loads.
    {.name = "total_prefill_uncached_tokens", ENGINE_SGLANG, FIELD_COMPUTED},
    {.name = "total_prefill_busy_us", ENGINE_SGLANG, FIELD_PREFILL_US},
};

struct reader {
    double sums[ARRAY_COUNT(rows)];
    double firsts[ARRAY_COUNT(rows)];
    uint32_t counts[ARRAY_COUNT(rows)];
    struct counter_histogram ttft;
    double unbounded;    // what the bucket without end says
    uint32_t bucket_row; // whose buckets these are; of another name they are passed over
};

static uint32_t find_row(struct slice name, uint32_t from)
{
    while (from < ARRAY_COUNT(rows) && !exposition_name_is(name, rows[from].name)) {
        from++;
    }
    return from;
}

static void row_add(struct reader *reader, uint32_t row, double value)
{
    if (reader->counts[row]++ == 0) {
        reader->firsts[row] = value;
    }
    reader->sums[row] += value;
}

static bool is_unbounded(struct slice bound)
{
    return slice_is_nocase(bound, "+inf") || slice_is_nocase(bound, "inf");
}

// Buckets come in ascending order from everyone, so the place is found at once, from the end.
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

static void read_bucket(struct reader *reader, uint32_t row, const struct exposition_sample *sample)
{
    struct slice label = exposition_label(sample->labels, "le");
    double bound = 0;

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

static void read_series(struct reader *reader, const struct exposition_series *series)
{
    uint32_t row = find_row(series->name, 0);
    struct exposition_sample sample;

    if (row == ARRAY_COUNT(rows) || !exposition_sample(series, &sample) || !sample.has_value) {
        return;
    }
    if (rows[row].field == FIELD_TTFT_BUCKET) {
        read_bucket(reader, row, &sample);
    } else if (rows[row].label == NULL ||
               slice_is(exposition_label(sample.labels, rows[row].label), rows[row].word)) {
        row_add(reader, row, sample.value);
    }
}

static void read_member(void *owner, struct slice name, double value)
{
    uint32_t row = find_row(name, 0);
    if (row < ARRAY_COUNT(rows) && rows[row].field != FIELD_TTFT_BUCKET) {
        row_add(owner, row, value);
    }
}

// Of the names that were found for each field, the first; negative when there is none.  Rates are means,
// a size is the first of many that are alike, and so is the moment at which a process started.
static void fields_of(const struct reader *reader, double *fields)
{
    for (uint32_t field = 0; field < FIELD_COUNT; field++) {
        fields[field] = -1;
    }
    for (uint32_t i = ARRAY_COUNT(rows); i-- > 0;) {
        if (reader->counts[i] == 0) {
            continue;
        }
        double *value = &fields[rows[i].field];
        if (rows[i].field == FIELD_HIT_RATE) {
            *value = reader->sums[i] / reader->counts[i];
        } else if (rows[i].field == FIELD_BLOCK_TOKENS || rows[i].field == FIELD_STARTED) {
            *value = reader->firsts[i];
        } else {
            *value = reader->sums[i];
        }
    }
}

static enum engine_kind kind_of(const struct reader *reader)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        bool is_said = reader->counts[i] > 0 || i == reader->bucket_row;
        if (is_said && rows[i].kind != ENGINE_UNKNOWN) {
            return rows[i].kind;
        }
    }
    return ENGINE_UNKNOWN;
}

static void fill(double *value, double from)
{
    if (*value < 0 && from >= 0) {
        *value = from;
    }
}

static double sum_of(double a, double b)
{
    return a < 0 || b < 0 ? -1 : a + b;
}

static double product_of(double a, double b)
{
    return a < 0 || b < 0 ? -1 : a * b;
}

// The header's table.
static void derive(const double *fields, double first_tokens, double *values)
{
    double cached = fields[FIELD_CACHED];
    double behind = fields[FIELD_CACHED_BEHIND];
    double rate = fields[FIELD_HIT_RATE] > 1 ? 1 : fields[FIELD_HIT_RATE];
    double block_tokens = fields[FIELD_BLOCK_TOKENS];
    double blocks = sum_of(fields[FIELD_BLOCKS_FOUND], fields[FIELD_BLOCKS_MISSED]);

    values[COUNTER_REQUESTS] = fields[FIELD_REQUESTS];
    values[COUNTER_PROMPT] = fields[FIELD_PROMPT];
    values[COUNTER_ASKED] = fields[FIELD_ASKED];
    values[COUNTER_CACHED] = cached >= 0 && behind >= 0 ? cached + behind : cached;
    values[COUNTER_COMPUTED] = fields[FIELD_COMPUTED];
    values[COUNTER_PREFILL_SECONDS] = fields[FIELD_PREFILL_SECONDS];

    fill(&values[COUNTER_REQUESTS], first_tokens);
    fill(&values[COUNTER_PREFILL_SECONDS], product_of(fields[FIELD_PREFILL_US], 1e-6));
    if (blocks >= 0) {
        fill(&values[COUNTER_ASKED], product_of(blocks, block_tokens));
        fill(&values[COUNTER_CACHED], product_of(fields[FIELD_BLOCKS_FOUND], block_tokens));
    }
    fill(&values[COUNTER_PROMPT], values[COUNTER_ASKED]);
    fill(&values[COUNTER_CACHED], product_of(rate, values[COUNTER_PROMPT]));
    if (values[COUNTER_CACHED] >= 0) {
        fill(&values[COUNTER_ASKED], values[COUNTER_PROMPT]);
    }
    if (values[COUNTER_CACHED] >= 0 && values[COUNTER_PROMPT] >= values[COUNTER_CACHED]) {
        fill(&values[COUNTER_COMPUTED], values[COUNTER_PROMPT] - values[COUNTER_CACHED]);
    }
}

// Counts of a histogram never fall from bucket to bucket, whatever was written.
static void make_monotonic(struct counter_histogram *histogram)
{
    double highest = 0;
    for (uint32_t i = 0; i < histogram->bucket_count; i++) {
        highest = histogram->counts[i] > highest ? histogram->counts[i] : highest;
        histogram->counts[i] = highest;
    }
    histogram->count = histogram->count > highest ? histogram->count : highest;
}

static bool is_list(struct slice page)
{
    const uint8_t *bracket = page.size == 0 ? NULL : memchr(page.bytes, '[', page.size);
    const uint8_t *brace = page.size == 0 ? NULL : memchr(page.bytes, '{', page.size);
    return exposition_is_json(page) && bracket != NULL && (brace == NULL || bracket < brace);
}

void engine_counters_read(struct slice page, struct engine_counters *out)
{
    struct reader reader = {.bucket_row = ARRAY_COUNT(rows)};
    double fields[FIELD_COUNT];

    if (exposition_is_json(page)) {
        stats_json_read(page, stats_json_all_ranks, read_member, &reader);
    } else {
        struct exposition text = exposition_open(page);
        struct exposition_series series;
        while (exposition_next(&text, &series)) {
            read_series(&reader, &series);
        }
    }
    fields_of(&reader, fields);
    reader.ttft.count = reader.unbounded > 0 ? reader.unbounded : fields[FIELD_TTFT_COUNT];
    make_monotonic(&reader.ttft);
    *out = (struct engine_counters){
        .kind = kind_of(&reader),
        .lists_steps = is_list(page),
        .started_s = fields[FIELD_STARTED],
        .ttft = reader.ttft,
    };
    derive(fields, reader.bucket_row < ARRAY_COUNT(rows) ? reader.ttft.count : -1, out->values);
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
        fill(&counters->values[i], other->values[i]);
    }
    fill(&counters->started_s, other->started_s);
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
        // A token less is a rate that was rounded.
        if (after->values[i] >= 0 && after->values[i] < before->values[i] - 1) {
            return true;
        }
    }
    return after->ttft.bucket_count > 0 && after->ttft.count < before->ttft.count;
}

static double rise(double before, double after)
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
        result.values[i] = is_known ? rise(is_born ? 0 : before->values[i], after->values[i]) : -1;
    }
    if (before->ttft.bucket_count == 0) {
        *out = result;
        return true;
    }
    if (has_same_bounds(&before->ttft, &after->ttft)) {
        for (uint32_t i = 0; i < result.ttft.bucket_count; i++) {
            result.ttft.counts[i] = rise(before->ttft.counts[i], after->ttft.counts[i]);
        }
        result.ttft.count = rise(before->ttft.count, after->ttft.count);
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
