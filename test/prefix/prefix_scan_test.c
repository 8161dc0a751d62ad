// SPDX-License-Identifier: Apache-2.0

#include "prefix/prefix_scan.h"

#include "base/base.h"
#include "base/rng.h"
#include "test.h"

enum { backend_count = 300, run_max = 4096, now_s = 100 };

struct seen_run {
    struct prefix_scan_run run;
    struct prefix_scan_holder holders[backend_count];
};

static struct prefix_index *warm;
static struct seen_run seen[run_max];
static uint32_t seen_count;
static uint64_t keys[200];

static void set_up_with(size_t memory, uint32_t ttl_s)
{
    warm = prefix_index_create(&(struct prefix_limits){
        .memory = memory, .backend_count_max = backend_count, .ttl_s = ttl_s});
    ASSERT(warm != NULL);
    for (uint32_t i = 0; i < ARRAY_COUNT(keys); i++) {
        keys[i] = rng_mix(i + 1);
    }
}

static void set_up(void)
{
    set_up_with(4 << 20, 0);
}

static void store(uint32_t backend, const uint64_t *chain, uint32_t key_count,
                  enum prefix_residency residency)
{
    prefix_index_store(warm, &(struct prefix_span){.keys = chain,
                                                   .key_count = key_count,
                                                   .block_tokens = 16,
                                                   .backend = backend,
                                                   .now_s = now_s,
                                                   .residency = residency});
}

static void note_run(void *owner, const struct prefix_scan_run *run)
{
    ASSERT(owner == &seen_count && seen_count < run_max);
    struct seen_run *place = &seen[seen_count++];
    place->run = *run;
    memcpy(place->holders, run->holders, run->holder_count * sizeof(run->holders[0]));
}

static void scan_by(uint32_t buckets, uint32_t holder_max, uint32_t at_s)
{
    static struct prefix_scan_holder holders[backend_count];
    struct prefix_scan scan = {.index = warm,
                               .now_s = at_s,
                               .holders = holders,
                               .holder_max = holder_max,
                               .found = note_run,
                               .owner = &seen_count};
    seen_count = 0;
    while (prefix_scan_step(&scan, buckets)) {
    }
    ASSERT(!prefix_scan_step(&scan, buckets));
}

static void scan_all(void)
{
    scan_by(1000, backend_count, now_s);
}

static const struct seen_run *run_with(uint64_t key)
{
    for (uint32_t i = 0; i < seen_count; i++) {
        if (seen[i].run.keys[0] == key) {
            return &seen[i];
        }
    }
    return NULL;
}

TEST(an_empty_index_has_no_run)
{
    set_up();
    scan_all();
    CHECK_EQ(seen_count, 0);
    prefix_index_destroy(&warm);
}

TEST(a_chain_is_runs_of_sixteen_each_with_the_tag_of_the_key_before)
{
    set_up();
    store(7, keys, 40, PREFIX_CONFIRMED);
    scan_all();
    CHECK_EQ(seen_count, 3);
    for (uint32_t first = 0; first < 40; first += 16) {
        const struct seen_run *seen_run = run_with(keys[first]);
        CHECK(seen_run != NULL);
        uint32_t count = first + 16 <= 40 ? 16 : 40 - first;
        CHECK_EQ(seen_run->run.key_count, count);
        CHECK(memcmp(seen_run->run.keys, keys + first, count * sizeof(keys[0])) == 0);
        CHECK_EQ(seen_run->run.before, first == 0 ? 0 : prefix_scan_tag(keys[first - 1]));
        CHECK_EQ(seen_run->run.holder_count, 1);
        CHECK_EQ(seen_run->holders[0].backend, 7);
        CHECK_EQ(seen_run->holders[0].confirmed, count);
    }
    prefix_index_destroy(&warm);
}

TEST(a_branch_names_the_key_that_it_goes_on_from)
{
    uint64_t other[20];
    set_up();
    memcpy(other, keys, sizeof(other));
    for (uint32_t i = 5; i < 20; i++) {
        other[i] = rng_mix(1000 + i);
    }
    store(1, keys, 12, PREFIX_CONFIRMED);
    store(2, other, 12, PREFIX_CONFIRMED);
    scan_all();
    // The first part has room after the split, and takes the second chain.
    CHECK_EQ(seen_count, 2);
    CHECK_EQ(run_with(keys[0])->run.key_count, 12);
    CHECK_EQ(run_with(keys[0])->run.keys[5], other[5]);
    CHECK_EQ(run_with(keys[0])->run.holder_count, 2);
    CHECK_EQ(run_with(keys[5])->run.before, prefix_scan_tag(keys[4]));
    CHECK_EQ(run_with(keys[5])->holders[0].backend, 1);
    prefix_index_destroy(&warm);
}

TEST(only_confirmed_blocks_count)
{
    set_up();
    store(1, keys, 12, PREFIX_PREDICTED);
    store(2, keys, 12, PREFIX_PREDICTED);
    store(2, keys, 4, PREFIX_CONFIRMED);
    scan_all();
    CHECK_EQ(run_with(keys[0])->run.holder_count, 1);
    CHECK_EQ(run_with(keys[0])->holders[0].backend, 2);
    CHECK_EQ(run_with(keys[0])->holders[0].confirmed, 4);
    prefix_index_destroy(&warm);
}

TEST(holders_that_are_not_believed_are_left_out)
{
    set_up_with(4 << 20, 50);
    store(1, keys, 12, PREFIX_CONFIRMED);
    store(2, keys, 12, PREFIX_CONFIRMED);
    store(3, keys, 12, PREFIX_CONFIRMED);
    prefix_index_forget(warm, 1);
    prefix_index_set_capacity(warm, 2, 16);
    store(2, keys + 50, 10, PREFIX_CONFIRMED);
    scan_all();
    CHECK_EQ(run_with(keys[0])->run.holder_count, 1);
    CHECK_EQ(run_with(keys[0])->holders[0].backend, 3);
    scan_by(1000, backend_count, now_s + 50);
    CHECK_EQ(run_with(keys[0])->run.holder_count, 0);
    prefix_index_destroy(&warm);
}

TEST(ages_are_those_of_a_match)
{
    struct prefix_hit hit;
    set_up();
    store(1, keys, 12, PREFIX_CONFIRMED);
    store(1, keys + 50, 10, PREFIX_CONFIRMED);
    scan_by(1000, backend_count, now_s + 9);
    CHECK_EQ(prefix_index_match(warm, keys, 12, now_s + 9, &hit, 1), 1);
    CHECK_EQ(run_with(keys[0])->holders[0].age, hit.age);
    CHECK_EQ(run_with(keys[0])->holders[0].age_s, 9);
    // A clock that is behind the last store gives no age of four billion seconds.
    scan_by(1000, backend_count, now_s - 9);
    CHECK_EQ(run_with(keys[0])->holders[0].age_s, 0);
    prefix_index_destroy(&warm);
}

TEST(a_run_with_hundreds_of_holders_has_all_of_them)
{
    static bool is_there[backend_count];
    set_up();
    for (uint32_t i = 0; i < backend_count; i++) {
        store(i, keys, 10, PREFIX_CONFIRMED);
    }
    scan_all();
    CHECK_EQ(seen_count, 1);
    CHECK_EQ(seen[0].run.holder_count, backend_count);
    for (uint32_t i = 0; i < backend_count; i++) {
        CHECK(!is_there[seen[0].holders[i].backend]);
        is_there[seen[0].holders[i].backend] = true;
    }
    scan_by(1000, 17, now_s);
    CHECK_EQ(seen[0].run.holder_count, 17);
    prefix_index_destroy(&warm);
}

TEST(a_scan_in_steps_sees_what_a_scan_at_once_sees)
{
    struct rng rng = {.state = 1};
    set_up();
    for (uint32_t i = 0; i < 500; i++) {
        uint64_t chain[40];
        for (uint32_t k = 0; k < 40; k++) {
            chain[k] = rng_next(&rng);
        }
        store(rng_below(&rng, backend_count), chain, 1 + rng_below(&rng, 39), PREFIX_CONFIRMED);
    }
    struct prefix_usage usage;
    prefix_index_usage(warm, &usage);
    scan_by(UINT32_MAX, backend_count, now_s);
    CHECK_EQ(seen_count, usage.run_count);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < seen_count; i++) {
        sum += seen[i].run.keys[0];
    }
    scan_by(1, backend_count, now_s);
    CHECK_EQ(seen_count, usage.run_count);
    for (uint32_t i = 0; i < seen_count; i++) {
        sum -= seen[i].run.keys[0];
    }
    CHECK_EQ(sum, 0);
    prefix_index_destroy(&warm);
}

static uint32_t confirmed_in(const struct seen_run *seen_run, uint32_t backend)
{
    for (uint32_t i = 0; i < seen_run->run.holder_count; i++) {
        if (seen_run->holders[i].backend == backend) {
            return seen_run->holders[i].confirmed;
        }
    }
    return 0;
}

static uint32_t keys_in_common(const struct seen_run *seen_run, const uint64_t *chain,
                               uint32_t key_count)
{
    uint32_t count = 0;
    while (count < key_count && count < seen_run->run.key_count &&
           seen_run->run.keys[count] == chain[count]) {
        count++;
    }
    return count;
}

// Leading blocks of the chain that the backend has by the runs that were seen.
static uint32_t follow_runs(const uint64_t *chain, uint32_t key_count, uint32_t backend)
{
    uint32_t depth = 0;
    const struct seen_run *seen_run;
    while (depth < key_count && (seen_run = run_with(chain[depth])) != NULL) {
        uint32_t same = keys_in_common(seen_run, chain + depth, key_count - depth);
        uint32_t held = confirmed_in(seen_run, backend);
        if (held < same) {
            return depth + held;
        }
        depth += same;
    }
    return depth;
}

static void compare_with_match(uint64_t seed)
{
    enum { engines = 6, chain_count = 12, length = 60 };
    static uint64_t chains[chain_count][length];
    struct rng rng = {.state = seed};
    set_up();
    for (uint32_t i = 0; i < chain_count; i++) {
        uint32_t shared = i > 0 ? rng_below(&rng, length) : 0;
        for (uint32_t k = 0; k < length; k++) {
            chains[i][k] = k < shared ? chains[0][k] : rng_next(&rng);
        }
    }
    for (uint32_t i = 0; i < 100; i++) {
        store(rng_below(&rng, engines), chains[rng_below(&rng, chain_count)],
              1 + rng_below(&rng, length),
              rng_below(&rng, 2) == 0 ? PREFIX_PREDICTED : PREFIX_CONFIRMED);
    }
    scan_all();
    for (uint32_t i = 0; i < chain_count; i++) {
        struct prefix_hit hits[engines];
        uint32_t count = prefix_index_match(warm, chains[i], length, now_s, hits, engines);
        for (uint32_t h = 0; h < count; h++) {
            CHECK_EQ(follow_runs(chains[i], length, hits[h].backend), hits[h].confirmed);
        }
    }
    prefix_index_destroy(&warm);
}

// The runs and a match say the same of each backend, block by block.
TEST(a_scan_and_a_match_agree)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        compare_with_match(seed);
    }
}
