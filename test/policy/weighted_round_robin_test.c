// SPDX-License-Identifier: Apache-2.0

#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "test.h"

// A state and a generator: one worker.
struct turn_worker {
    uint64_t state[8];
    struct rng rng;
};

static uint32_t pick(struct turn_worker *worker, const struct policy_target *targets,
                     uint32_t count)
{
    ASSERT(policy_weighted_round_robin.state_size <= sizeof(worker->state));
    struct policy_input in = {.targets = targets, .target_count = count};
    return policy_pick(&policy_weighted_round_robin, worker->state, &in, &worker->rng);
}

TEST(with_equal_weights_takes_each_target_once_a_round_in_a_fixed_order)
{
    enum { target_count = 7 };
    struct turn_worker worker = {.rng = {.state = 1}};
    struct policy_target targets[target_count];
    fleet_fill(targets, target_count);
    uint32_t order[target_count];
    bool seen[target_count] = {false};

    for (uint32_t i = 0; i < target_count; i++) {
        order[i] = pick(&worker, targets, target_count);
        CHECK(!seen[order[i]]);
        seen[order[i]] = true;
    }
    for (uint32_t i = 0; i < 10 * target_count; i++) {
        CHECK_EQ(pick(&worker, targets, target_count), order[i % target_count]);
    }
}

static bool hits_are_weights(const uint32_t *hits, const struct policy_target *targets,
                             uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (hits[i] != targets[i].weight) {
            return false;
        }
    }
    return true;
}

// Slides a window of one round over many picks.
static bool every_round_is_exact(struct turn_worker *worker, const struct policy_target *targets,
                                 uint32_t count)
{
    enum { round_max = 4096 };
    static uint32_t history[round_max];
    uint32_t hits[64] = {0};
    uint32_t round = 0;
    ASSERT(count <= ARRAY_COUNT(hits));
    for (uint32_t i = 0; i < count; i++) {
        round += targets[i].weight;
    }
    ASSERT(round > 0 && round <= round_max);

    for (uint32_t turn = 0; turn < 3 * round; turn++) {
        if (turn >= round) {
            if (!hits_are_weights(hits, targets, count)) {
                return false;
            }
            hits[history[turn % round]]--;
        }
        history[turn % round] = pick(worker, targets, count);
        hits[history[turn % round]]++;
    }
    return true;
}

TEST(any_round_of_picks_holds_each_target_exactly_as_often_as_its_weight)
{
    struct rng rng = {.state = 2};

    for (int fleet = 0; fleet < 400; fleet++) {
        struct turn_worker worker = {.rng = {.state = rng_next(&rng)}};
        struct policy_target targets[12];
        uint32_t count = 1 + rng_below(&rng, 12);
        for (uint32_t i = 0; i < count; i++) {
            targets[i] = fleet_target(4 * i + rng_below(&rng, 4), 1 + rng_below(&rng, 30));
        }
        fleet_shuffle(targets, count, &rng);
        CHECK(every_round_is_exact(&worker, targets, count));
    }
}

// Slot s and weight in proportion to s: timetables that meet on the very same tick.
TEST(departures_at_the_same_tick_are_all_served)
{
    for (uint32_t scale = 1; scale < 40; scale++) {
        struct turn_worker worker = {.rng = {.state = scale}};
        struct policy_target targets[4];
        for (uint32_t i = 0; i < 4; i++) {
            targets[i] = fleet_target(i * scale, 1 + i * scale % 50);
        }
        CHECK(every_round_is_exact(&worker, targets, 4));
        for (uint32_t i = 0; i < 4; i++) {
            targets[i] = fleet_target(1 + i, 1 + i);
        }
        CHECK(every_round_is_exact(&worker, targets, 4));
    }
}

TEST(picks_of_a_heavy_target_are_spread_evenly)
{
    enum { light_count = 50 };
    struct turn_worker worker = {.rng = {.state = 3}};
    struct policy_target targets[1 + light_count];
    targets[0] = fleet_target(0, light_count);
    for (uint32_t i = 1; i <= light_count; i++) {
        targets[i] = fleet_target(i, 1);
    }

    // Ideally every second pick is the heavy one; no run on either side is longer than two.
    uint32_t run = 0;
    bool last_heavy = false;
    for (uint32_t turn = 0; turn < 1000; turn++) {
        bool heavy = pick(&worker, targets, 1 + light_count) == 0;
        run = turn > 0 && heavy == last_heavy ? run + 1 : 1;
        last_heavy = heavy;
        CHECK(run <= 2);
    }
}

// Twins from one seed, one of which never sees the target: the other's picks, less that target.
static void check_order_without_one(struct rng *rng)
{
    struct policy_target targets[8];
    struct policy_target fewer[8];
    for (uint32_t i = 0; i < 8; i++) {
        targets[i] = fleet_target(3 * i + rng_below(rng, 3), 1 + rng_below(rng, 9));
    }
    memcpy(fewer, targets, sizeof(fewer));
    uint32_t gone = rng_below(rng, 8);
    uint32_t fewer_count = 8;
    fleet_remove(fewer, &fewer_count, gone);

    struct turn_worker whole = {.rng = {.state = rng_next(rng)}};
    struct turn_worker less = whole;
    for (int turn = 0; turn < 200; turn++) {
        uint32_t expected = pick(&whole, targets, 8);
        if (expected == gone) {
            continue;
        }
        CHECK_EQ(fewer[pick(&less, fewer, fewer_count)].backend, targets[expected].backend);
    }
}

TEST(a_target_that_leaves_does_not_disturb_the_order_of_the_rest)
{
    struct rng rng = {.state = 4};
    for (int fleet = 0; fleet < 200; fleet++) {
        check_order_without_one(&rng);
    }
}

TEST(the_order_of_the_list_does_not_matter)
{
    struct rng rng = {.state = 5};
    struct policy_target targets[10];
    struct policy_target shuffled[10];
    for (uint32_t i = 0; i < 10; i++) {
        targets[i] = fleet_target(11 * i, 1 + i % 4);
    }
    memcpy(shuffled, targets, sizeof(shuffled));

    struct turn_worker a = {.rng = {.state = 6}};
    struct turn_worker b = a;
    for (int turn = 0; turn < 500; turn++) {
        fleet_shuffle(shuffled, 10, &rng);
        uint32_t expected = targets[pick(&a, targets, 10)].backend;
        CHECK_EQ(shuffled[pick(&b, shuffled, 10)].backend, expected);
    }
}

TEST(two_survivors_of_a_large_fleet_alternate_at_once)
{
    struct policy_target targets[100];
    fleet_fill(targets, 100);

    for (uint32_t warm_up = 0; warm_up < 300; warm_up++) {
        struct turn_worker worker = {.rng = {.state = 7}};
        for (uint32_t i = 0; i < warm_up; i++) {
            pick(&worker, targets, 100);
        }
        uint32_t last = pick(&worker, targets, 2);
        uint32_t repeats = 0;
        for (int turn = 0; turn < 20; turn++) {
            uint32_t chosen = pick(&worker, targets, 2);
            repeats += chosen == last;
            last = chosen;
        }
        CHECK_EQ(repeats, 0);
    }
}

TEST(the_largest_weights_keep_their_share)
{
    struct turn_worker worker = {.rng = {.state = 8}};
    struct policy_target targets[3] = {fleet_target(UINT32_MAX, UINT32_MAX),
                                       fleet_target(70, UINT32_MAX),
                                       fleet_target(2, UINT32_MAX / 2)};
    uint32_t hits[3] = {0};
    for (int turn = 0; turn < 10000; turn++) {
        hits[pick(&worker, targets, 3)]++;
    }
    CHECK(fleet_is_near(hits[0], 4000, 1));
    CHECK(fleet_is_near(hits[1], 4000, 1));
    CHECK(fleet_is_near(hits[2], 2000, 1));
}
