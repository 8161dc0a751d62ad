// SPDX-License-Identifier: Apache-2.0

#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "policy/prompt_fixture.h"
#include "test.h"

enum { count = 4 };

struct rig {
    struct policy_target targets[count];
    struct policy_knobs knobs;
    struct policy_input in;
    struct prompt prompt;
    void *state;
};

static void rig_init(struct rig *rig)
{
    *rig = (struct rig){.knobs = policy_knobs_default, .state = prompt_state(&policy_cache_aware)};
    fleet_fill(rig->targets, count);
    rig->in =
        (struct policy_input){.targets = rig->targets, .target_count = count, .knobs = &rig->knobs};
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
    return policy_pick(&policy_cache_aware, rig->state, &rig->in, &rng);
}

// A prompt of `head` blocks of one text and `tail` of another.
static uint32_t pick_text(struct rig *rig, uint64_t text, uint32_t head, uint64_t other,
                          uint32_t tail)
{
    rig->prompt.count = 0;
    prompt_add(&rig->prompt, text, head);
    prompt_add(&rig->prompt, other, tail);
    prompt_put(&rig->prompt, 16, &rig->in);
    return pick(rig);
}

TEST(a_cold_request_takes_the_fewest_running)
{
    struct rig rig;
    rig_init(&rig);
    load(&rig, 3, 2, 1, 2);
    CHECK_EQ(pick_text(&rig, 1, 10, 0, 0), 2);
    load(&rig, 3, 2, 1, 0);
    CHECK_EQ(pick_text(&rig, 2, 10, 0, 0), 3);
    rig_fini(&rig);
}

TEST(of_equally_loaded_targets_the_one_with_fewest_requests_so_far_then_the_first)
{
    struct rig rig;
    rig_init(&rig);
    static const uint32_t order[] = {0, 1, 2, 3, 0, 1};
    for (uint32_t i = 0; i < ARRAY_COUNT(order); i++) {
        CHECK_EQ(pick_text(&rig, i, 10, 0, 0), order[i]);
    }
    // A match counts too: the third gets its second request and is skipped in its turn.
    CHECK_EQ(pick_text(&rig, 2, 10, 0, 0), 2);
    CHECK_EQ(pick_text(&rig, 50, 10, 0, 0), 3);
    CHECK_EQ(pick_text(&rig, 51, 10, 0, 0), 0);
    rig_fini(&rig);
}

TEST(without_a_prompt_requests_rotate)
{
    struct rig rig;
    rig_init(&rig);
    for (uint32_t i = 0; i < 12; i++) {
        CHECK_EQ(pick(&rig), i % count);
    }
    rig_fini(&rig);
}

TEST(a_backend_that_takes_a_slot_over_has_processed_nothing)
{
    struct rig rig;
    rig_init(&rig);
    for (uint32_t i = 0; i < 8; i++) {
        CHECK_EQ(pick(&rig), i % count);
    }
    rig.targets[2].identity ^= 1;
    CHECK_EQ(pick(&rig), 2);
    CHECK_EQ(pick(&rig), 2);
    CHECK_EQ(pick(&rig), 0);
    rig_fini(&rig);
}

TEST(a_match_follows_its_tenant_regardless_of_load)
{
    struct rig rig;
    rig_init(&rig);
    load(&rig, 1, 0, 1, 1);
    CHECK_EQ(pick_text(&rig, 1, 10, 0, 0), 1);
    load(&rig, 0, 64, 0, 0);
    CHECK_EQ(pick_text(&rig, 1, 10, 0, 0), 1);
    CHECK_EQ(pick_text(&rig, 1, 10, 5, 8), 1);
    CHECK_EQ(pick_text(&rig, 1, 4, 0, 0), 1);
    rig_fini(&rig);
}

TEST(a_match_must_be_more_than_the_threshold)
{
    struct rig rig;
    rig_init(&rig);
    load(&rig, 1, 0, 1, 1);
    CHECK_EQ(pick_text(&rig, 1, 10, 0, 0), 1);
    load(&rig, 0, 1, 1, 1);
    CHECK_EQ(pick_text(&rig, 1, 3, 100, 7), 0); // 0.3
    CHECK_EQ(pick_text(&rig, 1, 4, 101, 9), 1); // 4 of 13
    rig.knobs.match_threshold = 0.5F;
    CHECK_EQ(pick_text(&rig, 1, 5, 102, 5), 0);
    CHECK_EQ(pick_text(&rig, 1, 6, 103, 5), 1);
    rig.knobs.match_threshold = 0;
    CHECK_EQ(pick_text(&rig, 1, 1, 104, 20), 1);
    CHECK_EQ(pick_text(&rig, 77, 1, 104, 20), 0);
    rig_fini(&rig);
}

TEST(a_partial_block_at_the_end_counts_as_unmatched)
{
    struct rig rig;
    rig_init(&rig);
    load(&rig, 1, 0, 1, 1);
    CHECK_EQ(pick_text(&rig, 1, 1, 0, 0), 1);
    load(&rig, 0, 1, 1, 1);
    rig.in.prompt_tokens = 53; // 16 / 53 = 0.302
    CHECK_EQ(pick(&rig), 1);
    rig.in.prompt_tokens = 54; // 0.296
    CHECK_EQ(pick(&rig), 0);
    rig_fini(&rig);
}

TEST(out_of_balance_means_both_apart_by_more_than_64_and_by_more_than_half)
{
    struct rig rig;
    rig_init(&rig);
    CHECK_EQ(pick_text(&rig, 1, 10, 0, 0), 0);
    load(&rig, 64, 1, 1, 0);
    CHECK_EQ(pick(&rig), 0);
    load(&rig, 65, 1, 1, 0);
    CHECK_EQ(pick(&rig), 3);
    load(&rig, 300, 250, 250, 200); // 1.5 times
    CHECK_EQ(pick(&rig), 0);
    load(&rig, 301, 250, 250, 200);
    CHECK_EQ(pick(&rig), 3);
    load(&rig, 64, 0, 65, 1); // also if another target is the most loaded
    CHECK_EQ(pick(&rig), 1);

    rig.knobs.balance_absolute = 400;
    load(&rig, 400, 1, 1, 0);
    CHECK_EQ(pick(&rig), 0);
    rig.knobs.balance_absolute = 64;
    rig.knobs.balance_relative = 3;
    load(&rig, 300, 250, 250, 100);
    CHECK_EQ(pick(&rig), 0);
    load(&rig, 301, 250, 250, 100);
    CHECK_EQ(pick(&rig), 3);
    rig_fini(&rig);
}

TEST(a_diverted_prompt_is_remembered_only_for_prefixes_without_a_tenant)
{
    struct rig rig;
    rig_init(&rig);
    CHECK_EQ(pick_text(&rig, 1, 4, 0, 0), 0);
    load(&rig, 70, 1, 0, 1);
    CHECK_EQ(pick_text(&rig, 1, 4, 9, 6), 2);
    load(&rig, 0, 0, 0, 0);
    CHECK_EQ(pick_text(&rig, 1, 4, 0, 0), 0);
    CHECK_EQ(pick_text(&rig, 1, 4, 9, 6), 2); // the longest prefix has its own tenant
    CHECK_EQ(pick_text(&rig, 1, 4, 9, 1), 2);
    rig_fini(&rig);
}

TEST(a_match_extends_the_prefix_of_its_tenant)
{
    struct rig rig;
    rig_init(&rig);
    load(&rig, 1, 1, 1, 0);
    CHECK_EQ(pick_text(&rig, 1, 4, 0, 0), 3);
    load(&rig, 0, 1, 1, 1);
    CHECK_EQ(pick_text(&rig, 1, 4, 9, 8), 3);  // 4 of 12
    CHECK_EQ(pick_text(&rig, 1, 4, 9, 27), 3); // 12 of 31; 4 would not be enough
    rig_fini(&rig);
}

TEST(a_match_whose_tenant_is_gone_gets_the_least_loaded_tenant)
{
    struct rig rig;
    rig_init(&rig);
    struct policy_target all[count];
    memcpy(all, rig.targets, sizeof(all));
    load(&rig, 1, 0, 1, 1);
    CHECK_EQ(pick_text(&rig, 1, 10, 0, 0), 1);

    fleet_remove(rig.targets, &rig.in.target_count, 1);
    rig.targets[0].running_requests = 2; // not simply the first
    CHECK_EQ(pick_text(&rig, 1, 10, 0, 0), 1);
    rig.targets[1].running_requests = 9;
    CHECK_EQ(pick_text(&rig, 1, 10, 0, 0), 1);
    memcpy(rig.targets, all, sizeof(all));
    rig.in.target_count = count;
    CHECK_EQ(pick_text(&rig, 1, 10, 0, 0), 2);
    CHECK_EQ(pick_text(&rig, 1, 4, 0, 0), 2);
    rig_fini(&rig);
}

// The match is found up to a sixteenth too short, never too long.
TEST(long_prompts_match_within_a_sixteenth)
{
    struct rig rig;
    for (uint32_t shared = 1; shared < 2000; shared += 1 + shared / 40) {
        rig_init(&rig);
        rig.knobs.match_threshold = 0.5F;
        load(&rig, 1, 1, 0, 1);
        CHECK_EQ(pick_text(&rig, 1, shared, 0, 0), 2);
        load(&rig, 0, 1, 1, 1);
        CHECK_EQ(pick_text(&rig, 1, shared, 5, shared), 0);
        uint32_t found_at_least = shared - shared / 16;
        CHECK_EQ(pick_text(&rig, 1, shared, 6, 2 * found_at_least - shared - 1), 2);
        rig_fini(&rig);
    }
}

struct twin_entry {
    uint64_t key;
    uint64_t tenant;
};

// The same rule with every prefix in a plain list.
struct twin {
    struct twin_entry entries[20000];
    uint32_t entry_count;
    uint64_t processed[64]; // by slot; names do not change
};

static struct twin_entry *twin_find(struct twin *twin, uint64_t key)
{
    for (uint32_t i = 0; i < twin->entry_count; i++) {
        if (twin->entries[i].key == key) {
            return &twin->entries[i];
        }
    }
    return NULL;
}

static void twin_add(struct twin *twin, uint64_t key, uint64_t tenant)
{
    ASSERT(twin->entry_count < ARRAY_COUNT(twin->entries));
    twin->entries[twin->entry_count++] = (struct twin_entry){key, tenant};
}

static uint32_t twin_least(const struct twin *twin, const struct policy_input *in)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *a = &in->targets[i];
        const struct policy_target *b = &in->targets[best];
        if (a->running_requests < b->running_requests ||
            (a->running_requests == b->running_requests &&
             twin->processed[a->backend] < twin->processed[b->backend])) {
            best = i;
        }
    }
    return best;
}

static bool twin_is_imbalanced(const struct policy_input *in)
{
    double most = 0;
    double fewest = 1e9;
    for (uint32_t i = 0; i < in->target_count; i++) {
        double running = in->targets[i].running_requests;
        most = running > most ? running : most;
        fewest = running < fewest ? running : fewest;
    }
    return most - fewest > in->knobs->balance_absolute &&
           most > (double)in->knobs->balance_relative * fewest;
}

static uint64_t twin_tenant(struct twin *twin, const struct policy_input *in)
{
    uint32_t matched = 0;
    uint64_t tenant = 0;
    for (uint32_t i = 0; i < in->key_count; i++) {
        struct twin_entry *entry = twin_find(twin, in->keys[i]);
        if (entry != NULL) {
            matched = i + 1;
            tenant = entry->tenant;
        }
    }
    double rate = in->key_count > 0 ? (double)matched / in->key_count : 0;
    return rate > (double)in->knobs->match_threshold ? tenant : 0;
}

static uint32_t twin_pick(struct twin *twin, const struct policy_input *in)
{
    uint64_t tenant = twin_is_imbalanced(in) ? 0 : twin_tenant(twin, in);
    uint32_t chosen = twin_least(twin, in);
    bool is_gone = tenant != 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        if (tenant != 0 && in->targets[i].identity == tenant) {
            chosen = i;
            is_gone = false;
        }
    }
    for (uint32_t i = 0; i < in->key_count; i++) {
        struct twin_entry *entry = twin_find(twin, in->keys[i]);
        if (entry == NULL) {
            twin_add(twin, in->keys[i], in->targets[chosen].identity);
        } else if (is_gone && entry->tenant == tenant) {
            entry->tenant = in->targets[chosen].identity;
        }
    }
    twin->processed[in->targets[chosen].backend]++;
    return chosen;
}

TEST(agrees_with_the_rule_written_plainly)
{
    static struct twin twin;
    struct rng rng = {.state = 8};
    struct rig rig;

    rig_init(&rig);
    rig.knobs.balance_absolute = 5;
    for (int round = 0; round < 4000; round++) {
        fleet_fill(rig.targets, count);
        for (uint32_t i = 0; i < count; i++) {
            rig.targets[i].running_requests = rng_below(&rng, 1 + rng_below(&rng, 12));
        }
        fleet_shuffle(rig.targets, count, &rng);
        rig.in.target_count = 1 + rng_below(&rng, count);
        rig.prompt.count = 0;
        prompt_add(&rig.prompt, rng_below(&rng, 9), rng_below(&rng, 10));
        prompt_add(&rig.prompt, rng_below(&rng, 9), rng_below(&rng, 10));
        prompt_put(&rig.prompt, 16, &rig.in);
        uint32_t expected = twin_pick(&twin, &rig.in);
        CHECK_EQ(pick(&rig), expected);
    }
    rig_fini(&rig);
}
