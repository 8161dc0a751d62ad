// SPDX-License-Identifier: Apache-2.0

#include "policy/baseline/ranvier_twin.h"
#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "policy/prompt_fixture.h"
#include "test.h"

enum { count = 4 };

// Four targets, the slots in the reverse order of the list: 24, 17, 10, 3.
struct rig {
    struct policy_target targets[count];
    struct policy_knobs knobs;
    struct policy_input in;
    struct prompt prompt;
    void *state;
};

static void rig_init(struct rig *rig)
{
    *rig = (struct rig){.knobs = policy_knobs_default, .state = prompt_state(&policy_ranvier)};
    fleet_fill(rig->targets, count);
    for (uint32_t i = 0; i < count; i++) {
        rig->targets[i].waiting = -1;
        rig->targets[i].kv_usage = -1;
    }
    rig->in = (struct policy_input){
        .targets = rig->targets, .target_count = count, .knobs = &rig->knobs, .block_tokens = 16};
}

static void rig_fini(struct rig *rig)
{
    free(rig->state);
}

static void load(struct rig *rig, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    uint32_t loads[count] = {a, b, c, d};
    for (uint32_t i = 0; i < count; i++) {
        rig->targets[i].running_requests = loads[i];
    }
}

static uint32_t pick(struct rig *rig)
{
    struct rng rng = {.state = 1};
    prompt_put(&rig->prompt, rig->in.block_tokens, &rig->in);
    return policy_pick(&policy_ranvier, rig->state, &rig->in, &rng);
}

// A prompt of `head` blocks of one text and `tail` of another.
static uint32_t pick_text(struct rig *rig, uint64_t text, uint32_t head, uint64_t other,
                          uint32_t tail)
{
    rig->prompt.count = 0;
    prompt_add(&rig->prompt, text, head);
    prompt_add(&rig->prompt, other, tail);
    return pick(rig);
}

// With one request on all others the cap is 1 and only `target` is below it.
static void make_owner(struct rig *rig, uint32_t target)
{
    load(rig, 1, 1, 1, 1);
    rig->targets[target].running_requests = 0;
}

TEST(without_a_prompt_it_takes_the_lowest_slot)
{
    struct rig rig;
    rig_init(&rig);
    load(&rig, 0, 0, 0, 90);
    CHECK_EQ(pick(&rig), 3);
    rig.in.target_count = 2;
    CHECK_EQ(pick(&rig), 1);
    rig_fini(&rig);
}

TEST(the_key_of_the_last_block_within_128_tokens_decides)
{
    static const uint32_t block_tokens[] = {1, 16, 24, 64, 100, 128, 129, 4000};
    static const uint32_t blocks[] = {128, 8, 5, 2, 1, 1, 1, 1};
    for (uint64_t text = 0; text < 40 * ARRAY_COUNT(blocks); text++) {
        uint32_t i = text % ARRAY_COUNT(blocks);
        struct rig rig;
        rig_init(&rig);
        rig.in.block_tokens = block_tokens[i];
        uint32_t chosen = pick_text(&rig, text, 150, 0, 0);
        uint32_t place = ranvier_twin_jump(rig.prompt.keys[blocks[i] - 1], count);
        CHECK_EQ(chosen, ranvier_twin_live(&rig.in, place));
        rig_fini(&rig);
    }
}

TEST(a_shorter_prompt_is_known_by_its_last_whole_block)
{
    for (uint64_t text = 0; text < 40; text++) {
        struct rig rig;
        rig_init(&rig);
        uint32_t chosen = pick_text(&rig, text, 3, 0, 0);
        uint32_t place = ranvier_twin_jump(rig.prompt.keys[2], count);
        CHECK_EQ(chosen, ranvier_twin_live(&rig.in, place));
        rig_fini(&rig);
    }
}

TEST(the_owner_of_the_first_128_tokens_keeps_what_follows)
{
    struct rig rig;
    rig_init(&rig);
    for (uint64_t text = 0; text < 40; text++) {
        make_owner(&rig, text % count);
        CHECK_EQ(pick_text(&rig, text, 8, 1000 + text, 5), text % count);
    }
    load(&rig, 0, 0, 0, 0);
    for (uint64_t text = 0; text < 40; text++) {
        CHECK_EQ(pick_text(&rig, text, 8, 2000 + text, 90), text % count);
    }
    rig_fini(&rig);
}

TEST(the_longest_stored_route_wins)
{
    struct rig rig;
    rig_init(&rig);
    make_owner(&rig, 2);
    CHECK_EQ(pick_text(&rig, 5, 8, 0, 0), 2);
    make_owner(&rig, 1); // the longer route does not match this prompt
    CHECK_EQ(pick_text(&rig, 5, 3, 0, 0), 1);

    load(&rig, 0, 0, 0, 0);
    CHECK_EQ(pick_text(&rig, 5, 8, 0, 0), 2);
    CHECK_EQ(pick_text(&rig, 5, 3, 77, 5), 1);
    CHECK_EQ(pick_text(&rig, 5, 3, 0, 0), 1);
    rig_fini(&rig);
}

TEST(a_hit_on_a_shorter_route_stores_no_longer_one)
{
    struct rig rig;
    rig_init(&rig);
    make_owner(&rig, 1);
    CHECK_EQ(pick_text(&rig, 5, 3, 0, 0), 1);
    load(&rig, 0, 0, 0, 0);
    CHECK_EQ(pick_text(&rig, 5, 8, 0, 0), 1);

    // The short route gets another owner when its own is gone; a stored long one would still have
    // the old one.
    struct policy_target all[count];
    memcpy(all, rig.targets, sizeof(all));
    fleet_remove(rig.targets, &rig.in.target_count, 1);
    uint32_t heir = pick_text(&rig, 5, 3, 0, 0);
    uint64_t identity = rig.targets[heir].identity;
    memcpy(rig.targets, all, sizeof(all));
    rig.in.target_count = count;
    uint32_t chosen = pick_text(&rig, 5, 8, 0, 0);
    CHECK(rig.targets[chosen].identity == identity);
    rig_fini(&rig);
}

TEST(an_owner_at_the_cap_is_skipped_and_stays_the_owner)
{
    struct rig rig;
    rig_init(&rig);
    make_owner(&rig, 0);
    CHECK_EQ(pick_text(&rig, 9, 8, 0, 0), 0);

    load(&rig, 4, 4, 4, 4); // cap 5
    CHECK_EQ(pick(&rig), 0);
    load(&rig, 5, 5, 0, 5); // mean 3.75, cap 5: only one is below
    CHECK_EQ(pick(&rig), 2);
    load(&rig, 4, 5, 0, 5); // mean 3.5, cap 5
    CHECK_EQ(pick(&rig), 0);
    load(&rig, 1, 1, 0, 1); // a single request: cap 1
    CHECK_EQ(pick(&rig), 2);
    load(&rig, 0, 0, 0, 0);
    CHECK_EQ(pick(&rig), 0);
    rig_fini(&rig);
}

TEST(the_bound_is_a_knob)
{
    struct rig rig;
    rig_init(&rig);
    make_owner(&rig, 0);
    CHECK_EQ(pick_text(&rig, 9, 8, 0, 0), 0);

    load(&rig, 7, 3, 3, 3); // mean 4
    rig.knobs.load_bound_percent = 200;
    CHECK_EQ(pick(&rig), 0);
    rig.knobs.load_bound_percent = 175;
    CHECK(pick(&rig) != 0);
    rig.knobs.load_bound_percent = 176; // rounds up to 8
    CHECK_EQ(pick(&rig), 0);
    rig_fini(&rig);
}

TEST(when_all_are_at_the_cap_the_least_loaded_with_the_lowest_slot_is_taken)
{
    struct rig rig;
    rig_init(&rig);
    rig.knobs.load_bound_percent = 100;
    load(&rig, 6, 6, 6, 6);
    for (uint64_t text = 0; text < 20; text++) {
        CHECK_EQ(pick_text(&rig, text, 8, 0, 0), 3);
    }
    rig_fini(&rig);
}

TEST(the_order_of_probing_follows_the_key)
{
    for (uint64_t text = 0; text < 60; text++) {
        struct rig rig;
        rig_init(&rig);
        load(&rig, 0, 3, 0, 3); // cap 2
        uint32_t chosen = pick_text(&rig, text, 8, 0, 0);
        uint32_t expected = count;
        for (uint32_t k = 0; k < count && expected == count; k++) {
            uint32_t place = ranvier_twin_jump(rig.prompt.keys[7] + k, count);
            uint32_t target = ranvier_twin_live(&rig.in, place);
            expected = rig.targets[target].running_requests < 2 ? target : count;
        }
        CHECK_EQ(chosen, expected < count ? expected : 2); // slot 10 is below slot 24
        rig_fini(&rig);
    }
}

TEST(a_prefix_whose_owner_left_gets_another_for_good)
{
    struct rig rig;
    rig_init(&rig);
    struct policy_target all[count];
    make_owner(&rig, 1);
    memcpy(all, rig.targets, sizeof(all));
    CHECK_EQ(pick_text(&rig, 9, 8, 0, 0), 1);

    fleet_remove(rig.targets, &rig.in.target_count, 1);
    load(&rig, 1, 0, 1, 1);
    CHECK_EQ(pick(&rig), 1); // the third of all
    memcpy(rig.targets, all, sizeof(all));
    rig.in.target_count = count;
    load(&rig, 0, 0, 0, 0);
    CHECK_EQ(pick(&rig), 2);
    rig_fini(&rig);
}

// A backend that takes a slot over does not inherit the routes of the last one.
TEST(owners_are_known_by_name_and_not_by_slot)
{
    struct rig rig;
    rig_init(&rig);
    make_owner(&rig, 1);
    CHECK_EQ(pick_text(&rig, 9, 8, 0, 0), 1);
    rig.targets[1].identity ^= 1;
    make_owner(&rig, 0);
    CHECK_EQ(pick(&rig), 0);
    load(&rig, 0, 0, 0, 0);
    CHECK_EQ(pick(&rig), 0);
    rig_fini(&rig);
}

TEST(engine_reports_count_as_load_and_missing_ones_do_not)
{
    struct rig rig;
    rig_init(&rig);
    make_owner(&rig, 0);
    CHECK_EQ(pick_text(&rig, 9, 8, 0, 0), 0);
    load(&rig, 0, 0, 0, 0);

    // 10 * 0.7 for a queue of 3 and nothing running, floor(10 * 0.3) and 5 for a full cache.
    rig.targets[0].waiting = 3;
    rig.targets[0].kv_usage = 0;
    CHECK(pick(&rig) != 0);
    rig.targets[0].kv_usage = -1;
    CHECK_EQ(pick(&rig), 0);
    rig.targets[0].waiting = 0;
    rig.targets[0].kv_usage = 0.19F; // floor(0.57) + floor(0.95)
    CHECK_EQ(pick(&rig), 0);
    rig.targets[0].kv_usage = 0.2F;
    CHECK(pick(&rig) != 0);
    rig.targets[0].waiting = -1; // the room in the cache counts by itself
    CHECK(pick(&rig) != 0);
    rig_fini(&rig);
}

// Others' requests count as running at the engine: 9 of 12 wait there, 12 / 4 / 3 = 1.
TEST(requests_of_other_routers_count_through_the_report)
{
    struct rig rig;
    rig_init(&rig);
    make_owner(&rig, 0);
    CHECK_EQ(pick_text(&rig, 9, 8, 0, 0), 0);
    load(&rig, 0, 6, 6, 6); // the mean of 7, 6, 6 and 6 makes a cap of 8
    rig.targets[0].kv_usage = 0;
    rig.targets[0].foreign_requests = 12;
    rig.targets[0].waiting = 9;
    CHECK_EQ(pick(&rig), 0);
    load(&rig, 0, 5, 5, 5); // 7
    CHECK(pick(&rig) != 0);
    rig.targets[0].foreign_requests = 15; // 15 / 7 / 3 of 7 is 5
    CHECK_EQ(pick(&rig), 0);
    load(&rig, 0, 6, 6, 6);
    rig.targets[0].waiting = 1000; // no more than 7, however long the queue
    CHECK_EQ(pick(&rig), 0);
    rig_fini(&rig);
}

// How many of the texts belong to the second target.
static uint32_t second_owns(struct rig *rig, uint64_t first_text, uint64_t end_text)
{
    uint32_t owned = 0;
    load(rig, 0, 0, 0, 0);
    for (uint64_t text = first_text; text < end_text; text++) {
        owned += pick_text(rig, text, 1, 0, 0) == 1;
    }
    return owned;
}

static void give_to_second(struct rig *rig, uint64_t first_text, uint64_t end_text)
{
    make_owner(rig, 1);
    for (uint64_t text = first_text; text < end_text; text++) {
        CHECK_EQ(pick_text(rig, text, 1, 0, 0), 1);
    }
}

TEST(used_routes_stay_while_others_are_evicted)
{
    struct rig rig;
    rig_init(&rig);
    enum { kept = 50, passing = 1000 };

    give_to_second(&rig, 0, kept);
    for (uint64_t batch = 1; batch <= 400; batch++) {
        give_to_second(&rig, batch * passing, (batch + 1) * passing);
        CHECK_EQ(second_owns(&rig, 0, kept), kept);
    }
    CHECK(fleet_is_near(second_owns(&rig, passing, passing + 400), 100, 40)); // by chance
    rig_fini(&rig);
}

static uint32_t twin_bounded(const struct policy_input *in, uint64_t cap)
{
    for (uint32_t k = 0; k < in->target_count; k++) {
        uint32_t place = ranvier_twin_jump(ranvier_twin_hash(in) + k, in->target_count);
        uint32_t target = ranvier_twin_live(in, place);
        if (in->targets[target].running_requests < cap) {
            return target;
        }
    }
    return ranvier_twin_least(in);
}

static uint32_t twin_pick(struct ranvier_twin *twin, const struct policy_input *in)
{
    if (in->key_count == 0) {
        return ranvier_twin_live(in, 0);
    }
    double sum = 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        sum += in->targets[i].running_requests;
    }
    double cap = ceil(sum * in->knobs->load_bound_percent / (100.0 * in->target_count));
    cap = cap > 1 ? cap : 1;
    uint32_t owner = ranvier_twin_owner(twin, in);
    if (owner == in->target_count) {
        owner = twin_bounded(in, (uint64_t)cap);
        ranvier_twin_learn(twin, in, owner);
        return owner;
    }
    return in->targets[owner].running_requests < cap ? owner : twin_bounded(in, (uint64_t)cap);
}

TEST(agrees_with_the_rule_written_plainly)
{
    static struct ranvier_twin twin;
    static struct prompt prompt;
    struct rng rng = {.state = 3};
    struct policy_knobs knobs = policy_knobs_default;
    void *state = prompt_state(&policy_ranvier);

    for (int round = 0; round < 30000; round++) {
        struct policy_target targets[12];
        uint32_t target_count = 1 + rng_below(&rng, ARRAY_COUNT(targets));
        fleet_fill(targets, target_count);
        for (uint32_t i = 0; i < target_count; i++) {
            targets[i].running_requests = rng_below(&rng, 1 + rng_below(&rng, 9));
            targets[i].waiting = -1;
            targets[i].kv_usage = -1;
        }
        fleet_shuffle(targets, rng_below(&rng, 4) == 0 ? target_count : 0, &rng);
        knobs.load_bound_percent = 100 + 25 * rng_below(&rng, 4);
        prompt.count = 0;
        prompt_add(&prompt, rng_below(&rng, 20), rng_below(&rng, 6));
        prompt_add(&prompt, rng_below(&rng, 20), rng_below(&rng, 6));
        struct policy_input in = {
            .targets = targets, .target_count = target_count, .knobs = &knobs};
        prompt_put(&prompt, 16, &in);
        uint32_t expected = twin_pick(&twin, &in);
        CHECK_EQ(policy_pick(&policy_ranvier, state, &in, &rng), expected);
    }
    free(state);
}
