// SPDX-License-Identifier: Apache-2.0

#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "test.h"

#include <math.h>

enum { count = 4 };

struct rig {
    struct policy_target targets[count];
    double costs[count];
    struct policy_input in;
    struct rng rng;
};

// Idle, cold targets that report, and a prompt of ten blocks.
static void rig_init(struct rig *rig)
{
    *rig = (struct rig){.rng = {.state = 4}};
    fleet_fill(rig->targets, count);
    rig->in = (struct policy_input){.targets = rig->targets,
                                    .target_count = count,
                                    .knobs = &policy_knobs_default,
                                    .key_count = 10,
                                    .block_tokens = 16,
                                    .prompt_tokens = 160,
                                    .costs = rig->costs};
}

static uint32_t pick(struct rig *rig)
{
    return policy_pick(&policy_gaie, NULL, &rig->in, &rig->rng);
}

static bool is_cost(const struct rig *rig, uint32_t target, double cost)
{
    return fabs(rig->costs[target] - cost) < 1e-6;
}

TEST(equal_queues_score_two_each_and_an_empty_cache_two)
{
    struct rig rig;
    rig_init(&rig);
    for (uint32_t i = 0; i < count; i++) {
        rig.targets[i].waiting = 7;
    }
    pick(&rig);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(is_cost(&rig, i, -4));
    }
}

TEST(a_queue_is_scored_between_the_longest_and_the_shortest)
{
    struct rig rig;
    rig_init(&rig);
    rig.targets[0].waiting = 10;
    rig.targets[1].waiting = 2;
    rig.targets[2].waiting = 4;
    rig.targets[3].waiting = 6;
    CHECK_EQ(pick(&rig), 1);
    CHECK(is_cost(&rig, 0, -2) && is_cost(&rig, 1, -4));
    CHECK(is_cost(&rig, 2, -3.5) && is_cost(&rig, 3, -3));
}

TEST(a_full_cache_costs_two)
{
    struct rig rig;
    rig_init(&rig);
    rig.targets[0].kv_usage = 1;
    rig.targets[1].kv_usage = 0.5F;
    rig.targets[2].kv_usage = 0.25F;
    rig.targets[3].kv_usage = 0.5F;
    CHECK_EQ(pick(&rig), 2);
    CHECK(is_cost(&rig, 0, -2) && is_cost(&rig, 1, -3) && is_cost(&rig, 2, -3.5));
}

TEST(a_whole_match_is_worth_three)
{
    struct rig rig;
    rig_init(&rig);
    rig.targets[1].matched_blocks = 10;
    rig.targets[2].matched_blocks = 5;
    CHECK_EQ(pick(&rig), 1);
    CHECK(is_cost(&rig, 0, -4) && is_cost(&rig, 1, -7) && is_cost(&rig, 2, -5.5));

    // It outweighs the longest queue, and a queue with a full cache outweighs it.
    rig.targets[1].waiting = 50;
    rig.targets[2].matched_blocks = 0;
    CHECK_EQ(pick(&rig), 1);
    rig.targets[1].kv_usage = 0.6F;
    CHECK(pick(&rig) != 1);
}

TEST(without_a_prompt_the_match_term_is_left_out)
{
    struct rig rig;
    rig_init(&rig);
    rig.in.key_count = 0;
    rig.targets[3].waiting = 1;
    pick(&rig);
    CHECK(is_cost(&rig, 0, -4) && is_cost(&rig, 3, -2));
}

TEST(when_one_queue_is_unknown_all_are_compared_by_running_requests)
{
    struct rig rig;
    rig_init(&rig);
    for (uint32_t i = 0; i < count; i++) {
        rig.targets[i].running_requests = 10 - i;
        rig.targets[i].waiting = (float)i;
    }
    CHECK_EQ(pick(&rig), 0);
    rig.targets[1].waiting = -1;
    CHECK_EQ(pick(&rig), 3);
    CHECK(is_cost(&rig, 0, -2) && is_cost(&rig, 3, -4));
}

TEST(when_one_usage_is_unknown_that_term_is_left_out)
{
    struct rig rig;
    rig_init(&rig);
    rig.targets[0].kv_usage = 0.9F;
    rig.targets[0].matched_blocks = 1;
    CHECK(pick(&rig) != 0);
    rig.targets[2].kv_usage = -1;
    CHECK_EQ(pick(&rig), 0);
    CHECK(is_cost(&rig, 0, -2.3) && is_cost(&rig, 1, -2) && is_cost(&rig, 2, -2));
}

TEST(ties_are_broken_evenly)
{
    struct rig rig;
    rig_init(&rig);
    rig.targets[2].waiting = 1;
    uint32_t hits[count] = {0};
    for (int i = 0; i < 6000; i++) {
        hits[pick(&rig)]++;
    }
    CHECK_EQ(hits[2], 0);
    CHECK(fleet_is_near(hits[0], 2000, 8) && fleet_is_near(hits[1], 2000, 8));
    CHECK(fleet_is_near(hits[3], 2000, 8));
}

static double least_cost(const struct rig *rig)
{
    double least = rig->costs[0];
    for (uint32_t i = 1; i < count; i++) {
        least = fmin(least, rig->costs[i]);
    }
    return least;
}

TEST(no_other_target_costs_less)
{
    struct rig rig;
    rig_init(&rig);
    for (int round = 0; round < 5000; round++) {
        for (uint32_t i = 0; i < count; i++) {
            rig.targets[i].waiting = (float)rng_below(&rig.rng, 5) - 0.1F;
            rig.targets[i].kv_usage = (float)rng_below(&rig.rng, 9) / 8 - 0.01F;
            rig.targets[i].running_requests = rng_below(&rig.rng, 5);
            rig.targets[i].matched_blocks = rng_below(&rig.rng, 11);
        }
        uint32_t chosen = pick(&rig);
        CHECK(rig.costs[chosen] == least_cost(&rig));
    }
}
