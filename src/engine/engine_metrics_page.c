// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_metrics_page.h"

#include "base/base.h"
#include "base/text.h"

#include <inttypes.h>

// The edges of vLLM's buckets, in seconds; the last of each row is 0 and stands for no edge.
static const struct {
    const char *name;
    const char *help;
    double edges[engine_bucket_max];
} times[engine_time_count] = {
    [ENGINE_TIME_FIRST] = {"vllm:time_to_first_token_seconds",
                           "Time to the first token.",
                           {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                            1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560}},
    [ENGINE_TIME_BETWEEN] = {"vllm:inter_token_latency_seconds",
                             "Time between two tokens.",
                             {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5,
                              10, 20, 40, 80}},
    [ENGINE_TIME_WHOLE] = {"vllm:e2e_request_latency_seconds",
                           "Time of whole requests.",
                           {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                            30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}},
};

static const char *const end_names[engine_end_count] = {
    [ENGINE_END_STOP] = "stop", [ENGINE_END_LENGTH] = "length", [ENGINE_END_ABORT] = "abort"};

void engine_counts_note(struct engine_counts *counts, enum engine_time time, double seconds)
{
    const double *edges = times[time].edges;
    uint32_t bucket = 0;
    while (edges[bucket] > 0 && seconds > edges[bucket]) {
        bucket++;
    }
    counts->times[time].counts[bucket]++;
    counts->times[time].sum_s += seconds;
}

static void page_write_head(struct text *out, const char *name, const char *kind, const char *help)
{
    text_add_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

enum metric {
    RUNNING,
    WAITING,
    USAGE,
    QUERIES,
    HITS,
    PROMPTS,
    RESPONSES,
    PREEMPTIONS,
    STEPS,
    LATENESS,
    metric_count
};

static const struct {
    const char *name;
    const char *kind;
    const char *help;
} metrics[metric_count] = {
    [RUNNING] = {"vllm:num_requests_running", "gauge", "Requests in the batch."},
    [WAITING] = {"vllm:num_requests_waiting", "gauge", "Requests that wait."},
    [USAGE] = {"vllm:kv_cache_usage_perc", "gauge",
               "Share of the KV cache in use; 1 is all of it."},
    [QUERIES] = {"vllm:prefix_cache_queries_total", "counter", "Tokens looked for in the cache."},
    [HITS] = {"vllm:prefix_cache_hits_total", "counter", "Tokens found there."},
    [PROMPTS] = {"vllm:prompt_tokens_total", "counter", "Tokens of prompts."},
    [RESPONSES] = {"vllm:generation_tokens_total", "counter", "Tokens of responses."},
    [PREEMPTIONS] = {"vllm:num_preemptions_total", "counter", "Preemptions."},
    [STEPS] = {"warmpath:engine_steps_total", "counter", "Steps."},
    [LATENESS] = {"warmpath:engine_late_seconds_total", "counter",
                  "By how much the ends of steps were seen too late, in all."},
};

static double page_value_of(const struct engine_metrics_rank *rank, enum metric metric)
{
    const struct engine_status *status = &rank->status;
    const double values[metric_count] = {
        [RUNNING] = status->running,
        [WAITING] = status->waiting,
        [USAGE] =
            status->kv_tokens > 0 ? (double)status->used_tokens / (double)status->kv_tokens : 0,
        [QUERIES] = (double)status->query_tokens,
        [HITS] = (double)status->hit_tokens,
        [PROMPTS] = (double)status->prompt_tokens,
        [RESPONSES] = (double)status->output_tokens,
        [PREEMPTIONS] = (double)status->preemptions,
        [STEPS] = (double)rank->counts->steps,
        [LATENESS] = rank->counts->late_s,
    };
    return values[metric];
}

static void write_metrics(const struct engine_metrics_page *page, struct text *out)
{
    for (enum metric metric = 0; metric < metric_count; metric++) {
        page_write_head(out, metrics[metric].name, metrics[metric].kind, metrics[metric].help);
        for (uint32_t i = 0; i < page->rank_count; i++) {
            text_add_format(out, "%s{engine=\"%u\",model_name=%s} %.17g\n", metrics[metric].name, i,
                            page->model, page_value_of(&page->ranks[i], metric));
        }
    }
}

static void write_configuration(const struct engine_metrics_page *page, struct text *out)
{
    page_write_head(out, "vllm:cache_config_info", "gauge", "The cache, in its labels.");
    for (uint32_t i = 0; i < page->rank_count; i++) {
        // The engine we imitate keeps block 0 for itself and counts it.
        text_add_format(out,
                        "vllm:cache_config_info{block_size=\"%u\",enable_prefix_caching=\"True\","
                        "engine=\"%u\",num_gpu_blocks=\"%" PRIu64 "\"} 1\n",
                        page->profile->block_tokens, i,
                        page->profile->kv_tokens / page->profile->block_tokens + 1);
    }
}

static void write_ends(const struct engine_metrics_page *page, struct text *out)
{
    page_write_head(out, "vllm:request_success_total", "counter",
                    "Requests that ended, by reason.");
    for (uint32_t rank = 0; rank < page->rank_count; rank++) {
        for (size_t i = 0; i < engine_end_count; i++) {
            text_add_format(out,
                            "vllm:request_success_total{engine=\"%u\",finished_reason=\"%s\","
                            "model_name=%s} %" PRIu64 "\n",
                            rank, end_names[i], page->model, page->ranks[rank].counts->ends[i]);
        }
    }
}

static void write_histogram(const struct engine_metrics_page *page, uint32_t rank,
                            enum engine_time time, struct text *out)
{
    const struct engine_histogram *histogram = &page->ranks[rank].counts->times[time];
    const char *name = times[time].name;
    uint64_t sum = 0;

    for (size_t i = 0; i < engine_bucket_max; i++) {
        bool is_last = !(times[time].edges[i] > 0);
        sum += histogram->counts[i];
        text_add_format(out, "%s_bucket{engine=\"%u\",le=\"", name, rank);
        if (is_last) {
            text_add_str(out, "+Inf");
        } else {
            text_add_format(out, "%g", times[time].edges[i]);
        }
        text_add_format(out, "\",model_name=%s} %" PRIu64 "\n", page->model, sum);
        if (is_last) {
            break;
        }
    }
    text_add_format(out, "%s_count{engine=\"%u\",model_name=%s} %" PRIu64 "\n", name, rank,
                    page->model, sum);
    text_add_format(out, "%s_sum{engine=\"%u\",model_name=%s} %.9g\n", name, rank, page->model,
                    histogram->sum_s);
}

void engine_metrics_page_write(const struct engine_metrics_page *page, struct text *out)
{
    // Label values need the same escapes as JSON strings.
    char label[6 * profile_name_size + 3];
    struct text quoted = text_over(label, sizeof(label) - 1);
    struct engine_metrics_page copy = *page;

    text_add_json(&quoted, slice_str(page->model));
    ASSERT(!quoted.overflow);
    label[quoted.size] = '\0';
    copy.model = label;
    write_metrics(&copy, out);
    write_configuration(&copy, out);
    write_ends(&copy, out);
    for (enum engine_time time = 0; time < engine_time_count; time++) {
        page_write_head(out, times[time].name, "histogram", times[time].help);
        for (uint32_t rank = 0; rank < page->rank_count; rank++) {
            write_histogram(&copy, rank, time, out);
        }
    }
}
