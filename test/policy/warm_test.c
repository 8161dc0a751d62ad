// SPDX-License-Identifier: Apache-2.0

#include "base/prefill_curve.h"
#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "test.h"

#include <math.h>

enum { target_count = 8, turns = 8000 };

// A request of 4,000 tokens on eight idle targets of known speed, in quiet traffic.
struct stage {
    struct policy_target targets[target_count];
    struct policy_traffic traffic;
    struct policy_input in;
    struct policy_knobs knobs;
    uint64_t key; // of a prompt of one block
    double costs[target_count];
    struct rng rng;
};

enum { key_count = 250 };
static const uint64_t stage_keys[key_count];

static void stage_init(struct stage *stage)
{
    *stage = (struct stage){.rng = {.state = 1}, .knobs = {.load_bound_percent = 125}};
    fleet_fill(stage->targets, target_count);
    for (int i = 0; i < target_count; i++) {
        stage->targets[i].prefill_ms = 0.025F;
        stage->targets[i].step_ms = 6;
        stage->targets[i].waiting = -1;
        stage->targets[i].kv_usage = -1;
    }
    stage->in = (struct policy_input){
        .targets = stage->targets,
        .target_count = target_count,
        .pool_size = target_count,
        .keys = stage_keys,
        .key_count = key_count,
        .prompt_tokens = 4000,
        .block_tokens = 16,
        .knobs = &stage->knobs,
        .traffic = &stage->traffic,
        .costs = stage->costs,
    };
}

static uint32_t stage_pick(struct stage *stage)
{
    return policy_pick(&policy_warm, NULL, &stage->in, &stage->rng);
}

// How often each target is taken while nothing changes.
static void stage_shares(struct stage *stage, uint32_t hits[target_count])
{
    memset(hits, 0, target_count * sizeof(hits[0]));
    for (int turn = 0; turn < turns; turn++) {
        hits[stage_pick(stage)]++;
    }
}

static bool always_takes(struct stage *stage, uint32_t target)
{
    uint32_t hits[target_count];
    stage_shares(stage, hits);
    return hits[target] == turns;
}

static bool never_takes(struct stage *stage, uint32_t target)
{
    uint32_t hits[target_count];
    stage_shares(stage, hits);
    return hits[target] == 0;
}

// Tokens that wait for their first step, one request for each thousand.
static void queue_up(struct policy_target *target, uint32_t tokens)
{
    target->queued_tokens = tokens;
    target->running_requests = (tokens + 999) / 1000;
}

static void decode(struct policy_target *target, uint32_t requests)
{
    target->running_requests = requests;
    target->decoding = requests;
    target->context_tokens = requests * 2000ULL;
}

TEST(the_holder_wins_when_all_are_idle)
{
    struct stage stage;
    stage_init(&stage);
    stage.targets[5].matched_tokens = 2000;
    CHECK(always_takes(&stage, 5));
    stage.targets[2].matched_tokens = 4000;
    CHECK(always_takes(&stage, 2));
}

TEST(a_queue_that_costs_more_than_the_cache_saves_diverts_the_request)
{
    struct stage stage;
    stage_init(&stage);
    stage.targets[3].matched_tokens = 3000;
    queue_up(&stage.targets[3], 800);
    CHECK(always_takes(&stage, 3));
    queue_up(&stage.targets[3], 9000);
    CHECK(never_takes(&stage, 3));
}

TEST(a_large_decoding_batch_diverts_the_request)
{
    struct stage stage;
    stage_init(&stage);
    stage.targets[3].matched_tokens = 3000;
    decode(&stage.targets[3], 2);
    CHECK(always_takes(&stage, 3));
    decode(&stage.targets[3], 60);
    CHECK(never_takes(&stage, 3));
    stage.targets[3].running_requests = stage.targets[3].decoding = 0;
    stage.targets[3].context_tokens = 0;
    stage.targets[3].foreign_requests = 60;
    CHECK(never_takes(&stage, 3));
}

TEST(an_imbalance_elsewhere_does_not_switch_affinity_off)
{
    struct stage stage;
    stage_init(&stage);
    stage.traffic = (struct policy_traffic){.arrivals_per_ms = 0.1F, .prefill_ms = 40};
    stage.targets[6].matched_tokens = 3500;
    for (uint32_t busy = 0; busy < 6; busy++) {
        queue_up(&stage.targets[busy], 400000);
        CHECK(always_takes(&stage, 6));
    }
}

TEST(the_busier_the_fleet_the_longer_the_queue_a_hit_is_worth)
{
    struct stage stage;
    stage_init(&stage);
    for (int i = 0; i < target_count; i++) {
        queue_up(&stage.targets[i], 4000);
    }
    stage.targets[4].matched_tokens = 3500;
    queue_up(&stage.targets[4], 12000);
    CHECK(never_takes(&stage, 4));
    stage.traffic = (struct policy_traffic){.arrivals_per_ms = 0.2F, .prefill_ms = 36};
    CHECK(always_takes(&stage, 4));
}

TEST(avoidable_work_costs_more_when_others_queue)
{
    struct stage stage;
    stage_init(&stage);
    stage.targets[4].matched_tokens = 3500;
    stage.traffic = (struct policy_traffic){.arrivals_per_ms = 0.18F, .prefill_ms = 36};
    stage_pick(&stage);
    double idle = stage.costs[0] / stage.costs[4];
    for (int i = 1; i < target_count; i++) {
        queue_up(&stage.targets[i], i == 4 ? 0 : 8000);
    }
    stage_pick(&stage);
    CHECK(stage.costs[0] / stage.costs[4] > idle * 1.2);
}

static bool is_even(const uint32_t hits[target_count])
{
    bool is_even = true;
    for (int i = 0; i < target_count; i++) {
        is_even &= fleet_is_near(hits[i], (double)turns / target_count, 12);
    }
    return is_even;
}

TEST(cold_prompts_spread_over_idle_targets_whose_speeds_differ_by_noise)
{
    struct stage stage;
    stage_init(&stage);
    for (int i = 0; i < target_count; i++) {
        stage.targets[i].prefill_ms *= 1 + 0.025F * (float)i;
        stage.targets[i].step_ms *= 1.2F - 0.025F * (float)i;
    }
    uint32_t hits[target_count];
    stage_shares(&stage, hits);
    CHECK(is_even(hits));
}

TEST(a_few_tokens_in_common_do_not_draw_every_prompt_to_one_target)
{
    struct stage stage;
    stage_init(&stage);
    stage.targets[1].matched_tokens = 32;
    uint32_t hits[target_count];
    stage_shares(&stage, hits);
    CHECK(is_even(hits));
}

static bool spreads_with_one_unknown(float usual_ms, float unknown_token_ms, float unknown_step_ms)
{
    struct stage stage;
    stage_init(&stage);
    for (int i = 0; i < target_count; i++) {
        stage.targets[i].prefill_ms = i == 2 ? unknown_token_ms : usual_ms;
        stage.targets[i].step_ms = i == 2 ? unknown_step_ms : usual_ms * 200;
    }
    uint32_t hits[target_count];
    stage_shares(&stage, hits);
    return is_even(hits);
}

TEST(a_target_of_unknown_speed_counts_as_a_usual_one)
{
    static const float usual[] = {0.001F, 0.025F, 0.7F};
    for (size_t i = 0; i < ARRAY_COUNT(usual); i++) {
        CHECK(spreads_with_one_unknown(usual[i], 0, 0));
        CHECK(
            spreads_with_one_unknown(usual[i], PREFILL_SHIPPED_TOKEN_MS, PREFILL_SHIPPED_STEP_MS));
    }
}

TEST(a_slow_target_is_used_once_the_others_are_busy)
{
    struct stage stage;
    stage_init(&stage);
    stage.targets[7].prefill_ms *= 3;
    CHECK(never_takes(&stage, 7));
    for (int i = 0; i < 7; i++) {
        queue_up(&stage.targets[i], 5000);
    }
    CHECK(always_takes(&stage, 7));
}

TEST(speeds_within_a_factor_of_two_count_as_equal)
{
    static const float factors[] = {1.9F, 1 / 1.9F};
    for (size_t i = 0; i < ARRAY_COUNT(factors); i++) {
        struct stage stage;
        stage_init(&stage);
        stage.targets[7].prefill_ms *= factors[i];
        uint32_t hits[target_count];
        stage_shares(&stage, hits);
        CHECK(is_even(hits));
    }
    struct stage stage;
    stage_init(&stage);
    stage.targets[7].prefill_ms /= 3;
    CHECK(always_takes(&stage, 7));
    stage.targets[7].prefill_ms = stage.targets[0].prefill_ms * 3;
    stage_pick(&stage);
    CHECK(stage.costs[7] > 2.5 * stage.costs[0]); // the usual speed is a mean with it
}

TEST(a_target_of_twice_the_weight_is_as_good_with_twice_the_work)
{
    struct stage stage;
    stage_init(&stage);
    stage.targets[5].weight = 2;
    uint32_t hits[target_count];
    stage_shares(&stage, hits);
    CHECK(fleet_is_near(hits[5], turns * 2.0 / 9, 10));
    CHECK(fleet_is_near(hits[0], turns * 1.0 / 9, 10));

    for (int i = 0; i < target_count; i++) {
        queue_up(&stage.targets[i], i == 5 ? 40000 : 20000);
    }
    stage_pick(&stage);
    CHECK(fleet_is_near(stage.costs[5], stage.costs[0], 5));
    queue_up(&stage.targets[5], 20000);
    CHECK(always_takes(&stage, 5));
    for (int i = 0; i < target_count; i++) {
        queue_up(&stage.targets[i], 0);
    }
    stage.targets[3].matched_tokens = 2000;
    CHECK(always_takes(&stage, 3));
}

TEST(a_session_is_a_hint_without_prompt_keys)
{
    struct stage stage;
    stage_init(&stage);
    stage.in.key_count = 0;
    stage.targets[4].has_session = true;
    decode(&stage.targets[4], 1);
    CHECK(always_takes(&stage, 4));
    queue_up(&stage.targets[4], 20000);
    CHECK(never_takes(&stage, 4));
}

TEST(a_cached_prefix_counts_more_than_the_session)
{
    struct stage stage;
    stage_init(&stage);
    stage.targets[1].has_session = true;
    decode(&stage.targets[1], 1);
    CHECK(always_takes(&stage, 1));
    stage.targets[4].matched_tokens = 3000;
    CHECK(always_takes(&stage, 4));
}

TEST(the_session_breaks_a_tie)
{
    struct stage stage;
    stage_init(&stage);
    stage.targets[1].has_session = true;
    stage.targets[1].matched_tokens = 3000;
    for (int i = 3; i < target_count; i++) {
        stage.targets[i].matched_tokens = 3000;
    }
    CHECK(always_takes(&stage, 1));
}

// Each kind of load alone, against an idle target.
TEST(every_kind_of_load_raises_the_cost)
{
    struct stage stage;
    stage_init(&stage);
    stage.traffic.prefill_ms = 100;
    stage.traffic.decode_ms = 3000;
    stage.targets[1].queued_tokens = 500;
    stage.targets[2].context_tokens = 50000;
    stage.targets[3].running_requests = 1;
    stage.targets[4].foreign_requests = 1;
    stage.targets[5].foreign_requests = 1;
    stage.targets[5].waiting = 2;
    stage_pick(&stage);
    for (int i = 1; i <= 4; i++) {
        CHECK(stage.costs[i] > stage.costs[0] * 1.01);
    }
    CHECK(stage.costs[5] > stage.costs[4] * 1.5);
    CHECK(stage.costs[6] == stage.costs[0]);

    // A batch of two: half a step more to wait, and a slightly larger batch.
    CHECK(stage.costs[3] > stage.costs[0] * 1.15);
}

TEST(waiting_for_free_memory_raises_the_cost)
{
    struct stage stage;
    stage_init(&stage);
    stage.traffic.decode_ms = 3000;
    for (int i = 0; i < target_count; i++) {
        stage.targets[i].cache_tokens = 100000;
        stage.targets[i].kv_usage = 0.99F;
    }
    stage_pick(&stage);
    double short_prompt = stage.costs[0];
    stage.traffic.decode_ms = 30000;
    stage_pick(&stage);
    CHECK(stage.costs[0] > short_prompt * 4);
}

TEST(a_full_hit_still_computes_one_block)
{
    struct stage stage;
    stage_init(&stage);
    for (int i = 0; i < target_count; i++) {
        stage.targets[i].matched_tokens = i == 0 ? 3984 : 4000;
    }
    stage_pick(&stage);
    CHECK(stage.costs[0] > 5 && stage.costs[0] == stage.costs[1]);
    stage.in.prompt_tokens = 0;
    stage.targets[0].matched_tokens = 0;
    stage_pick(&stage);
    CHECK(stage.costs[0] >= 5);
}

// More arrivals than the fleet can serve, and queues everywhere: the price is bounded.
TEST(arrivals_never_pin_a_prompt_to_a_holder_with_a_long_queue)
{
    struct stage stage;
    stage_init(&stage);
    for (int i = 0; i < target_count; i++) {
        queue_up(&stage.targets[i], i == 4 ? 400000 : 40000);
    }
    stage.targets[4].matched_tokens = 3500;
    static const float arrivals[] = {0.001F, 0.01F, 0.1F, 0.2F, 0.3F, 1, 10, 1000};
    for (size_t i = 0; i < ARRAY_COUNT(arrivals); i++) {
        stage.traffic = (struct policy_traffic){.arrivals_per_ms = arrivals[i], .prefill_ms = 36};
        CHECK(never_takes(&stage, 4));
    }
}

TEST(arrivals_beyond_saturation_change_nothing)
{
    struct stage stage;
    stage_init(&stage);
    stage.targets[4].matched_tokens = 3500;
    stage.traffic = (struct policy_traffic){.arrivals_per_ms = 0.25F, .prefill_ms = 40};
    stage_pick(&stage);
    double held = stage.costs[4];
    double cold = stage.costs[0];
    stage.traffic.arrivals_per_ms = 100;
    stage_pick(&stage);
    CHECK(stage.costs[4] == held && stage.costs[0] == cold);
}

// Long queues at other targets raise the mean; that must not make a request wait ten seconds beside
// an idle target.
TEST(queues_longer_than_the_load_explains_do_not_raise_the_price)
{
    struct stage stage;
    stage_init(&stage);
    stage.traffic = (struct policy_traffic){.arrivals_per_ms = 0.2F, .prefill_ms = 36};
    for (int i = 0; i < 6; i++) {
        queue_up(&stage.targets[i], 4000000);
    }
    stage.targets[7].matched_tokens = 3500;
    queue_up(&stage.targets[7], 400000);
    CHECK(always_takes(&stage, 6));
}

TEST(memory_counts_only_if_every_target_reports_it)
{
    struct stage stage;
    stage_init(&stage);
    stage.traffic.decode_ms = 3000;
    stage.targets[0].matched_tokens = 2000;
    for (int i = 0; i < target_count; i++) {
        stage.targets[i].cache_tokens = 100000;
        stage.targets[i].kv_usage = i == 0 ? 0.97F : 0.3F;
        decode(&stage.targets[i], 2);
    }
    CHECK(never_takes(&stage, 0));
    stage.targets[3].kv_usage = -1;
    CHECK(always_takes(&stage, 0));
    stage.targets[3].kv_usage = 0.3F;
    stage.targets[3].cache_tokens = 0;
    CHECK(always_takes(&stage, 0));
}

TEST(waiting_requests_of_other_routers_count_as_a_queue)
{
    struct stage stage;
    stage_init(&stage);
    stage.traffic.prefill_ms = 100;
    stage.targets[2].matched_tokens = 3000;
    stage.targets[2].foreign_requests = 2;
    stage.targets[2].waiting = 0;
    CHECK(always_takes(&stage, 2));
    stage.targets[2].foreign_requests = 8;
    stage.targets[2].waiting = 8;
    CHECK(never_takes(&stage, 2));
}

// A holder with one request in its batch, beside idle targets that hold nothing.
static void stage_imbalance(struct stage *stage)
{
    stage_init(stage);
    stage->targets[3].matched_tokens = 3500;
    decode(&stage->targets[3], 1);
}

TEST(a_copy_that_will_be_reused_is_made_at_the_first_imbalance)
{
    struct stage stage;
    stage_imbalance(&stage);
    CHECK(always_takes(&stage, 3));
    stage.in.reuse = 0.1F;
    CHECK(always_takes(&stage, 3));
    stage.in.reuse = 5;
    CHECK(never_takes(&stage, 3));
    decode(&stage.targets[3], 0);
    CHECK(always_takes(&stage, 3));
}

TEST(with_scarce_caches_a_miss_costs_in_full)
{
    struct stage stage;
    stage_imbalance(&stage);
    stage_pick(&stage);
    double in_full = stage.costs[0];
    stage.in.reuse = 30;
    stage.traffic.scarcity = 1;
    CHECK(always_takes(&stage, 3));
    CHECK(stage.costs[0] == in_full);
    stage.traffic.scarcity = 0.13F;
    stage_pick(&stage);
    CHECK(stage.costs[0] == in_full);
    stage.traffic.scarcity = 0.06F;
    stage_pick(&stage);
    CHECK(stage.costs[0] < in_full * 0.7);
    stage.traffic.scarcity = 0;
    stage_pick(&stage);
    CHECK(stage.costs[0] < in_full * 0.3);
}

// The target of all picks; target_count: they differ.
static uint32_t habit_of(struct stage *stage, uint64_t key)
{
    stage->key = key;
    stage->in.keys = &stage->key;
    stage->in.key_count = 1;
    uint32_t first = stage_pick(stage);
    for (int i = 0; i < 100; i++) {
        if (stage_pick(stage) != first) {
            return target_count;
        }
    }
    return first;
}

TEST(with_scarce_caches_a_cold_prompt_goes_where_its_hash_sends_it)
{
    struct stage stage;
    stage_init(&stage);
    CHECK_EQ(habit_of(&stage, 7), target_count);
    stage.traffic.scarcity = 1;
    uint32_t hits[target_count + 1] = {0};
    for (uint64_t key = 1; key <= 800; key++) {
        hits[habit_of(&stage, key * 0x9e3779b97f4a7c15)]++;
    }
    for (int i = 0; i < target_count; i++) {
        CHECK(hits[i] > 60);
        CHECK(hits[i] < 140);
    }
}

TEST(the_hashed_target_is_skipped_once_its_batch_is_large)
{
    struct stage stage;
    stage_init(&stage);
    stage.traffic.scarcity = 1;
    uint32_t habit = habit_of(&stage, 7);
    CHECK(habit < target_count);
    for (int i = 0; i < target_count; i++) {
        decode(&stage.targets[i], 10);
    }
    decode(&stage.targets[habit], 11);
    CHECK_EQ(habit_of(&stage, 7), habit);
    decode(&stage.targets[habit], 16);
    CHECK(never_takes(&stage, habit));
    decode(&stage.targets[habit], 10);
    // A cached prompt goes by cost.
    uint32_t holder = (habit + 1) % target_count;
    stage.targets[holder].matched_tokens = 3500;
    CHECK(always_takes(&stage, holder));
}

TEST(with_unknown_scarcity_a_busy_fleet_avoids_targets_above_their_share)
{
    struct stage stage;
    stage_init(&stage);
    for (int i = 0; i < target_count; i++) {
        decode(&stage.targets[i], 4);
        stage.targets[i].recent_requests = i == 3 ? 200 : 50;
    }
    stage.targets[3].matched_tokens = 3500;
    CHECK(always_takes(&stage, 3));
    stage.traffic.scarcity = -1;
    CHECK(never_takes(&stage, 3));
    // On an idle fleet the share does not matter.
    for (int i = 0; i < target_count; i++) {
        decode(&stage.targets[i], 0);
    }
    CHECK(always_takes(&stage, 3));
}

// Avoidable work has no price either if the copy pays for itself.
TEST(a_copy_that_pays_for_itself_adds_no_price_on_a_busy_fleet)
{
    struct stage stage;
    stage_imbalance(&stage);
    stage.traffic = (struct policy_traffic){.arrivals_per_ms = 0.2F, .prefill_ms = 36};
    stage_pick(&stage);
    double in_full = stage.costs[0];
    stage.in.reuse = 1e9F;
    stage_pick(&stage);
    CHECK(stage.costs[0] < in_full / 5);
    decode(&stage.targets[3], 4);
    CHECK(never_takes(&stage, 3));
}

static void stage_memory(struct stage *stage, uint64_t cache_tokens, float usage)
{
    stage_init(stage);
    stage->traffic.decode_ms = 3000;
    stage->traffic.output_tokens = 200;
    for (int i = 0; i < target_count; i++) {
        stage->targets[i].cache_tokens = cache_tokens;
        stage->targets[i].kv_usage = usage;
    }
}

TEST(of_targets_that_differ_only_in_memory_the_emptiest_wins)
{
    struct stage stage;
    stage_memory(&stage, 100000, 0.5F);
    stage.targets[6].kv_usage = 0.45F;
    CHECK(always_takes(&stage, 6));
    stage_memory(&stage, 100000, 0.5F);
    stage.targets[2].cache_tokens = 200000;
    CHECK(always_takes(&stage, 2));
}

TEST(a_full_target_is_avoided_at_a_bounded_price)
{
    struct stage stage;
    stage_memory(&stage, 100000, 0.3F);
    stage.targets[4].matched_tokens = 2000;
    CHECK(always_takes(&stage, 4));
    stage.targets[4].kv_usage = 0.95F;
    CHECK(never_takes(&stage, 4));
    for (int i = 0; i < target_count; i++) {
        queue_up(&stage.targets[i], i == 4 ? 0 : 30000);
    }
    CHECK(always_takes(&stage, 4));

    // A nearly full target costs ten times as much as an empty one.
    stage_memory(&stage, 100000, 0);
    stage.traffic.decode_ms = 0;
    stage.targets[4].kv_usage = 1;
    stage_pick(&stage);
    CHECK(fleet_is_near(stage.costs[4] / stage.costs[0], 10 * 0.96, 3));
}

// The cost of a miss over that of a hit, when reuse pays for the work of the copy.
static double miss_over_hit(struct stage *stage)
{
    stage->in.reuse = 1e9F;
    stage->targets[4].matched_tokens = 3500;
    stage_pick(stage);
    return stage->costs[0] / stage->costs[4];
}

TEST(memory_that_a_request_takes_delays_later_requests)
{
    struct stage stage;
    stage_memory(&stage, 100000, 0);
    CHECK(miss_over_hit(&stage) < 1.4);
    stage.traffic.arrivals_per_ms = 0.04F;
    CHECK(miss_over_hit(&stage) > 2);
    stage.traffic.decode_ms = 0;
    CHECK(miss_over_hit(&stage) < 1.4);
}

// The factor by which arrivals raise the cost on a fleet of equal targets.
static double arrivals_add(float usage)
{
    struct stage stage;
    stage_memory(&stage, 100000, usage);
    stage_pick(&stage);
    double quiet = stage.costs[0];
    stage.traffic.arrivals_per_ms = 0.04F;
    stage_pick(&stage);
    return stage.costs[0] - quiet;
}

TEST(later_requests_wait_for_the_same_memory)
{
    CHECK(arrivals_add(0.95F) == arrivals_add(0.9F));
    CHECK(arrivals_add(1) > 2.5 * arrivals_add(0.9F));
}

// In a fleet where only the two compared targets have room.
static double miss_over_hit_among(float usage)
{
    struct stage stage;
    stage_memory(&stage, 100000, usage);
    stage.traffic.arrivals_per_ms = 0.04F;
    stage.targets[0].kv_usage = stage.targets[4].kv_usage = 0.3F;
    return miss_over_hit(&stage);
}

TEST(the_fuller_the_fleet_the_higher_the_price_of_memory)
{
    double fuller = miss_over_hit_among(0.7F);
    CHECK(fuller > miss_over_hit_among(0.3F) * 1.2);
    // From nine tenths on, the wait for memory makes the difference.
    double full = miss_over_hit_among(0.9F);
    CHECK(full > fuller * 1.2);
    CHECK(miss_over_hit_among(0.95F) == full);
    CHECK(miss_over_hit_among(1) > full * 1.2);
}

// Beyond four fifths the price stays.  The rest of the difference is the risk of preemption, which
// is at its highest from nine tenths on.
TEST(the_price_of_memory_is_bounded)
{
    struct stage stage;
    stage_memory(&stage, 100000, 0.8F);
    stage.traffic.arrivals_per_ms = 0.04F;
    double full = miss_over_hit(&stage);
    for (int i = 0; i < target_count; i++) {
        stage.targets[i].kv_usage = 0.9F;
    }
    CHECK(miss_over_hit(&stage) < full);
}

TEST(the_batch_is_counted_by_requests_and_by_tokens)
{
    struct stage stage;
    stage_init(&stage);
    for (int i = 0; i < target_count; i++) {
        decode(&stage.targets[i], 8);
    }
    decode(&stage.targets[1], 12);
    stage.targets[1].context_tokens = stage.targets[0].context_tokens;
    stage.targets[2].context_tokens *= 10;
    stage_pick(&stage);
    CHECK(fleet_is_near(stage.costs[1] / stage.costs[0], 1.23, 3));
    CHECK(fleet_is_near(stage.costs[2] / stage.costs[0], 1.85, 3));
}

TEST(a_target_above_its_recent_share_costs_a_little_more)
{
    struct stage stage;
    stage_init(&stage);
    for (int i = 0; i < target_count; i++) {
        stage.targets[i].recent_requests = i == 2 ? 80 : 50;
        stage.targets[i].recent_tokens = i == 5 ? 80000 : 50000;
    }
    CHECK(never_takes(&stage, 2));
    CHECK(never_takes(&stage, 5));
    stage.targets[2].recent_requests = 1e6F;
    stage_pick(&stage);
    CHECK(stage.costs[2] < stage.costs[0] * 1.5);
    stage.targets[2].matched_tokens = 1500;
    CHECK(always_takes(&stage, 2));
}

// The highest cost over the least at which the second target is taken, as it holds less and less.
static double dearest_that_is_taken(bool is_home)
{
    struct stage stage;
    double dearest = 0;
    stage_init(&stage);
    for (int i = 0; i < target_count; i++) {
        stage.targets[i].matched_tokens = 3000;
    }
    stage.targets[1].has_session = is_home;
    while (--stage.targets[1].matched_tokens > 1) {
        for (int turn = 0; turn < 50; turn++) {
            if (stage_pick(&stage) == 1) {
                dearest = fmax(dearest, stage.costs[1] / stage.costs[0]);
            }
        }
    }
    return dearest;
}

TEST(costs_within_2_percent_are_equal_and_a_session_is_worth_60_percent)
{
    CHECK(fleet_is_near(dearest_that_is_taken(false), 1.02, 0.2));
    CHECK(fleet_is_near(dearest_that_is_taken(true), 1.6, 0.2));
}

static float any_of(const float *values, uint32_t count, struct rng *rng)
{
    return values[rng_below(rng, count)];
}

static uint64_t any_count(struct rng *rng)
{
    static const uint64_t counts[] = {0, 1, 7, 500, 100000, UINT32_MAX, 1ULL << 50, UINT64_MAX};
    return counts[rng_below(rng, ARRAY_COUNT(counts))];
}

// Any value that a bug elsewhere, an engine or a long uptime could cause.
static void any_target(struct policy_target *target, uint32_t prompt_tokens, struct rng *rng)
{
    static const float floats[] = {0, 1e-30F, 0.02F, 1, 50, 1e9F, 3e38F, -1, NAN, INFINITY};
    uint32_t count = ARRAY_COUNT(floats);
    uint64_t matched = any_count(rng);
    target->weight = 1 + (uint32_t)(any_count(rng) % UINT32_MAX);
    target->running_requests = (uint32_t)any_count(rng);
    target->matched_tokens = matched < prompt_tokens ? (uint32_t)matched : prompt_tokens;
    target->has_session = rng_below(rng, 2) == 0;
    target->decoding = (uint32_t)any_count(rng);
    target->queued_tokens = any_count(rng);
    target->context_tokens = any_count(rng);
    target->recent_requests = any_of(floats, count, rng);
    target->recent_tokens = any_of(floats, count, rng);
    target->foreign_requests = any_of(floats, count, rng);
    target->waiting = any_of(floats, count, rng);
    target->kv_usage = rng_below(rng, 4) == 0 ? any_of(floats, count, rng) : 0.5F;
    target->prefill_ms = any_of(floats, count, rng);
    target->step_ms = any_of(floats, count, rng);
    target->cache_tokens = rng_below(rng, 4) == 0 ? any_count(rng) : 500000;
}

static void any_stage(struct stage *stage, struct rng *rng)
{
    static const float floats[] = {0, 1e-30F, 0.02F, 1, 50, 1e9F, 3e38F, -1, NAN, INFINITY};
    stage_init(stage);
    stage->rng.state = rng_next(rng);
    stage->in.prompt_tokens = (uint32_t)any_count(rng);
    stage->in.block_tokens = 1 + (uint32_t)(any_count(rng) % UINT32_MAX);
    stage->in.key_count = rng_below(rng, 2);
    stage->in.pool_size = (uint32_t)any_count(rng);
    stage->in.target_count = 1 + rng_below(rng, target_count);
    stage->in.reuse = any_of(floats, ARRAY_COUNT(floats), rng);
    stage->traffic = (struct policy_traffic){
        .arrivals_per_ms = any_of(floats, ARRAY_COUNT(floats), rng),
        .decode_ms = any_of(floats, ARRAY_COUNT(floats), rng),
        .output_tokens = any_of(floats, ARRAY_COUNT(floats), rng),
        .prefill_ms = any_of(floats, ARRAY_COUNT(floats), rng),
        .scarcity = any_of(floats, ARRAY_COUNT(floats), rng),
    };
    for (uint32_t i = 0; i < stage->in.target_count; i++) {
        any_target(&stage->targets[i], stage->in.prompt_tokens, rng);
    }
}

TEST(costs_are_finite_and_the_least_is_taken_for_any_input)
{
    struct rng rng = {.state = 12};
    for (int round = 0; round < 50000; round++) {
        struct stage stage;
        any_stage(&stage, &rng);
        uint32_t chosen = stage_pick(&stage);
        double least = INFINITY;
        bool is_sound = true;
        for (uint32_t i = 0; i < stage.in.target_count; i++) {
            is_sound &= isfinite(stage.costs[i]) && stage.costs[i] >= 0;
            least = fmin(least, stage.costs[i]);
        }
        CHECK(is_sound);
        CHECK(stage.costs[chosen] <= least * (stage.targets[chosen].has_session ? 1.601 : 1.301));
    }
}
