// SPDX-License-Identifier: Apache-2.0

#include "feed/engine_metrics.h"

#include "base/base.h"
#include "base/text.h"
#include "feed/exposition.h"
#include "feed/stats_json.h"

enum field {
    FIELD_RUNNING, // added up over series, as all that have no other word
    FIELD_WAITING,
    FIELD_USAGE,        // the mean
    FIELD_CACHE_TOKENS, // of the whole cache
    FIELD_BLOCK_TOKENS, // the first
    FIELD_BLOCKS,
    FIELD_BLOCKS_USED,
    FIELD_CONFIG, // block size and blocks are labels, the value says nothing
};

// `label` is what tells the series of one name apart.  Of FIELD_CONFIG, it is the one with the block
// size, and `word` the one with the number of blocks, of which `spare` hold nothing.
struct row {
    const char *name;
    size_t size;
    enum field field;
    uint32_t spare;
    const char *label;
    const char *word;
};

#define NAME(text) .name = (text), .size = sizeof(text) - 1

// Every name that is known.  Of several names for one field that a page has, the first here counts:
// vLLM 0.9.2 to 0.10 says both of its names for the use of the cache.  A colon and an underscore are the
// same, so what an exporter has rewritten is found.  The last two groups are members of JSON objects.
static const struct row rows[] = {
    {NAME("vllm:num_requests_running"), FIELD_RUNNING},
    {NAME("vllm:num_requests_waiting"), FIELD_WAITING},
    {NAME("vllm:kv_cache_usage_perc"), FIELD_USAGE},
    {NAME("vllm:gpu_cache_usage_perc"), FIELD_USAGE},
    // Block 0 stands for "no block" and is never used.
    {NAME("vllm:cache_config_info"), FIELD_CONFIG, 1, "block_size", "num_gpu_blocks"},

    {NAME("sglang:num_running_reqs"), FIELD_RUNNING},
    {NAME("sglang:num_queue_reqs"), FIELD_WAITING},
    {NAME("sglang:token_usage"), FIELD_USAGE},
    {NAME("sglang:max_total_num_tokens"), FIELD_CACHE_TOKENS},
    {NAME("sglang:page_size"), FIELD_BLOCK_TOKENS},
    {NAME("sglang:num_pages"), FIELD_BLOCKS},
    {NAME("sglang:cache_config_info"), FIELD_CONFIG, 0, "page_size", "num_pages"},

    {NAME("trtllm_num_requests_running"), FIELD_RUNNING},
    {NAME("trtllm_num_requests_waiting"), FIELD_WAITING},
    {NAME("trtllm_kv_cache_utilization"), FIELD_USAGE},
    {NAME("trtllm_kv_cache_tokens_per_block"), FIELD_BLOCK_TOKENS},
    {NAME("trtllm_kv_cache_max_blocks"), FIELD_BLOCKS},
    {NAME("trtllm_kv_cache_used_blocks"), FIELD_BLOCKS_USED},
    {NAME("num_requests_running"), FIELD_RUNNING}, // before there was a prefix
    {NAME("num_requests_waiting"), FIELD_WAITING},
    {NAME("kv_cache_utilization"), FIELD_USAGE},
    {NAME("kv_cache_tokens_per_block"), FIELD_BLOCK_TOKENS},
    {NAME("kv_cache_max_blocks"), FIELD_BLOCKS},

    {NAME("nv_trt_llm_request_metrics"), FIELD_RUNNING, 0, "request_type", "scheduled"},
    {NAME("nv_trt_llm_request_metrics"), FIELD_WAITING, 0, "request_type", "waiting"},
    {NAME("nv_trt_llm_kv_cache_block_metrics"), FIELD_USAGE, 0, "kv_cache_block_type", "fraction"},
    {NAME("nv_trt_llm_kv_cache_block_metrics"), FIELD_BLOCK_TOKENS, 0, "kv_cache_block_type",
     "tokens_per"},
    {NAME("nv_trt_llm_kv_cache_block_metrics"), FIELD_BLOCKS, 0, "kv_cache_block_type", "max"},
    {NAME("nv_trt_llm_kv_cache_block_metrics"), FIELD_BLOCKS_USED, 0, "kv_cache_block_type",
     "used"},
    {NAME("nv_inference_pending_request_count"), FIELD_WAITING},

    {NAME("llamacpp:requests_processing"), FIELD_RUNNING},
    {NAME("llamacpp:requests_deferred"), FIELD_WAITING},
    {NAME("llamacpp:kv_cache_usage_ratio"), FIELD_USAGE},

    // TensorRT-LLM, GET /metrics.
    {NAME("numActiveRequests"), FIELD_RUNNING},
    {NAME("numQueuedRequests"), FIELD_WAITING},
    {NAME("tokensPerBlock"), FIELD_BLOCK_TOKENS},
    {NAME("maxNumBlocks"), FIELD_BLOCKS},
    {NAME("usedNumBlocks"), FIELD_BLOCKS_USED},

    // SGLang, GET /v1/loads.
    {NAME("num_running_reqs"), FIELD_RUNNING},
    {NAME("num_waiting_reqs"), FIELD_WAITING},
    {NAME("token_usage"), FIELD_USAGE},
    {NAME("max_total_num_tokens"), FIELD_CACHE_TOKENS},
};

// What was read for each row.
struct tally {
    double sum;
    double block_tokens; // of the first that has it; 0: none
    uint32_t count;
};

_Static_assert((uint32_t)engine_metrics_all_ranks == (uint32_t)stats_json_all_ranks, "all are all");

struct reader {
    uint32_t rank;
    uint64_t sizes; // bit n: some name is n bytes long, which most lines do not get past
    struct tally tallies[ARRAY_COUNT(rows)];
};

// The index of the first row of that name from `from` on; as many as there are rows when there is
// none.
static uint32_t find_row(struct slice name, uint32_t from)
{
    while (from < ARRAY_COUNT(rows) && !exposition_name_is(name, rows[from].name)) {
        from++;
    }
    return from;
}

static void tally_add(struct reader *reader, uint32_t row, double value)
{
    struct tally *tally = &reader->tallies[row];
    if (rows[row].field == FIELD_BLOCK_TOKENS && tally->block_tokens == 0) {
        tally->block_tokens = value;
    }
    tally->sum += value;
    tally->count++;
}

static void tally_config(struct reader *reader, uint32_t row, struct slice labels)
{
    struct tally *tally = &reader->tallies[row];
    double block_tokens = 0;
    double blocks = 0;

    if (!exposition_number(exposition_label(labels, rows[row].label), &block_tokens) ||
        block_tokens == 0) {
        return;
    }
    if (tally->block_tokens == 0) {
        tally->block_tokens = block_tokens;
    }
    // "None" until the engine has measured how many fit.
    if (exposition_number(exposition_label(labels, rows[row].word), &blocks) &&
        blocks > rows[row].spare) {
        tally->sum += block_tokens * (blocks - rows[row].spare);
        tally->count++;
    }
}

static bool is_of_row(const struct row *row, struct slice labels)
{
    if (row->label == NULL) {
        // SGLang's count of each priority comes beside that of all, which has an empty one.
        return exposition_label(labels, "priority").size == 0;
    }
    return slice_is(exposition_label(labels, row->label), row->word);
}

// vLLM and SGLang name the rank in a label.
static bool is_of_rank(uint32_t rank, struct slice labels)
{
    static const char *const names[] = {"engine", "dp_rank"};
    uint64_t number;

    for (size_t i = 0; rank != engine_metrics_all_ranks && i < ARRAY_COUNT(names); i++) {
        struct slice value = exposition_label(labels, names[i]);
        if (slice_parse_u64(value, &number) && number != rank) {
            return false;
        }
    }
    return true;
}

static void read_series(struct reader *reader, const struct exposition_series *series)
{
    struct slice name = series->name;
    bool may_match = name.size < 64 && (reader->sizes >> name.size & 1) != 0;
    uint32_t row = may_match ? find_row(name, 0) : ARRAY_COUNT(rows);
    struct exposition_sample sample;

    if (row == ARRAY_COUNT(rows) || !exposition_sample(series, &sample) ||
        !is_of_rank(reader->rank, sample.labels)) {
        return;
    }
    for (; row < ARRAY_COUNT(rows); row = find_row(name, row + 1)) {
        if (rows[row].field == FIELD_CONFIG) {
            tally_config(reader, row, sample.labels);
        } else if (sample.has_value && is_of_row(&rows[row], sample.labels)) {
            tally_add(reader, row, sample.value);
        }
    }
}

static void read_text(struct reader *reader, struct slice text)
{
    struct exposition page = exposition_open(text);
    struct exposition_series series;

    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        reader->sizes |= (uint64_t)1 << rows[i].size;
    }
    while (exposition_next(&page, &series)) {
        read_series(reader, &series);
    }
}

static void read_member(void *owner, struct slice name, double value)
{
    uint32_t row = find_row(name, 0);
    if (row < ARRAY_COUNT(rows) && rows[row].label == NULL) {
        tally_add(owner, row, value);
    }
}

// Of the names that were found for a field, the first; NULL when there is none.
static const struct tally *first_of(const struct reader *reader, enum field field)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (rows[i].field == field && reader->tallies[i].count > 0) {
            return &reader->tallies[i];
        }
    }
    return NULL;
}

static double sum_of(const struct reader *reader, enum field field)
{
    const struct tally *tally = first_of(reader, field);
    return tally == NULL ? -1 : tally->sum;
}

static double usage_of(const struct reader *reader, double blocks)
{
    const struct tally *usage = first_of(reader, FIELD_USAGE);
    double used = sum_of(reader, FIELD_BLOCKS_USED);
    double mean = -1;

    if (usage != NULL) {
        mean = usage->sum / usage->count;
    } else if (used >= 0 && blocks > 0) {
        mean = used / blocks;
    }
    return mean > 1 ? 1 : mean;
}

static double block_tokens_of(const struct reader *reader)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (reader->tallies[i].block_tokens > 0) {
            return reader->tallies[i].block_tokens;
        }
    }
    return -1;
}

static double cache_tokens_of(const struct reader *reader, double blocks, double block_tokens)
{
    double tokens = sum_of(reader, FIELD_CACHE_TOKENS);
    if (tokens < 0) {
        tokens = sum_of(reader, FIELD_CONFIG);
    }
    if (tokens < 0 && blocks >= 0 && block_tokens > 0) {
        tokens = blocks * block_tokens;
    }
    // A cache of no size is one that nobody has measured yet.
    return tokens > 0 && tokens <= EXPOSITION_VALUE_MAX ? tokens : -1;
}

void engine_metrics_read(struct slice page, uint32_t rank, struct load_report *out)
{
    struct reader reader = {.rank = rank};
    if (exposition_is_json(page)) {
        stats_json_read(page, rank, read_member, &reader);
    } else {
        read_text(&reader, page);
    }
    double blocks = sum_of(&reader, FIELD_BLOCKS);
    double block_tokens = block_tokens_of(&reader);
    *out = (struct load_report){
        .running = (float)sum_of(&reader, FIELD_RUNNING),
        .waiting = (float)sum_of(&reader, FIELD_WAITING),
        .kv_usage = (float)usage_of(&reader, blocks),
        .cache_tokens = cache_tokens_of(&reader, blocks, block_tokens),
        .block_tokens = block_tokens,
    };
}
