// SPDX-License-Identifier: Apache-2.0
//
// What every policy owes its callers, whatever its idea; each one is found through the list.

#include "policy/policy.h"

#include "policy/fleet_fixture.h"
#include "test.h"

#include <stdlib.h>

static void *state_create(const struct policy *policy)
{
    void *state = calloc(1, policy->state_size > 0 ? policy->state_size : 1);
    ASSERT(state != NULL);
    return state;
}

TEST(finds_a_policy_by_name_or_not_at_all)
{
    CHECK(policy_find("round_robin") == &policy_round_robin);
    CHECK(policy_find("consistent_hash") == &policy_consistent_hash);
    CHECK(policy_find("no_such_policy") == NULL);
    CHECK(policy_find("") == NULL);
}

TEST(the_list_holds_each_name_once_with_a_summary)
{
    uint32_t count = 0;
    while (policy_at(count) != NULL) {
        const struct policy *policy = policy_at(count);
        CHECK(policy_find(policy->name) == policy);
        CHECK(policy->summary[0] != '\0');
        count++;
    }
    CHECK(count > 1);
    CHECK(policy_at(count + 1) == NULL);
}

// A fleet of up to `count_max` with anything in its fields that the interface allows.
static uint32_t random_fleet(struct policy_target *targets, uint32_t count_max, struct rng *rng)
{
    static const uint32_t weights[] = {1, 2, 7, 100, 65536, UINT32_MAX};
    static const uint32_t loads[] = {0, 1, 2, 40, 5000, UINT32_MAX};
    uint32_t count = 1 + rng_below(rng, count_max);

    for (uint32_t i = 0; i < count; i++) {
        targets[i] = fleet_target(i * 5 + rng_below(rng, 5), 1);
        targets[i].weight = weights[rng_below(rng, ARRAY_COUNT(weights))];
        targets[i].running_requests = loads[rng_below(rng, ARRAY_COUNT(loads))];
    }
    fleet_shuffle(targets, count, rng);
    return count;
}

static void check_any_fleet(const struct policy *policy)
{
    static struct policy_target targets[fleet_count_max];
    struct rng rng = {.state = 11};
    void *state = state_create(policy);

    for (int round = 0; round < 4000; round++) {
        uint32_t count_max = round % 100 == 0 ? fleet_count_max : 12;
        struct policy_input in = {
            .targets = targets,
            .target_count = random_fleet(targets, count_max, &rng),
            .knobs = &(const struct policy_knobs){.load_bound_percent = 100 + rng_below(&rng, 200)},
            .session_key = rng_below(&rng, 3) * rng_next(&rng),
        };
        CHECK(policy->pick(state, &in, &rng) < in.target_count);
    }
    free(state);
}

TEST(every_policy_names_a_target_of_any_fleet)
{
    for (uint32_t p = 0; policy_at(p) != NULL; p++) {
        check_any_fleet(policy_at(p));
    }
}

static void check_shrink_and_grow(const struct policy *policy)
{
    struct policy_target targets[64];
    fleet_fill(targets, ARRAY_COUNT(targets));
    struct rng rng = {.state = 5};
    void *state = state_create(policy);

    for (uint32_t turn = 0; turn < 512; turn++) {
        struct policy_input in = {
            .targets = targets,
            .target_count = 1 + (turn < 64 ? 63 - turn : turn % 64),
            .knobs = &(const struct policy_knobs){.load_bound_percent = 125},
            .session_key = rng_next(&rng),
        };
        CHECK(policy->pick(state, &in, &rng) < in.target_count);
    }
    free(state);
}

TEST(every_policy_survives_a_list_that_shrinks_to_one_and_grows_again)
{
    for (uint32_t p = 0; policy_at(p) != NULL; p++) {
        check_shrink_and_grow(policy_at(p));
    }
}

// On an idle fleet of equals, no policy may favour a place in the list: with sessions or without,
// each of eight targets gets about its eighth.
static void check_spread(const struct policy *policy, bool with_session)
{
    enum { target_count = 8, turns = 8000 };
    struct policy_target targets[target_count];
    fleet_fill(targets, target_count);
    struct rng rng = {.state = 1};
    void *state = state_create(policy);
    uint32_t hits[target_count] = {0};

    for (int turn = 0; turn < turns; turn++) {
        struct policy_input in = {
            .targets = targets,
            .target_count = target_count,
            .knobs = &(const struct policy_knobs){.load_bound_percent = 125},
            .session_key = with_session ? rng_next(&rng) : 0,
        };
        hits[policy_pick(policy, state, &in, &rng)]++;
    }
    free(state);
    for (uint32_t i = 0; i < target_count; i++) {
        CHECK(fleet_is_near(hits[i], (double)turns / target_count, 12));
    }
}

TEST(no_policy_herds_when_all_targets_are_alike)
{
    for (uint32_t p = 0; policy_at(p) != NULL; p++) {
        check_spread(policy_at(p), false);
        check_spread(policy_at(p), true);
    }
}

// Workers start from zeroed state with generators of their own.  If their first picks agreed, a
// burst spread over the workers would land on one target.
TEST(workers_do_not_start_on_the_same_target)
{
    enum { target_count = 8, workers = 64 };
    struct policy_target targets[target_count];
    fleet_fill(targets, target_count);
    struct policy_input in = {.targets = targets,
                              .target_count = target_count,
                              .knobs = &(const struct policy_knobs){.load_bound_percent = 125}};

    for (uint32_t p = 0; policy_at(p) != NULL; p++) {
        if (policy_at(p) == &policy_round_robin) {
            continue; // the plain baseline: every worker begins at the head of the list
        }
        bool seen[target_count] = {false};
        uint32_t seen_count = 0;
        for (uint32_t worker = 0; worker < workers; worker++) {
            struct rng rng = {.state = worker};
            void *state = state_create(policy_at(p));
            uint32_t chosen = policy_pick(policy_at(p), state, &in, &rng);
            free(state);
            seen_count += !seen[chosen];
            seen[chosen] = true;
        }
        CHECK(seen_count >= 6);
    }
}
