// SPDX-License-Identifier: Apache-2.0

#include "prefix/chains.h"
#include "test.h"

static struct prefix_hit hits[chain_backend_max];

static void match_holders(uint32_t holder_count)
{
    static bool seen[chain_backend_max];
    memset(seen, 0, sizeof(seen));
    struct prefix_index *index =
        prefix_index_create(&(struct prefix_limits){.memory = 64 << 20, .backend_count_max = 4096});
    struct chain a = chain_make(NULL, 0, 1, 200);
    for (uint32_t i = 0; i < holder_count; i++) {
        chain_store_some(index, i, PREFIX_CONFIRMED, &a, 1 + i * 7 % 200, 0);
    }
    uint32_t count = prefix_index_match(index, a.keys, 200, 0, hits, chain_backend_max);
    CHECK_EQ(count, holder_count);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(hits[i].backend < holder_count);
        CHECK(!seen[hits[i].backend]);
        seen[hits[i].backend] = true;
        CHECK_EQ(hits[i].blocks, 1 + hits[i].backend * 7 % 200);
    }
    prefix_index_destroy(&index);
}

TEST(every_holder_is_a_hit_once_with_its_own_length)
{
    const uint32_t counts[] = {1, 2, 3, 8, 9, 12, 13, 64, 102, 103, 500, 4096};
    for (uint32_t i = 0; i < ARRAY_COUNT(counts); i++) {
        match_holders(counts[i]);
    }
}

static void match_with_room(const struct prefix_index *index, const struct chain *chain,
                            uint32_t room)
{
    hits[room].blocks = 12345;
    CHECK_EQ(prefix_index_match(index, chain->keys, chain->count, 0, hits, room), room);
    for (uint32_t i = 0; i < room; i++) {
        CHECK_EQ(hits[i].blocks, chain->count);
    }
    CHECK_EQ(hits[room].blocks, 12345);
}

TEST(hits_beyond_the_room_for_them_are_left_out)
{
    struct prefix_index *index =
        prefix_index_create(&(struct prefix_limits){.memory = 1 << 20, .backend_count_max = 100});
    struct chain a = chain_make(NULL, 0, 1, 40);
    for (uint32_t i = 0; i < 100; i++) {
        chain_store(index, i, &a);
    }
    for (uint32_t room = 0; room <= 20; room++) {
        match_with_room(index, &a, room);
    }
    prefix_index_destroy(&index);
}

TEST(a_holder_of_the_end_without_the_first_block_is_not_a_hit)
{
    struct prefix_index *index =
        prefix_index_create(&(struct prefix_limits){.memory = 1 << 20, .backend_count_max = 100});
    struct chain a = chain_make(NULL, 0, 1, 64);
    chain_store(index, 0, &a);
    chain_store(index, 1, &a);
    prefix_index_drop(index, 0, PREFIX_CONFIRMED, a.keys, 1, 0);
    prefix_index_drop(index, 1, PREFIX_CONFIRMED, a.keys, 20, 16);
    CHECK_EQ(prefix_index_match(index, a.keys, 64, 0, hits, chain_backend_max), 1);
    CHECK_EQ(hits[0].backend, 1);
    CHECK_EQ(hits[0].blocks, 16);
    prefix_index_destroy(&index);
}

TEST(the_age_is_that_of_the_part_touched_longest_ago)
{
    struct prefix_index *index =
        prefix_index_create(&(struct prefix_limits){.memory = 1 << 20, .backend_count_max = 100});
    struct chain a = chain_make(NULL, 0, 1, 64);
    struct chain b = chain_make(NULL, 0, 2, 16);
    chain_store(index, 0, &a);
    chain_store(index, 0, &b);
    chain_store_some(index, 0, PREFIX_CONFIRMED, &a, 16, 0);
    CHECK_EQ(chain_hit(index, 0, &a, 0).age, 64); // the run at 48, 16 blocks ago
    a.count = 16;
    CHECK_EQ(chain_hit(index, 0, &a, 0).age, 0);
    prefix_index_destroy(&index);
}

TEST(to_expect_a_key_changes_nothing)
{
    struct prefix_index *index =
        prefix_index_create(&(struct prefix_limits){.memory = 1 << 20, .backend_count_max = 4});
    struct chain a = chain_make(NULL, 0, 1, 40);
    prefix_index_prefetch(index, a.keys[0]);
    CHECK_EQ(prefix_index_match(index, a.keys, 40, 0, hits, 4), 0);
    chain_store(index, 2, &a);
    prefix_index_prefetch(index, a.keys[0]);
    prefix_index_prefetch(index, 0);
    prefix_index_prefetch(index, UINT64_MAX);
    CHECK_EQ(prefix_index_match(index, a.keys, 40, 0, hits, 4), 1);
    CHECK_EQ(hits[0].blocks, 40);
    prefix_index_destroy(&index);
}
