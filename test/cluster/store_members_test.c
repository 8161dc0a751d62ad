// SPDX-License-Identifier: Apache-2.0

#include "cluster/store_members.h"

#include "base/base.h"
#include "test.h"

enum { us = 1 };

static struct store_members members;
static uint64_t now = 1000;

static enum store_news hear(uint64_t router, uint64_t counter, bool lists_us)
{
    struct store_hello hello = {.name = "n", .hello = slice_str("h")};
    hello.seen_count = 1;
    hello.seen[0] = lists_us ? us : 99;
    struct store_member *member = store_members_find(&members, router);
    if (member == NULL) {
        member = store_members_claim(&members, router, now);
        ASSERT(member != NULL);
    }
    return store_members_hear(&members, member, counter, &hello, now);
}

static struct store_member *member_of(uint64_t router)
{
    return store_members_find(&members, router);
}

TEST(a_router_comes_when_it_lists_us_and_is_read_from_where_it_was_heard)
{
    store_members_init(&members, us);
    CHECK_EQ(hear(2, 10, false), STORE_NEWLY_HEARD);
    CHECK_EQ(hear(2, 12, false), STORE_NO_NEWS);
    CHECK_EQ(members.there_count, 0);
    CHECK_EQ(hear(2, 15, true), STORE_CAME);
    CHECK_EQ(members.there_count, 1);
    CHECK_EQ(member_of(2)->feeds[STORE_TO_ALL].read.major, 10);
    CHECK_EQ(member_of(2)->feeds[STORE_TO_US].valid, 10);
    CHECK_STR(member_of(2)->name, "n");
    CHECK_EQ(hear(2, 16, false), STORE_NO_NEWS); // it lost us, we have not lost it
    CHECK_EQ(members.there_count, 1);
    CHECK_EQ(hear(3, 1, true), STORE_CAME);
    store_members_fini(&members);
}

TEST(a_forged_counter_is_outlived_by_the_true_ones)
{
    store_members_init(&members, us);
    CHECK_EQ(hear(2, 10, true), STORE_CAME);
    (void)hear(2, UINT64_MAX, true);
    now += link_silence_ms + 1;
    store_members_leave(&members, member_of(2));
    enum store_news news = STORE_NO_NEWS;
    for (uint64_t counter = 11; news == STORE_NO_NEWS && counter < 30; counter++) {
        news = hear(2, counter, true);
    }
    CHECK_EQ(news, STORE_CAME);
    CHECK(member_of(2)->counter < 30);
    CHECK(member_of(2)->feeds[STORE_TO_ALL].valid < 30);
    store_members_fini(&members);
}

TEST(one_hello_that_is_read_again_and_again_proves_nothing)
{
    store_members_init(&members, us);
    CHECK_EQ(hear(2, 10, true), STORE_CAME);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(hear(2, 9, true), STORE_NO_NEWS);
    }
    CHECK_EQ(member_of(2)->counter, 10);
    store_members_fini(&members);
}

TEST(an_entry_with_a_forged_counter_stops_a_stream_until_the_second_hello)
{
    store_members_init(&members, us);
    CHECK_EQ(hear(2, 10, true), STORE_CAME);
    struct store_feed *feed = &member_of(2)->feeds[STORE_TO_ALL];
    feed->valid = UINT64_MAX;
    feed->read.major = UINT64_MAX;
    (void)hear(2, 20, true);
    (void)hear(2, 30, true);
    CHECK_EQ(feed->valid, 30);
    CHECK_EQ(feed->read.major, 30);
    // Entries behind the newest hello that was read are no mistake.
    feed->valid = 35;
    (void)hear(2, 34, true);
    (void)hear(2, 36, true);
    CHECK_EQ(feed->valid, 35);
    store_members_fini(&members);
}

TEST(a_hello_whose_counter_does_not_grow_proves_nothing)
{
    store_members_init(&members, us);
    CHECK_EQ(hear(2, 10, false), STORE_NEWLY_HEARD);
    CHECK_EQ(hear(2, 10, true), STORE_NO_NEWS);
    CHECK_EQ(hear(2, 9, true), STORE_NO_NEWS);
    now += link_silence_ms;
    CHECK(store_members_silent(&members, now) == NULL);
    CHECK_EQ(hear(2, 10, true), STORE_NO_NEWS);
    now++;
    CHECK(store_members_silent(&members, now) == member_of(2));
    store_members_leave(&members, member_of(2));
    CHECK(store_members_silent(&members, now) == NULL);
    CHECK_EQ(hear(2, 10, true), STORE_NO_NEWS);
    CHECK_EQ(hear(2, 11, true), STORE_CAME);
    CHECK_EQ(member_of(2)->feeds[STORE_TO_ALL].read.major, 11);
    store_members_fini(&members);
}

TEST(a_spoiled_stream_is_read_again_from_the_last_own_entry_after_the_next_hello)
{
    store_members_init(&members, us);
    hear(2, 10, true);
    struct store_feed *feed = &member_of(2)->feeds[STORE_TO_ALL];
    feed->valid = 14;
    feed->read = (struct store_position){1 << 30, 3};
    feed->is_spoiled = true;
    feed->is_cleared = true;
    hear(2, 10, true);
    CHECK(feed->is_spoiled);
    hear(2, 20, true);
    CHECK(!feed->is_spoiled && !feed->is_cleared);
    CHECK_EQ(feed->read.major, 14);
    CHECK_EQ(feed->read.minor, 0);
    CHECK_EQ(feed->valid, 14);
    store_members_fini(&members);
}

TEST(at_most_31_routers_are_there_and_absent_ones_make_room)
{
    uint64_t list[link_peer_count_max];
    store_members_init(&members, us);
    for (uint64_t i = 0; i < link_peer_count_max; i++) {
        CHECK_EQ(hear(100 + i, 1, true), STORE_CAME);
    }
    CHECK_EQ(hear(200, 1, true), STORE_NO_ROOM);
    CHECK_EQ(hear(200, 2, true), STORE_NO_ROOM);
    CHECK_EQ(store_members_list(&members, list), link_peer_count_max);
    for (uint32_t i = 0; i < link_peer_count_max; i++) {
        CHECK(list[i] != 200);
    }
    store_members_leave(&members, member_of(105));
    CHECK_EQ(hear(200, 3, true), STORE_CAME);
    // Places: 32 are in use; the others fill, then the absent one that was heard first goes.
    for (uint64_t i = 0; i < store_member_count_max - 32; i++) {
        CHECK_EQ(hear(300 + i, 1, false), STORE_NEWLY_HEARD);
    }
    // One that was never there goes before one that was.
    store_members_leave(&members, member_of(310));
    CHECK(store_members_claim(&members, 499, now) != NULL);
    CHECK(member_of(310) == NULL && member_of(105) != NULL);
    store_members_release(&members, member_of(499));
    CHECK_EQ(hear(499, 1, false), STORE_NEWLY_HEARD);
    CHECK(store_members_claim(&members, 500, now) != NULL);
    CHECK(member_of(105) == NULL);
    store_members_release(&members, member_of(500));
    CHECK_EQ(hear(501, 1, false), STORE_NEWLY_HEARD);
    CHECK(store_members_claim(&members, 502, now) == NULL);
    store_members_fini(&members);
}

TEST(a_router_that_is_silent_for_a_minute_is_to_be_removed_once)
{
    store_members_init(&members, us);
    hear(2, 10, true);
    now += link_silence_ms + 1;
    CHECK(store_members_forgotten(&members, now) == NULL);
    store_members_leave(&members, member_of(2));
    CHECK(store_members_forgotten(&members, now) == NULL);
    now += store_member_forget_ms;
    CHECK(store_members_forgotten(&members, now) == member_of(2));
    CHECK(store_members_forgotten(&members, now) == NULL);
    CHECK_EQ(hear(2, 11, true), STORE_CAME);
    CHECK(store_members_find(&members, 0) == NULL);
    store_members_fini(&members);
}
