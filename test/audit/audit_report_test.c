// SPDX-License-Identifier: Apache-2.0

#include "audit/audit_report.h"

#include "json/json.h"
#include "test.h"

#include <stdlib.h>

typedef void write_fn(FILE *out, const struct audit_report *report);

// Returns the written text, which the caller frees.
static char *written(write_fn *write, const struct audit_report *report)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&bytes, &size);
    ASSERT(file != NULL);
    write(file, report);
    ASSERT(fclose(file) == 0);
    return bytes;
}

struct scene {
    struct audit_replica replicas[3];
    struct audit_terms terms;
    struct audit_result result;
    struct audit_report report;
};

static struct audit_replica replica_of(const char *name, const char *page)
{
    struct audit_replica replica = {.name = name, .span_s = 10};
    engine_counters_read(slice_str(page), &replica.done);
    return replica;
}

static void scene_open(struct scene *scene)
{
    static const char page[] = "vllm:prefix_cache_queries_total 40000\n"
                               "vllm:prefix_cache_hits_total 4000\n"
                               "vllm:request_success_total 20\n"
                               "vllm:request_prefill_time_seconds_sum 1.8\n"
                               "vllm:time_to_first_token_seconds_bucket{le=\"0.1\"} 10\n"
                               "vllm:time_to_first_token_seconds_bucket{le=\"2\"} 19\n"
                               "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 20\n";
    *scene = (struct scene){
        .replicas = {replica_of("http://a:1", page),
                     replica_of("http://b:1", page),
                     {.name = "http://\"c\"", .why = "timed out"}},
        .terms = {.achievable = -1, .gpu_hour_price = 1.25, .gpus_per_replica = 1},
    };
    scene->replicas[1].restarted = true;
    audit_judge(scene->replicas, 3, &scene->terms, &scene->result);
    scene->report = (struct audit_report){.title = "10 s",
                                          .replicas = scene->replicas,
                                          .replica_count = 3,
                                          .terms = &scene->terms,
                                          .result = &scene->result};
}

TEST(the_table_has_a_row_for_every_replica_read_or_not)
{
    struct scene scene;
    scene_open(&scene);
    char *text = written(audit_report_table, &scene.report);
    CHECK(strstr(text, "10 s\nreplica ") == text);
    CHECK(strstr(text, "http://a:1                           vLLM                20      40 k      "
                       "36 k    10.0%   100 ms   >2.00 s    20.0\n") != NULL);
    CHECK(strstr(text, "it has restarted") != NULL);
    CHECK(strstr(text, "http://\"c\"                           not read: timed out\n") != NULL);
    CHECK(strstr(text, "fleet: 2 of 3 replicas                                   40      80 k") !=
          NULL);
    free(text);
}

TEST(the_verdict_comes_with_its_rule_and_its_assumptions)
{
    struct scene scene;
    scene_open(&scene);
    char *text = written(audit_report_verdict, &scene.report);
    CHECK(strstr(text, "wasted prefill, estimated: 16 k tokens, 0.000222 GPU-hours, $0.00028; at "
                       "this rate 4.0% of the GPUs' time and $72 a month\n") != NULL);
    CHECK(strstr(text, "verdict: much. ") != NULL);
    CHECK(strstr(text, "rule: under 30% found, with several replicas\n") != NULL);
    CHECK(
        strstr(text, "30.0% of tokens could be found in caches: a guess, 3 replicas times 10.0%") !=
        NULL);
    CHECK(strstr(text, "1,000 tokens of prompts take 0.05 s: as the engines say") != NULL);
    CHECK(strstr(text, "a GPU-hour costs $1.25; a replica has 1 GPU\n") != NULL);
    free(text);
}

TEST(unknown_figures_are_marked_as_unknown)
{
    struct scene scene;
    scene_open(&scene);
    scene.replicas[0] = scene.replicas[1] = replica_of("x", "llamacpp:prompt_tokens_total 9\n");
    audit_judge(scene.replicas, 2, &scene.terms, &scene.result);
    char *text = written(audit_report_verdict, &scene.report);
    CHECK(strstr(text, "wasted prefill: not known\n") != NULL);
    CHECK(strstr(text, "verdict: unknown. ") != NULL);
    CHECK(strstr(text, "name a --model") != NULL);
    CHECK(strstr(text, "2 replicas do not count hits") != NULL);
    free(text);
}

TEST(the_json_is_valid_and_has_null_for_unknown_figures)
{
    static const char *const names[] = {"span", "replicas", "fleet", "waste", "verdict", "also"};
    struct json_value values[6];
    struct scene scene;
    scene_open(&scene);
    scene.result.span_s = -1;
    char *text = written(audit_report_json, &scene.report);
    CHECK(json_find(slice_str(text), names, 6, values) == STATUS_OK);
    CHECK_EQ(values[1].kind, JSON_ARRAY);
    CHECK_EQ(values[4].kind, JSON_OBJECT);
    CHECK_EQ(values[5].kind, JSON_NULL);
    CHECK(strstr(text, "{\"replica\": \"http://\\\"c\\\"\", \"error\": \"timed out\"}") != NULL);
    CHECK(strstr(text, "\"read\": 2, \"seconds\": null, \"requests\": 40") != NULL);
    free(text);
}
