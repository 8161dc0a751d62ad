// SPDX-License-Identifier: Apache-2.0

#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "test.h"

#include <math.h>

enum { count = 4, blocks = 10 };

// 18000 ms at 15928 tokens a second.
enum { gap_tokens = 286704 };

struct rig {
    struct policy_target targets[count];
    double costs[count];
    struct policy_input in;
    struct rng rng;
};

static void rig_init(struct rig *rig)
{
    *rig = (struct rig){.rng = {.state = 4}};
    fleet_fill(rig->targets, count);
    rig->in = (struct policy_input){.targets = rig->targets,
                                    .target_count = count,
                                    .knobs = &policy_knobs_default,
                                    .key_count = blocks,
                                    .block_tokens = 100,
                                    .prompt_tokens = 1000,
                                    .costs = rig->costs};
}

static void match(struct rig *rig, uint32_t target, uint32_t matched_blocks)
{
    rig->targets[target].matched_blocks = matched_blocks;
    rig->targets[target].matched_tokens = matched_blocks * 100;
}

static uint32_t pick(struct rig *rig)
{
    return policy_pick(&policy_llmd_sticky, NULL, &rig->in, &rig->rng);
}

static bool is_cost(const struct rig *rig, uint32_t target, double cost)
{
    return fabs(rig->costs[target] - cost) < 1e-9;
}

TEST(four_fifths_of_the_blocks_make_a_target_sticky)
{
    struct rig rig;
    rig_init(&rig);
    rig.targets[0].queued_tokens = 100000;
    match(&rig, 0, 8);
    CHECK_EQ(pick(&rig), 0);
    match(&rig, 0, 7);
    CHECK(pick(&rig) != 0);

    rig.in.key_count = 100;
    rig.in.prompt_tokens = 10000;
    match(&rig, 0, 80);
    CHECK_EQ(pick(&rig), 0);
    match(&rig, 0, 79);
    CHECK(pick(&rig) != 0);
}

TEST(among_sticky_targets_the_least_queued_and_uncached_is_taken)
{
    struct rig rig;
    rig_init(&rig);
    match(&rig, 0, 10);
    match(&rig, 1, 8);
    match(&rig, 2, 9);
    rig.targets[0].queued_tokens = 301;
    rig.targets[1].queued_tokens = 99;
    rig.targets[2].queued_tokens = 200;
    CHECK_EQ(pick(&rig), 1); // 301, 299, 300
    CHECK(is_cost(&rig, 0, 301.0 / 4194304 - 1) && is_cost(&rig, 1, 299.0 / 4194304 - 1));
    CHECK(is_cost(&rig, 3, 1000.0 / 4194304 + 1)); // not a candidate
}

TEST(without_a_sticky_target_all_are_candidates)
{
    struct rig rig;
    rig_init(&rig);
    match(&rig, 1, 3);
    CHECK_EQ(pick(&rig), 1);
    rig.targets[1].queued_tokens = 301;
    CHECK(pick(&rig) != 1);
}

TEST(affinity_ends_when_the_wait_is_more_than_18_s_longer)
{
    struct rig rig;
    rig_init(&rig);
    match(&rig, 2, 10);
    rig.targets[2].queued_tokens = gap_tokens;
    CHECK_EQ(pick(&rig), 2);
    rig.targets[2].queued_tokens = gap_tokens + 1;
    CHECK(pick(&rig) != 2);
    CHECK(is_cost(&rig, 0, 1000.0 / 4194304 - 1));
    CHECK(is_cost(&rig, 2, (gap_tokens + 1.0) / 4194304 - 1));
}

TEST(the_wait_is_the_shortest_of_each_side)
{
    struct rig rig;
    rig_init(&rig);
    match(&rig, 2, 10);
    match(&rig, 3, 10);
    rig.targets[0].queued_tokens = 5000;
    rig.targets[1].queued_tokens = 2000;
    rig.targets[2].queued_tokens = gap_tokens + 2001;
    rig.targets[3].queued_tokens = gap_tokens + 2000;
    CHECK_EQ(pick(&rig), 3);
    rig.targets[3].queued_tokens++;
    CHECK_EQ(pick(&rig), 1);
}

TEST(when_all_are_sticky_affinity_holds)
{
    struct rig rig;
    rig_init(&rig);
    for (uint32_t i = 0; i < count; i++) {
        match(&rig, i, 9);
        rig.targets[i].queued_tokens = 1000000 + (uint64_t)gap_tokens * 3 * i;
    }
    CHECK_EQ(pick(&rig), 0);
    CHECK(is_cost(&rig, 0, 1000100.0 / 4194304 - 1));
}

TEST(a_queue_counts_up_to_four_million_tokens)
{
    struct rig rig;
    rig_init(&rig);
    for (uint32_t i = 0; i < count; i++) {
        rig.targets[i].queued_tokens = 4194304 + i;
    }
    uint32_t hits[count] = {0};
    for (int i = 0; i < 4000; i++) {
        hits[pick(&rig)]++;
    }
    for (uint32_t i = 0; i < count; i++) {
        CHECK(is_cost(&rig, i, 0));
        CHECK(fleet_is_near(hits[i], 1000, 12));
    }
}

TEST(without_a_prompt_the_shortest_queue_is_taken_and_ties_are_broken_evenly)
{
    struct rig rig;
    rig_init(&rig);
    rig.in.key_count = 0;
    rig.in.prompt_tokens = 0;
    rig.targets[1].queued_tokens = 1;
    uint32_t hits[count] = {0};
    for (int i = 0; i < 6000; i++) {
        hits[pick(&rig)]++;
    }
    CHECK_EQ(hits[1], 0);
    CHECK(fleet_is_near(hits[0], 2000, 8) && fleet_is_near(hits[2], 2000, 8));
    CHECK(fleet_is_near(hits[3], 2000, 8));
}

// The rule as a filter and a score, without costs.
static bool may_take(const struct policy_input *in, uint32_t chosen)
{
    double waits[2] = {1e300, 1e300};
    bool sticky[count];
    uint32_t sticky_count = 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *target = &in->targets[i];
        sticky[i] = in->key_count > 0 && target->matched_blocks * 10 >= in->key_count * 8;
        sticky_count += sticky[i];
        waits[sticky[i]] = fmin(waits[sticky[i]], (double)target->queued_tokens / 15.928);
    }
    bool is_mixed = sticky_count > 0 && sticky_count < in->target_count;
    bool all = sticky_count == 0 || (is_mixed && waits[1] - waits[0] > 18000);
    if (!all && !sticky[chosen]) {
        return false;
    }
    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *a = &in->targets[i];
        const struct policy_target *b = &in->targets[chosen];
        if ((all || sticky[i]) && a->queued_tokens - a->matched_tokens + in->prompt_tokens <
                                      b->queued_tokens - b->matched_tokens + in->prompt_tokens) {
            return false;
        }
    }
    return true;
}

TEST(agrees_with_the_rule_written_plainly)
{
    struct rig rig;
    rig_init(&rig);
    for (int round = 0; round < 20000; round++) {
        rig.in.target_count = 1 + rng_below(&rig.rng, count);
        for (uint32_t i = 0; i < count; i++) {
            match(&rig, i, rng_below(&rig.rng, blocks + 1));
            uint32_t bound = rng_below(&rig.rng, 2) == 0 ? 2000 : 700000;
            rig.targets[i].queued_tokens = rng_below(&rig.rng, bound);
        }
        CHECK(may_take(&rig.in, pick(&rig)));
    }
}
