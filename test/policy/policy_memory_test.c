// SPDX-License-Identifier: Apache-2.0

#include "policy/policy_memory.h"

#include "policy/fleet_fixture.h"
#include "policy/prompt_fixture.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

enum { target_count = 4, text_count = 50, request_count = 4000, worker_count_max = 8 };

// Where each text was sent, by any worker.
struct crowd {
    struct policy_memory *memory;
    uint32_t worker_count;
    atomic_uint next;
    atomic_uint taken[target_count];
    atomic_bool is_cached[target_count][text_count];
    atomic_uint miss_count;
};

static void crowd_ask(struct crowd *crowd, uint32_t number, struct rng *rng)
{
    struct policy_target targets[target_count];
    struct prompt *prompt = calloc(1, sizeof(*prompt));
    double costs[target_count];
    static const struct policy_traffic traffic;
    struct policy_input in = {.targets = targets,
                              .target_count = target_count,
                              .pool_size = target_count,
                              .now_ms = number,
                              .knobs = &policy_knobs_default,
                              .traffic = &traffic,
                              .costs = costs};
    uint32_t text = (uint32_t)(hash_pair(number, 1) % text_count);

    ASSERT(prompt != NULL);
    fleet_fill(targets, target_count);
    prompt_add(prompt, text, 10);
    prompt_put(prompt, 16, &in);
    uint32_t chosen = policy_memory_pick(crowd->memory, &in, rng);
    atomic_fetch_add(&crowd->taken[chosen], 1);
    if (!atomic_exchange(&crowd->is_cached[chosen][text], true)) {
        atomic_fetch_add(&crowd->miss_count, 1);
    }
    free(prompt);
}

static void *crowd_work(void *owner)
{
    struct crowd *crowd = owner;
    struct policy_memory *memory = policy_memory_share(crowd->memory);
    struct rng rng = {.state = 1};

    for (uint32_t i = 0; (i = atomic_fetch_add(&crowd->next, 1)) < request_count;) {
        crowd_ask(crowd, i, &rng);
    }
    policy_memory_release(&memory);
    return NULL;
}

static void crowd_run(struct crowd *crowd, const struct policy *policy, uint32_t worker_count)
{
    pthread_t workers[worker_count_max];

    memset(crowd, 0, sizeof(*crowd));
    crowd->memory = policy_memory_create(policy);
    ASSERT(crowd->memory != NULL);
    CHECK(policy_memory_policy(crowd->memory) == policy);
    for (uint32_t i = 0; i < worker_count; i++) {
        CHECK_EQ(pthread_create(&workers[i], NULL, crowd_work, crowd), 0);
    }
    for (uint32_t i = 0; i < worker_count; i++) {
        CHECK_EQ(pthread_join(workers[i], NULL), 0);
    }
    policy_memory_release(&crowd->memory);
    CHECK(crowd->memory == NULL);
}

TEST(eight_workers_find_as_many_prompts_cached_as_one)
{
    static struct crowd crowd;
    static const struct policy *const policies[] = {&policy_cache_aware, &policy_ranvier,
                                                    &policy_ranvier_median};

    for (uint32_t i = 0; i < ARRAY_COUNT(policies); i++) {
        crowd_run(&crowd, policies[i], 1);
        CHECK_EQ(atomic_load(&crowd.miss_count), text_count);
        crowd_run(&crowd, policies[i], 8);
        CHECK_EQ(atomic_load(&crowd.miss_count), text_count);
    }
}

static void check_rotation(const struct policy *policy)
{
    static struct crowd crowd;
    crowd_run(&crowd, policy, 8);
    for (uint32_t i = 0; i < target_count; i++) {
        CHECK_EQ(atomic_load(&crowd.taken[i]), request_count / target_count);
    }
}

TEST(eight_workers_go_round_together)
{
    check_rotation(&policy_round_robin);
    check_rotation(&policy_weighted_round_robin);
}

TEST(eight_workers_may_ask_any_policy_with_a_state)
{
    static struct crowd crowd;
    uint32_t seen = 0;

    for (uint32_t i = 0; policy_at(i) != NULL; i++) {
        if (policy_at(i)->state_size > 0) {
            crowd_run(&crowd, policy_at(i), 8);
            seen++;
        }
    }
    CHECK(seen >= 7);
}

static uint32_t rotation_next(struct policy_memory *memory)
{
    struct policy_target targets[target_count];
    struct policy_input in = {.targets = targets, .target_count = target_count};
    struct rng rng = {.state = 1};
    fleet_fill(targets, target_count);
    return policy_memory_pick(memory, &in, &rng);
}

TEST(a_copy_goes_on_where_its_original_was_and_does_not_move_it)
{
    struct policy_memory *memory = policy_memory_create(&policy_round_robin);
    CHECK_EQ(rotation_next(memory), 0);
    CHECK_EQ(rotation_next(memory), 1);
    struct policy_memory *copy = policy_memory_copy(memory);
    CHECK_EQ(rotation_next(copy), 2);
    CHECK_EQ(rotation_next(copy), 3);
    CHECK_EQ(rotation_next(memory), 2);
    policy_memory_release(&memory);
    CHECK_EQ(rotation_next(copy), 0);
    policy_memory_release(&copy);
}

TEST(a_memory_lives_as_long_as_its_last_owner)
{
    struct policy_memory *memory = policy_memory_create(&policy_round_robin);
    struct policy_memory *other = policy_memory_share(memory);
    policy_memory_release(&memory);
    CHECK_EQ(rotation_next(other), 0);
    CHECK_EQ(rotation_next(other), 1);
    policy_memory_release(&other);
    policy_memory_release(&other); // NULL by now
}
