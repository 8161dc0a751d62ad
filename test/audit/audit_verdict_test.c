// SPDX-License-Identifier: Apache-2.0

#include "audit/audit_verdict.h"

#include "sim/engine/profile.h"
#include "test.h"

#include <math.h>

static const struct audit_terms terms = {
    .achievable = -1, .gpu_hour_price = 1.25, .gpus_per_replica = 1};

// One that says nothing but has been read.
static struct audit_replica silent_one(void)
{
    struct audit_replica replica = {.name = "r", .span_s = 10};
    engine_counters_read(slice_str(""), &replica.done);
    return replica;
}

// `tokens` of prompts in 10 requests, of which `cached` were found, and half a second of prefill.
static struct audit_replica busy_one(double tokens, double cached)
{
    struct audit_replica replica = silent_one();
    double *values = replica.done.values;
    replica.done.kind = ENGINE_VLLM;
    values[COUNTER_REQUESTS] = 10;
    values[COUNTER_PROMPT] = tokens;
    values[COUNTER_ASKED] = tokens;
    values[COUNTER_CACHED] = cached;
    values[COUNTER_COMPUTED] = tokens - cached;
    values[COUNTER_PREFILL_SECONDS] = 0.5;
    return replica;
}

static struct audit_result judge(const struct audit_replica *replicas, uint32_t count)
{
    struct audit_result result;
    audit_judge(replicas, count, &terms, &result);
    return result;
}

static bool is_about(double actual, double expected)
{
    return fabs(actual - expected) <= 1e-9 * fabs(expected);
}

// Buckets of one second: counts[i] between i and i + 1.
static void set_ttft(struct audit_replica *replica, const double *counts, uint32_t count,
                     double beyond)
{
    struct counter_histogram *ttft = &replica->done.ttft;
    double sum = 0;
    ttft->bucket_count = count;
    for (uint32_t i = 0; i < count; i++) {
        sum += counts[i];
        ttft->bounds[i] = i + 1;
        ttft->counts[i] = sum;
    }
    ttft->count = sum + beyond;
}

TEST(quantiles_lie_evenly_within_a_bucket)
{
    struct audit_replica replica = silent_one();
    struct audit_figures figures;
    set_ttft(&replica, (double[]){10, 80, 0, 10}, 4, 0);
    audit_figures_of(&replica, &figures);
    CHECK(is_about(figures.ttft_p50_s, 1.5));
    CHECK(is_about(figures.ttft_p99_s, 3.9));
    CHECK(figures.first_tokens == 100 && !figures.ttft_is_beyond);
}

TEST(a_quantile_at_the_end_of_a_bucket_is_its_bound)
{
    struct audit_replica replica = silent_one();
    struct audit_figures figures;
    set_ttft(&replica, (double[]){50, 0, 0, 50}, 4, 0);
    audit_figures_of(&replica, &figures);
    CHECK(is_about(figures.ttft_p50_s, 1));
}

TEST(beyond_the_last_bucket_its_bound_stands_for_the_quantile)
{
    struct audit_replica replica = silent_one();
    struct audit_figures figures;
    set_ttft(&replica, (double[]){50, 30}, 2, 20);
    audit_figures_of(&replica, &figures);
    CHECK(is_about(figures.ttft_p99_s, 2) && figures.ttft_is_beyond);
}

TEST(the_fleet_has_the_quantiles_of_all_whatever_their_buckets)
{
    struct audit_replica replicas[2] = {busy_one(100, 0), busy_one(100, 0)};
    set_ttft(&replicas[0], (double[]){100}, 1, 0);
    set_ttft(&replicas[1], (double[]){0, 0, 0, 0, 0, 0, 0, 100}, 8, 0);
    struct audit_result result = judge(replicas, 2);
    CHECK(is_about(result.fleet.ttft_p50_s, 1));
    CHECK(is_about(result.fleet.ttft_p99_s, 7.98));
    CHECK(result.fleet.first_tokens == 200);
}

TEST(a_missing_counter_differs_from_zero)
{
    struct audit_replica replica = silent_one();
    struct audit_figures figures;
    audit_figures_of(&replica, &figures);
    CHECK(figures.requests == -1 && figures.prompt_tokens == -1 && figures.computed_tokens == -1);
    CHECK(figures.hit_rate == -1 && figures.ttft_p50_s == -1 && figures.ttft_p99_s == -1);
    CHECK(figures.first_tokens == -1);
}

TEST(the_hit_rate_of_the_fleet_is_by_tokens)
{
    struct audit_replica replicas[2] = {busy_one(900, 0), busy_one(100, 100)};
    CHECK(is_about(judge(replicas, 2).fleet.hit_rate, 0.1));
}

TEST(replicas_that_do_not_count_hits_are_left_out_of_the_rate)
{
    struct audit_replica replicas[3] = {busy_one(1000, 500), busy_one(1000, 500), silent_one()};
    replicas[2].done.values[COUNTER_COMPUTED] = 5000;
    struct audit_result result = judge(replicas, 3);
    CHECK(result.fleet.hit_rate == 0.5);
    CHECK(result.fleet.computed_tokens == 6000);
    CHECK_EQ(result.blind_count, 1);
    CHECK_EQ(result.spread_count, 3);
}

TEST(one_cache_would_hit_as_often_as_all_replicas_together)
{
    struct audit_replica replicas[4] = {busy_one(1000, 125), busy_one(1000, 125),
                                        busy_one(1000, 125), busy_one(1000, 125)};
    struct audit_result result = judge(replicas, 4);
    CHECK(result.achievable_is_guess && is_about(result.achievable, 0.5));
    CHECK(is_about(result.wasted_tokens, 1500));
    // 3500 tokens were computed in 2 s.
    CHECK(is_about(result.token_s, 2.0 / 3500));
    CHECK(is_about(result.wasted_gpu_hours, 1500 * (2.0 / 3500) / 3600));
    CHECK(is_about(result.wasted_share, 1500 * (2.0 / 3500) / 40));
    CHECK(is_about(result.wasted_money, 1.25 * result.wasted_gpu_hours));
    CHECK(is_about(result.wasted_money_month, result.wasted_money * 259200));
}

TEST(the_guess_ends_where_little_is_to_gain)
{
    struct audit_replica replicas[2] = {busy_one(1000, 600), busy_one(1000, 600)};
    CHECK(is_about(judge(replicas, 2).achievable, 0.8));
    replicas[0] = replicas[1] = busy_one(1000, 900);
    CHECK(is_about(judge(replicas, 2).achievable, 0.9));
    CHECK(judge(replicas, 2).wasted_tokens == 0);
}

TEST(idle_replicas_do_not_share_the_traffic_and_unread_ones_may)
{
    struct audit_replica replicas[3] = {busy_one(1000, 200), silent_one(), silent_one()};
    CHECK_EQ(judge(replicas, 3).spread_count, 1);
    CHECK_STR(judge(replicas, 3).verdict->name, "single");
    replicas[1].why = "timed out";
    struct audit_result result = judge(replicas, 3);
    CHECK_EQ(result.spread_count, 2);
    CHECK_EQ(result.read_count, 2);
    CHECK(is_about(result.achievable, 0.4));
}

TEST(replicas_that_were_not_read_are_left_out)
{
    struct audit_replica replicas[2] = {busy_one(1000, 200), busy_one(1000, 900)};
    replicas[1].why = "timed out";
    CHECK(is_about(judge(replicas, 2).fleet.hit_rate, 0.2));
    CHECK(judge(replicas, 2).fleet.requests == 10);
}

TEST(overlapping_prefills_are_capped_at_the_elapsed_time)
{
    struct audit_replica replicas[2] = {busy_one(1000, 0), busy_one(1000, 0)};
    CHECK(!judge(replicas, 2).token_is_capped);
    replicas[0].done.values[COUNTER_PREFILL_SECONDS] = 400;
    struct audit_result result = judge(replicas, 2);
    CHECK(result.token_is_capped && is_about(result.token_s, 10.5 / 2000));
}

TEST(without_a_prefill_speed_waste_is_in_tokens_only)
{
    struct audit_replica replicas[2] = {busy_one(1000, 100), busy_one(1000, 100)};
    replicas[0].done.values[COUNTER_PREFILL_SECONDS] = -1;
    replicas[1].done.values[COUNTER_PREFILL_SECONDS] = -1;
    struct audit_result result = judge(replicas, 2);
    CHECK(is_about(result.wasted_tokens, 200));
    CHECK(result.token_s == -1 && result.wasted_gpu_hours == -1 && result.wasted_money == -1);
}

TEST(without_a_span_the_monthly_rate_is_unknown)
{
    struct audit_replica replicas[2] = {busy_one(1000, 100), busy_one(1000, 100)};
    replicas[1].span_s = -1;
    struct audit_result result = judge(replicas, 2);
    CHECK(result.span_s == -1 && result.wasted_money_month == -1 && result.wasted_share == -1);
    CHECK(result.wasted_money > 0);
}

TEST(a_model_gives_the_prefill_time)
{
    struct audit_replica replicas[2] = {busy_one(40960, 4096), busy_one(40960, 4096)};
    struct profile model;
    struct audit_result result;
    ASSERT(profile_find("codellama-13b", &model));
    struct audit_terms given = {
        .achievable = 0.9, .model = &model, .gpu_hour_price = 2, .gpus_per_replica = 4};
    audit_judge(replicas, 2, &given, &result);
    double ms = step_prefill_ms(&model.step, 0, 4096, model.step_tokens);
    CHECK(is_about(result.token_s, ms / 4096 / 1000));
    CHECK(!result.achievable_is_guess && is_about(result.wasted_tokens, 0.8 * 81920));
    CHECK(is_about(result.wasted_gpu_hours, 0.8 * 81920 * result.token_s * 4 / 3600));
    CHECK(is_about(result.wasted_money, 2 * result.wasted_gpu_hours));
}

// The verdict on two replicas with this hit rate.
static const char *verdict_of(double hit_rate, double slow)
{
    struct audit_replica replicas[2] = {busy_one(1000, 1000 * hit_rate),
                                        busy_one(1000, 1000 * hit_rate)};
    set_ttft(&replicas[0], (double[]){100 - slow, 0, 0, 0, 0, 0, slow}, 7, 0);
    return judge(replicas, 2).verdict->name;
}

TEST(verdicts_follow_their_rules)
{
    CHECK_STR(verdict_of(0.81, 0), "little");
    CHECK_STR(verdict_of(0.80, 0), "some");
    CHECK_STR(verdict_of(0.30, 0), "some");
    CHECK_STR(verdict_of(0.29, 0), "much");
    CHECK_STR(verdict_of(0, 0), "much");
    CHECK_STR(verdict_of(0.5, 5), "thrashing");
    CHECK_STR(verdict_of(0.29, 5), "much");
    CHECK_STR(verdict_of(0.81, 5), "little");
}

TEST(thrashing_is_reported_beside_the_verdict)
{
    struct audit_replica replicas[2] = {busy_one(1000, 100), busy_one(1000, 100)};
    CHECK(judge(replicas, 2).also == NULL);
    set_ttft(&replicas[0], (double[]){95, 0, 0, 0, 0, 0, 5}, 7, 0);
    CHECK_STR(judge(replicas, 2).verdict->name, "much");
    CHECK_STR(judge(replicas, 2).also->name, "thrashing");
    // Of fewer than 100, the hundredth part is nobody.
    set_ttft(&replicas[0], (double[]){94, 0, 0, 0, 0, 0, 5}, 7, 0);
    CHECK(judge(replicas, 2).also == NULL);
}

TEST(without_traffic_or_counters_the_verdict_leaves_caches_out)
{
    struct audit_replica replicas[2] = {busy_one(0, 0), silent_one()};
    replicas[0].done.values[COUNTER_REQUESTS] = 0;
    CHECK_STR(judge(replicas, 2).verdict->name, "idle");
    CHECK_STR(judge(replicas, 0).verdict->name, "idle");
    replicas[0] = replicas[1] = silent_one();
    replicas[0].done.values[COUNTER_COMPUTED] = replicas[1].done.values[COUNTER_COMPUTED] = 7;
    CHECK_STR(judge(replicas, 2).verdict->name, "unknown");
    CHECK(judge(replicas, 2).wasted_tokens == -1);
}

TEST(every_rule_has_a_name_a_condition_and_a_sentence)
{
    uint32_t count = 0;
    for (; audit_rule_at(count) != NULL; count++) {
        const struct audit_rule *rule = audit_rule_at(count);
        CHECK(rule->name[0] != '\0' && rule->condition[0] != '\0' && rule->sentence[0] != '\0');
    }
    CHECK_EQ(count, 7);
}
