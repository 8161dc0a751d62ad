// SPDX-License-Identifier: Apache-2.0

#include "feed/engine_metrics.h"

#include "base/text.h"
#include "sys/clock.h"
#include "test.h"

#include <stdlib.h>

// "running waiting usage cache block" of a page, with - for what it does not say.
static const char *read_rank(struct slice page, uint32_t rank)
{
    static char space[256];
    struct text text = text_over(space, sizeof(space) - 1);
    struct load_report report;

    engine_metrics_read(page, rank, &report);
    double values[] = {report.running, report.waiting, report.kv_usage, report.cache_tokens,
                       report.block_tokens};
    for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
        text_add_str(&text, i > 0 ? " " : "");
        if (values[i] < 0) {
            text_add_str(&text, "-");
        } else {
            text_add_format(&text, "%.10g", i == 2 ? (double)(float)values[i] : values[i]);
        }
    }
    ASSERT(!text.overflow);
    space[text.size] = '\0';
    return space;
}

static const char *read_slice(struct slice page)
{
    return read_rank(page, exposition_all_ranks);
}

static const char *read_page(const char *page)
{
    return read_slice(slice_str(page));
}

static const char nothing[] = "- - - - -";

// As vLLM 0.12 answers, with what does not matter left out but for a little.
static const char vllm[] =
    "# HELP python_gc_objects_collected_total Objects collected during gc\n"
    "# TYPE python_gc_objects_collected_total counter\n"
    "python_gc_objects_collected_total{generation=\"0\"} 13210.0\n"
    "# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
    "# TYPE vllm:num_requests_running gauge\n"
    "vllm:num_requests_running{engine=\"0\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 17.0\n"
    "# TYPE vllm:num_requests_waiting gauge\n"
    "vllm:num_requests_waiting{engine=\"0\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 3.0\n"
    "vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"capacity\"} 3.0\n"
    "vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"deferred\"} 0.0\n"
    "vllm:engine_sleep_state{engine=\"0\",sleep_state=\"awake\"} 1.0\n"
    "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 0.25\n"
    "vllm:prefix_cache_queries_total{engine=\"0\"} 1.2345678e+07\n"
    "vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",cpu_offload_gb=\"0\","
    "enable_prefix_caching=\"True\",engine=\"0\",gpu_memory_utilization=\"0.9\","
    "num_cpu_blocks=\"None\",num_gpu_blocks=\"27001\",num_gpu_blocks_override=\"None\","
    "prefix_caching_hash_algo=\"sha256\",sliding_window=\"None\"} 1.0\n"
    "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.001\"} 0.0\n"
    "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\"} 918.0\n";

TEST(vllm_is_read)
{
    CHECK_STR(read_page(vllm), "17 3 0.25 432000 16");
}

TEST(old_and_new_names_of_vllm_count_once)
{
    CHECK_STR(read_page("vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\n"), "- - 0.5 - -");
    CHECK_STR(read_page("vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.25\n"),
              "- - 0.25 - -");
    CHECK_STR(read_page("vllm:kv_cache_usage_perc 0.25\nvllm:gpu_cache_usage_perc 0.5\n"),
              "- - 0.25 - -");
}

TEST(sglang_is_read)
{
    CHECK_STR(
        read_page(
            "# TYPE sglang:num_running_reqs gauge\n"
            "sglang:num_running_reqs{engine_type=\"unified\",model_name=\"m\",tp_rank=\"0\"} 8.0\n"
            "sglang:num_used_tokens{model_name=\"m\"} 123.0\n"
            "sglang:token_usage{model_name=\"m\"} 0.28\n"
            "sglang:num_queue_reqs{model_name=\"m\"} 2.0\n"
            "sglang:max_total_num_tokens{model_name=\"m\"} 454626.0\n"
            "sglang:page_size{model_name=\"m\"} 64.0\n"
            "sglang:num_pages{model_name=\"m\"} 7103.0\n"),
        "8 2 0.2800000012 454626 64");
    CHECK_STR(read_page("sglang:cache_config_info{num_pages=\"100\",page_size=\"16\"} 1.0\n"),
              "- - - 1600 16");
    CHECK_STR(read_page("sglang:page_size 32\nsglang:num_pages 100\n"), "- - - 3200 32");
}

// With priority scheduling each priority is counted a second time.
TEST(only_the_sum_over_priorities_is_read)
{
    CHECK_STR(read_page("sglang:num_running_reqs{model_name=\"m\",priority=\"\"} 5.0\n"
                        "sglang:num_running_reqs{model_name=\"m\",priority=\"0\"} 2.0\n"
                        "sglang:num_running_reqs{model_name=\"m\",priority=\"1\"} 3.0\n"),
              "5 - - - -");
}

TEST(trtllm_is_read_with_any_prefix_or_none)
{
    static const char *const prefixes[] = {"trtllm_", "trtllm:", "", "ray_trtllm_"};
    for (size_t i = 0; i < ARRAY_COUNT(prefixes); i++) {
        char page[1024];
        const char *p = prefixes[i];
        snprintf(page, sizeof(page),
                 "%snum_requests_running{model_name=\"m\"} 4.0\n%snum_requests_waiting 1.0\n"
                 "%skv_cache_utilization 0.5\n%skv_cache_tokens_per_block 32.0\n"
                 "%skv_cache_max_blocks 1000.0\n%skv_cache_hit_rate 0.9\n",
                 p, p, p, p, p, p);
        CHECK_STR(read_page(page), "4 1 0.5 32000 32");
    }
}

TEST(triton_is_read_by_its_labels)
{
    static const char page[] =
        "nv_inference_pending_request_count{model=\"ensemble\",version=\"1\"} 9\n"
        "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"waiting\",version=\"1\"} "
        "2\n"
        "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"scheduled\",version="
        "\"1\"} 6\n"
        "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"max\",version=\"1\"} "
        "512\n"
        "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"active\",version=\"1\"} "
        "8\n"
        "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"tokens_per\",version=\"1\"} 64\n"
        "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"used\",version=\"1\"} 1560\n"
        "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"free\",version=\"1\"} 4680\n"
        "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"max\",version=\"1\"} 6240\n";
    char with_fraction[2048];
    CHECK_STR(read_page(page), "6 2 0.25 399360 64");
    snprintf(with_fraction, sizeof(with_fraction),
             "%snv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\"} 0.5\n", page);
    CHECK_STR(read_page(with_fraction), "6 2 0.5 399360 64");
    CHECK_STR(read_page("nv_inference_pending_request_count{model=\"m\"} 9\n"), "- 9 - - -");
}

TEST(llamacpp_is_read)
{
    CHECK_STR(read_page("# HELP llamacpp:requests_processing Number of requests processing.\n"
                        "# TYPE llamacpp:requests_processing gauge\n"
                        "llamacpp:requests_processing 3\n"
                        "llamacpp:requests_deferred 1\n"
                        "llamacpp:tokens_predicted_total 100\n"),
              "3 1 - - -");
    CHECK_STR(read_page("llamacpp:kv_cache_usage_ratio 0.75\n"), "- - 0.75 - -");
}

TEST(the_last_step_of_a_list_is_read)
{
    CHECK_STR(
        read_page(" \n[{\"numActiveRequests\":1,\"numQueuedRequests\":2,\"iter\":1},"
                  "{\"iter\":2,\"kvCacheStats\":{\"maxNumBlocks\":1000,\"freeNumBlocks\":750,"
                  "\"usedNumBlocks\":250,\"tokensPerBlock\":32,\"cacheHitRate\":0.5},"
                  "\"inflightBatchingStats\":{\"numActiveRequests\":99},"
                  "\"iterLatencyMS\":1.5,\"numActiveRequests\":7,\"numQueuedRequests\":0}]\r\n"),
        "7 0 0.25 32000 32");
    CHECK_STR(read_page("[{\"numActiveRequests\":1},{}]"), nothing);
    CHECK_STR(read_page("[{\"numActiveRequests\":1},null,5]"), "1 - - - -");
    CHECK_STR(read_page("{\"numActiveRequests\":1}"), "1 - - - -");
}

TEST(json_without_a_known_member_leaves_all_unknown)
{
    static const char *const pages[] = {
        "[]",
        "{}",
        "[{}]",
        "[[{\"numActiveRequests\":1}]]",
        "[{\"numActiveRequests\":1},",
        "[{\"numActiveRequests\":1}] x",
        "[{\"numActiveRequests\":1}",
        "[{\"numActiveRequests\":\"1\"}]",
        "[{\"numActiveRequests\":-1}]",
        "[{\"numActiveRequests\":null}]",
        "[{\"numActiveRequests\":1e99}]",
        "[{\"kvCacheStats\":5},{\"kvCacheStats\":null}]",
        "{\"error\":\"not found\"}",
        "{\"loads\":[]}",
        "{\"loads\":7,\"vllm:cache_config_info\":1}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(pages); i++) {
        CHECK_STR(read_page(pages[i]), nothing);
    }
}

TEST(loads_of_sglang_are_added_up_over_ranks)
{
    CHECK_STR(
        read_page("{\"timestamp\":\"x\",\"loads\":[{\"dp_rank\":0,\"num_running_reqs\":3,"
                  "\"num_waiting_reqs\":1,\"token_usage\":0.25,\"max_total_num_tokens\":1000},"
                  "{\"dp_rank\":1,\"num_running_reqs\":5,\"num_waiting_reqs\":0,"
                  "\"token_usage\":0.75,\"max_total_num_tokens\":1000}]}"),
        "8 1 0.5 2000 -");
}

TEST(ranks_are_added_up_and_their_usages_averaged)
{
    CHECK_STR(
        read_page(
            "vllm:num_requests_running{engine=\"0\"} 3.0\n"
            "vllm:num_requests_running{engine=\"1\"} 5.0\n"
            "vllm:num_requests_waiting{engine=\"0\"} 0.0\n"
            "vllm:num_requests_waiting{engine=\"1\"} 4.0\n"
            "vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\n"
            "vllm:kv_cache_usage_perc{engine=\"1\"} 1.0\n"
            "vllm:cache_config_info{engine=\"0\",block_size=\"16\",num_gpu_blocks=\"101\"} 1\n"
            "vllm:cache_config_info{num_gpu_blocks=\"201\",block_size=\"32\"} 1.0\n"),
        "8 4 0.75 8000 16");
}

TEST(a_missing_value_is_unknown_and_not_zero)
{
    static const char *const pages[] = {
        "",
        "\n",
        "\n\n# nothing\n",
        "# vllm:num_requests_running 3\n",
        "#vllm:num_requests_running 3",
        "vllm:num_requests_running",
        "vllm:num_requests_running \n",
        "vllm:num_requests_running{} \n",
        "vllm:num_requests_runnin 3\n",
        "vllm:num_requests_running_ 3\n",
        "vllm:num_requests_running_created 3\n",
        "avllm:num_requests_running 3\n",
        "vllm:num_requests_running NaN\n",
        "vllm:num_requests_running nan\n",
        "vllm:num_requests_running +Inf\n",
        "vllm:num_requests_running -Inf\n",
        "vllm:num_requests_running infinity\n",
        "vllm:num_requests_running 0x10\n",
        "vllm:num_requests_running -1\n",
        "vllm:num_requests_running 1e16\n",
        "vllm:num_requests_running 1e999\n",
        "vllm:num_requests_running 1.2.3\n",
        "vllm:num_requests_running .\n",
        "vllm:num_requests_running 1e\n",
        "vllm:num_requests_running 3x\n",
        "vllm:num_requests_running{ 3\n",
        "vllm:num_requests_running} 3\n",
        "vllm:num_requests_running{a} 3\n",
        "vllm:num_requests_running{a=} 3\n",
        "vllm:num_requests_running{a=b} 3\n",
        "vllm:num_requests_running{a=\"b} 3\n",
        "vllm:num_requests_running{a=\"b\\\"} 3\n",
        "vllm:num_requests_running{a=\"b\"\n} 3\n",
        "vllm:num_requests_running{a=\"b\\",
        "vllm:num_requests_running\n3\n",
        "vllm:cache_config_info 16\n",
        "vllm:cache_config_info{num_gpu_blocks=\"100\"} 1\n",
        "vllm:cache_config_info{block_size=\"0\",num_gpu_blocks=\"100\"} 1\n",
        "vllm:cache_config_info{block_size=\"None\",num_gpu_blocks=\"100\"} 1\n",
        "vllm:cache_config_info{x=\"block_size=\\\"16\\\"\"} 1\n",
        "sglang:max_total_num_tokens 0\n",
        "sglang:page_size 0\n",
        "nv_trt_llm_request_metrics 3\n",
        "nv_trt_llm_request_metrics{request_type=\"max\"} 3\n",
        "<html>not here</html>",
        "404 page not found\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(pages); i++) {
        CHECK_STR(read_page(pages[i]), nothing);
    }
    CHECK_STR(read_slice((struct slice){0}), nothing);
    CHECK_STR(read_slice(slice_of("vllm:num_requests_running 3\0", 28)), nothing);
}

TEST(a_block_size_is_known_before_the_number_of_blocks)
{
    CHECK_STR(read_page("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1\n"),
              "- - - - 16");
    CHECK_STR(read_page("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1\"} 1\n"),
              "- - - - 16");
}

TEST(a_series_is_written_in_many_ways)
{
    static const char *const pages[] = {
        "vllm:num_requests_running 3",
        "vllm:num_requests_running 3\n",
        "vllm:num_requests_running 3\r\n",
        "\r\n  vllm:num_requests_running\t3.0  \r\n",
        "vllm:num_requests_running{} 3",
        "vllm:num_requests_running{}3",
        "vllm:num_requests_running { } 3 1731000000000",
        "vllm:num_requests_running{a=\"b\"} 3e0 -5",
        "vllm:num_requests_running{a=\"b\",} +3.00E+00\n",
        "vllm:num_requests_running { a = \"b\" , c = \"d\" } 30e-1\n",
        "vllm:num_requests_running{a=\"x\\\"} 9\\\\\",b=\"{,}\"} 3\n",
        "vllm:num_requests_running{a=\"} 5\"} 3\n",
        "vllm:num_requests_running{a=\"\\\\\"} 3\n",
        "vllm:num_requests_running{a=\"\xc3\xa9\"} 3\n",
        "vllm:num_requests_running_total 3\n",
        "vllm_num_requests_running 3\n",
        "ray_vllm_num_requests_running{WorkerId=\"w\"} 3\n",
        "ray_vllm:num_requests_running{WorkerId=\"w\"} 3\n",
        "# EOF\nvllm:num_requests_running 3 # {trace=\"x\"} 1\n",
        "vllm:num_requests_running NaN\nvllm:num_requests_running 3\n",
        "vllm:num_requests_running{ 9\nvllm:num_requests_running 3\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(pages); i++) {
        CHECK_STR(read_page(pages[i]), "3 - - - -");
    }
}

TEST(a_usage_is_at_most_one)
{
    CHECK_STR(read_page("vllm:kv_cache_usage_perc 1.5\n"), "- - 1 - -");
    CHECK_STR(read_page("trtllm_kv_cache_used_blocks 9\ntrtllm_kv_cache_max_blocks 8\n"),
              "- - 1 - -");
    CHECK_STR(read_page("trtllm_kv_cache_used_blocks 9\ntrtllm_kv_cache_max_blocks 0\n"), nothing);
}

// Every prefix of a page ends in a block of its own, where a sanitizer sees one byte too far.
TEST(a_page_may_end_anywhere)
{
    for (size_t size = 1; size < sizeof(vllm); size++) {
        uint8_t *copy = malloc(size);
        struct load_report report;
        CHECK(copy != NULL);
        memcpy(copy, vllm, size);
        engine_metrics_read(slice_of(copy, size), exposition_all_ranks, &report);
        free(copy);
        CHECK(report.running < 0 || report.running == 1 || report.running == 17);
    }
}

// One engine with all its histograms, some for each way to finish, has about so many lines.
TEST(a_page_of_two_thousand_lines_takes_less_than_a_millisecond)
{
    enum { capacity = 1 << 20, rounds = 20 };
    char *space = malloc(capacity);
    uint64_t best_ns = UINT64_MAX;
    struct load_report report;
    CHECK(space != NULL);
    struct text page = text_over(space, capacity);
    text_add_str(&page, vllm);
    for (int i = 0; i < 2000; i++) {
        text_add_format(&page,
                        "vllm:e2e_request_latency_seconds_bucket{engine=\"0\",le=\"%d.0\","
                        "model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} %d.0\n",
                        i, 3 * i);
    }
    CHECK(!page.overflow);
    for (int i = 0; i < rounds; i++) {
        uint64_t start_ns = clock_monotonic_ns();
        engine_metrics_read(text_slice(&page), exposition_all_ranks, &report);
        uint64_t took_ns = clock_monotonic_ns() - start_ns;
        best_ns = took_ns < best_ns ? took_ns : best_ns;
    }
    printf("# %zu bytes in %" PRIu64 " us\n", page.size, best_ns / 1000);
    CHECK_EQ(report.running, 17);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    best_ns /= 20;
#endif
    CHECK(best_ns < 1000000);
    free(space);
}

TEST(series_of_other_ranks_are_skipped)
{
    static const char vllm_ranks[] =
        "vllm:num_requests_running{engine=\"0\"} 1\nvllm:num_requests_running{engine=\"1\"} 2\n"
        "vllm:num_requests_running{engine=\"11\"} 4\n"
        "vllm:num_requests_waiting{engine=\"0\"} 8\nvllm:num_requests_waiting{engine=\"1\"} 16\n"
        "vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.25\n"
        "vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"101\"} 1\n"
        "vllm:cache_config_info{block_size=\"16\",engine=\"1\",num_gpu_blocks=\"201\"} 1\n";
    static const char sglang_ranks[] =
        "sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"3\"} 5\n"
        "sglang:num_running_reqs{dp_rank=\"1\",tp_rank=\"3\"} 6\n"
        "sglang:num_queue_reqs{tp_rank=\"3\"} 7\n"; // a series without a rank counts for all
    CHECK_STR(read_rank(slice_str(vllm_ranks), 0), "1 8 0.5 1600 16");
    CHECK_STR(read_rank(slice_str(vllm_ranks), 1), "2 16 0.25 3200 16");
    CHECK_STR(read_rank(slice_str(vllm_ranks), 2), nothing);
    CHECK_STR(read_page(vllm_ranks), "7 24 0.375 4800 16");
    CHECK_STR(read_rank(slice_str(sglang_ranks), 1), "6 7 - - -");
    // A name in the label `engine` does not count as a rank.
    CHECK_STR(read_rank(slice_str("vllm:num_requests_running{engine=\"main\"} 3\n"), 1),
              "3 - - - -");
    CHECK_STR(read_rank(slice_str("{\"loads\":[{\"dp_rank\":0,\"num_running_reqs\":1},"
                                  "{\"dp_rank\":1,\"num_running_reqs\":2}]}"),
                        1),
              "2 - - - -");
}
