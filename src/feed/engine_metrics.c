// SPDX-License-Identifier: Apache-2.0

#include "feed/engine_metrics.h"

#include "base/base.h"
#include "feed/engine_page.h"

enum metric_field {
    FIELD_RUNNING, // added up over series, unless a comment says otherwise
    FIELD_WAITING,
    FIELD_USAGE,        // the mean
    FIELD_CACHE_TOKENS, // of the whole cache
    FIELD_BLOCK_TOKENS, // the first
    FIELD_BLOCKS,
    FIELD_BLOCKS_USED,
    FIELD_CONFIG, // block size and number of blocks are labels, the value means nothing
};

_Static_assert((uint32_t)engine_metrics_all_ranks == (uint32_t)engine_page_all_ranks,
               "the same value");

// A row of FIELD_CONFIG: the labels with the block size and with the number of blocks, of which
// `spare` are never used.
#define CONFIG(name, spare, size_label, count_label)                                               \
    {                                                                                              \
        (name), FIELD_CONFIG, (spare), (size_label), (count_label), .is_special = true             \
    }

// If a page has several names for one field, the first row here counts: vLLM 0.9.2 to 0.10 has both
// of its names for the usage of the cache.  The last two groups are members of JSON objects.
static const struct engine_row rows[] = {
    {.name = "vllm:num_requests_running", FIELD_RUNNING},
    {.name = "vllm:num_requests_waiting", FIELD_WAITING},
    {.name = "vllm:kv_cache_usage_perc", FIELD_USAGE},
    {.name = "vllm:gpu_cache_usage_perc", FIELD_USAGE},
    // Block 0 stands for "no block" and is never used.
    CONFIG("vllm:cache_config_info", 1, "block_size", "num_gpu_blocks"),

    {.name = "sglang:num_running_reqs", FIELD_RUNNING},
    {.name = "sglang:num_queue_reqs", FIELD_WAITING},
    {.name = "sglang:token_usage", FIELD_USAGE},
    {.name = "sglang:max_total_num_tokens", FIELD_CACHE_TOKENS},
    {.name = "sglang:page_size", FIELD_BLOCK_TOKENS},
    {.name = "sglang:num_pages", FIELD_BLOCKS},
    CONFIG("sglang:cache_config_info", 0, "page_size", "num_pages"),

    {.name = "trtllm_num_requests_running", FIELD_RUNNING},
    {.name = "trtllm_num_requests_waiting", FIELD_WAITING},
    {.name = "trtllm_kv_cache_utilization", FIELD_USAGE},
    {.name = "trtllm_kv_cache_tokens_per_block", FIELD_BLOCK_TOKENS},
    {.name = "trtllm_kv_cache_max_blocks", FIELD_BLOCKS},
    {.name = "trtllm_kv_cache_used_blocks", FIELD_BLOCKS_USED},
    {.name = "num_requests_running", FIELD_RUNNING}, // before there was a prefix
    {.name = "num_requests_waiting", FIELD_WAITING},
    {.name = "kv_cache_utilization", FIELD_USAGE},
    {.name = "kv_cache_tokens_per_block", FIELD_BLOCK_TOKENS},
    {.name = "kv_cache_max_blocks", FIELD_BLOCKS},

    {.name = "nv_trt_llm_request_metrics", FIELD_RUNNING, 0, "request_type", "scheduled"},
    {.name = "nv_trt_llm_request_metrics", FIELD_WAITING, 0, "request_type", "waiting"},
    {.name = "nv_trt_llm_kv_cache_block_metrics",
     FIELD_USAGE,
     0,
     "kv_cache_block_type",
     "fraction"},
    {.name = "nv_trt_llm_kv_cache_block_metrics",
     FIELD_BLOCK_TOKENS,
     0,
     "kv_cache_block_type",
     "tokens_per"},
    {.name = "nv_trt_llm_kv_cache_block_metrics", FIELD_BLOCKS, 0, "kv_cache_block_type", "max"},
    {.name = "nv_trt_llm_kv_cache_block_metrics",
     FIELD_BLOCKS_USED,
     0,
     "kv_cache_block_type",
     "used"},
    {.name = "nv_inference_pending_request_count", FIELD_WAITING},

    {.name = "llamacpp:requests_processing", FIELD_RUNNING},
    {.name = "llamacpp:requests_deferred", FIELD_WAITING},
    {.name = "llamacpp:kv_cache_usage_ratio", FIELD_USAGE},

    // TensorRT-LLM, GET /metrics.
    {.name = "numActiveRequests", FIELD_RUNNING},
    {.name = "numQueuedRequests", FIELD_WAITING},
    {.name = "tokensPerBlock", FIELD_BLOCK_TOKENS},
    {.name = "maxNumBlocks", FIELD_BLOCKS},
    {.name = "usedNumBlocks", FIELD_BLOCKS_USED},

    // SGLang, GET /v1/loads.
    {.name = "num_running_reqs", FIELD_RUNNING},
    {.name = "num_waiting_reqs", FIELD_WAITING},
    {.name = "token_usage", FIELD_USAGE},
    {.name = "max_total_num_tokens", FIELD_CACHE_TOKENS},
};

struct metrics_reader {
    struct engine_tally tallies[ARRAY_COUNT(rows)];
};

static void metrics_take_config(void *owner, uint32_t row, const struct exposition_sample *sample)
{
    struct metrics_reader *reader = owner;
    struct engine_tally *tally = &reader->tallies[row];
    uint32_t spare = rows[row].extra;
    double block_tokens = 0;
    double blocks = 0;

    if (!exposition_number(exposition_label(sample->labels, rows[row].label), &block_tokens) ||
        block_tokens == 0) {
        return;
    }
    tally->first = tally->first > 0 ? tally->first : block_tokens;
    // The number is "None" until the engine has measured how many blocks fit.
    if (exposition_number(exposition_label(sample->labels, rows[row].word), &blocks) &&
        blocks > spare) {
        tally->sum += block_tokens * (blocks - spare);
        tally->count++;
    }
}

// The first row of a field that the page has; NULL when it has none.
static const struct engine_tally *metric_tally(const struct metrics_reader *reader,
                                               enum metric_field field)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (rows[i].field == field && reader->tallies[i].count > 0) {
            return &reader->tallies[i];
        }
    }
    return NULL;
}

static double metric_sum(const struct metrics_reader *reader, enum metric_field field)
{
    const struct engine_tally *tally = metric_tally(reader, field);
    return tally == NULL ? -1 : tally->sum;
}

static double usage_of(const struct metrics_reader *reader, double blocks)
{
    const struct engine_tally *usage = metric_tally(reader, FIELD_USAGE);
    double used = metric_sum(reader, FIELD_BLOCKS_USED);
    double mean = -1;

    if (usage != NULL) {
        mean = usage->sum / usage->count;
    } else if (used >= 0 && blocks > 0) {
        mean = used / blocks;
    }
    return mean > 1 ? 1 : mean;
}

static double block_tokens_of(const struct metrics_reader *reader)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        bool has_size = rows[i].field == FIELD_BLOCK_TOKENS || rows[i].field == FIELD_CONFIG;
        if (has_size && reader->tallies[i].first > 0) {
            return reader->tallies[i].first;
        }
    }
    return -1;
}

static double cache_tokens_of(const struct metrics_reader *reader, double blocks,
                              double block_tokens)
{
    double tokens = metric_sum(reader, FIELD_CACHE_TOKENS);
    if (tokens < 0) {
        tokens = metric_sum(reader, FIELD_CONFIG);
    }
    if (tokens < 0 && blocks >= 0 && block_tokens > 0) {
        tokens = blocks * block_tokens;
    }
    // A cache of size 0 has not been measured yet.
    return tokens > 0 && tokens <= EXPOSITION_VALUE_MAX ? tokens : -1;
}

void engine_metrics_read(struct slice page, uint32_t rank, struct load_report *out)
{
    struct metrics_reader reader = {0};
    engine_page_read(page,
                     &(struct engine_page_options){.rows = rows,
                                                   .row_count = ARRAY_COUNT(rows),
                                                   .rank = rank,
                                                   .skips_priorities = true,
                                                   .special = metrics_take_config,
                                                   .owner = &reader},
                     reader.tallies);
    double blocks = metric_sum(&reader, FIELD_BLOCKS);
    double block_tokens = block_tokens_of(&reader);
    *out = (struct load_report){
        .running = (float)metric_sum(&reader, FIELD_RUNNING),
        .waiting = (float)metric_sum(&reader, FIELD_WAITING),
        .kv_usage = (float)usage_of(&reader, blocks),
        .cache_tokens = cache_tokens_of(&reader, blocks, block_tokens),
        .block_tokens = block_tokens,
    };
}
