// SPDX-License-Identifier: Apache-2.0

#include "replica/snapshot.h"

#include "base/rng.h"
#include "test.h"

#include <stdlib.h>

enum { engine_count = 3, chain_count = 30, length_max = 70 };

static uint64_t chains[chain_count][length_max];

// Chains that branch off each other anywhere.
static void make_chains(struct rng *rng)
{
    for (uint32_t i = 0; i < chain_count; i++) {
        uint32_t other = i > 0 ? rng_below(rng, i) : 0;
        uint32_t shared = i > 0 ? rng_below(rng, length_max) : 0;
        for (uint32_t k = 0; k < length_max; k++) {
            chains[i][k] = k < shared ? chains[other][k] : rng_next(rng);
        }
    }
}

static struct prefix_index *make_index(void)
{
    struct prefix_index *index = prefix_index_create(
        &(struct prefix_limits){.memory = 4 << 20, .backend_count_max = engine_count});
    ASSERT(index != NULL);
    return index;
}

static void store(struct prefix_index *index, uint32_t engine, uint32_t chain, uint32_t length,
                  enum prefix_residency residency)
{
    prefix_index_store(index, &(struct prefix_span){.keys = chains[chain],
                                                    .key_count = length,
                                                    .block_tokens = 16,
                                                    .backend = engine,
                                                    .now_s = 100,
                                                    .residency = residency});
}

static struct prefix_hit hit_of(const struct prefix_index *index, uint32_t engine, uint32_t chain)
{
    struct prefix_hit hits[engine_count];
    uint32_t count = prefix_index_match(index, chains[chain], length_max, 100, hits, engine_count);
    for (uint32_t i = 0; i < count; i++) {
        if (hits[i].backend == engine) {
            return hits[i];
        }
    }
    return (struct prefix_hit){0};
}

static struct index_snapshot *snapshot_of(const struct prefix_index *index)
{
    enum snapshot_state state = SNAPSHOT_UNFINISHED;
    struct index_snapshot *snapshot = snapshot_begin(index, engine_count, 100);
    ASSERT(snapshot != NULL);
    while (state == SNAPSHOT_UNFINISHED) {
        state = snapshot_make(snapshot);
    }
    ASSERT(state == SNAPSHOT_MADE);
    return snapshot;
}

// A second index, made of a snapshot of the first.
static struct prefix_index *copy_of(const struct prefix_index *index)
{
    struct prefix_index *copy = make_index();
    struct index_snapshot *snapshot = snapshot_of(index);
    struct snapshot_chain chain;
    while (snapshot_next(snapshot, &chain)) {
        prefix_index_merge(copy,
                           &(struct prefix_span){.keys = chain.keys,
                                                 .key_count = chain.key_count,
                                                 .backend = chain.backend,
                                                 .now_s = 100,
                                                 .residency = PREFIX_CONFIRMED},
                           chain.age, chain.age_s);
    }
    snapshot_end(&snapshot);
    return copy;
}

TEST(a_copy_has_what_is_confirmed_and_its_age)
{
    struct prefix_index *index = make_index();
    make_chains(&(struct rng){.state = 1});
    store(index, 0, 0, 40, PREFIX_CONFIRMED);
    store(index, 1, 0, 20, PREFIX_PREDICTED);
    store(index, 2, 3, 64, PREFIX_CONFIRMED);
    struct prefix_index *copy = copy_of(index);
    CHECK_EQ(hit_of(copy, 0, 0).confirmed, 40);
    CHECK_EQ(hit_of(copy, 1, 0).blocks, 0);
    CHECK_EQ(hit_of(copy, 2, 3).confirmed, 64);
    CHECK_EQ(hit_of(copy, 0, 0).age, hit_of(index, 0, 0).age);
    prefix_index_destroy(&index);
    prefix_index_destroy(&copy);
}

// While it lists, the thread has to tell other routers that it lives.
TEST(a_large_index_is_listed_in_many_short_calls)
{
    enum { key_count = 20000 };
    struct prefix_index *index = make_index();
    struct rng rng = {.state = 4};
    for (uint32_t i = 0; i < key_count; i++) {
        uint64_t key = rng_next(&rng) | 1;
        prefix_index_store(index, &(struct prefix_span){.keys = &key,
                                                        .key_count = 1,
                                                        .block_tokens = 16,
                                                        .now_s = 100,
                                                        .residency = PREFIX_CONFIRMED});
    }
    struct prefix_usage usage;
    prefix_index_usage(index, &usage);
    struct index_snapshot *snapshot = snapshot_begin(index, engine_count, 100);
    enum snapshot_state state = SNAPSHOT_UNFINISHED;
    uint32_t calls = 0;
    for (; state == SNAPSHOT_UNFINISHED; calls++) {
        state = snapshot_make(snapshot);
    }
    CHECK_EQ(state, SNAPSHOT_MADE);
    CHECK(calls > usage.run_count / 4096);
    struct snapshot_chain chain;
    uint32_t count = 0;
    uint32_t age = UINT32_MAX;
    for (; snapshot_next(snapshot, &chain); count++) {
        CHECK(chain.age <= age); // the oldest one first
        age = chain.age;
    }
    CHECK_EQ(count, usage.run_count);
    snapshot_end(&snapshot);
    prefix_index_destroy(&index);
}

TEST(an_empty_index_has_no_chain)
{
    struct prefix_index *index = make_index();
    struct index_snapshot *snapshot = snapshot_of(index);
    struct snapshot_chain chain;
    CHECK(!snapshot_next(snapshot, &chain));
    snapshot_end(&snapshot);
    prefix_index_destroy(&index);
}

// A prompt that goes on where another one ended lies in the same run; a third one that branches
// off before is found all the same.
TEST(a_run_that_grew_past_a_branch_keeps_both)
{
    struct prefix_index *index = make_index();
    for (uint32_t k = 0; k < length_max; k++) {
        chains[0][k] = 1000 + k;
        chains[1][k] = k < 5 ? 1000 + k : 2000 + k;
        chains[2][k] = k < 5 ? 1000 + k : 3000 + k;
    }
    store(index, 0, 0, 10, PREFIX_CONFIRMED);
    store(index, 0, 1, 12, PREFIX_CONFIRMED); // splits behind five
    store(index, 0, 2, 9, PREFIX_CONFIRMED);  // lengthens the first part
    struct prefix_index *copy = copy_of(index);
    CHECK_EQ(hit_of(copy, 0, 0).confirmed, 10);
    CHECK_EQ(hit_of(copy, 0, 1).confirmed, 12);
    CHECK_EQ(hit_of(copy, 0, 2).confirmed, 9);
    prefix_index_destroy(&index);
    prefix_index_destroy(&copy);
}

static const char *difference(const struct prefix_index *index, const struct prefix_index *copy)
{
    static char text[120];
    for (uint32_t engine = 0; engine < engine_count; engine++) {
        for (uint32_t chain = 0; chain < chain_count; chain++) {
            uint32_t was = hit_of(index, engine, chain).confirmed;
            uint32_t is = hit_of(copy, engine, chain).confirmed;
            if (was != is) {
                snprintf(text, sizeof(text), "chain %u of engine %u: %u blocks, in the copy %u",
                         chain, engine, was, is);
                return text;
            }
        }
    }
    return "";
}

TEST(a_copy_of_any_index_has_the_same_confirmed_blocks)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct rng rng = {.state = seed};
        struct prefix_index *index = make_index();
        make_chains(&rng);
        for (uint32_t i = 0; i < 150; i++) {
            uint32_t engine = rng_below(&rng, engine_count);
            uint32_t chain = rng_below(&rng, chain_count);
            uint32_t length = 1 + rng_below(&rng, length_max);
            store(index, engine, chain, length,
                  rng_below(&rng, 2) == 0 ? PREFIX_CONFIRMED : PREFIX_PREDICTED);
            if (rng_below(&rng, 4) == 0) {
                prefix_index_drop(index, engine, PREFIX_PREDICTED, chains[chain], length, 0);
            }
        }
        struct prefix_index *copy = copy_of(index);
        const char *why = difference(index, copy);
        prefix_index_destroy(&index);
        prefix_index_destroy(&copy);
        CHECK_STR(why, "");
    }
}
