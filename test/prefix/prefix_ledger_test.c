// SPDX-License-Identifier: Apache-2.0

#include "prefix/prefix_ledger.h"

#include "prefix/chains.h"
#include "test.h"

enum { plenty = 8 << 20, granule_size = 192 };

static struct prefix_ledger *make(size_t memory)
{
    return prefix_ledger_create(
        &(struct prefix_ledger_limits){.memory = memory, .backend_count_max = chain_backend_max});
}

// Where the blocks of a chain are.
struct spots {
    uint32_t of[chain_max];
};

struct span {
    uint32_t from;
    uint32_t to;
};

// Enters blocks of a chain, behind the one before them, and returns how many.
static uint32_t enter_in(struct prefix_ledger *ledger, uint32_t backend, enum prefix_tier tier,
                         const struct chain *chain, struct span span, struct spots *spots)
{
    return prefix_ledger_enter(
        ledger,
        &(struct prefix_entry){.keys = chain->keys + span.from,
                               .key_count = span.to - span.from,
                               .after = span.from > 0 ? spots->of[span.from - 1] : 0,
                               .backend = backend,
                               .tier = tier},
        spots->of + span.from);
}

static uint32_t enter(struct prefix_ledger *ledger, uint32_t backend, const struct chain *chain,
                      struct span span, struct spots *spots)
{
    return enter_in(ledger, backend, PREFIX_GPU, chain, span, spots);
}

static void leave(struct prefix_ledger *ledger, uint32_t backend, struct span span,
                  const struct spots *spots)
{
    for (uint32_t i = span.from; i < span.to; i++) {
        prefix_ledger_leave(ledger, spots->of[i], backend, PREFIX_GPU);
    }
}

static struct prefix_hit hit_of(const struct prefix_ledger *ledger, uint32_t backend,
                                const struct chain *chain)
{
    static struct prefix_hit hits[chain_backend_max];
    uint32_t count =
        prefix_ledger_match(ledger, chain->keys, chain->count, hits, chain_backend_max);
    for (uint32_t i = 0; i < count; i++) {
        if (hits[i].backend == backend) {
            return hits[i];
        }
    }
    return (struct prefix_hit){.backend = backend};
}

static uint32_t blocks_of(const struct prefix_ledger *ledger, uint32_t backend,
                          const struct chain *chain)
{
    return hit_of(ledger, backend, chain).blocks;
}

static struct prefix_ledger_usage usage_of(const struct prefix_ledger *ledger)
{
    struct prefix_ledger_usage usage;
    prefix_ledger_usage(ledger, &usage);
    return usage;
}

TEST(only_entered_blocks_are_matched)
{
    struct prefix_ledger *ledger = make(plenty);
    struct chain a = chain_make(NULL, 0, 1, 100);
    struct chain b = chain_make(NULL, 0, 2, 100);
    struct spots spots;
    CHECK_EQ(enter(ledger, 7, &a, (struct span){0, 100}, &spots), 100);
    CHECK_EQ(blocks_of(ledger, 7, &a), 100);
    CHECK_EQ(hit_of(ledger, 7, &a).confirmed, 100);
    CHECK_EQ(hit_of(ledger, 7, &a).age, 0);
    CHECK_EQ(blocks_of(ledger, 8, &a), 0);
    CHECK_EQ(blocks_of(ledger, 7, &b), 0);
    for (uint32_t n = 1; n <= 100; n++) {
        a.count = n;
        CHECK_EQ(blocks_of(ledger, 7, &a), n);
    }
    struct prefix_hit hit;
    CHECK_EQ(prefix_ledger_match(ledger, a.keys, 0, &hit, 1), 0);
    CHECK_EQ(prefix_ledger_match(ledger, a.keys, 1, &hit, 0), 0);
    CHECK_EQ(enter(ledger, 7, &a, (struct span){50, 50}, &spots), 0);
    prefix_ledger_destroy(&ledger);
    CHECK(ledger == NULL);
    prefix_ledger_destroy(&ledger);
}

TEST(blocks_that_come_one_by_one_make_full_runs)
{
    struct prefix_ledger *ledger = make(plenty);
    struct chain a = chain_make(NULL, 0, 1, 64);
    struct spots spots;
    for (uint32_t n = 1; n <= 64; n++) {
        enter(ledger, 0, &a, (struct span){n - 1, n}, &spots);
        a.count = n;
        CHECK_EQ(blocks_of(ledger, 0, &a), n);
        CHECK_EQ(usage_of(ledger).run_count, (n + 15) / 16);
        CHECK_EQ(usage_of(ledger).memory, (n + 15) / 16 * granule_size);
    }
    prefix_ledger_destroy(&ledger);
}

TEST(a_place_has_its_key_and_is_the_same_for_all_backends)
{
    struct prefix_ledger *ledger = make(plenty);
    struct chain a = chain_make(NULL, 0, 1, 100);
    struct spots spots;
    struct spots others = {0};
    enter(ledger, 0, &a, (struct span){0, 100}, &spots);
    for (uint32_t step = 1; step < 40; step++) {
        for (uint32_t i = 0; i < 100; i += step) {
            enter(ledger, step, &a, (struct span){i, i + step < 100 ? i + step : 100}, &others);
        }
        CHECK_EQ(memcmp(&spots, &others, 100 * sizeof(uint32_t)), 0);
        CHECK_EQ(blocks_of(ledger, step, &a), 100);
    }
    for (uint32_t i = 0; i < 100; i++) {
        CHECK(spots.of[i] != 0);
        CHECK(prefix_ledger_key(ledger, spots.of[i]) == a.keys[i]);
    }
    CHECK_EQ(usage_of(ledger).run_count, 7);
    prefix_ledger_destroy(&ledger);
}

TEST(chains_branch_at_any_block_and_no_place_changes)
{
    for (uint32_t at = 1; at < 40; at++) {
        struct prefix_ledger *ledger = make(plenty);
        struct chain a = chain_make(NULL, 0, 1, 50);
        struct chain b = chain_make(&a, at, 2, 50);
        struct chain c = chain_make(&b, 45, 3, 60);
        struct spots of_a;
        struct spots before;
        struct spots of_b;
        struct spots of_c;
        enter(ledger, 1, &a, (struct span){0, 50}, &of_a);
        CHECK_EQ(blocks_of(ledger, 1, &b), at);
        before = of_a;
        enter(ledger, 2, &b, (struct span){0, 50}, &of_b);
        enter(ledger, 3, &c, (struct span){0, 60}, &of_c);
        CHECK_EQ(memcmp(&of_a, &of_b, at * sizeof(uint32_t)), 0);
        CHECK_EQ(memcmp(&of_b, &of_c, 45 * sizeof(uint32_t)), 0);
        enter(ledger, 1, &a, (struct span){0, 50}, &of_a);
        CHECK_EQ(memcmp(&of_a, &before, 50 * sizeof(uint32_t)), 0);
        CHECK_EQ(blocks_of(ledger, 1, &a), 50);
        CHECK_EQ(blocks_of(ledger, 1, &b), at);
        CHECK_EQ(blocks_of(ledger, 2, &b), 50);
        CHECK_EQ(blocks_of(ledger, 2, &a), at);
        CHECK_EQ(blocks_of(ledger, 2, &c), 45);
        CHECK_EQ(blocks_of(ledger, 3, &c), 60);
        CHECK_EQ(blocks_of(ledger, 3, &a), at);
        prefix_ledger_destroy(&ledger);
    }
}

TEST(a_hole_ends_the_match_until_the_block_comes_back)
{
    struct prefix_ledger *ledger = make(plenty);
    struct chain a = chain_make(NULL, 0, 1, 100);
    struct spots spots;
    enter(ledger, 3, &a, (struct span){0, 100}, &spots);
    enter(ledger, 4, &a, (struct span){0, 100}, &spots);
    for (uint32_t at = 0; at < 100; at++) {
        leave(ledger, 3, (struct span){at, at + 1}, &spots);
        CHECK_EQ(blocks_of(ledger, 3, &a), at);
        CHECK_EQ(blocks_of(ledger, 4, &a), 100);
        enter(ledger, 3, &a, (struct span){at, at + 1}, &spots);
        CHECK_EQ(blocks_of(ledger, 3, &a), 100);
    }
    leave(ledger, 3, (struct span){20, 60}, &spots);
    CHECK_EQ(blocks_of(ledger, 3, &a), 20);
    enter(ledger, 3, &a, (struct span){30, 60}, &spots);
    CHECK_EQ(blocks_of(ledger, 3, &a), 20);
    enter(ledger, 3, &a, (struct span){20, 30}, &spots);
    CHECK_EQ(blocks_of(ledger, 3, &a), 100);
    prefix_ledger_destroy(&ledger);
}

TEST(blocks_left_together_may_be_of_many_runs_repeated_or_not_held)
{
    struct prefix_ledger *ledger = make(plenty);
    struct chain a = chain_make(NULL, 0, 1, 48);
    struct spots spots;
    enter(ledger, 0, &a, (struct span){0, 48}, &spots);
    enter_in(ledger, 0, PREFIX_HOST, &a, (struct span){40, 44}, &spots);
    uint32_t places[48 + 4] = {spots.of[20], 0, UINT32_MAX, spots.of[20]};
    for (uint32_t i = 0; i < 28; i++) {
        places[4 + i] = spots.of[47 - i];
    }
    prefix_ledger_leave_all(ledger, places, 4 + 28, 0, PREFIX_GPU);
    CHECK_EQ(blocks_of(ledger, 0, &a), 20);
    CHECK_EQ(usage_of(ledger).run_count, 3); // the host has some of the last
    prefix_ledger_leave_all(ledger, spots.of + 40, 4, 0, PREFIX_HOST);
    CHECK_EQ(usage_of(ledger).run_count, 2);
    prefix_ledger_leave_all(ledger, spots.of, 48, 0, PREFIX_GPU);
    CHECK_EQ(usage_of(ledger).run_count, 0);
    prefix_ledger_destroy(&ledger);
}

TEST(a_run_is_freed_when_no_backend_holds_any_of_its_blocks)
{
    struct prefix_ledger *ledger = make(plenty);
    struct chain a = chain_make(NULL, 0, 1, 48);
    struct spots spots;
    enter(ledger, 0, &a, (struct span){0, 48}, &spots);
    enter(ledger, 1, &a, (struct span){0, 20}, &spots);
    leave(ledger, 0, (struct span){0, 31}, &spots);
    CHECK_EQ(usage_of(ledger).run_count, 3);
    leave(ledger, 0, (struct span){31, 32}, &spots);
    CHECK_EQ(usage_of(ledger).run_count, 3); // the other one has four of these
    leave(ledger, 1, (struct span){16, 20}, &spots);
    CHECK_EQ(usage_of(ledger).run_count, 2);
    CHECK_EQ(blocks_of(ledger, 1, &a), 16);
    leave(ledger, 1, (struct span){0, 16}, &spots);
    leave(ledger, 0, (struct span){32, 48}, &spots);
    CHECK_EQ(usage_of(ledger).run_count, 0);
    CHECK_EQ(usage_of(ledger).memory, 0);
    CHECK_EQ(blocks_of(ledger, 0, &a), 0);
    prefix_ledger_destroy(&ledger);
}

// The run before goes and comes back with another end; what follows is where it was.
TEST(a_run_that_outlives_the_run_before_it_is_found_behind_the_next_one)
{
    for (uint32_t at = 1; at < 16; at++) {
        struct prefix_ledger *ledger = make(plenty);
        struct chain a = chain_make(NULL, 0, 1, 50);
        struct chain b = chain_make(&a, at, 2, 50);
        struct spots of_a;
        struct spots of_b;
        enter(ledger, 0, &a, (struct span){0, 16}, &of_a);
        memcpy(&of_b, &of_a, sizeof(of_b));
        enter(ledger, 0, &b, (struct span){at, 50}, &of_b); // begins a run in the middle of one
        struct spots before = of_b;
        leave(ledger, 0, (struct span){0, 16}, &of_a);
        CHECK_EQ(blocks_of(ledger, 0, &b), 0);
        enter(ledger, 0, &b, (struct span){0, 50}, &of_b);
        CHECK_EQ(blocks_of(ledger, 0, &b), 50);
        CHECK_EQ(memcmp(before.of + at, of_b.of + at, (50 - at) * sizeof(uint32_t)), 0);
        leave(ledger, 0, (struct span){0, 50}, &of_b);
        CHECK_EQ(usage_of(ledger).run_count, 0);
        prefix_ledger_destroy(&ledger);
    }
}

// The same, where the run before had room and is not new.
TEST(a_run_does_not_take_a_key_that_begins_another)
{
    struct prefix_ledger *ledger = make(plenty);
    struct chain a = chain_make(NULL, 0, 1, 40);
    struct chain b = chain_make(&a, 8, 2, 40);
    struct spots of_a;
    enter(ledger, 0, &a, (struct span){0, 40}, &of_a);
    struct spots of_b = of_a;
    enter(ledger, 0, &b, (struct span){8, 40}, &of_b);
    struct spots before = of_b;
    leave(ledger, 0, (struct span){0, 16}, &of_a);
    enter(ledger, 0, &b, (struct span){0, 5}, &of_b);
    enter(ledger, 1, &b, (struct span){5, 40}, &of_b);
    CHECK_EQ(memcmp(before.of + 8, of_b.of + 8, 32 * sizeof(uint32_t)), 0);
    enter(ledger, 1, &b, (struct span){0, 5}, &of_b);
    CHECK_EQ(blocks_of(ledger, 1, &b), 40);
    CHECK_EQ(blocks_of(ledger, 0, &b), 5);
    prefix_ledger_destroy(&ledger);
}

// Enters a chain in all tiers and leaves these one after the other.
static void leave_tiers(struct prefix_ledger *ledger, const struct chain *chain, uint32_t first,
                        uint32_t step)
{
    struct spots spots;
    for (uint32_t tier = 0; tier < prefix_tier_count; tier++) {
        enter_in(ledger, 9, tier, chain, (struct span){0, chain->count}, &spots);
    }
    for (uint32_t i = 0; i < prefix_tier_count; i++) {
        CHECK_EQ(blocks_of(ledger, 9, chain), chain->count);
        for (uint32_t k = 0; k < chain->count; k++) {
            prefix_ledger_leave(ledger, spots.of[k], 9, (first + i * step) % prefix_tier_count);
        }
    }
    CHECK_EQ(blocks_of(ledger, 9, chain), 0);
    CHECK_EQ(usage_of(ledger).memory, 0);
}

TEST(a_block_is_held_while_it_is_in_any_tier)
{
    struct prefix_ledger *ledger = make(plenty);
    struct chain a = chain_make(NULL, 0, 1, 40);
    for (uint32_t first = 0; first < prefix_tier_count; first++) {
        leave_tiers(ledger, &a, first, 1);
        leave_tiers(ledger, &a, first, 2);
    }
    prefix_ledger_destroy(&ledger);
}

TEST(a_hit_counts_blocks_in_host_memory_and_on_disk)
{
    struct prefix_ledger *ledger = make(plenty);
    struct chain a = chain_make(NULL, 0, 1, 100);
    struct spots spots;
    enter_in(ledger, 2, PREFIX_GPU, &a, (struct span){0, 30}, &spots);
    enter_in(ledger, 2, PREFIX_HOST, &a, (struct span){20, 60}, &spots);
    enter_in(ledger, 2, PREFIX_DISK, &a, (struct span){10, 90}, &spots);
    struct prefix_hit hit = hit_of(ledger, 2, &a);
    CHECK_EQ(hit.blocks, 90);
    CHECK_EQ(hit.confirmed, 90);
    CHECK_EQ(hit.host, 30);
    CHECK_EQ(hit.disk, 30);
    a.count = 33;
    hit = hit_of(ledger, 2, &a);
    CHECK_EQ(hit.blocks, 33);
    CHECK_EQ(hit.host, 3);
    CHECK_EQ(hit.disk, 0);
    a.count = 100;
    leave(ledger, 2, (struct span){0, 30}, &spots); // only the first ten are gone
    CHECK_EQ(blocks_of(ledger, 2, &a), 0);
    enter_in(ledger, 2, PREFIX_HOST, &a, (struct span){0, 10}, &spots);
    hit = hit_of(ledger, 2, &a);
    CHECK_EQ(hit.blocks, 90);
    CHECK_EQ(hit.host, 50);
    CHECK_EQ(hit.disk, 40);
    prefix_ledger_destroy(&ledger);
}

TEST(entering_twice_and_leaving_blocks_not_held_changes_nothing)
{
    struct prefix_ledger *ledger = make(plenty);
    struct chain a = chain_make(NULL, 0, 1, 40);
    struct spots spots;
    enter(ledger, 0, &a, (struct span){0, 40}, &spots);
    enter(ledger, 0, &a, (struct span){0, 40}, &spots);
    enter(ledger, 1, &a, (struct span){0, 20}, &spots);
    prefix_ledger_leave(ledger, spots.of[5], 0, PREFIX_HOST);
    prefix_ledger_leave(ledger, spots.of[5], 0, PREFIX_DISK);
    leave(ledger, 1, (struct span){20, 40}, &spots);
    leave(ledger, 2, (struct span){0, 40}, &spots);
    CHECK_EQ(blocks_of(ledger, 0, &a), 40);
    CHECK_EQ(blocks_of(ledger, 1, &a), 20);
    leave(ledger, 1, (struct span){0, 20}, &spots);
    leave(ledger, 0, (struct span){0, 40}, &spots);
    CHECK_EQ(usage_of(ledger).memory, 0);
    // Nobody holds these places now, and where nothing is nothing can be left.
    leave(ledger, 0, (struct span){0, 40}, &spots);
    prefix_ledger_leave(ledger, 0, 0, PREFIX_GPU);
    prefix_ledger_leave(ledger, UINT32_MAX, 0, PREFIX_GPU);
    CHECK_EQ(usage_of(ledger).memory, 0);
    // Behind such a place a block is entered as if there were none.
    enter(ledger, 0, &a, (struct span){20, 40}, &spots);
    enter(ledger, 0, &a, (struct span){0, 20}, &spots);
    CHECK_EQ(blocks_of(ledger, 0, &a), 40);
    prefix_ledger_destroy(&ledger);
}

static void hold_by(uint32_t holder_count)
{
    struct prefix_ledger *ledger = make(plenty);
    struct chain a = chain_make(NULL, 0, 1, 40);
    struct spots spots;
    for (uint32_t i = 0; i < holder_count; i++) {
        CHECK_EQ(enter(ledger, i, &a, (struct span){0, 1 + i % 40}, &spots), 1 + i % 40);
    }
    uint32_t step = 1 + holder_count / 50;
    for (uint32_t i = 0; i < holder_count; i += step) {
        CHECK_EQ(blocks_of(ledger, i, &a), 1 + i % 40);
        leave(ledger, i, (struct span){0, 1 + i % 40}, &spots);
        CHECK_EQ(blocks_of(ledger, i, &a), 0);
    }
    for (uint32_t i = 0; i < holder_count; i++) {
        if (i % step != 0) {
            leave(ledger, i, (struct span){0, 1 + i % 40}, &spots);
        }
    }
    CHECK_EQ(usage_of(ledger).memory, 0);
    prefix_ledger_destroy(&ledger);
}

TEST(many_backends_hold_the_same_blocks)
{
    const uint32_t counts[] = {1, 2, 3, 12, 13, 102, 103, 500, 4096};
    for (uint32_t i = 0; i < ARRAY_COUNT(counts); i++) {
        hold_by(counts[i]);
    }
}

TEST(blocks_that_do_not_fit_are_refused_and_counted_and_no_other_leaves)
{
    struct prefix_ledger *ledger = make(64 << 10);
    struct chain a = chain_make(NULL, 0, 1, 1000);
    struct chain b = chain_make(NULL, 0, 2, 1000);
    struct chain c;
    struct spots of_a;
    struct spots of_b;
    struct spots of_c;
    CHECK_EQ(enter(ledger, 0, &a, (struct span){0, 1000}, &of_a), 1000);
    CHECK_EQ(enter(ledger, 0, &b, (struct span){0, 1000}, &of_b), 1000);
    uint32_t entered = 2000;
    while (usage_of(ledger).refused == 0) {
        c = chain_make(NULL, 0, entered, 1000);
        entered += enter(ledger, 0, &c, (struct span){0, 1000}, &of_c);
    }
    struct prefix_ledger_usage usage = usage_of(ledger);
    CHECK(usage.refused > 0 && usage.refused < 1000);
    CHECK_EQ((entered + usage.refused) % 1000, 0);
    CHECK_EQ(usage.memory, usage.limit);
    CHECK(usage.limit > 61 << 10 && usage.limit <= 64 << 10);
    CHECK_EQ(blocks_of(ledger, 0, &c), 1000 - usage.refused);
    CHECK_EQ(blocks_of(ledger, 0, &a), 1000);
    CHECK_EQ(blocks_of(ledger, 0, &b), 1000);
    // A third backend finds no place among the holders of a run, which has two.
    CHECK_EQ(enter(ledger, 1, &a, (struct span){0, 1000}, &of_a), 1000);
    CHECK_EQ(enter(ledger, 2, &a, (struct span){0, 1000}, &of_a), 0);
    CHECK_EQ(usage_of(ledger).refused, usage.refused + 1000);
    CHECK_EQ(blocks_of(ledger, 2, &a), 0);
    CHECK_EQ(blocks_of(ledger, 1, &a), 1000);
    // Where one has left there is room.
    leave(ledger, 0, (struct span){0, 1000}, &of_b);
    CHECK_EQ(enter(ledger, 2, &a, (struct span){0, 1000}, &of_a), 1000);
    CHECK_EQ(blocks_of(ledger, 2, &a), 1000);
    CHECK_EQ(blocks_of(ledger, 0, &b), 0);
    prefix_ledger_destroy(&ledger);
}

TEST(full_runs_with_one_holder_take_at_most_12_and_a_half_bytes_a_block)
{
    const size_t memory = 1 << 20;
    struct prefix_ledger *ledger = make(memory);
    uint64_t blocks = 0;
    for (uint32_t i = 0; usage_of(ledger).refused == 0; i++) {
        struct chain a = chain_make(NULL, 0, i + 1, 64);
        struct spots spots;
        blocks += enter(ledger, i % 64, &a, (struct span){0, 64}, &spots);
    }
    CHECK(10 * memory <= 125 * blocks);
    prefix_ledger_destroy(&ledger);
}

TEST(a_block_that_left_all_tiers_is_evicted_until_it_is_computed)
{
    struct prefix_ledger *ledger = make(plenty);
    struct chain a = chain_make(NULL, 0, 1, 20);
    struct spots spots;
    enter(ledger, 3, &a, (struct span){0, 20}, &spots);
    prefix_ledger_hold(ledger, spots.of[18], 3, PREFIX_HOST);
    leave(ledger, 3, (struct span){18, 20}, &spots);
    CHECK(!prefix_ledger_is_evicted(ledger, a.keys[0], 3));
    CHECK(!prefix_ledger_is_evicted(ledger, a.keys[18], 3));
    CHECK(prefix_ledger_is_evicted(ledger, a.keys[19], 3));
    CHECK(!prefix_ledger_is_evicted(ledger, a.keys[19], 2));
    prefix_ledger_note_computed(ledger, a.keys[19], 2);
    CHECK(prefix_ledger_is_evicted(ledger, a.keys[19], 3));
    prefix_ledger_note_computed(ledger, a.keys[19], 3);
    CHECK(!prefix_ledger_is_evicted(ledger, a.keys[19], 3));
    prefix_ledger_destroy(&ledger);
}

TEST(of_a_thousand_evictions_none_is_forgotten)
{
    struct prefix_ledger *ledger = make(plenty);
    enum { chain_count = 50, key_count = 20 };
    struct chain chains[chain_count];
    for (uint32_t i = 0; i < chain_count; i++) {
        struct spots spots;
        chains[i] = chain_make(NULL, 0, i + 1, key_count);
        enter(ledger, 3, &chains[i], (struct span){0, key_count}, &spots);
        leave(ledger, 3, (struct span){0, key_count}, &spots);
    }
    uint32_t remembered = 0;
    for (uint32_t i = 0; i < chain_count * key_count; i++) {
        uint64_t key = chains[i / key_count].keys[i % key_count];
        remembered += prefix_ledger_is_evicted(ledger, key, 3);
    }
    CHECK_EQ(remembered, chain_count * key_count);
    prefix_ledger_destroy(&ledger);
}

TEST(memory_that_is_too_little_is_refused)
{
    CHECK(make(500) == NULL);
    struct prefix_ledger *ledger = make(2048);
    CHECK(ledger != NULL);
    prefix_ledger_destroy(&ledger);
}

TEST(a_ledger_in_a_block_of_the_caller_stays_within_it)
{
    const size_t sizes[] = {64 << 10, 100000, 100001, 131072 + 2367, 131072 + 2368, 1 << 20};
    static _Alignas(64) uint8_t block[(1 << 20) + 64];
    for (uint32_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        memset(block, 0xa5, sizeof(block));
        struct prefix_ledger *ledger = prefix_ledger_create(&(struct prefix_ledger_limits){
            .block = block, .memory = sizes[i], .backend_count_max = 16});
        CHECK(ledger != NULL);
        for (uint32_t k = 0; usage_of(ledger).refused == 0; k++) {
            struct chain a = chain_make(NULL, 0, 100 + k, 100);
            struct spots spots;
            enter(ledger, 0, &a, (struct span){0, 100}, &spots);
        }
        prefix_ledger_destroy(&ledger);
        CHECK_EQ(block[sizes[i]], 0xa5);
    }
}

TEST(to_expect_a_key_or_a_place_changes_nothing)
{
    struct prefix_ledger *ledger = make(plenty);
    struct chain a = chain_make(NULL, 0, 1, 40);
    struct spots spots;
    prefix_ledger_prefetch(ledger, a.keys[0]);
    enter(ledger, 0, &a, (struct span){0, 40}, &spots);
    prefix_ledger_prefetch(ledger, UINT64_MAX);
    prefix_ledger_prefetch_place(ledger, spots.of[39]);
    prefix_ledger_prefetch_place(ledger, 0);
    prefix_ledger_prefetch_place(ledger, UINT32_MAX);
    CHECK_EQ(blocks_of(ledger, 0, &a), 40);
    prefix_ledger_destroy(&ledger);
}
