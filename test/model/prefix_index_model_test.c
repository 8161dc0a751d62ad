// SPDX-License-Identifier: Apache-2.0
//
// The index against a twin that has a flag for every block and backend.

#include "base/rng.h"
#include "prefix/prefix_index.h"
#include "test.h"

#include <stdbool.h>
#include <stdlib.h>

// How much is done: more where it is fast.
#if defined(__SANITIZE_THREAD__)
enum { scale = 1 };
#elif defined(__SANITIZE_ADDRESS__)
enum { scale = 8 };
#elif defined(SLOW_CHECKS)
enum { scale = 32 };
#else
enum { scale = 160 };
#endif

enum { length_max = 128, chain_count_max = 400, block_count_max = 30000, unit = 16 };

// Blocks are numbered; block_keys has their keys.  Chains branch off each other.
struct forest {
    struct rng rng;
    uint32_t chain_count;
    uint32_t block_count;
    uint32_t lengths[chain_count_max];
    uint32_t blocks[chain_count_max][length_max];
    uint64_t keys[chain_count_max][length_max];
};

// How much of chain i comes from an earlier one.
static uint32_t branch(struct forest *forest, uint32_t i, uint32_t step)
{
    if (i == 0 || rng_below(&forest->rng, 4) == 0) {
        return 0;
    }
    uint32_t other = rng_below(&forest->rng, i);
    uint32_t most =
        forest->lengths[other] < forest->lengths[i] ? forest->lengths[other] : forest->lengths[i];
    uint32_t shared = step * rng_below(&forest->rng, most / step + 1);
    memcpy(forest->blocks[i], forest->blocks[other], shared * sizeof(uint32_t));
    memcpy(forest->keys[i], forest->keys[other], shared * sizeof(uint64_t));
    return shared;
}

// With a `step` of 16 chains branch and end only where runs do.
static void grow(struct forest *forest, uint64_t seed, uint32_t chain_count, uint32_t step)
{
    forest->rng = (struct rng){.state = seed};
    forest->chain_count = chain_count;
    forest->block_count = 0;
    for (uint32_t i = 0; i < chain_count; i++) {
        forest->lengths[i] = step * (1 + rng_below(&forest->rng, length_max / step));
        for (uint32_t k = branch(forest, i, step); k < forest->lengths[i]; k++) {
            forest->blocks[i][k] = forest->block_count++;
            forest->keys[i][k] = rng_next(&forest->rng);
        }
        ASSERT(forest->block_count < block_count_max - length_max);
    }
}

// The header's promises in the simplest form.  Touches are kept for units of 16 blocks, which are
// runs where chains branch at multiples of 16 only.
struct twin {
    uint32_t backend_count;
    uint32_t ttl_s;
    bool *held; // [backend][block]
    bool *confirmed;
    uint32_t *touch; // [backend][unit], named by its first block
    uint32_t *seconds;
    uint32_t clock[256];
    uint32_t floor[256];
    uint32_t capacity[256];
};

static void twin_make(struct twin *twin, uint32_t backend_count, uint32_t ttl_s)
{
    size_t count = (size_t)backend_count * block_count_max;
    *twin = (struct twin){
        .backend_count = backend_count,
        .ttl_s = ttl_s,
        .held = calloc(count, sizeof(bool)),
        .confirmed = calloc(count, sizeof(bool)),
        .touch = calloc(count, sizeof(uint32_t)),
        .seconds = calloc(count, sizeof(uint32_t)),
    };
    ASSERT(twin->held != NULL && twin->confirmed != NULL && twin->touch != NULL &&
           twin->seconds != NULL);
    for (uint32_t i = 0; i < backend_count; i++) {
        twin->clock[i] = 1 << 29; // far from where it could wrap
    }
}

static void twin_unmake(struct twin *twin)
{
    free(twin->held);
    free(twin->confirmed);
    free(twin->touch);
    free(twin->seconds);
}

static bool twin_believes(const struct twin *twin, uint32_t backend, uint32_t first_block,
                          uint32_t now_s)
{
    size_t at = (size_t)backend * block_count_max + first_block;
    uint32_t age = twin->clock[backend] - twin->touch[at];
    uint32_t capacity = twin->capacity[backend];
    return age < twin->clock[backend] - twin->floor[backend] && (capacity == 0 || age < capacity) &&
           (twin->ttl_s == 0 || now_s - twin->seconds[at] < twin->ttl_s);
}

static void twin_store(struct twin *twin, uint32_t backend, enum prefix_residency residency,
                       const uint32_t *blocks, uint32_t count, uint32_t now_s)
{
    size_t base = (size_t)backend * block_count_max;
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t at = base + blocks[i];
        if (!twin_believes(twin, backend, blocks[i - i % unit], now_s)) {
            twin->held[at] = false;
            twin->confirmed[at] = false;
        }
        fresh += !twin->held[at];
        twin->held[at] = true;
        if (residency != PREFIX_PREDICTED) {
            twin->confirmed[at] = residency == PREFIX_CONFIRMED;
        }
    }
    twin->clock[backend] += fresh;
    for (uint32_t i = 0; i < count; i += unit) {
        uint32_t room = twin->clock[backend] - twin->floor[backend];
        uint32_t age = room == 0 ? 0 : i < room - 1 ? i : room - 1;
        twin->touch[base + blocks[i]] = twin->clock[backend] - age;
        twin->seconds[base + blocks[i]] = now_s;
    }
}

static void twin_drop(struct twin *twin, uint32_t backend, bool also_confirmed,
                      const uint32_t *blocks, uint32_t count, uint32_t from)
{
    for (uint32_t i = from; i < count; i++) {
        size_t at = (size_t)backend * block_count_max + blocks[i];
        if (also_confirmed || !twin->confirmed[at]) {
            twin->held[at] = false;
            twin->confirmed[at] = false;
        }
    }
}

static void twin_forget(struct twin *twin, uint32_t backend)
{
    memset(twin->held + (size_t)backend * block_count_max, 0, block_count_max);
    memset(twin->confirmed + (size_t)backend * block_count_max, 0, block_count_max);
}

static struct prefix_hit twin_match(const struct twin *twin, uint32_t backend,
                                    const uint32_t *blocks, uint32_t count, uint32_t now_s)
{
    struct prefix_hit hit = {.backend = backend};
    size_t base = (size_t)backend * block_count_max;
    while (hit.blocks < count && twin->held[base + blocks[hit.blocks]]) {
        uint32_t first = blocks[hit.blocks - hit.blocks % unit];
        if (!twin_believes(twin, backend, first, now_s)) {
            break;
        }
        uint32_t age = twin->clock[backend] - twin->touch[base + first];
        hit.age = age > hit.age ? age : hit.age;
        hit.confirmed += hit.confirmed == hit.blocks && twin->confirmed[base + blocks[hit.blocks]];
        hit.blocks++;
    }
    return hit;
}

static bool twin_settles(const struct twin *twin, const struct prefix_pending *query,
                         uint32_t first_block)
{
    uint32_t since =
        query->now_s - twin->seconds[(size_t)query->backend * block_count_max + first_block];
    return query->settle_s > 0 && since <= query->settle_s;
}

static uint32_t twin_pending(const struct twin *twin, const struct prefix_pending *query,
                             const uint32_t *blocks)
{
    size_t base = (size_t)query->backend * block_count_max;
    uint32_t at = query->from;
    while (at < query->key_count && twin->held[base + blocks[at]] &&
           (!twin->confirmed[base + blocks[at]] ||
            twin_settles(twin, query, blocks[at - at % unit])) &&
           twin_believes(twin, query->backend, blocks[at - at % unit], query->now_s)) {
        at++;
    }
    return at - query->from;
}

// One index, its twin, and what they are asked.
struct scene {
    struct forest forest;
    struct twin twin;
    struct prefix_index *index;
    struct rng rng;
    uint32_t step;
    uint32_t now_s;
    bool is_exact;        // the ages as well
    uint64_t pending_sum; // of all answers, so that one sees that there were any
};

static struct scene scene;

static void scene_make(uint32_t backend_count, uint32_t chain_count, uint32_t step, size_t memory,
                       uint32_t ttl_s)
{
    grow(&scene.forest, backend_count + step, chain_count, step);
    twin_make(&scene.twin, backend_count, ttl_s);
    scene.index = prefix_index_create(&(struct prefix_limits){
        .memory = memory, .backend_count_max = backend_count, .ttl_s = ttl_s});
    scene.rng = (struct rng){.state = 17 * backend_count + step};
    scene.step = step;
    scene.now_s = 1000;
    scene.pending_sum = 0;
}

static void scene_unmake(void)
{
    prefix_index_destroy(&scene.index);
    twin_unmake(&scene.twin);
}

// The match of a chain, by backend.
static void ask(uint32_t chain, uint32_t count, struct prefix_hit *by_backend)
{
    struct prefix_hit hits[256];
    memset(by_backend, 0, 256 * sizeof(*by_backend));
    uint32_t hit_count =
        prefix_index_match(scene.index, scene.forest.keys[chain], count, scene.now_s, hits, 256);
    for (uint32_t i = 0; i < hit_count; i++) {
        ASSERT(hits[i].blocks > 0 && by_backend[hits[i].backend].blocks == 0);
        by_backend[hits[i].backend] = hits[i];
    }
}

// Of any backend, also one without a hit, and from any block on.
static bool same_pending(uint32_t chain, uint32_t count)
{
    struct prefix_pending query = {
        .keys = scene.forest.keys[chain],
        .key_count = count,
        .from = rng_below(&scene.rng, count + 1),
        .backend = rng_below(&scene.rng, scene.twin.backend_count),
        .now_s = scene.now_s,
        .settle_s = scene.is_exact ? rng_below(&scene.rng, 3) : 0,
    };
    uint32_t expected = twin_pending(&scene.twin, &query, scene.forest.blocks[chain]);
    uint32_t ours = prefix_index_pending(scene.index, &query);
    scene.pending_sum += ours;
    if (ours != expected) {
        printf("# backend %u chain %u from %u, settling %u s: %u blocks pending, expected %u\n",
               query.backend, chain, query.from, query.settle_s, ours, expected);
    }
    return ours == expected;
}

static bool same_answer(uint32_t chain)
{
    struct prefix_hit ours[256];
    uint32_t count = 1 + rng_below(&scene.rng, scene.forest.lengths[chain]);
    ask(chain, count, ours);
    if (!same_pending(chain, count)) {
        return false;
    }
    for (uint32_t i = 0; i < scene.twin.backend_count; i++) {
        struct prefix_hit hit =
            twin_match(&scene.twin, i, scene.forest.blocks[chain], count, scene.now_s);
        if (hit.blocks != ours[i].blocks || hit.confirmed != ours[i].confirmed ||
            (scene.is_exact && hit.age != ours[i].age)) {
            printf("# backend %u chain %u: %u blocks, %u confirmed, of age %u, expected %u, %u, of "
                   "age %u\n",
                   i, chain, ours[i].blocks, ours[i].confirmed, ours[i].age, hit.blocks,
                   hit.confirmed, hit.age);
            return false;
        }
    }
    return true;
}

static void store_some(uint32_t backend, uint32_t chain, uint32_t count,
                       enum prefix_residency residency)
{
    prefix_index_store(scene.index, &(struct prefix_span){.keys = scene.forest.keys[chain],
                                                          .key_count = count,
                                                          .backend = backend,
                                                          .now_s = scene.now_s,
                                                          .residency = residency});
    twin_store(&scene.twin, backend, residency, scene.forest.blocks[chain], count, scene.now_s);
}

static void drop_some(uint32_t backend, uint32_t chain, bool also_confirmed)
{
    uint32_t count = 1 + rng_below(&scene.rng, scene.forest.lengths[chain]);
    uint32_t from = rng_below(&scene.rng, count);
    prefix_index_drop(scene.index, backend, also_confirmed ? PREFIX_CONFIRMED : PREFIX_PREDICTED,
                      scene.forest.keys[chain], count, from);
    twin_drop(&scene.twin, backend, also_confirmed, scene.forest.blocks[chain], count, from);
}

// Returns the chain that was in play.
static uint32_t play(void)
{
    uint32_t backend = rng_below(&scene.rng, scene.twin.backend_count);
    uint32_t chain = rng_below(&scene.rng, scene.forest.chain_count);
    uint32_t dice = rng_below(&scene.rng, 1000);
    bool coin = dice % 2 == 0;
    if (dice < 500) {
        uint32_t most = scene.forest.lengths[chain] / scene.step;
        static const enum prefix_residency residencies[] = {PREFIX_PREDICTED, PREFIX_CONFIRMED,
                                                            PREFIX_EXPECTED};
        store_some(backend, chain, scene.step * (1 + rng_below(&scene.rng, most)),
                   residencies[dice % 3]);
    } else if (dice < 995) {
        drop_some(backend, chain, coin);
    } else {
        prefix_index_forget(scene.index, backend);
        twin_forget(&scene.twin, backend);
    }
    return chain;
}

static bool play_many(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t chain = play();
        uint32_t other = rng_below(&scene.rng, scene.forest.chain_count);
        if (!same_answer(i % 2 == 0 ? chain : other)) {
            printf("# in operation %u\n", i);
            return false;
        }
    }
    return true;
}

TEST(with_few_backends_the_index_matches_as_its_twin)
{
    scene_make(6, 300, 1, 16 << 20, 0);
    CHECK(play_many(22500 * scale));
    CHECK(scene.pending_sum > 22500);
    scene_unmake();
}

TEST(with_many_backends_the_index_matches_as_its_twin)
{
    scene_make(250, 40, 1, 64 << 20, 0);
    CHECK(play_many(700 * scale));
    CHECK(scene.pending_sum > 700);
    scene_unmake();
}

TEST(with_one_hot_chain_the_index_matches_as_its_twin)
{
    scene_make(250, 2, 1, 64 << 20, 0);
    CHECK(play_many(700 * scale));
    CHECK(scene.pending_sum > 700);
    scene_unmake();
}

// Also capacities, ages and times.
static void play_belief(void)
{
    struct twin *twin = &scene.twin;
    uint32_t backend = rng_below(&scene.rng, twin->backend_count);
    switch (rng_below(&scene.rng, 40)) {
    case 0:
        twin->capacity[backend] = rng_below(&scene.rng, 4) == 0 ? 0 : rng_below(&scene.rng, 3000);
        prefix_index_set_capacity(scene.index, backend, twin->capacity[backend]);
        break;
    case 1: {
        uint32_t age = rng_below(&scene.rng, 2000);
        if (age < twin->clock[backend] - twin->floor[backend]) {
            twin->floor[backend] = twin->clock[backend] - age;
        }
        prefix_index_forget_older(scene.index, backend, age);
        break;
    }
    case 2:
    case 3:
    case 4:
        scene.now_s += rng_below(&scene.rng, 4);
        break;
    default:
        play();
    }
}

static bool play_belief_many(uint32_t count)
{
    scene.is_exact = true;
    bool is_good = true;
    for (uint32_t i = 0; is_good && i < count; i++) {
        play_belief();
        is_good = same_answer(rng_below(&scene.rng, scene.forest.chain_count));
    }
    scene.is_exact = false;
    return is_good;
}

TEST(the_index_believes_the_blocks_that_its_twin_believes)
{
    scene_make(8, 200, unit, 16 << 20, 0);
    CHECK(play_belief_many(10000 * scale));
    scene_unmake();
}

TEST(with_a_ttl_the_index_believes_the_blocks_that_its_twin_believes)
{
    scene_make(8, 200, unit, 16 << 20, 40);
    CHECK(play_belief_many(10000 * scale));
    struct prefix_usage usage;
    prefix_index_usage(scene.index, &usage);
    CHECK(usage.expiries > 100);
    CHECK_EQ(usage.evictions, 0);
    scene_unmake();
}

// A full index forgets, but never what was stored lately, and never says more than was stored.
// False: the index says more than the twin, or, of what is recent, less.
static bool is_part(uint32_t chain, bool is_recent)
{
    struct prefix_hit ours[256];
    uint32_t length = scene.forest.lengths[chain];
    ask(chain, length, ours);
    for (uint32_t i = 0; i < scene.twin.backend_count; i++) {
        struct prefix_hit hit =
            twin_match(&scene.twin, i, scene.forest.blocks[chain], length, scene.now_s);
        if (ours[i].blocks > hit.blocks || (is_recent && ours[i].blocks < hit.blocks)) {
            printf("# backend %u: %u blocks, expected %u\n", i, ours[i].blocks, hit.blocks);
            return false;
        }
    }
    return true;
}

static bool play_full(uint32_t count)
{
    uint32_t recent = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t chain = play();
        bool is_stored_by_all = i % 4 == 0;
        if (is_stored_by_all) {
            recent = chain;
            for (uint32_t b = 0; b < scene.twin.backend_count; b++) {
                store_some(b, chain, scene.forest.lengths[chain], PREFIX_CONFIRMED);
            }
        }
        // A chain that all held whole a few operations ago may have been dropped or forgotten
        // since, which the twin knows, but not evicted.
        if (!is_part(chain, is_stored_by_all) || !is_part(recent, true)) {
            printf("# in operation %u\n", i);
            return false;
        }
    }
    return true;
}

TEST(a_full_index_never_matches_too_much_and_keeps_recent_chains)
{
    scene_make(5, 300, 1, 48 << 10, 0);
    CHECK(play_full(5000 * scale));
    struct prefix_usage usage;
    prefix_index_usage(scene.index, &usage);
    CHECK(usage.evictions > 1000);
    CHECK(usage.memory <= 48 << 10);
    scene_unmake();
}
