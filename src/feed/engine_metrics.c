// SPDX-License-Identifier: Apache-2.0

#include "feed/engine_metrics.h"

#include "base/base.h"
#include "feed/engine_page.h"

enum metric_field {
    FIELD_RUNNING,
    FIELD_WAITING,
    FIELD_USAGE,
    FIELD_CACHE_TOKENS, // of the whole cache
    FIELD_BLOCK_TOKENS,
    FIELD_BLOCKS,
    FIELD_BLOCKS_USED,
    FIELD_CONFIG, // block size and number of blocks are labels, the value means nothing
    FIELD_COUNT,
};

// The others are added up over series.
static const enum engine_combine combines[FIELD_COUNT] = {
    [FIELD_USAGE] = ENGINE_MEAN,
    [FIELD_BLOCK_TOKENS] = ENGINE_FIRST,
};

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

static void metrics_take_config(void *owner, uint32_t row, const struct exposition_sample *sample)
{
    struct engine_tally *tally = (struct engine_tally *)owner + row;
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

void engine_metrics_read(struct slice page, uint32_t rank, struct load_report *out)
{
    struct engine_tally tallies[ARRAY_COUNT(rows)] = {0};
    const struct engine_page_options options = {.rows = rows,
                                                .row_count = ARRAY_COUNT(rows),
                                                .rank = rank,
                                                .skips_priorities = true,
                                                .special = metrics_take_config,
                                                .owner = tallies};
    double fields[FIELD_COUNT];

    engine_page_read(page, &options, tallies);
    for (uint32_t i = 0; i < FIELD_COUNT; i++) {
        fields[i] = engine_page_field(&options, tallies, i, combines[i]);
    }
    double blocks = fields[FIELD_BLOCKS];
    double block_tokens = fields[FIELD_BLOCK_TOKENS];
    if (block_tokens < 0) {
        block_tokens = engine_page_field(&options, tallies, FIELD_CONFIG, ENGINE_FIRST);
    }
    double usage = fields[FIELD_USAGE];
    if (usage < 0 && fields[FIELD_BLOCKS_USED] >= 0 && blocks > 0) {
        usage = fields[FIELD_BLOCKS_USED] / blocks;
    }
    double tokens =
        fields[FIELD_CACHE_TOKENS] >= 0 ? fields[FIELD_CACHE_TOKENS] : fields[FIELD_CONFIG];
    if (tokens < 0 && blocks >= 0 && block_tokens > 0) {
        tokens = blocks * block_tokens;
    }
    *out = (struct load_report){
        .running = (float)fields[FIELD_RUNNING],
        .waiting = (float)fields[FIELD_WAITING],
        .kv_usage = (float)(usage > 1 ? 1 : usage),
        // A cache of size 0 has not been measured yet.
        .cache_tokens = tokens > 0 && tokens <= EXPOSITION_VALUE_MAX ? tokens : -1,
        .block_tokens = block_tokens,
    };
}
