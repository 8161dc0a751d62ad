// SPDX-License-Identifier: Apache-2.0
//
// Against a twin that has a place for every prefix.

#include "metrics/hot_prefixes.h"

#include "base/rng.h"
#include "metrics/member_table.h"
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

// Documents by Zipf's law, each of so many depths that all of its requests have; behind them each request has
// depths of its own.
enum { document_count = 50, twin_depths = 6, request_count = 40000 };

static uint64_t document_key(uint32_t document, uint32_t depth)
{
    // Ten documents begin alike.
    uint32_t named = depth < 2 ? document / 10 : document;
    return rng_mix(1 + named * 64ULL + depth);
}

TEST(the_hottest_are_found_among_many_that_come_once_with_their_counts)
{
    struct hot_prefixes *prefixes = hot_prefixes_create(1024, member_max);
    struct rng rng = {21};
    static double exact[document_count];

    memset(exact, 0, sizeof(exact));
    for (uint32_t i = 0; i < request_count; i++) {
        uint64_t depths[receipt_depth_max];
        uint32_t document =
            (uint32_t)(document_count * pow((double)rng_below(&rng, 1000) / 1000, 3));
        uint32_t own = 2 + document % (twin_depths - 2);
        for (uint32_t depth = 0; depth < 10; depth++) {
            depths[depth] = depth <= own ? document_key(document, depth) : rng_next(&rng);
        }
        struct hot_sighting sighting = sighting_of(depths, 10, member_none);
        hot_prefixes_note(prefixes, &sighting);
        exact[document]++;
    }
    uint32_t count = hot_prefixes_list(prefixes, listed, list_max);
    for (uint32_t document = 0; document < 20; document++) {
        // The whole document is there, and what it begins with, one less deep, is not.
        uint32_t own = 2 + document % (twin_depths - 2);
        const struct chronicle_prefix *found = find(count, document_key(document, own));
        CHECK(found != NULL);
        CHECK(found->requests <= exact[document]);
        CHECK(found->requests > exact[document] - 30);
        CHECK(fabs(found->share - exact[document] / request_count) < 0.001);
        CHECK_EQ(found->tokens, block_tokens << own);
        CHECK(own == 2 || find(count, document_key(document, own - 1)) == NULL);
    }
    // What ten of them share has more requests than any.
    const struct chronicle_prefix *shared = find(count, document_key(0, 1));
    CHECK(shared == &listed[0]);
    CHECK(find(count, document_key(0, 0)) == NULL);
    for (uint32_t i = 1; i < count; i++) {
        CHECK(listed[i - 1].requests >= listed[i].requests);
    }
    hot_prefixes_destroy(&prefixes);
}

TEST(counts_fade_by_half_in_five_minutes_and_shares_stay)
{
    struct hot_prefixes *prefixes = hot_prefixes_create(64, member_max);
    const uint64_t depths[] = {7, 8};
    struct hot_sighting sighting = sighting_of(depths, 2, member_none);
    struct hot_sighting other = sighting_of(NULL, 0, member_none);

    for (uint32_t i = 0; i < 1000; i++) {
        hot_prefixes_note(prefixes, &sighting);
        hot_prefixes_note(prefixes, &other);
    }
    double before = 999;
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

    // 3 has all of it, 4 lacks a token, 5 is nobody's number; a failure shows nothing of who did it.
    sighting.holder = member_none;
    sighting.rival_count = 3;
    sighting.rivals[0].member = 3;
    sighting.rivals[0].expected_tokens = 64;
    sighting.rivals[1].member = 4;
    sighting.rivals[1].expected_tokens = 63;
    sighting.rivals[2].member = member_none;
    sighting.rivals[2].expected_tokens = 64;
    hot_prefixes_note(prefixes, &sighting);
    hot_prefixes_list(prefixes, listed, list_max);
    CHECK_EQ(listed[0].holder_count, 2);
    CHECK_EQ(listed[0].holders[0], 3);
    CHECK_EQ(listed[0].holders[1], 70);

    // 70 has lost it.
    sighting.rivals[0].member = 70;
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
