// SPDX-License-Identifier: Apache-2.0

#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "test.h"

enum { session_count = 20000, bound_percent = 125 };

static uint32_t pick(const struct policy_target *targets, uint32_t count, uint64_t session)
{
    struct policy_input in = {
        .targets = targets,
        .target_count = count,
        .knobs = &(const struct policy_knobs){.load_bound_percent = bound_percent},
        .session_key = session,
    };
    struct rng rng = {.state = session};
    return policy_pick(&policy_consistent_hash, NULL, &in, &rng);
}

static uint64_t session_at(uint32_t i)
{
    return hash_pair(i, 0x73657373) | 1;
}

TEST(a_session_stays_on_its_target)
{
    struct policy_target targets[9];
    fleet_fill(targets, 9);
    struct rng rng = {.state = 1};

    for (uint32_t i = 0; i < 500; i++) {
        uint32_t home = targets[pick(targets, 9, session_at(i))].backend;
        fleet_shuffle(targets, 9, &rng);
        CHECK_EQ(targets[pick(targets, 9, session_at(i))].backend, home);
    }
}

static void give_weights(struct policy_target *targets, uint32_t count, bool weighted)
{
    for (uint32_t i = 0; i < count; i++) {
        targets[i].weight = weighted ? 1 + i % 4 : 1;
    }
}

static void check_departure(bool weighted, double share)
{
    struct policy_target targets[12];
    struct policy_target fewer[12];
    fleet_fill(targets, 12);
    give_weights(targets, 12, weighted);
    memcpy(fewer, targets, sizeof(fewer));
    uint32_t fewer_count = 12;
    uint32_t gone = targets[4].backend;
    fleet_remove(fewer, &fewer_count, 4);

    uint32_t moved = 0;
    uint32_t received[12] = {0};
    for (uint32_t i = 0; i < session_count; i++) {
        uint32_t before = targets[pick(targets, 12, session_at(i))].backend;
        uint32_t after = pick(fewer, fewer_count, session_at(i));
        CHECK(before == gone || fewer[after].backend == before);
        moved += before == gone;
        received[after] += before == gone;
    }
    CHECK(fleet_is_near(moved, session_count * share, 8));
    for (uint32_t i = 0; i < fewer_count; i++) {
        CHECK(received[i] > 0); // its sessions spread over all others
    }
}

TEST(a_target_that_leaves_moves_the_sessions_it_held_and_no_others)
{
    check_departure(false, 1 / 12.0);
    check_departure(true, 1 / 30.0);
}

static void check_arrival(bool weighted, double share)
{
    struct policy_target targets[10];
    fleet_fill(targets, 10);
    give_weights(targets, 10, weighted);

    uint32_t moved = 0;
    for (uint32_t i = 0; i < session_count; i++) {
        uint32_t before = pick(targets, 9, session_at(i));
        uint32_t after = pick(targets, 10, session_at(i));
        CHECK(after == before || after == 9);
        moved += after != before;
    }
    CHECK(fleet_is_near(moved, session_count * share, 6));
}

TEST(a_target_that_arrives_takes_only_sessions_for_itself)
{
    check_arrival(false, 1 / 10.0);
    check_arrival(true, 2 / 23.0);
}

// Raising one weight must not shuffle sessions among the others.
TEST(a_weight_that_grows_only_attracts)
{
    struct policy_target targets[6];
    fleet_fill(targets, 6);
    struct policy_target heavier[6];
    memcpy(heavier, targets, sizeof(heavier));
    heavier[2].weight = 3;

    for (uint32_t i = 0; i < session_count; i++) {
        uint32_t before = pick(targets, 6, session_at(i));
        uint32_t after = pick(heavier, 6, session_at(i));
        CHECK(after == before || after == 2);
    }
}

TEST(each_target_holds_its_share_of_the_sessions_by_weight)
{
    struct policy_target targets[5];
    static const uint32_t weights[5] = {1, 2, 3, 4, 10};
    fleet_fill(targets, 5);
    uint32_t hits[5] = {0};
    for (uint32_t i = 0; i < 5; i++) {
        targets[i].weight = weights[i];
    }
    for (uint32_t i = 0; i < session_count; i++) {
        hits[pick(targets, 5, session_at(i))]++;
    }
    for (uint32_t i = 0; i < 5; i++) {
        CHECK(fleet_is_near(hits[i], session_count * weights[i] / 20.0, 6));
    }
}

// The definition, in floating point and with a division.
static double cap(const struct policy_target *targets, uint32_t count, uint32_t index)
{
    double running = 0;
    double weight = 0;
    for (uint32_t i = 0; i < count; i++) {
        running += targets[i].running_requests;
        weight += targets[i].weight;
    }
    double cap = bound_percent / 100.0 * (running + 1) * targets[index].weight / weight;
    return cap < 1 ? 1 : cap;
}

static void check_bound(bool weighted)
{
    struct policy_target targets[8];
    fleet_fill(targets, 8);
    give_weights(targets, 8, weighted);
    struct rng rng = {.state = 1};

    for (uint32_t turn = 0; turn < 5000; turn++) {
        // Nine in ten requests belong to one session, and all keep running.
        uint64_t session = session_at(rng_below(&rng, 10) == 0 ? turn : 0);
        uint32_t chosen = pick(targets, 8, session);
        CHECK(targets[chosen].running_requests < cap(targets, 8, chosen) ||
              targets[chosen].running_requests < 8);
        targets[chosen].running_requests++;
    }
    for (uint32_t i = 0; i < 8; i++) {
        CHECK(targets[i].running_requests > 0);
        CHECK(targets[i].running_requests <= 8 + cap(targets, 8, i));
    }
}

TEST(no_target_is_taken_past_the_bound_and_the_hottest_session_spreads)
{
    check_bound(false);
    check_bound(true);
}

TEST(an_overloaded_target_passes_a_session_to_the_one_that_would_inherit_it)
{
    struct policy_target targets[7];
    fleet_fill(targets, 7);

    for (uint32_t i = 0; i < 500; i++) {
        uint32_t home = pick(targets, 7, session_at(i));
        struct policy_target fewer[7];
        memcpy(fewer, targets, sizeof(fewer));
        uint32_t fewer_count = 7;
        fleet_remove(fewer, &fewer_count, home);
        uint32_t heir = fewer[pick(fewer, fewer_count, session_at(i))].backend;

        targets[home].running_requests = 50;
        CHECK_EQ(targets[pick(targets, 7, session_at(i))].backend, heir);
        targets[home].running_requests = 0;
    }
}

TEST(fewer_than_eight_running_requests_are_no_overload)
{
    struct policy_target targets[64];
    fleet_fill(targets, 64);

    for (uint32_t i = 0; i < 500; i++) {
        uint32_t home = pick(targets, 64, session_at(i));
        targets[home].running_requests = 7;
        CHECK_EQ(pick(targets, 64, session_at(i)), home);
        targets[home].running_requests = 8; // 1.25 * 9 / 64 is below 8, and so is the floor
        CHECK(pick(targets, 64, session_at(i)) != home);
        targets[home].running_requests = 0;
    }
}

// Sixteen sessions on four targets, of which six run at a time.
TEST(at_light_load_every_turn_of_a_session_stays)
{
    struct policy_target targets[4];
    uint32_t homes[16];
    uint32_t running[6];
    fleet_fill(targets, 4);

    for (uint32_t i = 0; i < 16; i++) {
        homes[i] = pick(targets, 4, session_at(i));
    }
    for (uint32_t turn = 0; turn < 1120; turn++) {
        uint32_t *ended = &running[turn % 6];
        if (turn >= 6) {
            targets[*ended].running_requests--;
        }
        *ended = pick(targets, 4, session_at(turn * 7 % 16));
        CHECK_EQ(*ended, homes[turn * 7 % 16]);
        targets[*ended].running_requests++;
    }
}

TEST(the_bound_is_where_the_formula_puts_it)
{
    struct policy_target targets[2];
    fleet_fill(targets, 2);
    uint64_t session = session_at(1);
    uint32_t home = pick(targets, 2, session);

    targets[1 - home].running_requests = 7;
    targets[home].running_requests = 9; // 1.25 * 17 / 2 = 10.6
    CHECK_EQ(pick(targets, 2, session), home);
    targets[home].running_requests = 11; // 1.25 * 19 / 2 = 11.9
    CHECK_EQ(pick(targets, 2, session), home);
    targets[home].running_requests = 13; // 1.25 * 21 / 2 = 13.1
    CHECK_EQ(pick(targets, 2, session), home);
    targets[home].running_requests = 14; // 1.25 * 22 / 2 = 13.75
    CHECK_EQ(pick(targets, 2, session), 1 - home);
}

TEST(without_a_session_the_less_loaded_of_a_random_pair_wins)
{
    struct policy_target targets[4];
    fleet_fill(targets, 4);
    targets[1].running_requests = 1;
    struct policy_input in = {
        .targets = targets,
        .target_count = 4,
        .knobs = &(const struct policy_knobs){.load_bound_percent = bound_percent}};
    struct rng rng = {.state = 1};
    uint32_t hits[4] = {0};

    for (int i = 0; i < 9000; i++) {
        hits[policy_pick(&policy_consistent_hash, NULL, &in, &rng)]++;
    }
    CHECK_EQ(hits[1], 0);
    CHECK(fleet_is_near(hits[0], 3000, 6) && fleet_is_near(hits[2], 3000, 6));
}
