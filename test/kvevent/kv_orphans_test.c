// SPDX-License-Identifier: Apache-2.0

#include "kvevent/kv_orphans.h"

#include "test.h"

enum { block = 4 };

static const uint32_t tokens[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

// Two blocks, behind a parent.
static struct kv_notice event(const uint64_t hashes[2], uint64_t parent)
{
    return (struct kv_notice){.kind = KV_NOTICE_STORED,
                              .hashes = hashes,
                              .hash_count = 2,
                              .block_tokens = block,
                              .tokens = tokens,
                              .token_count = 2 * block,
                              .has_parent = true,
                              .parent = parent};
}

TEST(an_orphan_waits_for_its_parent_and_is_kept_as_it_was)
{
    struct kv_orphans *orphans = kv_orphans_create();
    uint64_t hashes[2] = {11, 12};
    uint8_t bytes[3] = {7, 8, 9};
    struct kv_extra extra = {.block = 1, .bytes = slice_of(bytes, 3)};
    struct kv_notice notice = event(hashes, 10);
    notice.tier = PREFIX_DISK;
    notice.extras = &extra;
    notice.extra_count = 1;
    CHECK_EQ(kv_orphans_keep(orphans, &notice, 0), 0);
    CHECK_EQ(kv_orphans_count(orphans), 1);
    hashes[0] = 0; // the caller's memory is its own again
    bytes[0] = 0;
    extra.block = 0;

    CHECK(kv_orphans_take(orphans, 11) == NULL);
    struct kv_orphan *orphan = kv_orphans_take(orphans, 10);
    CHECK(orphan != NULL);
    CHECK_EQ(kv_orphans_count(orphans), 0);
    CHECK(kv_orphans_take(orphans, 10) == NULL);
    CHECK_EQ(orphan->notice.hash_count, 2);
    CHECK_EQ(orphan->notice.hashes[0], 11);
    CHECK_EQ(orphan->notice.hashes[1], 12);
    CHECK_EQ(orphan->notice.tokens[7], 8);
    CHECK_EQ(orphan->notice.tier, PREFIX_DISK);
    CHECK_EQ(orphan->notice.extras[0].block, 1);
    CHECK_EQ(orphan->notice.extras[0].bytes.bytes[0], 7);
    kv_orphan_free(orphan);
    kv_orphans_destroy(&orphans);
    CHECK(orphans == NULL);
    kv_orphans_destroy(&orphans);
}

TEST(orphans_of_one_parent_are_taken_oldest_first)
{
    struct kv_orphans *orphans = kv_orphans_create();
    for (uint64_t i = 0; i < 20; i++) {
        struct kv_notice notice = event((const uint64_t[2]){100 + 2 * i, 101 + 2 * i}, 10 + i % 2);
        kv_orphans_keep(orphans, &notice, i);
    }
    for (uint64_t i = 0; i < 20; i += 2) {
        struct kv_orphan *orphan = kv_orphans_take(orphans, 10);
        CHECK_EQ(orphan->notice.hashes[0], 100 + 2 * i);
        kv_orphan_free(orphan);
    }
    CHECK_EQ(kv_orphans_count(orphans), 10);
    kv_orphans_destroy(&orphans);
}

TEST(a_block_that_is_removed_is_gone_in_one_orphan_or_in_all)
{
    struct kv_orphans *orphans = kv_orphans_create();
    struct kv_notice notice = event((const uint64_t[2]){11, 12}, 10);
    CHECK(!kv_orphans_remove(orphans, 11, PREFIX_GPU, false));
    for (uint32_t i = 0; i < 3; i++) {
        kv_orphans_keep(orphans, &notice, 0);
    }
    CHECK(!kv_orphans_remove(orphans, 13, PREFIX_GPU, false));
    CHECK(!kv_orphans_remove(orphans, 12, PREFIX_HOST, false));
    CHECK(kv_orphans_remove(orphans, 11, PREFIX_GPU, false));
    CHECK(kv_orphans_remove(orphans, 12, PREFIX_GPU, true));
    CHECK(!kv_orphans_remove(orphans, 12, PREFIX_GPU, false));
    uint32_t gone[2] = {0};
    for (uint32_t i = 0; i < 3; i++) {
        struct kv_orphan *orphan = kv_orphans_take(orphans, 10);
        gone[0] += orphan->blocks[0].is_gone;
        gone[1] += orphan->blocks[1].is_gone;
        kv_orphan_free(orphan);
    }
    CHECK_EQ(gone[0], 1);
    CHECK_EQ(gone[1], 3);
    kv_orphans_destroy(&orphans);
}

TEST(too_many_push_out_the_oldest)
{
    struct kv_orphans *orphans = kv_orphans_create();
    uint32_t lost = 0;
    for (uint64_t i = 0; i < kv_orphan_max + 5; i++) {
        struct kv_notice notice = event((const uint64_t[2]){1, 2}, 1000 + i);
        lost += kv_orphans_keep(orphans, &notice, i);
    }
    CHECK_EQ(lost, 5);
    CHECK_EQ(kv_orphans_count(orphans), kv_orphan_max);
    CHECK(kv_orphans_take(orphans, 1004) == NULL);
    struct kv_orphan *orphan = kv_orphans_take(orphans, 1005);
    CHECK(orphan != NULL);
    kv_orphan_free(orphan);
    kv_orphans_destroy(&orphans);
}

TEST(their_bytes_are_bounded_as_well)
{
    static uint32_t many[1 << 20];
    struct kv_orphans *orphans = kv_orphans_create();
    struct kv_notice notice = event((const uint64_t[2]){1, 2}, 10);
    notice.tokens = many;
    notice.token_count = 400000;
    CHECK_EQ(kv_orphans_keep(orphans, &notice, 0), 0);
    CHECK_EQ(kv_orphans_keep(orphans, &notice, 0), 0);
    CHECK_EQ(kv_orphans_keep(orphans, &notice, 0), 1);
    CHECK_EQ(kv_orphans_count(orphans), 2);
    notice.token_count = 1 << 20;
    CHECK_EQ(kv_orphans_keep(orphans, &notice, 0), 1); // itself: it would not fit alone
    CHECK_EQ(kv_orphans_count(orphans), 2);
    kv_orphans_destroy(&orphans);
}

TEST(orphans_that_wait_too_long_are_dropped)
{
    struct kv_orphans *orphans = kv_orphans_create();
    for (uint64_t i = 0; i < 10; i++) {
        struct kv_notice notice = event((const uint64_t[2]){1, 2}, i);
        kv_orphans_keep(orphans, &notice, 100 * i);
    }
    CHECK_EQ(kv_orphans_expire(orphans, kv_orphan_age_ms - 1), 0);
    CHECK_EQ(kv_orphans_expire(orphans, kv_orphan_age_ms + 250), 3);
    CHECK_EQ(kv_orphans_count(orphans), 7);
    kv_orphans_destroy(&orphans);
}

TEST(a_tier_is_forgotten_alone)
{
    struct kv_orphans *orphans = kv_orphans_create();
    for (uint64_t i = 0; i < 9; i++) {
        struct kv_notice notice = event((const uint64_t[2]){1, 2}, i);
        notice.tier = i % 3;
        kv_orphans_keep(orphans, &notice, 0);
    }
    kv_orphans_clear(orphans, PREFIX_HOST);
    CHECK_EQ(kv_orphans_count(orphans), 6);
    CHECK(!kv_orphans_remove(orphans, 1, PREFIX_HOST, false));
    CHECK(kv_orphans_take(orphans, 1) == NULL);
    kv_orphans_clear(orphans, prefix_tier_count);
    CHECK_EQ(kv_orphans_count(orphans), 0);
    kv_orphans_destroy(&orphans);
}
