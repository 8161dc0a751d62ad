// SPDX-License-Identifier: Apache-2.0
//
// The ledger against a twin that has a flag for every block, backend and tier.

#include "base/rng.h"
#include "prefix/prefix_ledger.h"
#include "test.h"

#include <stdbool.h>
#include <stdlib.h>

// How much is done: more where it is fast.
#if defined(__SANITIZE_THREAD__)
enum { scale = 1 };
#elif defined(__SANITIZE_ADDRESS__)
enum { scale = 2 };
#elif defined(SLOW_CHECKS)
enum { scale = 4 };
#else
enum { scale = 20 };
#endif

enum { length_max = 128, chain_max = 300, block_max = 40000, backend_max = 256 };

// Blocks are numbered.  Chains branch off each other.
struct forest {
    uint32_t chain_count;
    uint32_t block_count;
    uint32_t lengths[chain_max];
    uint32_t blocks[chain_max][length_max];
    uint64_t keys[chain_max][length_max];
};

static void grow(struct forest *forest, struct rng *rng, uint32_t chain_count)
{
    forest->chain_count = chain_count;
    forest->block_count = 0;
    for (uint32_t i = 0; i < chain_count; i++) {
        uint32_t length = 1 + rng_below(rng, length_max);
        uint32_t shared = 0;
        if (i > 0 && rng_below(rng, 4) != 0) {
            uint32_t other = rng_below(rng, i);
            uint32_t most = forest->lengths[other] < length ? forest->lengths[other] : length;
            shared = rng_below(rng, most + 1);
            memcpy(forest->blocks[i], forest->blocks[other], shared * sizeof(uint32_t));
            memcpy(forest->keys[i], forest->keys[other], shared * sizeof(uint64_t));
        }
        for (uint32_t k = shared; k < length; k++) {
            forest->blocks[i][k] = forest->block_count++;
            forest->keys[i][k] = rng_next(rng);
        }
        forest->lengths[i] = length;
    }
    ASSERT(forest->block_count <= block_max);
}

struct scene {
    struct rng rng;
    struct forest forest;
    struct prefix_ledger *ledger;
    uint32_t backend_count;
    bool is_held[backend_max][prefix_tier_count][block_max];
    uint32_t copies[block_max]; // in all tiers of all backends
    uint32_t places[block_max];
    uint32_t held_blocks; // by anybody
    uint64_t refused;
    uint64_t failures;
};

static struct scene scene;

static void scene_make(uint64_t seed, uint32_t backend_count, uint32_t chain_count, size_t memory)
{
    memset(&scene, 0, sizeof(scene));
    scene.rng = (struct rng){.state = seed};
    scene.backend_count = backend_count;
    grow(&scene.forest, &scene.rng, chain_count);
    scene.ledger = prefix_ledger_create(
        &(struct prefix_ledger_limits){.memory = memory, .backend_count_max = backend_count});
    ASSERT(scene.ledger != NULL);
}

static void expect(bool is_so)
{
    scene.failures += !is_so;
}

static void note_entered(uint32_t block, uint32_t backend, enum prefix_tier tier, uint32_t place)
{
    // Somebody who held it before must see it stay.
    expect(scene.copies[block] == 0 || scene.places[block] == place);
    scene.places[block] = place;
    bool *is_held = &scene.is_held[backend][tier][block];
    scene.held_blocks += scene.copies[block] == 0;
    scene.copies[block] += !*is_held;
    *is_held = true;
}

// Returns whether it was held.
static bool note_left(uint32_t block, uint32_t backend, enum prefix_tier tier)
{
    bool *is_held = &scene.is_held[backend][tier][block];
    if (!*is_held) {
        return false;
    }
    *is_held = false;
    scene.copies[block]--;
    scene.held_blocks -= scene.copies[block] == 0;
    return true;
}

static void leave(uint32_t block, uint32_t backend, enum prefix_tier tier)
{
    if (note_left(block, backend, tier)) {
        prefix_ledger_leave(scene.ledger, scene.places[block], backend, tier);
    }
}

// The same at once, from the first on or from the last.
static void leave_together(const uint32_t *blocks, uint32_t count, uint32_t backend,
                           enum prefix_tier tier)
{
    uint32_t places[length_max] = {0};
    uint32_t place_count = 0;
    bool is_backward = rng_below(&scene.rng, 2) == 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = blocks[is_backward ? count - 1 - i : i];
        if (note_left(block, backend, tier)) {
            places[place_count++] = scene.places[block];
        }
    }
    prefix_ledger_prefetch_ends(scene.ledger, places, place_count);
    prefix_ledger_leave_all(scene.ledger, places, place_count, backend, tier);
}

// Some blocks of a chain, behind one that a backend holds.
static void enter_some(void)
{
    struct forest *forest = &scene.forest;
    uint32_t chain = rng_below(&scene.rng, forest->chain_count);
    const uint32_t *blocks = forest->blocks[chain];
    uint32_t from = rng_below(&scene.rng, forest->lengths[chain]);
    while (from > 0 && scene.copies[blocks[from - 1]] == 0) {
        from--;
    }
    uint32_t count = 1 + rng_below(&scene.rng, forest->lengths[chain] - from);
    uint32_t backend = rng_below(&scene.rng, scene.backend_count);
    enum prefix_tier tier = rng_below(&scene.rng, prefix_tier_count);
    uint32_t places[length_max];
    uint32_t entered = prefix_ledger_enter(
        scene.ledger,
        &(struct prefix_entry){.keys = forest->keys[chain] + from,
                               .key_count = count,
                               .after = from > 0 ? scene.places[blocks[from - 1]] : 0,
                               .backend = backend,
                               .tier = tier},
        places);
    for (uint32_t i = 0; i < entered; i++) {
        note_entered(blocks[from + i], backend, tier, places[i]);
        expect(prefix_ledger_key(scene.ledger, places[i]) == forest->keys[chain][from + i]);
    }
    if (entered < count) {
        struct prefix_ledger_usage usage;
        prefix_ledger_usage(scene.ledger, &usage);
        scene.refused += count - entered;
        expect(usage.memory == usage.limit); // nothing that fits is refused
    }
}

// A few blocks of a chain, from anywhere in it, in one tier or all of them.
static void leave_some(void)
{
    struct forest *forest = &scene.forest;
    uint32_t chain = rng_below(&scene.rng, forest->chain_count);
    uint32_t from = rng_below(&scene.rng, forest->lengths[chain]);
    uint32_t count = 1 + rng_below(&scene.rng, forest->lengths[chain] - from);
    uint32_t backend = rng_below(&scene.rng, scene.backend_count);
    uint32_t tier = rng_below(&scene.rng, prefix_tier_count + 1);
    for (uint32_t t = 0; t < prefix_tier_count; t++) {
        if (tier == t || tier == prefix_tier_count) {
            leave_together(forest->blocks[chain] + from, count, backend, t);
        }
    }
}

static void leave_everything(uint32_t backend)
{
    for (uint32_t block = 0; block < scene.forest.block_count; block++) {
        for (uint32_t tier = 0; tier < prefix_tier_count; tier++) {
            leave(block, backend, tier);
        }
    }
}

// Nobody holds the first blocks of a chain, whatever is behind them.
static void leave_beginning(void)
{
    uint32_t chain = rng_below(&scene.rng, scene.forest.chain_count);
    uint32_t count = 1 + rng_below(&scene.rng, scene.forest.lengths[chain]);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = scene.forest.blocks[chain][i];
        for (uint32_t backend = 0; scene.copies[block] > 0; backend++) {
            for (uint32_t tier = 0; tier < prefix_tier_count; tier++) {
                leave(block, backend, tier);
            }
        }
    }
}

static struct prefix_hit twin_match(uint32_t backend, const uint32_t *blocks, uint32_t count)
{
    struct prefix_hit hit = {.backend = backend};
    for (uint32_t i = 0; i < count; i++) {
        bool is_on_gpu = scene.is_held[backend][PREFIX_GPU][blocks[i]];
        bool is_in_host = scene.is_held[backend][PREFIX_HOST][blocks[i]];
        bool is_on_disk = scene.is_held[backend][PREFIX_DISK][blocks[i]];
        if (!is_on_gpu && !is_in_host && !is_on_disk) {
            break;
        }
        hit.blocks++;
        hit.confirmed++;
        hit.host += !is_on_gpu && is_in_host;
        hit.disk += !is_on_gpu && !is_in_host;
    }
    return hit;
}

static void ask(void)
{
    uint32_t chain = rng_below(&scene.rng, scene.forest.chain_count);
    uint32_t count = 1 + rng_below(&scene.rng, scene.forest.lengths[chain]);
    struct prefix_hit hits[backend_max];
    struct prefix_hit ours[backend_max] = {0};
    uint32_t hit_count =
        prefix_ledger_match(scene.ledger, scene.forest.keys[chain], count, hits, backend_max);
    for (uint32_t i = 0; i < hit_count; i++) {
        expect(hits[i].blocks > 0 && ours[hits[i].backend].blocks == 0);
        ours[hits[i].backend] = hits[i];
    }
    for (uint32_t i = 0; i < scene.backend_count; i++) {
        struct prefix_hit hit = twin_match(i, scene.forest.blocks[chain], count);
        expect(hit.blocks == ours[i].blocks && hit.confirmed == ours[i].confirmed &&
               hit.host == ours[i].host && hit.disk == ours[i].disk && ours[i].age == 0);
    }
}

static void turn(uint32_t enter_percent)
{
    uint32_t draw = rng_below(&scene.rng, 1000);
    if (draw == 0) {
        leave_everything(rng_below(&scene.rng, scene.backend_count));
    } else if (draw < 10) {
        leave_beginning();
    } else if (draw < 10 * enter_percent) {
        enter_some();
    } else {
        leave_some();
    }
    if (rng_below(&scene.rng, 4) == 0) {
        ask();
    }
}

static void play(uint32_t turns, uint32_t enter_percent)
{
    struct prefix_ledger_usage usage;
    uint64_t most_runs = 0;
    uint64_t most_memory = 0;
    for (uint32_t i = 0; i < turns; i++) {
        turn(enter_percent);
        prefix_ledger_usage(scene.ledger, &usage);
        expect(usage.run_count <= scene.held_blocks); // every run has a holder
        expect(usage.refused == scene.refused);
        most_runs = usage.run_count > most_runs ? usage.run_count : most_runs;
        most_memory = usage.memory > most_memory ? usage.memory : most_memory;
    }
    printf("# %u turns, at most %" PRIu64 " runs and %" PRIu64 " bytes, %" PRIu64
           " blocks refused\n",
           turns, most_runs, most_memory, scene.refused);
    for (uint32_t backend = 0; backend < scene.backend_count; backend++) {
        leave_everything(backend);
    }
    prefix_ledger_usage(scene.ledger, &usage);
    expect(usage.run_count == 0 && usage.memory == 0);
    prefix_ledger_destroy(&scene.ledger);
}

TEST(few_backends_and_many_chains)
{
    scene_make(1, 3, 300, 8 << 20);
    play(50000 * scale, 35);
    CHECK_EQ(scene.failures, 0);
    CHECK_EQ(scene.refused, 0);
}

TEST(more_backends_than_a_list_of_holders_takes)
{
    scene_make(2, 250, 12, 8 << 20);
    play(30000 * scale, 60);
    CHECK_EQ(scene.failures, 0);
    CHECK_EQ(scene.refused, 0);
}

TEST(one_chain_and_its_branches)
{
    scene_make(3, 12, 40, 8 << 20);
    play(50000 * scale, 35);
    CHECK_EQ(scene.failures, 0);
}

TEST(memory_that_is_too_small_for_the_runs)
{
    scene_make(4, 8, 300, 64 << 10);
    play(50000 * scale, 35);
    CHECK_EQ(scene.failures, 0);
    CHECK(scene.refused > 1000);
}

TEST(memory_that_is_too_small_for_the_holders)
{
    scene_make(5, 200, 8, 64 << 10);
    play(30000 * scale, 60);
    CHECK_EQ(scene.failures, 0);
    CHECK(scene.refused > 1000);
}
