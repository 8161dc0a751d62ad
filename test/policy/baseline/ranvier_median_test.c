// SPDX-License-Identifier: Apache-2.0

#include "policy/baseline/ranvier_twin.h"
#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "policy/prompt_fixture.h"
#include "test.h"

enum { count_max = 12 };

struct rig {
    struct policy_target targets[count_max];
    struct policy_input in;
    struct prompt prompt;
    void *state;
};

static void rig_init(struct rig *rig, uint32_t count)
{
    *rig = (struct rig){.state = prompt_state(&policy_ranvier_median)};
    fleet_fill(rig->targets, count);
    for (uint32_t i = 0; i < count; i++) {
        rig->targets[i].waiting = -1;
        rig->targets[i].kv_usage = -1;
    }
    rig->in = (struct policy_input){
        .targets = rig->targets, .target_count = count, .knobs = &policy_knobs_default};
    prompt_add(&rig->prompt, 1, 8);
}

static void rig_fini(struct rig *rig)
{
    free(rig->state);
}

static uint32_t pick(struct rig *rig)
{
    struct rng rng = {.state = 1};
    prompt_put(&rig->prompt, 16, &rig->in);
    return policy_pick(&policy_ranvier_median, rig->state, &rig->in, &rng);
}

static void load_all(struct rig *rig, uint32_t running)
{
    for (uint32_t i = 0; i < rig->in.target_count; i++) {
        rig->targets[i].running_requests = running;
    }
}

TEST(without_a_prompt_it_takes_the_lowest_slot)
{
    struct rig rig;
    rig_init(&rig, 5);
    rig.prompt.count = 0;
    rig.targets[4].running_requests = 90;
    CHECK_EQ(pick(&rig), 4);
    rig_fini(&rig);
}

TEST(a_new_prefix_belongs_to_the_target_that_its_key_jumps_to)
{
    for (uint64_t text = 0; text < 60; text++) {
        struct rig rig;
        rig_init(&rig, 5);
        rig.prompt.count = 0;
        prompt_add(&rig.prompt, text, 11);
        uint32_t place = ranvier_twin_jump(rig.prompt.keys[7], 5);
        CHECK_EQ(pick(&rig), ranvier_twin_live(&rig.in, place));
        rig_fini(&rig);
    }
}

TEST(the_owner_serves_up_to_twice_the_median_and_two)
{
    static const uint32_t medians[] = {0, 1, 3, 20};
    for (uint32_t m = 0; m < ARRAY_COUNT(medians); m++) {
        struct rig rig;
        rig_init(&rig, 5);
        uint32_t owner = pick(&rig);
        load_all(&rig, medians[m]);
        rig.targets[owner].running_requests = 2 * medians[m] + 2;
        CHECK_EQ(pick(&rig), owner);
        rig.targets[owner].running_requests++;
        CHECK(pick(&rig) != owner);
        // The diversion was not learned.
        rig.targets[owner].running_requests--;
        CHECK_EQ(pick(&rig), owner);
        rig_fini(&rig);
    }
}

TEST(a_new_prefix_is_diverted_too_and_still_gets_its_owner)
{
    struct rig rig;
    rig_init(&rig, 5);
    uint32_t place = ranvier_twin_jump(rig.prompt.keys[7], 5);
    uint32_t owner = ranvier_twin_live(&rig.in, place);
    rig.targets[owner].running_requests = 3;
    CHECK(pick(&rig) != owner);
    load_all(&rig, 0);
    CHECK_EQ(pick(&rig), owner);
    rig_fini(&rig);
}

TEST(of_an_even_number_the_upper_middle_is_the_median)
{
    struct rig rig;
    rig_init(&rig, 4);
    uint32_t owner = pick(&rig);
    // 1 and 5 in the middle: the bound is 12, not 4.
    static const uint32_t others[4] = {1, 1, 5};
    for (uint32_t i = 0, other = 0; i < 4; i++) {
        rig.targets[i].running_requests = i == owner ? 12 : others[other++];
    }
    CHECK_EQ(pick(&rig), owner);
    rig.targets[owner].running_requests = 13;
    CHECK(pick(&rig) != owner);
    rig_fini(&rig);
}

TEST(a_diverted_request_goes_to_the_least_loaded_with_the_lowest_slot)
{
    struct rig rig;
    rig_init(&rig, 6);
    uint32_t owner = pick(&rig);
    load_all(&rig, 4);
    rig.targets[owner].running_requests = 11;
    uint32_t first = (owner + 1) % 6;
    uint32_t second = (owner + 3) % 6;
    rig.targets[first].running_requests = 2;
    rig.targets[second].running_requests = 2;
    // Slots lie in the reverse order of the list.
    CHECK_EQ(pick(&rig), first > second ? first : second);
    rig.targets[first].running_requests = 1;
    CHECK_EQ(pick(&rig), first);
    rig_fini(&rig);
}

TEST(a_lone_target_is_taken_at_any_load)
{
    struct rig rig;
    rig_init(&rig, 1);
    rig.targets[0].running_requests = 1000;
    CHECK_EQ(pick(&rig), 0);
    rig_fini(&rig);
}

TEST(a_prefix_whose_owner_left_gets_another_for_good)
{
    struct rig rig;
    rig_init(&rig, 5);
    struct policy_target all[count_max];
    memcpy(all, rig.targets, sizeof(all));
    uint32_t owner = pick(&rig);
    fleet_remove(rig.targets, &rig.in.target_count, owner);
    uint64_t heir = rig.targets[pick(&rig)].identity;
    memcpy(rig.targets, all, sizeof(all));
    rig.in.target_count = 5;
    CHECK(rig.targets[pick(&rig)].identity == heir);
    rig_fini(&rig);
}

TEST(engine_reports_count_as_load)
{
    struct rig rig;
    rig_init(&rig, 5);
    uint32_t owner = pick(&rig);
    rig.targets[owner].waiting = 3; // 7
    rig.targets[owner].kv_usage = 0;
    CHECK(pick(&rig) != owner);
    rig.targets[owner].waiting = -1;
    CHECK_EQ(pick(&rig), owner);
    rig.targets[owner].waiting = 0;
    rig.targets[owner].kv_usage = 0.9F; // 2
    CHECK_EQ(pick(&rig), owner);
    rig.targets[owner].kv_usage = 1; // 3
    CHECK(pick(&rig) != owner);
    rig_fini(&rig);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t twin_pick(struct ranvier_twin *twin, const struct policy_input *in)
{
    if (in->key_count == 0) {
        return ranvier_twin_live(in, 0);
    }
    uint32_t owner = ranvier_twin_owner(twin, in);
    if (owner == in->target_count) {
        uint32_t place = ranvier_twin_jump(ranvier_twin_hash(in), in->target_count);
        owner = ranvier_twin_live(in, place);
        ranvier_twin_learn(twin, in, owner);
    }
    uint32_t loads[count_max];
    for (uint32_t i = 0; i < in->target_count; i++) {
        loads[i] = in->targets[i].running_requests;
    }
    qsort(loads, in->target_count, sizeof(loads[0]), by_value);
    uint32_t median = loads[in->target_count / 2];
    bool is_over = in->targets[owner].running_requests > 2 * median + 2;
    return is_over ? ranvier_twin_least(in) : owner;
}

TEST(agrees_with_the_rule_written_plainly)
{
    static struct ranvier_twin twin;
    struct rng rng = {.state = 3};
    struct rig rig;

    rig_init(&rig, count_max);
    for (int round = 0; round < 30000; round++) {
        uint32_t count = 1 + rng_below(&rng, count_max);
        fleet_fill(rig.targets, count);
        for (uint32_t i = 0; i < count; i++) {
            rig.targets[i].running_requests = rng_below(&rng, 1 + rng_below(&rng, 12));
            rig.targets[i].waiting = -1;
            rig.targets[i].kv_usage = -1;
        }
        fleet_shuffle(rig.targets, rng_below(&rng, 4) == 0 ? count : 0, &rng);
        rig.in.target_count = count;
        rig.prompt.count = 0;
        prompt_add(&rig.prompt, rng_below(&rng, 20), rng_below(&rng, 6));
        prompt_add(&rig.prompt, rng_below(&rng, 20), rng_below(&rng, 6));
        prompt_put(&rig.prompt, 16, &rig.in);
        uint32_t expected = twin_pick(&twin, &rig.in);
        CHECK_EQ(pick(&rig), expected);
    }
    rig_fini(&rig);
}
