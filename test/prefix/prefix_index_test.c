// SPDX-License-Identifier: Apache-2.0

#include "prefix/prefix_index.h"

#include "prefix/chains.h"
#include "test.h"

enum { plenty = 16 << 20 };

static struct prefix_index *make(size_t memory, uint32_t ttl_s)
{
    return prefix_index_create(
        &(struct prefix_limits){.memory = memory,
                                .backend_count_max = memory < plenty ? 16 : chain_backend_max,
                                .ttl_s = ttl_s});
}

TEST(only_stored_blocks_are_matched)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 100);
    struct chain b = chain_make(NULL, 0, 2, 100);
    chain_store(index, 7, &a);
    CHECK_EQ(chain_match(index, 7, &a), 100);
    CHECK_EQ(chain_match(index, 8, &a), 0);
    CHECK_EQ(chain_match(index, 7, &b), 0);
    struct prefix_hit hit;
    CHECK_EQ(prefix_index_match(index, a.keys, 0, 0, &hit, 1), 0);
    prefix_index_destroy(&index);
    CHECK(index == NULL);
    prefix_index_destroy(&index);
}

TEST(a_chain_that_ends_within_a_run_is_matched_to_its_end)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 40);
    chain_store(index, 0, &a);
    for (uint32_t n = 1; n <= 40; n++) {
        a.count = n;
        CHECK_EQ(chain_match(index, 0, &a), n);
    }
    prefix_index_destroy(&index);
}

TEST(chains_diverge_at_any_block)
{
    for (uint32_t at = 1; at < 40; at++) {
        struct prefix_index *index = make(plenty, 0);
        struct chain a = chain_make(NULL, 0, 1, 50);
        struct chain b = chain_make(&a, at, 2, 50);
        struct chain c = chain_make(&b, 45, 3, 60);
        chain_store(index, 1, &a);
        CHECK_EQ(chain_match(index, 1, &b), at);
        chain_store(index, 2, &b);
        CHECK_EQ(chain_match(index, 1, &a), 50);
        CHECK_EQ(chain_match(index, 1, &b), at);
        CHECK_EQ(chain_match(index, 2, &b), 50);
        CHECK_EQ(chain_match(index, 2, &a), at);
        CHECK_EQ(chain_match(index, 2, &c), 45);
        chain_store(index, 3, &c);
        CHECK_EQ(chain_match(index, 3, &c), 60);
        CHECK_EQ(chain_match(index, 3, &a), at);
        CHECK_EQ(chain_match(index, 1, &a), 50);
        CHECK_EQ(chain_match(index, 2, &b), 50);
        prefix_index_destroy(&index);
    }
}

TEST(a_chain_grows_in_place)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 64);
    struct prefix_usage usage;
    for (uint32_t n = 1; n <= 64; n++) {
        a.count = n;
        chain_store(index, 0, &a);
        CHECK_EQ(chain_match(index, 0, &a), n);
        prefix_index_usage(index, &usage);
        CHECK_EQ(usage.run_count, (n + 15) / 16);
        CHECK_EQ(usage.memory, usage.run_count * 192);
    }
    // Another backend that had less of it has not got more.
    a.count = 10;
    chain_store(index, 1, &a);
    a.count = 64;
    CHECK_EQ(chain_match(index, 1, &a), 10);
    prefix_index_destroy(&index);
}

TEST(a_block_evicted_in_the_middle_ends_the_match_until_it_comes_back)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 100);
    chain_store(index, 3, &a);
    chain_store(index, 4, &a);
    for (uint32_t at = 0; at < 100; at++) {
        prefix_index_drop(index, 3, PREFIX_CONFIRMED, a.keys, at + 1, at);
        CHECK_EQ(chain_match(index, 3, &a), at);
        CHECK_EQ(chain_match(index, 4, &a), 100);
        chain_store_some(index, 3, PREFIX_CONFIRMED, &a, at + 1, 0);
        CHECK_EQ(chain_match(index, 3, &a), 100);
    }
    // A whole run, and more on both sides.
    prefix_index_drop(index, 3, PREFIX_CONFIRMED, a.keys, 60, 20);
    CHECK_EQ(chain_match(index, 3, &a), 20);
    chain_store_some(index, 3, PREFIX_CONFIRMED, &a, 60, 0);
    CHECK_EQ(chain_match(index, 3, &a), 100);
    // The last holder too.
    prefix_index_drop(index, 3, PREFIX_CONFIRMED, a.keys, 100, 0);
    prefix_index_drop(index, 4, PREFIX_CONFIRMED, a.keys, 60, 20);
    CHECK_EQ(chain_match(index, 3, &a), 0);
    CHECK_EQ(chain_match(index, 4, &a), 20);
    chain_store_some(index, 4, PREFIX_CONFIRMED, &a, 60, 0);
    CHECK_EQ(chain_match(index, 4, &a), 100);
    prefix_index_destroy(&index);
}

TEST(a_drop_of_blocks_never_stored_does_nothing)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 30);
    struct chain b = chain_make(&a, 10, 2, 30);
    chain_store(index, 0, &a);
    prefix_index_drop(index, 0, PREFIX_CONFIRMED, b.keys, 30, 10);
    prefix_index_drop(index, 1, PREFIX_CONFIRMED, a.keys, 30, 0);
    prefix_index_drop(index, 0, PREFIX_CONFIRMED, a.keys, 30, 30);
    CHECK_EQ(chain_match(index, 0, &a), 30);
    prefix_index_destroy(&index);
}

TEST(confirmed_blocks_survive_a_drop_of_predictions)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 50);
    chain_store_some(index, 0, PREFIX_CONFIRMED, &a, 20, 0);
    chain_store_some(index, 0, PREFIX_PREDICTED, &a, 50, 0);
    CHECK_EQ(chain_match(index, 0, &a), 50);
    prefix_index_drop(index, 0, PREFIX_PREDICTED, a.keys, 50, 0);
    CHECK_EQ(chain_match(index, 0, &a), 20);
    // A block that was dropped and predicted again is not confirmed.
    prefix_index_drop(index, 0, PREFIX_CONFIRMED, a.keys, 11, 10);
    chain_store_some(index, 0, PREFIX_PREDICTED, &a, 20, 0);
    prefix_index_drop(index, 0, PREFIX_PREDICTED, a.keys, 20, 0);
    CHECK_EQ(chain_match(index, 0, &a), 10);
    // Nor is one whose backend was forgotten in between.
    prefix_index_forget(index, 0);
    chain_store_some(index, 0, PREFIX_PREDICTED, &a, 20, 0);
    prefix_index_drop(index, 0, PREFIX_PREDICTED, a.keys, 20, 0);
    CHECK_EQ(chain_match(index, 0, &a), 0);
    prefix_index_destroy(&index);
}

TEST(a_forgotten_backend_holds_nothing_and_others_all)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 100);
    chain_store(index, 0, &a);
    chain_store(index, 1, &a);
    prefix_index_forget(index, 0);
    CHECK_EQ(chain_match(index, 0, &a), 0);
    CHECK_EQ(chain_match(index, 1, &a), 100);
    chain_store_some(index, 0, PREFIX_CONFIRMED, &a, 5, 0);
    CHECK_EQ(chain_match(index, 0, &a), 5);
    prefix_index_destroy(&index);
}

TEST(forgotten_blocks_do_not_come_back_when_epochs_wrap)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 100);
    chain_store(index, 0, &a);
    chain_store(index, 1, &a);
    for (uint32_t i = 0; i < 70000; i++) {
        prefix_index_forget(index, 0);
        CHECK((i % 1000 != 0 && i < 65000) || chain_match(index, 0, &a) == 0);
    }
    CHECK_EQ(chain_match(index, 0, &a), 0);
    CHECK_EQ(chain_match(index, 1, &a), 100);
    prefix_index_destroy(&index);
}

TEST(a_backend_holds_no_more_than_its_capacity)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain chains[10];
    prefix_index_set_capacity(index, 0, 320);
    for (uint32_t i = 0; i < 10; i++) {
        chains[i] = chain_make(NULL, 0, i + 1, 64);
        chain_store(index, 0, &chains[i]);
        chain_store(index, 1, &chains[i]);
    }
    // The last five hold 320 blocks; of the first of these the end has gone, or nothing.
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t held = chain_match(index, 0, &chains[i]);
        CHECK_EQ(chain_match(index, 1, &chains[i]), 64);
        CHECK(i >= 5 || held == 0);
        CHECK(i < 6 || held == 64);
        CHECK(i != 5 || (held >= 16 && held <= 64));
    }
    // The belief is a question, not a deed: another capacity gives another answer.
    prefix_index_set_capacity(index, 0, 0);
    CHECK_EQ(chain_match(index, 0, &chains[0]), 64);
    prefix_index_set_capacity(index, 0, 64);
    CHECK_EQ(chain_match(index, 0, &chains[8]), 0);
    CHECK_EQ(chain_match(index, 0, &chains[9]), 64);
    prefix_index_destroy(&index);
}

TEST(a_touch_keeps_blocks_that_would_have_aged_out)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain hot = chain_make(NULL, 0, 1000, 32);
    prefix_index_set_capacity(index, 0, 200);
    chain_store(index, 0, &hot);
    for (uint32_t i = 1; i < 50; i++) {
        struct chain other = chain_make(NULL, 0, i, 32);
        chain_store(index, 0, &other);
        chain_store(index, 0, &hot);
        CHECK_EQ(chain_match(index, 0, &hot), 32);
        // Blocks that were held already do not advance the clock.
        CHECK(chain_hit(index, 0, &other, 0).age < 64);
    }
    prefix_index_destroy(&index);
}

TEST(age_counts_the_new_blocks_since_the_last_touch)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 16);
    struct chain b = chain_make(NULL, 0, 2, 48);
    chain_store(index, 0, &a);
    CHECK_EQ(chain_hit(index, 0, &a, 0).age, 0);
    chain_store(index, 0, &b);
    CHECK_EQ(chain_hit(index, 0, &a, 0).age, 48);
    CHECK_EQ(chain_hit(index, 0, &b, 0).age, 32); // the run that begins at 32
    chain_store(index, 0, &a);
    CHECK_EQ(chain_hit(index, 0, &a, 0).age, 0);
    prefix_index_destroy(&index);
}

TEST(forget_older_drops_blocks_not_used_lately)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 16);
    struct chain b = chain_make(NULL, 0, 2, 100);
    struct chain c = chain_make(NULL, 0, 3, 100);
    chain_store(index, 0, &a);
    chain_store(index, 0, &b);
    chain_store(index, 0, &c);
    prefix_index_forget_older(index, 0, 1000);
    CHECK_EQ(chain_match(index, 0, &a), 16);
    prefix_index_forget_older(index, 0, 150);
    CHECK_EQ(chain_match(index, 0, &a), 0);
    CHECK(chain_match(index, 0, &b) >= 16);
    CHECK(chain_match(index, 0, &b) < 100);
    CHECK_EQ(chain_match(index, 0, &c), 100);
    // A larger age afterwards brings nothing back.
    prefix_index_forget_older(index, 0, 1000);
    CHECK_EQ(chain_match(index, 0, &a), 0);
    // All of it, and a fresh beginning, also where a store only lengthens what is there.
    prefix_index_forget_older(index, 0, 0);
    CHECK_EQ(chain_match(index, 0, &c), 0);
    chain_store_some(index, 0, PREFIX_CONFIRMED, &c, 10, 0);
    CHECK_EQ(chain_match(index, 0, &c), 10);
    chain_store(index, 0, &c);
    CHECK_EQ(chain_match(index, 0, &c), 100);
    prefix_index_destroy(&index);
}

TEST(a_long_prompt_is_held_whole_just_after_forget_older)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 1000);
    chain_store(index, 0, &a);
    a.count = 100;
    prefix_index_forget_older(index, 0, 200);
    CHECK_EQ(chain_match(index, 0, &a), 100);
    a.count = 1000;
    chain_store(index, 0, &a); // 200 of it were held, the others are new
    CHECK_EQ(chain_match(index, 0, &a), 1000);
    prefix_index_destroy(&index);
}

TEST(blocks_older_than_the_ttl_are_not_believed_and_then_freed)
{
    struct prefix_index *index = make(plenty, 60);
    struct chain a = chain_make(NULL, 0, 1, 64);
    struct chain b = chain_make(NULL, 0, 2, 64);
    struct prefix_usage usage;
    chain_store_some(index, 0, PREFIX_CONFIRMED, &a, 64, 1000);
    CHECK_EQ(chain_hit(index, 0, &a, 1059).blocks, 64);
    CHECK_EQ(chain_hit(index, 0, &a, 1060).blocks, 0);
    CHECK_EQ(chain_hit(index, 0, &a, 999).blocks, 64); // another thread's clock may be behind
    chain_store_some(index, 0, PREFIX_CONFIRMED, &b, 64, 1059);
    prefix_index_usage(index, &usage);
    CHECK_EQ(usage.run_count, 8);
    chain_store_some(index, 0, PREFIX_CONFIRMED, &b, 64, 1061);
    prefix_index_usage(index, &usage);
    CHECK_EQ(usage.run_count, 4);
    CHECK_EQ(usage.expiries, 4);
    CHECK_EQ(chain_hit(index, 0, &b, 1061).blocks, 64);
    prefix_index_destroy(&index);
}

TEST(a_full_index_drops_the_runs_stored_longest_ago)
{
    struct prefix_index *index = make(64 << 10, 0);
    struct chain chains[100];
    struct prefix_usage usage;
    struct chain hot = chain_make(NULL, 0, 1000, 100);
    for (uint32_t i = 0; i < 100; i++) {
        chains[i] = chain_make(&hot, 50, i + 1, 100);
        chain_store(index, i % 5, &hot);
        chain_store(index, 0, &chains[i]);
        CHECK_EQ(chain_match(index, 0, &chains[i]), 100);
        CHECK_EQ(chain_match(index, i % 5, &hot), 100);
        prefix_index_usage(index, &usage);
        CHECK(usage.memory <= 64 << 10);
    }
    CHECK(usage.evictions > 0);
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t held = chain_match(index, 0, &chains[i]);
        CHECK(i < 90 || held == 100);
        CHECK(i > 20 || held == 50); // what it shares with others stays
    }
    prefix_index_destroy(&index);
}

TEST(a_chain_is_evicted_from_its_end)
{
    struct prefix_index *index = make(64 << 10, 0);
    struct chain a = chain_make(NULL, 0, 1000, 160);
    struct chain grown = chain_make(&a, 160, 1000, 320);
    chain_store(index, 0, &a);
    chain_store(index, 0, &grown);
    uint32_t held = 320;
    uint32_t partial = 0;
    for (uint32_t i = 1; held > 0; i++) {
        struct chain other = chain_make(NULL, 0, i, 32);
        chain_store(index, 1, &other);
        uint32_t now = chain_match(index, 0, &grown);
        CHECK(now <= held);
        CHECK_EQ(now % 16, 0);
        partial += now > 0 && now < 320;
        held = now;
    }
    CHECK(partial >= 9); // two runs a time
    prefix_index_destroy(&index);
}

TEST(a_chain_longer_than_the_whole_index_is_stored_in_part)
{
    struct prefix_index *index = make(12 << 10, 0);
    struct chain a = chain_make(NULL, 0, 1, 1000);
    struct chain b = chain_make(NULL, 0, 2, 1000);
    chain_store(index, 0, &a);
    uint32_t held = chain_match(index, 0, &a);
    CHECK(held >= 16 && held < 1000);
    chain_store(index, 0, &b);
    CHECK_EQ(chain_match(index, 0, &b), held);
    CHECK(chain_match(index, 0, &a) < held / 2);
    prefix_index_destroy(&index);
}

TEST(memory_that_is_too_little_is_refused)
{
    CHECK(make(1000, 0) == NULL);
    struct prefix_index *index = make(4096, 0);
    CHECK(index != NULL);
    prefix_index_destroy(&index);
}

static void split_with_holders(uint32_t count)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 32);
    struct chain b = chain_make(&a, 7, 2, 32);
    for (uint32_t i = 0; i < count; i++) {
        chain_store(index, i, &a);
    }
    chain_store(index, 0, &b);
    for (uint32_t i = 0; i < count; i += 1 + count / 50) {
        CHECK_EQ(chain_match(index, i, &a), 32);
        CHECK_EQ(chain_match(index, i, &b), i == 0 ? 32 : 7);
    }
    prefix_index_destroy(&index);
}

TEST(a_run_with_many_holders_can_be_split)
{
    for (uint32_t count = 1; count <= 4096; count *= 4) {
        split_with_holders(count);
    }
}

TEST(holders_that_cannot_come_back_leave_their_places)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 16);
    struct prefix_usage before;
    struct prefix_usage after;
    for (uint32_t i = 0; i < 4000; i++) {
        chain_store(index, i, &a);
        prefix_index_usage(index, i < 40 ? &before : &after);
        if (i % 3 == 0) {
            prefix_index_drop(index, i, PREFIX_CONFIRMED, a.keys, 16, 0);
        } else if (i % 3 == 1) {
            prefix_index_forget(index, i);
        } else {
            prefix_index_forget_older(index, i, 0);
        }
    }
    CHECK_EQ(after.memory, before.memory);
    prefix_index_destroy(&index);
}

TEST(capacity_counts_the_tokens_of_new_blocks)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 16);
    struct chain b = chain_make(NULL, 0, 2, 16);
    chain_store(index, 0, &a);
    prefix_index_store(index, &(struct prefix_span){.keys = b.keys,
                                                    .key_count = b.count,
                                                    .block_tokens = 64,
                                                    .residency = PREFIX_CONFIRMED});
    CHECK_EQ(chain_hit(index, 0, &a, 0).age, 16 * 64);
    prefix_index_set_capacity(index, 0, 16 * 64);
    CHECK_EQ(chain_match(index, 0, &a), 0);
    CHECK_EQ(chain_match(index, 0, &b), 16);
    prefix_index_destroy(&index);
}

// Fills an index to its last granule, so that buckets overflow into others.
static void fill(struct prefix_index *index, uint32_t run_count)
{
    for (uint32_t i = 0; i < run_count; i++) {
        struct chain a = chain_make(NULL, 0, 100 + i, 1);
        chain_store(index, 0, &a);
    }
}

TEST(a_full_index_finds_every_run_and_after_it_was_replaced_again)
{
    struct prefix_index *index = make(1 << 20, 0);
    struct prefix_usage usage = {0};
    uint32_t run_count = 0;
    while (usage.evictions == 0) {
        struct chain a = chain_make(NULL, 0, 100 + run_count++, 1);
        chain_store(index, 0, &a);
        prefix_index_usage(index, &usage);
    }
    CHECK_EQ(usage.run_count, run_count - 1);
    fill(index, 5 * run_count);
    for (uint32_t i = 4 * run_count + 1; i < 5 * run_count; i++) {
        struct chain a = chain_make(NULL, 0, 100 + i, 1);
        CHECK_EQ(chain_match(index, 0, &a), 1);
    }
    prefix_index_destroy(&index);
}

TEST(an_index_in_a_block_of_the_caller_stays_within_it)
{
    const size_t sizes[] = {64 << 10, 100000, 100001, 131072 + 2367, 131072 + 2368, 1 << 20};
    static _Alignas(64) uint8_t block[(1 << 20) + 64];
    for (uint32_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        memset(block, 0xa5, sizeof(block));
        struct prefix_index *index = prefix_index_create(
            &(struct prefix_limits){.block = block, .memory = sizes[i], .backend_count_max = 16});
        CHECK(index != NULL);
        fill(index, 6000);
        struct chain a = chain_make(NULL, 0, 100 + 5999, 1);
        CHECK_EQ(chain_match(index, 0, &a), 1);
        prefix_index_destroy(&index);
        CHECK_EQ(block[sizes[i]], 0xa5);
    }
}

static void chain_merge(struct prefix_index *index, uint32_t backend, const struct chain *chain,
                        uint32_t age, uint32_t age_s)
{
    prefix_index_merge(index,
                       &(struct prefix_span){.keys = chain->keys,
                                             .key_count = chain->count,
                                             .backend = backend,
                                             .now_s = 1000,
                                             .residency = PREFIX_CONFIRMED},
                       age, age_s);
}

TEST(merged_blocks_have_the_age_that_they_come_with_and_the_clock_stands)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain own = chain_make(NULL, 0, 1, 30);
    struct chain merged = chain_make(NULL, 0, 2, 40);
    chain_store(index, 7, &own);
    uint32_t before = chain_hit(index, 7, &own, 1000).age;
    chain_merge(index, 7, &merged, 25, 3);
    struct prefix_hit hit = chain_hit(index, 7, &merged, 1000);
    CHECK_EQ(hit.blocks, 40);
    CHECK_EQ(hit.confirmed, 40);
    CHECK_EQ(hit.age, 25);
    CHECK_EQ(chain_hit(index, 7, &own, 1000).age, before);
    CHECK_EQ(chain_match(index, 8, &merged), 0);
    prefix_index_destroy(&index);
}

TEST(a_merge_makes_no_block_older)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 16);
    struct chain b = chain_make(NULL, 0, 2, 16);
    chain_store(index, 7, &b);
    chain_store(index, 7, &a);
    chain_merge(index, 7, &a, 100, 0);
    CHECK_EQ(chain_hit(index, 7, &a, 1000).age, 0);
    CHECK_EQ(chain_hit(index, 7, &b, 1000).age, 16);
    chain_merge(index, 7, &b, 5, 0); // used at another router since
    CHECK_EQ(chain_hit(index, 7, &b, 1000).age, 5);
    prefix_index_destroy(&index);
}

TEST(a_merge_leaves_out_blocks_below_the_floor_or_beyond_the_ttl)
{
    struct prefix_index *index = make(plenty, 60);
    struct chain own = chain_make(NULL, 0, 1, 100);
    struct chain merged = chain_make(NULL, 0, 2, 20);
    chain_store_some(index, 7, PREFIX_CONFIRMED, &own, 100, 1000);
    prefix_index_forget_older(index, 7, 50);
    chain_merge(index, 7, &merged, 50, 0);
    CHECK_EQ(chain_hit(index, 7, &merged, 1000).blocks, 0);
    chain_merge(index, 7, &merged, 49, 60);
    CHECK_EQ(chain_hit(index, 7, &merged, 1000).blocks, 0);
    chain_merge(index, 7, &merged, 49, 59);
    CHECK_EQ(chain_hit(index, 7, &merged, 1000).blocks, 20);
    CHECK_EQ(chain_hit(index, 7, &merged, 1001).blocks, 0);
    prefix_index_destroy(&index);
}

TEST(a_merge_confirms_predicted_blocks)
{
    struct prefix_index *index = make(plenty, 0);
    struct chain a = chain_make(NULL, 0, 1, 30);
    chain_store_some(index, 7, PREFIX_PREDICTED, &a, 30, 1000);
    a.count = 20;
    chain_merge(index, 7, &a, 9, 0);
    a.count = 30;
    CHECK_EQ(chain_hit(index, 7, &a, 1000).blocks, 30);
    CHECK_EQ(chain_hit(index, 7, &a, 1000).confirmed, 20);
    prefix_index_destroy(&index);
}

// Chains are merged oldest first: the last one is the last to be evicted.
TEST(a_full_index_evicts_merged_chains_in_their_order)
{
    struct prefix_index *index = make(64 << 10, 0);
    struct prefix_usage usage;
    uint64_t count = 0;
    do {
        struct chain chain = chain_make(NULL, 0, ++count, 16);
        chain_merge(index, 7, &chain, (uint32_t)(100000 - count), 0);
        prefix_index_usage(index, &usage);
    } while (usage.evictions < 20);
    uint64_t gone = 0;
    for (uint64_t seed = 1; seed <= count; seed++) {
        struct chain chain = chain_make(NULL, 0, seed, 16);
        bool is_there = chain_hit(index, 7, &chain, 1000).blocks > 0;
        CHECK(is_there || gone == seed - 1); // the oldest ones, without a hole
        gone += !is_there;
    }
    CHECK_EQ(gone, usage.evictions);
    prefix_index_destroy(&index);
}

static void merge_at_random(uint64_t seed)
{
    enum { chain_count = 6, backends = 3 };
    struct rng rng = {.state = seed};
    struct prefix_index *index = make(plenty, 0);
    uint32_t longest[chain_count][backends] = {0};
    uint32_t youngest[chain_count][backends];
    memset(youngest, 0xff, sizeof(youngest));
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t which = rng_below(&rng, chain_count);
        uint32_t backend = rng_below(&rng, backends);
        uint32_t age = rng_below(&rng, 1000);
        // A run has one age: whole runs only.
        struct chain chain = chain_make(NULL, 0, which + 1, 16);
        chain_merge(index, backend, &chain, age, 0);
        longest[which][backend] = 16;
        youngest[which][backend] = age < youngest[which][backend] ? age : youngest[which][backend];
    }
    for (uint32_t which = 0; which < chain_count; which++) {
        struct chain chain = chain_make(NULL, 0, which + 1, 16);
        for (uint32_t backend = 0; backend < backends; backend++) {
            struct prefix_hit hit = chain_hit(index, backend, &chain, 1000);
            CHECK_EQ(hit.confirmed, longest[which][backend]);
            CHECK(hit.blocks == 0 || hit.age == youngest[which][backend]);
        }
    }
    prefix_index_destroy(&index);
}

// Blocks, confirmed blocks and ages of a merge beside a list of what was merged.
TEST(merges_in_any_order_end_in_the_youngest_age_and_the_longest_chain)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        merge_at_random(seed);
    }
}
