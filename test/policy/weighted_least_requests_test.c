// SPDX-License-Identifier: Apache-2.0

#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "test.h"

static uint32_t pick(const struct policy_target *targets, uint32_t count, struct rng *rng)
{
    struct policy_input in = {.targets = targets, .target_count = count};
    return policy_pick(&policy_weighted_least_requests, NULL, &in, rng);
}

TEST(counts_the_new_request)
{
    struct rng rng = {.state = 1};
    struct policy_target targets[2] = {fleet_target(8, 1), fleet_target(2, 4)};

    for (uint32_t running = 0; running < 3; running++) {
        targets[1].running_requests = running;
        CHECK_EQ(pick(targets, 2, &rng), 1); // (running + 1) / 4 is below 1 / 1
    }
    targets[1].running_requests = 4;
    CHECK_EQ(pick(targets, 2, &rng), 0);
}

TEST(fills_an_idle_fleet_in_proportion_to_the_weights)
{
    struct rng rng = {.state = 2};
    struct policy_target targets[3] = {fleet_target(9, 3), fleet_target(4, 1), fleet_target(30, 2)};

    for (int i = 0; i < 600; i++) {
        targets[pick(targets, 3, &rng)].running_requests++;
    }
    CHECK_EQ(targets[0].running_requests, 300);
    CHECK_EQ(targets[1].running_requests, 100);
    CHECK_EQ(targets[2].running_requests, 200);
}

TEST(breaks_ties_evenly_also_between_different_weights)
{
    struct rng rng = {.state = 3};
    struct policy_target targets[4] = {fleet_target(1, 1), fleet_target(9, 2), fleet_target(5, 3),
                                       fleet_target(7, 1)};
    targets[1].running_requests = 1;
    targets[2].running_requests = 2;
    targets[3].running_requests = 1; // the one that is not level
    uint32_t hits[4] = {0};

    for (int i = 0; i < 12000; i++) {
        hits[pick(targets, 4, &rng)]++;
    }
    CHECK_EQ(hits[3], 0);
    for (int i = 0; i < 3; i++) {
        CHECK(fleet_is_near(hits[i], 4000, 5));
    }
}

static bool is_less_loaded(const struct policy_target *a, const struct policy_target *b)
{
    unsigned __int128 a_running = (unsigned __int128)a->running_requests + 1;
    unsigned __int128 b_running = (unsigned __int128)b->running_requests + 1;
    return a_running * b->weight < b_running * a->weight;
}

TEST(no_other_target_is_less_loaded_even_at_the_largest_numbers)
{
    static const uint32_t numbers[] = {0, 1, 2, 3, 65535, 65536, UINT32_MAX - 1, UINT32_MAX};
    struct rng rng = {.state = 7};

    for (int round = 0; round < 20000; round++) {
        struct policy_target targets[5];
        uint32_t count = 1 + rng_below(&rng, 5);
        fleet_fill(targets, count);
        for (uint32_t i = 0; i < count; i++) {
            targets[i].weight = numbers[1 + rng_below(&rng, ARRAY_COUNT(numbers) - 1)];
            targets[i].running_requests = numbers[rng_below(&rng, ARRAY_COUNT(numbers))];
        }
        const struct policy_target *chosen = &targets[pick(targets, count, &rng)];
        uint32_t less_loaded = 0;
        for (uint32_t i = 0; i < count; i++) {
            less_loaded += is_less_loaded(&targets[i], chosen);
        }
        CHECK_EQ(less_loaded, 0);
    }
}
