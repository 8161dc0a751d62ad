// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_metrics_page.h"

#include "base/text.h"
#include "feed/engine_metrics.h"
#include "test.h"

static const char *model = "m";
static struct engine_counts counts;
static struct engine_status status;

static const char *page_of(const struct engine_metrics_rank *ranks, uint32_t count)
{
    static char space[3 * engine_metrics_rank_room + 1];
    struct text text = text_over(space, (size_t)count * engine_metrics_rank_room);
    struct profile profile;

    ASSERT(profile_find("codellama-13b", &profile));
    engine_metrics_page_write(
        &(struct engine_metrics_page){
            .model = model, .profile = &profile, .ranks = ranks, .rank_count = count},
        &text);
    ASSERT(!text.overflow);
    space[text.size] = '\0';
    return space;
}

static const char *page(void)
{
    return page_of(&(struct engine_metrics_rank){.status = status, .counts = &counts}, 1);
}

static bool has(const char *line)
{
    return strstr(page(), line) != NULL;
}

TEST(our_own_scraper_reads_it)
{
    struct load_report report;
    status = (struct engine_status){
        .running = 7, .waiting = 3, .used_tokens = 30783, .kv_tokens = 123132};
    engine_metrics_read(slice_str(page()), exposition_all_ranks, &report);
    CHECK_EQ(report.running, 7);
    CHECK_EQ(report.waiting, 3);
    CHECK(report.kv_usage > 0.2499f && report.kv_usage < 0.2501f);
    CHECK_EQ(report.block_tokens, 16);
    CHECK_EQ(report.cache_tokens, 123132 / 16 * 16);
}

TEST(counters_are_named_as_vllm_names_them)
{
    status = (struct engine_status){.query_tokens = 1000,
                                    .hit_tokens = 600,
                                    .prompt_tokens = 1001,
                                    .output_tokens = 12345678901,
                                    .preemptions = 2};
    counts = (struct engine_counts){.ends = {[ENGINE_END_LENGTH] = 5, [ENGINE_END_ABORT] = 1}};
    CHECK(has("\nvllm:prefix_cache_queries_total{engine=\"0\",model_name=\"m\"} 1000\n"));
    CHECK(has("\nvllm:prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 600\n"));
    CHECK(has("\nvllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 1001\n"));
    CHECK(has("\nvllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} 12345678901\n"));
    CHECK(has("\nvllm:num_preemptions_total{engine=\"0\",model_name=\"m\"} 2\n"));
    CHECK(has("\nvllm:request_success_total{engine=\"0\",finished_reason=\"length\","
              "model_name=\"m\"} 5\n"));
    CHECK(has("\nvllm:request_success_total{engine=\"0\",finished_reason=\"abort\","
              "model_name=\"m\"} 1\n"));
}

TEST(buckets_hold_all_up_to_their_edge)
{
    counts = (struct engine_counts){0};
    engine_counts_note(&counts, ENGINE_TIME_FIRST, 0.04);
    engine_counts_note(&counts, ENGINE_TIME_FIRST, 0.041);
    engine_counts_note(&counts, ENGINE_TIME_FIRST, 9999);
    engine_counts_note(&counts, ENGINE_TIME_BETWEEN, 0.009);
    engine_counts_note(&counts, ENGINE_TIME_WHOLE, 7680);
#define BUCKET(name, edge, count)                                                                  \
    "\nvllm:" name "_bucket{engine=\"0\",le=\"" edge "\",model_name=\"m\"} " count "\n"
    CHECK(has(BUCKET("time_to_first_token_seconds", "0.02", "0")));
    CHECK(has(BUCKET("time_to_first_token_seconds", "0.04", "1")));
    CHECK(has(BUCKET("time_to_first_token_seconds", "0.06", "2")));
    CHECK(has(BUCKET("time_to_first_token_seconds", "2560", "2")));
    CHECK(has(BUCKET("time_to_first_token_seconds", "+Inf", "3")));
    CHECK(has(BUCKET("inter_token_latency_seconds", "0.01", "1")));
    CHECK(has(BUCKET("inter_token_latency_seconds", "80", "1")));
    CHECK(has(BUCKET("e2e_request_latency_seconds", "1920", "0")));
    CHECK(has(BUCKET("e2e_request_latency_seconds", "7680", "1")));
#undef BUCKET
    CHECK(has("\nvllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"m\"} 3\n"));
    CHECK(has("\nvllm:time_to_first_token_seconds_sum{engine=\"0\",model_name=\"m\"} 9999.081\n"));
}

TEST(names_are_escaped)
{
    model = "a\"b\\c";
    bool is_escaped = has("vllm:num_requests_running{engine=\"0\",model_name=\"a\\\"b\\\\c\"} ");
    model = "m";
    CHECK(is_escaped);
}

TEST(each_rank_has_its_series_under_one_head)
{
    struct engine_counts other = {.ends = {[ENGINE_END_STOP] = 9}, .steps = 3};
    struct engine_metrics_rank ranks[3] = {{.status = {.running = 5}, .counts = &other},
                                           {.status = {.running = 6}, .counts = &other},
                                           {.status = {.running = 7}, .counts = &other}};
    engine_counts_note(&other, ENGINE_TIME_FIRST, 0.5);
    const char *text = page_of(ranks, 3);
    CHECK(strstr(text, "# TYPE vllm:num_requests_running gauge\n"
                       "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 5\n"
                       "vllm:num_requests_running{engine=\"1\",model_name=\"m\"} 6\n"
                       "vllm:num_requests_running{engine=\"2\",model_name=\"m\"} 7\n") != NULL);
    CHECK(strstr(text, "engine=\"2\",num_gpu_blocks=\"7696\"} 1\n") != NULL);
    CHECK(strstr(text, "vllm:request_success_total{engine=\"2\",finished_reason=\"stop\","
                       "model_name=\"m\"} 9\n") != NULL);
    CHECK(strstr(text, "time_to_first_token_seconds_count{engine=\"2\",model_name=\"m\"} 1\n") !=
          NULL);
    struct load_report report;
    engine_metrics_read(slice_str(text), exposition_all_ranks, &report);
    CHECK_EQ(report.running, 18);
}
