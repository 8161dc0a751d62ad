// SPDX-License-Identifier: Apache-2.0

#include "kvevent/kv_holdings.h"

#include "base/hash.h"
#include "kvevent/kv_orphans.h"
#include "prefix/chain_token.h"
#include "prefix/prefix_chain.h"
#include "test.h"

enum { block = 4, key_max = 300, plenty = 8 << 20 };

// One engine and its ledger.
struct rig {
    struct prefix_ledger *ledger;
    struct kv_names_budget budget;
    struct kv_holdings *holdings;
    uint64_t now_ms;
};

static void rig_begin(struct rig *rig, bool is_set)
{
    *rig = (struct rig){.budget = {.limit = plenty}};
    rig->ledger = prefix_ledger_create(
        &(struct prefix_ledger_limits){.memory = plenty, .backend_count_max = 8});
    ASSERT(rig->ledger != NULL);
    rig->holdings = kv_holdings_create(&(struct kv_holdings_options){
        .ledger = rig->ledger, .budget = &rig->budget, .backend = 3, .is_set = is_set});
    ASSERT(rig->holdings != NULL);
}

static void rig_end(struct rig *rig)
{
    kv_holdings_destroy(&rig->holdings);
    struct prefix_ledger_usage usage;
    prefix_ledger_usage(rig->ledger, &usage);
    CHECK_EQ(usage.run_count, 0); // destroying purges
    CHECK_EQ(rig->budget.used, 0);
    prefix_ledger_destroy(&rig->ledger);
}

// Tokens of any prompt, whose n-th begins with n.
static const uint32_t *tokens_from(uint32_t first)
{
    static uint32_t tokens[4096];
    for (uint32_t i = 0; i < ARRAY_COUNT(tokens); i++) {
        tokens[i] = first + i;
    }
    return tokens;
}

// Blocks of the prompt 0, 1, 2, ..., from the n-th on, where the name of block n is 100 + n.
static struct kv_notice stored(uint32_t first, uint32_t count)
{
    static uint64_t hashes[key_max];
    for (uint32_t i = 0; i < count; i++) {
        hashes[i] = 100 + first + i;
    }
    return (struct kv_notice){.kind = KV_NOTICE_STORED,
                              .hashes = hashes,
                              .hash_count = count,
                              .block_tokens = block,
                              .tokens = tokens_from(first * block),
                              .token_count = count * block,
                              .has_parent = first > 0,
                              .parent = 100 + first - 1,
                              .decides = true,
                              .is_plain = true};
}

static void apply(struct rig *rig, struct kv_notice notice)
{
    kv_holdings_apply(rig->holdings, &notice, rig->now_ms);
}

static void store(struct rig *rig, uint32_t first, uint32_t count)
{
    apply(rig, stored(first, count));
}

static void store_in(struct rig *rig, enum prefix_tier tier, uint32_t first, uint32_t count)
{
    struct kv_notice notice = stored(first, count);
    notice.tier = tier;
    apply(rig, notice);
}

static void remove_from(struct rig *rig, enum prefix_tier tier, uint64_t hash)
{
    apply(rig, (struct kv_notice){.kind = KV_NOTICE_REMOVED,
                                  .hashes = &hash,
                                  .hash_count = 1,
                                  .tier = tier,
                                  .decides = true});
    kv_holdings_settle(rig->holdings);
}

static struct prefix_hit match_after(const struct rig *rig, uint64_t seed)
{
    uint64_t keys[64];
    struct prefix_chain chain;
    prefix_chain_begin(&chain, seed, block * sizeof(uint32_t), keys, ARRAY_COUNT(keys));
    for (uint32_t i = 0; i < ARRAY_COUNT(keys) * block; i++) {
        chain_add_token(&chain, i);
    }
    struct prefix_hit hit = {0};
    uint32_t count = prefix_ledger_match(rig->ledger, keys, ARRAY_COUNT(keys), &hit, 1);
    return count > 0 && hit.backend == 3 ? hit : (struct prefix_hit){0};
}

// Leading blocks of the prompt that the ledger says are held.
static uint32_t held(const struct rig *rig)
{
    return match_after(rig, prefix_seed(&(struct prefix_space){0})).blocks;
}

TEST(blocks_are_chained_within_an_event_and_behind_its_parent)
{
    struct rig rig;
    rig_begin(&rig, false);
    CHECK_EQ(held(&rig), 0);
    store(&rig, 0, 20);
    CHECK_EQ(held(&rig), 20);
    store(&rig, 20, 5);
    CHECK_EQ(held(&rig), 25);
    CHECK_EQ(kv_holdings_block_count(rig.holdings), 25);
    CHECK_EQ(kv_holdings_block_tokens(rig.holdings), block);
    CHECK_EQ(kv_holdings_tokens_stored(rig.holdings), 25 * block);
    rig_end(&rig);
}

TEST(a_parent_that_may_mean_none_is_that_block_if_there_is_one)
{
    struct rig rig;
    rig_begin(&rig, false);
    struct kv_notice first = stored(0, 2);
    first.has_parent = first.may_begin = true;
    first.parent = 0;
    apply(&rig, first);
    CHECK_EQ(held(&rig), 2);
    CHECK_EQ(kv_holdings_counts(rig.holdings)->orphans, 0);
    uint64_t zero = 0;
    struct kv_notice third = stored(2, 1);
    third.hashes = &zero;
    apply(&rig, third);
    struct kv_notice fourth = stored(3, 1);
    fourth.may_begin = true;
    fourth.parent = 0;
    apply(&rig, fourth);
    CHECK_EQ(held(&rig), 4);
    rig_end(&rig);
}

TEST(an_event_of_more_blocks_than_one_portion_is_stored_whole)
{
    struct rig rig;
    rig_begin(&rig, false);
    store(&rig, 0, 200);
    CHECK_EQ(kv_holdings_block_count(rig.holdings), 200);
    CHECK_EQ(held(&rig), 64);
    CHECK_EQ(kv_holdings_counts(rig.holdings)->stored, 200);
    rig_end(&rig);
}

TEST(a_block_is_held_until_its_last_copy_is_removed)
{
    struct rig rig;
    rig_begin(&rig, false);
    store(&rig, 0, 10);
    store(&rig, 9, 1);
    remove_from(&rig, PREFIX_GPU, 109);
    CHECK_EQ(held(&rig), 10);
    remove_from(&rig, PREFIX_GPU, 109);
    CHECK_EQ(held(&rig), 9);
    remove_from(&rig, PREFIX_GPU, 109);
    CHECK_EQ(kv_holdings_counts(rig.holdings)->unknown_removals, 1);
    remove_from(&rig, PREFIX_GPU, 104);
    CHECK_EQ(held(&rig), 4);
    store(&rig, 4, 1);
    CHECK_EQ(held(&rig), 9);
    rig_end(&rig);
}

TEST(an_engine_that_reports_a_block_once_removes_it_once)
{
    struct rig rig;
    rig_begin(&rig, true);
    store(&rig, 0, 10);
    store(&rig, 9, 1);
    remove_from(&rig, PREFIX_GPU, 109);
    CHECK_EQ(held(&rig), 9);
    rig_end(&rig);
}

TEST(reported_counts_of_copies_replace_ours)
{
    struct rig rig;
    rig_begin(&rig, false);
    for (uint32_t i = 0; i < 5; i++) {
        store(&rig, 0, 3);
    }
    uint64_t hashes[2] = {101, 102};
    uint32_t left[2] = {0, UINT32_MAX};
    apply(&rig, (struct kv_notice){.kind = KV_NOTICE_REMOVED,
                                   .hashes = hashes,
                                   .hash_count = 2,
                                   .copies_left = left,
                                   .decides = true});
    kv_holdings_settle(rig.holdings);
    CHECK_EQ(held(&rig), 1);
    CHECK_EQ(kv_holdings_block_count(rig.holdings), 2);
    rig_end(&rig);
}

TEST(removals_are_applied_before_later_events)
{
    struct rig rig;
    rig_begin(&rig, false);
    store(&rig, 0, 10);
    struct kv_notice gone = {.kind = KV_NOTICE_REMOVED, .decides = true, .hash_count = 1};
    gone.hashes = &(uint64_t){105};
    apply(&rig, gone);
    store(&rig, 5, 1); // the same batch stores it again
    kv_holdings_settle(rig.holdings);
    CHECK_EQ(held(&rig), 10);
    apply(&rig, gone);
    kv_holdings_purge(rig.holdings);
    CHECK_EQ(held(&rig), 0);
    CHECK_EQ(kv_holdings_counts(rig.holdings)->unknown_removals, 0);
    rig_end(&rig);
}

TEST(cleared_means_the_gpu_alone)
{
    struct rig rig;
    rig_begin(&rig, false);
    store(&rig, 0, 10);
    store_in(&rig, PREFIX_HOST, 0, 4);
    apply(&rig, (struct kv_notice){.kind = KV_NOTICE_CLEARED, .decides = true});
    struct prefix_hit hit = match_after(&rig, prefix_seed(&(struct prefix_space){0}));
    CHECK_EQ(hit.blocks, 4);
    CHECK_EQ(hit.host, 4);
    CHECK_EQ(kv_holdings_counts(rig.holdings)->cleared, 1);
    rig_end(&rig);
}

TEST(a_placeholder_says_where_known_blocks_are_too)
{
    struct rig rig;
    rig_begin(&rig, false);
    store(&rig, 0, 6);
    struct kv_notice notice = stored(0, 20);
    notice.tier = PREFIX_DISK;
    notice.token_count = 0;
    notice.block_tokens = 0;
    notice.has_parent = false;
    apply(&rig, notice);
    apply(&rig, (struct kv_notice){.kind = KV_NOTICE_CLEARED, .decides = true});
    struct prefix_hit hit = match_after(&rig, prefix_seed(&(struct prefix_space){0}));
    CHECK_EQ(hit.blocks, 6);
    CHECK_EQ(hit.disk, 6);
    remove_from(&rig, PREFIX_DISK, 103);
    CHECK_EQ(held(&rig), 3);
    rig_end(&rig);
}

TEST(an_adapter_and_a_salt_separate_prompts)
{
    struct rig rig;
    rig_begin(&rig, false);
    struct kv_notice notice = stored(0, 3);
    notice.adapter = slice_str("lora-a");
    notice.salt = slice_str("salt");
    apply(&rig, notice);
    CHECK_EQ(held(&rig), 0);
    struct prefix_space space = {.adapter = slice_str("lora-a"), .salt = slice_str("salt")};
    CHECK_EQ(match_after(&rig, prefix_seed(&space)).blocks, 3);
    rig_end(&rig);
}

TEST(extra_keys_of_a_block_are_hashed_behind_its_tokens)
{
    struct rig rig;
    rig_begin(&rig, false);
    struct kv_notice notice = stored(0, 3);
    struct kv_extra extra = {.block = 1, .bytes = slice_str("\x05\0\0\0image")};
    extra.bytes.size = 9;
    notice.extras = &extra;
    notice.extra_count = 1;
    apply(&rig, notice);
    CHECK_EQ(held(&rig), 1);

    uint64_t keys[3];
    uint8_t joined[16 + 9];
    const uint32_t *tokens = tokens_from(0);
    keys[0] = hash_bytes(slice_of(tokens, 16), prefix_seed(&(struct prefix_space){0}));
    memcpy(joined, tokens + 4, 16);
    memcpy(joined + 16, extra.bytes.bytes, 9);
    keys[1] = hash_bytes(slice_of(joined, sizeof(joined)), keys[0]);
    keys[2] = hash_bytes(slice_of(tokens + 8, 16), keys[1]);
    struct prefix_hit hit;
    CHECK_EQ(prefix_ledger_match(rig.ledger, keys, 3, &hit, 1), 1);
    CHECK_EQ(hit.blocks, 3);
    rig_end(&rig);
}

TEST(orphans_in_any_order_find_their_place_when_the_parent_comes)
{
    struct rig rig;
    rig_begin(&rig, false);
    store(&rig, 15, 5);
    store(&rig, 12, 2); // the parent of block 14 is one of these
    store(&rig, 14, 1);
    store(&rig, 5, 7);
    CHECK_EQ(held(&rig), 0);
    CHECK_EQ(kv_holdings_orphan_count(rig.holdings), 4);
    store(&rig, 0, 5);
    CHECK_EQ(held(&rig), 20);
    CHECK_EQ(kv_holdings_orphan_count(rig.holdings), 0);
    CHECK_EQ(kv_holdings_counts(rig.holdings)->orphans, 4);
    CHECK_EQ(kv_holdings_counts(rig.holdings)->adopted, 4);
    rig_end(&rig);
}

TEST(many_orphans_in_a_row_need_no_stack)
{
    struct rig rig;
    rig_begin(&rig, false);
    for (uint32_t i = 3000; i > 0; i--) {
        store(&rig, i, 1);
    }
    store(&rig, 0, 1);
    CHECK_EQ(kv_holdings_block_count(rig.holdings), 3001);
    CHECK_EQ(held(&rig), 64);
    rig_end(&rig);
}

TEST(blocks_removed_while_they_waited_are_not_held)
{
    struct rig rig;
    rig_begin(&rig, false);
    store(&rig, 5, 5);
    store(&rig, 8, 4);
    remove_from(&rig, PREFIX_GPU, 107);
    CHECK_EQ(kv_holdings_counts(rig.holdings)->unknown_removals, 0);
    store(&rig, 0, 5);
    CHECK_EQ(held(&rig), 7);
    store(&rig, 7, 1);
    CHECK_EQ(held(&rig), 12); // what came behind it was there all the time
    rig_end(&rig);
}

TEST(a_clear_takes_orphans_of_the_gpu_along)
{
    struct rig rig;
    rig_begin(&rig, false);
    store(&rig, 5, 5);
    store_in(&rig, PREFIX_HOST, 5, 2);
    apply(&rig, (struct kv_notice){.kind = KV_NOTICE_CLEARED, .decides = true});
    store(&rig, 0, 5);
    CHECK_EQ(held(&rig), 7);
    rig_end(&rig);
}

TEST(an_orphan_that_waits_too_long_is_lost)
{
    struct rig rig;
    rig_begin(&rig, false);
    store(&rig, 5, 5);
    rig.now_ms = kv_orphan_age_ms;
    store(&rig, 0, 5);
    CHECK_EQ(held(&rig), 5);
    CHECK_EQ(kv_holdings_counts(rig.holdings)->orphans_lost, 1);
    rig_end(&rig);
}

TEST(a_removal_is_of_the_orphan_that_was_there_then)
{
    struct rig rig;
    rig_begin(&rig, false);
    store(&rig, 5, 5);
    rig.now_ms = 1000;
    store(&rig, 5, 5); // again: another copy
    uint64_t hash = 107;
    apply(&rig, (struct kv_notice){.kind = KV_NOTICE_REMOVED, .hashes = &hash, .hash_count = 1});
    rig.now_ms = kv_orphan_age_ms; // the first of the two has waited too long
    store(&rig, 0, 5);
    CHECK_EQ(held(&rig), 10);
    rig_end(&rig);
}

TEST(only_the_first_deciding_group_is_looked_at)
{
    struct rig rig;
    rig_begin(&rig, false);
    struct kv_notice notice = stored(0, 10);
    notice.has_group = true;
    notice.group = 1;
    notice.decides = false;
    apply(&rig, notice);
    CHECK_EQ(held(&rig), 0);
    notice.group = 2;
    notice.decides = true;
    apply(&rig, notice);
    CHECK_EQ(held(&rig), 10);
    notice.kind = KV_NOTICE_REMOVED;
    notice.group = 0;
    apply(&rig, notice);
    kv_holdings_settle(rig.holdings);
    CHECK_EQ(held(&rig), 10);
    CHECK_EQ(kv_holdings_counts(rig.holdings)->ignored, 2);
    notice.group = 2;
    apply(&rig, notice);
    kv_holdings_settle(rig.holdings);
    CHECK_EQ(held(&rig), 0);
    rig_end(&rig);
}

TEST(blocks_that_are_not_full_are_ignored_and_a_larger_size_shows_that_they_were)
{
    struct rig rig;
    rig_begin(&rig, false);
    struct kv_notice partial = stored(0, 1);
    partial.block_tokens = 3;
    partial.token_count = 3;
    apply(&rig, partial); // the first that we hear of
    CHECK_EQ(kv_holdings_block_tokens(rig.holdings), 3);
    store(&rig, 0, 5);
    CHECK_EQ(kv_holdings_block_tokens(rig.holdings), block);
    CHECK_EQ(held(&rig), 5);
    CHECK_EQ(kv_holdings_block_count(rig.holdings), 5);
    apply(&rig, partial);
    struct kv_notice large = stored(0, 1);
    large.tier = PREFIX_HOST; // a connector's piece
    large.block_tokens = 8;
    large.token_count = 8;
    apply(&rig, large);
    CHECK_EQ(kv_holdings_counts(rig.holdings)->ignored, 2);
    CHECK_EQ(held(&rig), 5);
    rig_end(&rig);
}

TEST(events_that_cannot_be_indexed_are_counted_and_nothing_else)
{
    struct rig rig;
    rig_begin(&rig, false);
    struct kv_notice notice = stored(0, 2);
    notice.is_plain = false;
    apply(&rig, notice);
    notice = stored(0, 2);
    notice.is_remote = true;
    apply(&rig, notice);
    notice = stored(0, 2);
    notice.token_count = 7;
    apply(&rig, notice);
    notice = stored(0, 0);
    notice.token_count = 8;
    apply(&rig, notice);
    notice = stored(0, 1);
    notice.block_tokens = 257;
    notice.token_count = 257;
    apply(&rig, notice);
    CHECK_EQ(kv_holdings_counts(rig.holdings)->ignored, 5);
    CHECK_EQ(kv_holdings_block_tokens(rig.holdings), 0);
    apply(&rig, (struct kv_notice){.kind = KV_NOTICE_UNKNOWN});
    apply(&rig, (struct kv_notice){.kind = KV_NOTICE_MALFORMED});
    CHECK_EQ(kv_holdings_counts(rig.holdings)->unknown_kinds, 1);
    CHECK_EQ(kv_holdings_counts(rig.holdings)->malformed, 1);
    CHECK_EQ(kv_holdings_block_count(rig.holdings), 0);
    rig_end(&rig);
}

TEST(a_name_that_is_said_of_another_block_leaves_the_one_it_had)
{
    struct rig rig;
    rig_begin(&rig, false);
    store(&rig, 0, 3);
    struct kv_notice notice = stored(0, 1);
    notice.hashes = &(uint64_t){102};
    notice.tokens = tokens_from(5000);
    apply(&rig, notice);
    CHECK_EQ(held(&rig), 2);
    CHECK_EQ(kv_holdings_block_count(rig.holdings), 3);
    rig_end(&rig);
}

TEST(a_block_with_two_names_is_held_until_both_are_gone)
{
    struct rig rig;
    rig_begin(&rig, false);
    store(&rig, 0, 3);
    uint64_t others[3] = {201, 202, 203};
    struct kv_notice notice = stored(0, 3);
    notice.hashes = others;
    apply(&rig, notice);
    remove_from(&rig, PREFIX_GPU, 102);
    CHECK_EQ(held(&rig), 3);
    remove_from(&rig, PREFIX_GPU, 203);
    CHECK_EQ(held(&rig), 2);
    // A chain whose names move by one: each leaves what another gets.
    others[0] = 202;
    others[1] = 201;
    apply(&rig, notice);
    CHECK_EQ(held(&rig), 3);
    apply(&rig, (struct kv_notice){.kind = KV_NOTICE_CLEARED, .decides = true});
    CHECK_EQ(held(&rig), 0);
    rig_end(&rig);
}

TEST(a_budget_that_is_spent_refuses_blocks_and_keeps_the_rest_true)
{
    struct rig rig;
    rig_begin(&rig, false);
    store(&rig, 0, 20);
    rig.budget.limit = rig.budget.used;
    uint32_t count = 20;
    while (kv_holdings_counts(rig.holdings)->refused == 0 && count < 1000) {
        store(&rig, count++, 1);
    }
    CHECK(count > 25);
    CHECK_EQ(kv_holdings_counts(rig.holdings)->refused, 1);
    CHECK_EQ(held(&rig), count - 1);
    CHECK_EQ(kv_holdings_block_count(rig.holdings), count - 1);
    store(&rig, 0, count - 1); // copies need nothing
    CHECK_EQ(kv_holdings_counts(rig.holdings)->refused, 1);
    rig.budget.limit = plenty;
    store(&rig, count - 1, 1);
    CHECK_EQ(held(&rig), count);
    rig_end(&rig);
}

TEST(a_ledger_that_is_full_refuses_blocks)
{
    struct rig rig;
    rig_begin(&rig, false);
    kv_holdings_destroy(&rig.holdings);
    prefix_ledger_destroy(&rig.ledger);
    rig.ledger = prefix_ledger_create(
        &(struct prefix_ledger_limits){.memory = 20000, .backend_count_max = 8});
    rig.holdings = kv_holdings_create(
        &(struct kv_holdings_options){.ledger = rig.ledger, .budget = &rig.budget, .backend = 3});
    uint32_t first = 0;
    while (kv_holdings_counts(rig.holdings)->refused == 0 && first < 5000) {
        struct kv_notice notice = stored(0, 100);
        uint64_t hashes[100];
        for (uint32_t i = 0; i < 100; i++) {
            hashes[i] = 10000 + first + i;
        }
        notice.hashes = hashes;
        notice.tokens = tokens_from(7 * ++first);
        first += 100;
        apply(&rig, notice);
    }
    uint64_t refused = kv_holdings_counts(rig.holdings)->refused;
    CHECK(refused > 0);
    CHECK_EQ(kv_holdings_block_count(rig.holdings) + refused,
             kv_holdings_counts(rig.holdings)->stored);
    rig_end(&rig);
}
