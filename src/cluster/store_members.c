// SPDX-License-Identifier: Apache-2.0

#include "cluster/store_members.h"

#include "base/base.h"

void store_members_init(struct store_members *members, uint64_t self)
{
    *members = (struct store_members){.self = self};
}

void store_members_fini(struct store_members *members)
{
    for (uint32_t i = 0; i < store_member_count_max; i++) {
        seal_destroy(&members->places[i].seal);
    }
}

struct store_member *store_members_find(struct store_members *members, uint64_t router)
{
    for (uint32_t i = 0; i < store_member_count_max; i++) {
        if (router != 0 && members->places[i].router == router) {
            return &members->places[i];
        }
    }
    return NULL;
}

void store_members_release(struct store_members *members, struct store_member *member)
{
    ASSERT(member->state != STORE_THERE);

    (void)members;
    seal_destroy(&member->seal);
    *member = (struct store_member){0};
}

// Whether the absent router `a` is to go before `b`.
static bool member_goes_first(const struct store_member *a, const struct store_member *b)
{
    return a->was_there != b->was_there ? !a->was_there : a->heard_ms < b->heard_ms;
}

struct store_member *store_members_claim(struct store_members *members, uint64_t router,
                                         uint64_t now_ms)
{
    struct store_member *best = NULL;

    ASSERT(router != 0 && store_members_find(members, router) == NULL);
    for (uint32_t i = 0; i < store_member_count_max; i++) {
        struct store_member *place = &members->places[i];
        if (place->router == 0) {
            best = place;
            break;
        }
        if (place->state == STORE_ABSENT && (best == NULL || member_goes_first(place, best))) {
            best = place;
        }
    }
    if (best != NULL) {
        store_members_release(members, best);
        best->router = router;
        best->first_ms = now_ms;
    }
    return best;
}

static void member_take_hello(struct store_member *member, uint64_t counter,
                              const struct store_hello *hello, uint64_t now_ms)
{
    member->counter = counter;
    member->heard_ms = now_ms;
    member->is_told = false;
    memcpy(member->name, hello->name, sizeof(member->name));
    if (hello->hello.size > 0) {
        memcpy(member->hello, hello->hello.bytes, hello->hello.size);
    }
    member->hello_size = hello->hello.size;
    for (uint32_t i = 0; i < STORE_FEED_COUNT; i++) {
        struct store_feed *feed = &member->feeds[i];
        if (feed->is_spoiled) {
            // A foreign entry may have led us past entries to come.
            *feed = (struct store_feed){.valid = feed->valid, .read.major = feed->valid};
        }
        // A sender counts all its values together: a hello is above the entries before it.
        if (feed->valid_before > counter) {
            *feed = (struct store_feed){.valid = counter, .read.major = counter};
        }
        feed->valid_before = feed->valid;
    }
}

// With a secret, smaller counters are those of values that are repeated.
static bool member_is_repeated(struct store_member *member, uint64_t counter)
{
    if (counter > member->counter) {
        member->lower_count = 0;
        return false;
    }
    member->lower_count += counter > member->lower;
    member->lower = counter;
    if (member->seal != NULL || member->lower_count < store_lower_max) {
        return true;
    }
    member->lower_count = 0;
    return false;
}

enum store_news store_members_hear(struct store_members *members, struct store_member *member,
                                   uint64_t counter, const struct store_hello *hello,
                                   uint64_t now_ms)
{
    if (member_is_repeated(member, counter)) {
        return STORE_NO_NEWS;
    }
    member_take_hello(member, counter, hello, now_ms);
    enum store_news news = STORE_NO_NEWS;
    if (member->state == STORE_ABSENT) {
        for (uint32_t i = 0; i < STORE_FEED_COUNT; i++) {
            member->feeds[i] = (struct store_feed){.valid = counter, .read.major = counter};
        }
        member->state = STORE_HEARD;
        news = STORE_NEWLY_HEARD;
    }
    if (member->state == STORE_HEARD && store_hello_lists(hello, members->self)) {
        if (members->there_count == link_peer_count_max) {
            return STORE_NO_ROOM;
        }
        member->state = STORE_THERE;
        member->was_there = true;
        member->bytes_in = 0;
        member->bytes_out = 0;
        members->there_count++;
        news = STORE_CAME;
    }
    return news;
}

void store_members_leave(struct store_members *members, struct store_member *member)
{
    ASSERT(member->state != STORE_ABSENT);

    members->there_count -= member->state == STORE_THERE;
    member->state = STORE_ABSENT;
}

struct store_member *store_members_silent(struct store_members *members, uint64_t now_ms)
{
    for (uint32_t i = 0; i < store_member_count_max; i++) {
        struct store_member *member = &members->places[i];
        if (member->state != STORE_ABSENT && now_ms - member->heard_ms > link_silence_ms) {
            return member;
        }
    }
    return NULL;
}

struct store_member *store_members_forgotten(struct store_members *members, uint64_t now_ms)
{
    for (uint32_t i = 0; i < store_member_count_max; i++) {
        struct store_member *member = &members->places[i];
        uint64_t since_ms = member->heard_ms > 0 ? member->heard_ms : member->first_ms;
        if (member->router != 0 && member->state == STORE_ABSENT && member->counter != 0 &&
            !member->is_told && now_ms - since_ms > store_member_forget_ms) {
            member->is_told = true;
            return member;
        }
    }
    return NULL;
}

uint32_t store_members_list(const struct store_members *members, uint64_t out[link_peer_count_max])
{
    uint32_t count = 0;

    for (int state = STORE_THERE; state >= STORE_HEARD; state--) {
        for (uint32_t i = 0; i < store_member_count_max && count < link_peer_count_max; i++) {
            const struct store_member *member = &members->places[i];
            if (member->state == (enum store_member_state)state) {
                out[count++] = member->router;
            }
        }
    }
    return count;
}
