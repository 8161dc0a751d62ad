// SPDX-License-Identifier: Apache-2.0
//
// Against a twin that has a place for every prefix.

#include "chronicle/hot_prefixes.h"

#include "base/rng.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum { member_max = 100, block_tokens = 16, list_max = 4096 };

static struct chronicle_prefix listed[list_max];

static struct hot_sighting sighting_of(const uint64_t *depths, uint32_t depth_count,
                                       uint32_t holder)
{
    return (struct hot_sighting){.depths = depths,
                                 .depth_count = depth_count,
                                 .block_tokens = block_tokens,
                                 .holder = holder};
}

static const struct chronicle_prefix *find(uint32_t count, uint64_t key)
{
    for (uint32_t i = 0; i < count; i++) {
        if (listed[i].key == key) {
            return &listed[i];
        }
    }
    return NULL;
}

// Documents by Zipf's law, each of so many depths that all of its requests have; behind them each
// request has depths of its own.
enum { document_count = 50, twin_depths = 6, request_count = 40000 };

static uint64_t document_key(uint32_t document, uint32_t depth)
{
    // Ten documents begin alike.
    uint32_t named = depth < 2 ? document / 10 : document;
    return rng_mix(1 + named * 64ULL + depth);
}

static uint32_t depth_of(uint32_t document)
{
    return 2 + document % (twin_depths - 2);
}

// Notes one request in 1 + others, as so many.
static void note_documents(struct hot_prefixes *prefixes, uint32_t others,
                           double exact[document_count])
{
    struct rng rng = {21};
    struct rng chance = {4};

    memset(exact, 0, document_count * sizeof(exact[0]));
    for (uint32_t i = 0; i < request_count; i++) {
        uint64_t depths[receipt_depth_max];
        uint32_t document =
            (uint32_t)(document_count * pow((double)rng_below(&rng, 1000) / 1000, 3));
        uint32_t own = depth_of(document);
        for (uint32_t depth = 0; depth < 10; depth++) {
            depths[depth] = depth <= own ? document_key(document, depth) : rng_next(&rng);
        }
        struct hot_sighting sighting = sighting_of(depths, 10, chronicle_no_slot);
        sighting.others = others;
        if (rng_below(&chance, 1 + others) == 0) {
            hot_prefixes_note(prefixes, &sighting);
        }
        exact[document]++;
    }
}

TEST(the_hottest_are_found_among_many_that_come_once_with_their_counts)
{
    struct hot_prefixes *prefixes = hot_prefixes_create(1024, member_max);
    static double exact[document_count];

    note_documents(prefixes, 0, exact);
    uint32_t count = hot_prefixes_list(prefixes, listed, list_max);
    for (uint32_t document = 0; document < 20; document++) {
        // The whole document is there, and what it begins with, one less deep, is not.
        uint32_t own = depth_of(document);
        const struct chronicle_prefix *found = find(count, document_key(document, own));
        CHECK(found != NULL);
        CHECK(found->requests <= exact[document]);
        CHECK(found->requests > exact[document] - 30);
        CHECK(fabs(found->share - exact[document] / request_count) < 0.001);
        CHECK_EQ(found->tokens, block_tokens << own);
        CHECK(own == 2 || find(count, document_key(document, own - 1)) == NULL);
    }
    // The prefix that ten of them share has the most requests.
    const struct chronicle_prefix *shared = find(count, document_key(0, 1));
    CHECK(shared == &listed[0]);
    CHECK(find(count, document_key(0, 0)) == NULL);
    for (uint32_t i = 1; i < count; i++) {
        CHECK(listed[i - 1].requests >= listed[i].requests);
    }
    hot_prefixes_destroy(&prefixes);
}

TEST(where_one_request_in_16_is_noted_the_hottest_are_found_with_their_counts_up_to_chance)
{
    struct hot_prefixes *prefixes = hot_prefixes_create(1024, member_max);
    static double exact[document_count];
    const uint32_t every = 16;

    note_documents(prefixes, every - 1, exact);
    uint32_t count = hot_prefixes_list(prefixes, listed, list_max);
    for (uint32_t document = 0; document < 10; document++) {
        uint32_t own = depth_of(document);
        const struct chronicle_prefix *found = find(count, document_key(document, own));
        CHECK(found != NULL);
        // Three times the deviation of such a draw; and those that came before it was let in.
        double chance = 3 * sqrt(exact[document] * every);
        CHECK(found->requests < exact[document] + chance);
        CHECK(found->requests > exact[document] - chance - 3 * every);
        CHECK(fabs(found->share - exact[document] / request_count) < 0.02);
        CHECK(own == 2 || find(count, document_key(document, own - 1)) == NULL);
    }
    CHECK(find(count, document_key(0, 1)) == &listed[0]);
    // A prefix that was noted once is never listed with 16 requests.
    for (uint32_t i = 0; i < count; i++) {
        CHECK(listed[i].requests > every);
    }
    hot_prefixes_fade(prefixes, 60000);
    const uint64_t depths[] = {1};
    struct hot_sighting sighting = sighting_of(depths, 1, chronicle_no_slot);
    hot_prefixes_note(prefixes, &sighting);
    CHECK_EQ(hot_prefixes_list(prefixes, listed, list_max), count);
    hot_prefixes_destroy(&prefixes);
}

// Requests that begin with the same 15 blocks of 64 tokens.
static void note_shared(struct hot_prefixes *prefixes, uint32_t requests, struct rng *rng)
{
    for (uint32_t i = 0; i < requests; i++) {
        const uint64_t depths[] = {101, 102, 104, 108, rng_next(rng)};
        struct hot_sighting sighting = sighting_of(depths, 5, chronicle_no_slot);
        sighting.block_tokens = 64;
        hot_prefixes_note(prefixes, &sighting);
    }
}

TEST(a_prefix_that_all_share_is_listed_once_from_the_second_request_on_with_all_requests)
{
    for (uint32_t requests = 2; requests < 60; requests++) {
        struct hot_prefixes *prefixes = hot_prefixes_create(1024, member_max);
        struct rng rng = {requests};
        note_shared(prefixes, requests, &rng);
        CHECK_EQ(hot_prefixes_list(prefixes, listed, list_max), 1);
        CHECK_EQ(listed[0].key, 108);
        CHECK_EQ(listed[0].tokens, 512);
        CHECK_EQ(listed[0].requests, requests);
        CHECK_EQ(listed[0].share, 1);
        hot_prefixes_destroy(&prefixes);
    }
}

TEST(a_prefix_that_finds_no_empty_place_is_listed_once_with_all_but_a_few_requests)
{
    struct hot_prefixes *prefixes = hot_prefixes_create(1024, member_max);
    struct rng rng = {5};

    for (uint32_t i = 0; i < 20000; i++) {
        const uint64_t depths[] = {rng_next(&rng)};
        struct hot_sighting sighting = sighting_of(depths, 1, chronicle_no_slot);
        hot_prefixes_note(prefixes, &sighting);
    }
    note_shared(prefixes, 36, &rng);
    uint32_t count = hot_prefixes_list(prefixes, listed, list_max);
    const struct chronicle_prefix *found = find(count, 108);
    CHECK(found == &listed[0]);
    CHECK(found->requests >= 36 - 4);
    CHECK(find(count, 101) == NULL && find(count, 102) == NULL && find(count, 104) == NULL);
    hot_prefixes_destroy(&prefixes);
}

TEST(counts_fade_by_half_in_five_minutes_and_shares_stay)
{
    struct hot_prefixes *prefixes = hot_prefixes_create(64, member_max);
    const uint64_t depths[] = {7, 8};
    struct hot_sighting sighting = sighting_of(depths, 2, chronicle_no_slot);
    struct hot_sighting other = sighting_of(NULL, 0, chronicle_no_slot);

    for (uint32_t i = 0; i < 1000; i++) {
        hot_prefixes_note(prefixes, &sighting);
        hot_prefixes_note(prefixes, &other);
    }
    double before = 1000;
    for (uint32_t half = 1; half <= 9; half++) {
        for (uint32_t i = 0; i < 3000; i++) {
            hot_prefixes_fade(prefixes, hot_prefixes_half_ms / 3000);
        }
        CHECK_EQ(hot_prefixes_list(prefixes, listed, list_max), 1);
        CHECK(fabs(listed[0].requests - before / 2) < 0.01);
        CHECK(fabs(listed[0].share - 0.5) < 0.001);
        before /= 2;
    }
    // After hours or years at once nothing is left, and it goes on.
    hot_prefixes_fade(prefixes, 50ULL * hot_prefixes_half_ms);
    CHECK_EQ(hot_prefixes_list(prefixes, listed, list_max), 0);
    hot_prefixes_fade(prefixes, UINT64_MAX);
    for (uint32_t i = 0; i < 10; i++) {
        hot_prefixes_note(prefixes, &sighting);
    }
    CHECK_EQ(hot_prefixes_list(prefixes, listed, list_max), 1);
    CHECK(listed[0].requests > 8 && listed[0].share > 0.8);
    hot_prefixes_destroy(&prefixes);
}

TEST(holders_are_who_did_it_and_who_was_thought_to_have_it)
{
    struct hot_prefixes *prefixes = hot_prefixes_create(64, member_max);
    const uint64_t depths[] = {71, 72, 73};
    struct hot_sighting sighting = sighting_of(depths, 3, 70);

    for (uint32_t i = 0; i < 5; i++) {
        hot_prefixes_note(prefixes, &sighting);
    }
    CHECK_EQ(hot_prefixes_list(prefixes, listed, list_max), 1);
    CHECK_EQ(listed[0].tokens, 64);
    CHECK_EQ(listed[0].holder_count, 1);
    CHECK_EQ(listed[0].holders[0], 70);

    // 3 has all of it, 4 lacks a token, 5 is nobody's number; a failure shows nothing of who did
    // it.
    sighting.holder = chronicle_no_slot;
    sighting.rival_count = 3;
    sighting.rivals[0].slot = 3;
    sighting.rivals[0].expected_tokens = 64;
    sighting.rivals[1].slot = 4;
    sighting.rivals[1].expected_tokens = 63;
    sighting.rivals[2].slot = chronicle_no_slot;
    sighting.rivals[2].expected_tokens = 64;
    hot_prefixes_note(prefixes, &sighting);
    hot_prefixes_list(prefixes, listed, list_max);
    CHECK_EQ(listed[0].holder_count, 2);
    CHECK_EQ(listed[0].holders[0], 3);
    CHECK_EQ(listed[0].holders[1], 70);

    // 70 has lost it.
    sighting.rivals[0].slot = 70;
    sighting.rivals[0].expected_tokens = 0;
    hot_prefixes_note(prefixes, &sighting);
    hot_prefixes_list(prefixes, listed, list_max);
    CHECK_EQ(listed[0].holder_count, 1);
    CHECK_EQ(listed[0].holders[0], 3);
    hot_prefixes_forget(prefixes, 3);
    hot_prefixes_list(prefixes, listed, list_max);
    CHECK_EQ(listed[0].holder_count, 0);
    hot_prefixes_destroy(&prefixes);
}

TEST(more_holders_than_are_listed_are_counted)
{
    struct hot_prefixes *prefixes = hot_prefixes_create(64, member_max);
    const uint64_t depths[] = {9};

    for (uint32_t i = 0; i < member_max; i++) {
        struct hot_sighting sighting = sighting_of(depths, 1, i);
        hot_prefixes_note(prefixes, &sighting);
    }
    CHECK_EQ(hot_prefixes_list(prefixes, listed, list_max), 1);
    CHECK_EQ(listed[0].holder_count, member_max);
    CHECK_EQ(listed[0].holders[chronicle_holder_max - 1], chronicle_holder_max - 1);
    hot_prefixes_destroy(&prefixes);
}
