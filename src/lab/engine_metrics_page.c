// SPDX-License-Identifier: Apache-2.0

#include "lab/engine_metrics_page.h"

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

static void write_head(struct text *out, const char *name, const char *kind, const char *help)
{
    text_add_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

static void write_one(struct text *out, const char *name, const char *model, double value)
{
    text_add_format(out, "%s{engine=\"0\",model_name=%s} %.17g\n", name, model, value);
}

static void write_gauges(const struct engine_metrics_page *page, struct text *out)
{
    const struct engine_status *status = page->status;
    double usage =
        status->kv_tokens > 0 ? (double)status->used_tokens / (double)status->kv_tokens : 0;
    const struct {
        const char *name;
        const char *help;
        double value;
    } gauges[] = {
        {"vllm:num_requests_running", "Requests in the batch.", status->running},
        {"vllm:num_requests_waiting", "Requests that wait.", status->waiting},
        {"vllm:kv_cache_usage_perc", "Share of the KV cache in use; 1 is all of it.", usage},
    };
    for (size_t i = 0; i < ARRAY_COUNT(gauges); i++) {
        write_head(out, gauges[i].name, "gauge", gauges[i].help);
        write_one(out, gauges[i].name, page->model, gauges[i].value);
    }
    write_head(out, "vllm:cache_config_info", "gauge", "The cache, in its labels.");
    // The engine we imitate keeps block 0 for itself and counts it.
    text_add_format(out,
                    "vllm:cache_config_info{block_size=\"%u\",enable_prefix_caching=\"True\","
                    "engine=\"0\",num_gpu_blocks=\"%" PRIu64 "\"} 1\n",
                    page->profile->block_tokens,
                    page->profile->kv_tokens / page->profile->block_tokens + 1);
}

static void write_counters(const struct engine_metrics_page *page, struct text *out)
{
    const struct engine_status *status = page->status;
    const struct {
        const char *name;
        const char *help;
        double value;
    } counters[] = {
        {"vllm:prefix_cache_queries_total", "Tokens looked for in the cache.",
         (double)status->query_tokens},
        {"vllm:prefix_cache_hits_total", "Tokens found there.", (double)status->hit_tokens},
        {"vllm:prompt_tokens_total", "Tokens of prompts.", (double)status->prompt_tokens},
        {"vllm:generation_tokens_total", "Tokens of answers.", (double)status->output_tokens},
        {"vllm:num_preemptions_total", "Preemptions.", (double)status->preemptions},
        {"warmpath:engine_steps_total", "Steps.", (double)page->counts->steps},
        {"warmpath:engine_late_seconds_total",
         "By how much the ends of steps were seen too late, in all.", page->counts->late_s},
    };
    for (size_t i = 0; i < ARRAY_COUNT(counters); i++) {
        write_head(out, counters[i].name, "counter", counters[i].help);
        write_one(out, counters[i].name, page->model, counters[i].value);
    }
    write_head(out, "vllm:request_success_total", "counter", "Requests that ended, by reason.");
    for (size_t i = 0; i < engine_end_count; i++) {
        text_add_format(out,
                        "vllm:request_success_total{engine=\"0\",finished_reason=\"%s\","
                        "model_name=%s} %" PRIu64 "\n",
                        end_names[i], page->model, page->counts->ends[i]);
    }
}

static void write_histogram(const struct engine_metrics_page *page, enum engine_time time,
                            struct text *out)
{
    const struct engine_histogram *histogram = &page->counts->times[time];
    const char *name = times[time].name;
    uint64_t sum = 0;

    write_head(out, name, "histogram", times[time].help);
    for (size_t i = 0; i < engine_bucket_max; i++) {
        bool is_last = !(times[time].edges[i] > 0);
        sum += histogram->counts[i];
        text_add_format(out, "%s_bucket{engine=\"0\",le=\"", name);
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
    text_add_format(out, "%s_count{engine=\"0\",model_name=%s} %" PRIu64 "\n", name, page->model,
                    sum);
    text_add_format(out, "%s_sum{engine=\"0\",model_name=%s} %.9g\n", name, page->model,
                    histogram->sum_s);
}

void engine_metrics_page_write(const struct engine_metrics_page *page, struct text *out)
{
    // What JSON escapes in a string is what must be escaped in the value of a label.
    char label[6 * profile_name_size + 3];
    struct text quoted = text_over(label, sizeof(label) - 1);
    struct engine_metrics_page copy = *page;

    text_add_json(&quoted, slice_str(page->model));
    ASSERT(!quoted.overflow);
    label[quoted.size] = '\0';
    copy.model = label;
    write_gauges(&copy, out);
    write_counters(&copy, out);
    for (enum engine_time time = 0; time < engine_time_count; time++) {
        write_histogram(&copy, time, out);
    }
}
