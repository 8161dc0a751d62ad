// SPDX-License-Identifier: Apache-2.0

#include "feed/engine_counters.h"

#include "base/text.h"
#include "test.h"

static struct engine_counters read_page(const char *page)
{
    struct engine_counters counters;
    engine_counters_read(slice_str(page), &counters);
    return counters;
}

// "kind: requests prompt asked cached computed seconds", with - for what is not said.
static const char *say(const struct engine_counters *counters)
{
    static char space[512];
    struct text text = text_over(space, sizeof(space) - 1);
    text_add_format(&text, "%s:", engine_kind_name(counters->kind));
    for (uint32_t i = 0; i < COUNTER_COUNT; i++) {
        if (counters->values[i] < 0) {
            text_add_str(&text, " -");
        } else {
            text_add_format(&text, " %.10g", counters->values[i]);
        }
    }
    ASSERT(!text.overflow);
    space[text.size] = '\0';
    return space;
}

static const char *said(const char *page)
{
    struct engine_counters counters = read_page(page);
    return say(&counters);
}

static const char vllm[] =
    "# TYPE vllm:prefix_cache_queries_total counter\n"
    "vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"m\"} 1000.0\n"
    "vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 250.0\n"
    "vllm:prompt_tokens_total{engine=\"0\"} 990.0\n"
    "vllm:generation_tokens_total{engine=\"0\"} 5000.0\n"
    "vllm:request_success_total{engine=\"0\",finished_reason=\"stop\"} 3.0\n"
    "vllm:request_success_total{engine=\"0\",finished_reason=\"length\"} 2.0\n"
    "vllm:request_prefill_time_seconds_bucket{engine=\"0\",le=\"0.3\"} 5.0\n"
    "vllm:request_prefill_time_seconds_sum{engine=\"0\"} 1.5\n"
    "vllm:request_prefill_time_seconds_count{engine=\"0\"} 5.0\n"
    "vllm:request_prefill_kv_computed_tokens_sum{engine=\"0\"} 750.0\n"
    "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.1\"} 4.0\n"
    "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"1.0\"} 5.0\n"
    "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\"} 6.0\n"
    "vllm:time_to_first_token_seconds_count{engine=\"0\"} 6.0\n"
    "vllm:time_to_first_token_seconds_sum{engine=\"0\"} 9.0\n"
    "process_start_time_seconds 1.7e+09\n";

TEST(vllm_reports_all_counters)
{
    struct engine_counters counters = read_page(vllm);
    CHECK_STR(say(&counters), "vLLM: 5 990 1000 250 750 1.5");
    CHECK(counters.started_s == 1.7e9);
    CHECK_EQ(counters.ttft.bucket_count, 2);
    CHECK(counters.ttft.bounds[0] == 0.1 && counters.ttft.counts[0] == 4);
    CHECK(counters.ttft.bounds[1] == 1 && counters.ttft.counts[1] == 5);
    CHECK(counters.ttft.count == 6);
}

TEST(names_of_older_releases_and_of_exporters_are_known)
{
    CHECK_STR(said("vllm:gpu_prefix_cache_queries 10\nvllm:gpu_prefix_cache_hits 4\n"),
              "vLLM: - 10 10 4 6 -");
    CHECK_STR(said("ray_vllm_prefix_cache_queries_total 10\nray_vllm_prefix_cache_hits_total 4\n"),
              "vLLM: - 10 10 4 6 -");
    CHECK_STR(said("request_success_total 4\ntime_to_first_token_seconds_bucket{le=\"1\"} 4\n"),
              "TensorRT-LLM: 4 - - - - -");
}

TEST(the_newer_of_two_names_for_one_counter_is_read)
{
    CHECK_STR(said("vllm:gpu_prefix_cache_queries_total 10\nvllm:prefix_cache_queries_total 10\n"
                   "vllm:gpu_prefix_cache_hits_total 4\nvllm:prefix_cache_hits_total 4\n"),
              "vLLM: - 10 10 4 6 -");
}

TEST(hits_of_a_cache_behind_the_engine_count_as_cached)
{
    CHECK_STR(said("vllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total 40\n"
                   "vllm:external_prefix_cache_hits_total 10\n"),
              "vLLM: - 100 100 50 50 -");
}

TEST(computed_tokens_are_read_from_the_source_of_prompt_tokens)
{
    CHECK_STR(said("vllm:prompt_tokens_total 100\n"
                   "vllm:prompt_tokens_by_source_total{source=\"local_compute\"} 70\n"
                   "vllm:prompt_tokens_by_source_total{source=\"local_cache_hit\"} 30\n"),
              "vLLM: - 100 - - 70 -");
}

TEST(ranks_are_added_up)
{
    struct engine_counters counters =
        read_page("vllm:prompt_tokens_total{engine=\"0\"} 5\n"
                  "vllm:prompt_tokens_total{engine=\"1\"} 7\n"
                  "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"1\"} 2\n"
                  "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\"} 3\n"
                  "vllm:time_to_first_token_seconds_bucket{engine=\"1\",le=\"1\"} 4\n"
                  "vllm:time_to_first_token_seconds_bucket{engine=\"1\",le=\"+Inf\"} 4\n");
    CHECK_STR(say(&counters), "vLLM: 7 12 - - - -");
    CHECK_EQ(counters.ttft.bucket_count, 1);
    CHECK(counters.ttft.counts[0] == 6 && counters.ttft.count == 7);
}

TEST(sglang_counts_cached_tokens_by_where_they_were)
{
    CHECK_STR(said("sglang:prompt_tokens_total{model_name=\"m\"} 1000\n"
                   "sglang:cached_tokens_total{cache_source=\"device\"} 300\n"
                   "sglang:cached_tokens_total{cache_source=\"host\"} 100\n"
                   "sglang:num_requests_total{model_name=\"m\"} 8\n"),
              "SGLang: 8 1000 1000 400 600 -");
}

TEST(sglang_tells_its_prefill_speed_elsewhere)
{
    struct engine_counters counters =
        read_page("sglang:prompt_tokens_total 1000\nsglang:cached_tokens_total 400\n");
    struct engine_counters loads =
        read_page("{\"loads\":[{\"total_prefill_uncached_tokens\":500,\"total_prefill_busy_us\":"
                  "1500000},{\"total_prefill_uncached_tokens\":100,\"total_prefill_busy_us\":"
                  "500000}]}");
    engine_counters_complete(&counters, &loads);
    CHECK_STR(say(&counters), "SGLang: - 1000 1000 400 600 2");
    CHECK(!counters.lists_steps);
}

TEST(tensorrt_llm_counts_blocks_in_its_last_step)
{
    struct engine_counters counters =
        read_page("[{\"iter\":1,\"kvCacheStats\":{\"reusedBlocks\":1,\"missedBlocks\":1,"
                  "\"tokensPerBlock\":32}},"
                  "{\"iter\":2,\"kvCacheStats\":{\"reusedBlocks\":10,\"missedBlocks\":30,"
                  "\"tokensPerBlock\":32,\"cacheHitRate\":0.25}}]");
    CHECK_STR(say(&counters), "TensorRT-LLM: - 1280 1280 320 960 -");
    CHECK(counters.lists_steps);
}

TEST(a_rate_since_the_start_stands_for_a_counter)
{
    CHECK_STR(said("trtllm_prompt_tokens_total 1000\ntrtllm_kv_cache_hit_rate 0.25\n"
                   "trtllm_request_prefill_time_seconds_sum 3\n"),
              "TensorRT-LLM: - 1000 1000 250 750 3");
}

TEST(llama_cpp_reports_computed_tokens_and_no_cached_ones)
{
    CHECK_STR(said("llamacpp:prompt_tokens_total 300\nllamacpp:prompt_seconds_total 1.5\n"
                   "llamacpp:prompt_tokens_seconds 200\n"),
              "llama.cpp: - - - - 300 1.5");
}

TEST(a_page_without_counters_leaves_all_unknown)
{
    static const char *const pages[] = {
        "",
        "\n\n#\n",
        "hello",
        "[]",
        "{}",
        "[1, 2]",
        "[{\"kvCacheStats\": {\"reusedBlocks\": 1",
        "vllm:prompt_tokens_total NaN\n",
        "vllm:prompt_tokens_total -1\n",
        "vllm:prompt_tokens_total{le=\"1 5\n",
        "vllm:prompt_tokens_created 1.7e9\n",
        "vllm:num_requests_running 1\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(pages); i++) {
        struct engine_counters counters = read_page(pages[i]);
        CHECK(!engine_counters_has_any(&counters));
    }
    struct engine_counters counters = read_page(vllm);
    CHECK(engine_counters_has_any(&counters));
}

TEST(buckets_in_any_order_are_sorted_and_never_fall)
{
    struct engine_counters counters =
        read_page("sglang:time_to_first_token_seconds_bucket{le=\"5\"} 3\n"
                  "sglang:time_to_first_token_seconds_bucket{le=\"1\"} 4\n"
                  "sglang:time_to_first_token_seconds_bucket{le=\"3\"} 1\n"
                  "sglang:time_to_first_token_seconds_bucket{le=\"+Inf\"} 2\n"
                  "sglang:time_to_first_token_seconds_bucket{le=\"nonsense\"} 2\n"
                  "vllm:time_to_first_token_seconds_bucket{le=\"9\"} 99\n");
    CHECK_EQ(counters.ttft.bucket_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(counters.ttft.bounds[i], 1 + 2 * i);
        CHECK_EQ(counters.ttft.counts[i], 4);
    }
    CHECK_EQ(counters.ttft.count, 4);
}

TEST(more_buckets_than_fit_are_left_out)
{
    static char page[1 << 14];
    struct text text = text_over(page, sizeof(page) - 1);
    for (int i = 1; i <= 100; i++) {
        text_add_format(&text, "vllm:time_to_first_token_seconds_bucket{le=\"%d\"} %d\n", i, i);
    }
    text_add_str(&text, "vllm:time_to_first_token_seconds_count 100\n");
    ASSERT(!text.overflow);
    struct engine_counters counters = read_page(page);
    CHECK_EQ(counters.ttft.bucket_count, counter_bucket_max);
    CHECK(counters.ttft.bounds[63] == 64 && counters.ttft.counts[63] == 64);
    CHECK(counters.ttft.count == 100);
}

TEST(the_difference_of_two_pages_is_the_work_between_them)
{
    struct engine_counters before = read_page(vllm);
    struct engine_counters after = before;
    struct engine_counters done;
    after.values[COUNTER_PROMPT] += 100;
    after.values[COUNTER_CACHED] += 30;
    after.ttft.counts[1] += 2;
    after.ttft.count += 3;
    CHECK(engine_counters_since(&before, &after, &done));
    CHECK_STR(say(&done), "vLLM: 0 100 0 30 0 0");
    CHECK(done.ttft.counts[0] == 0 && done.ttft.counts[1] == 2 && done.ttft.count == 3);
}

TEST(an_engine_that_started_anew_counts_from_its_start)
{
    struct engine_counters before = read_page(vllm);
    struct engine_counters after = read_page("vllm:prompt_tokens_total 50\n");
    struct engine_counters done;
    CHECK(!engine_counters_since(&before, &after, &done));
    CHECK_STR(say(&done), "vLLM: - 50 - - - -");
}

TEST(a_counter_that_appears_has_counted_from_zero)
{
    struct engine_counters before = read_page("python_info 1\n");
    struct engine_counters after = read_page(vllm);
    struct engine_counters done;
    CHECK(engine_counters_since(&before, &after, &done));
    CHECK_STR(say(&done), "vLLM: 5 990 1000 250 750 1.5");
    CHECK_EQ(done.ttft.bucket_count, 2);

    // An idle TensorRT-LLM lists no steps, and what it did before them is not of this interval.
    before = read_page("[]");
    after = read_page("[{\"kvCacheStats\":{\"reusedBlocks\":1,\"missedBlocks\":1,"
                      "\"tokensPerBlock\":32}}]");
    CHECK(engine_counters_since(&before, &after, &done));
    CHECK(!engine_counters_has_any(&done));
}
