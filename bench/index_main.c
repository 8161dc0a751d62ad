// SPDX-License-Identifier: Apache-2.0
//
// bench_index -- how fast the prefix index is, one figure a line: case, metric, value, unit.
//
//     $ bench_index --blocks 10000000 --backends 64 --rounds 5 --suffix _10m_64
//     {"case":"match_short_10m_64","metric":"p50_ns","value":231,"unit":"ns"}
//
// The population, in blocks that some backend holds:
//     a quarter  prompts of 16 blocks that share no prefix, with one holder each
//     a quarter  prompts of 512 blocks that share no prefix, with one holder each
//     a half     conversations: one of 32 system prompts of 5 to 120 blocks, which most backends
//                hold, then 20 to 200 blocks of their own; one holder each beyond the system prompt
// Backends are drawn evenly.  A query asks for one prompt of the whole population, drawn evenly:
// what it needs of the index is not in a cache unless the whole index is.

#include "base/base.h"
#include "base/histogram.h"
#include "flags.h"
#include "prefix/prefix_index.h"
#include "prefix/prefix_updates.h"
#include "sys/pages.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    short_blocks = 16,
    long_blocks = 512,
    prompt_count = 32,
    prompt_blocks_min = 5,
    prompt_blocks_max = 120,
    own_blocks_min = 20,
    own_blocks_max = 200,
    batch = 1024, // prompts whose keys are made outside of what is measured
    round_max = 64,
    hit_max = 2048,
};

enum kind { SHORT, LONG, CONVERSATION, KIND_COUNT };

static const char *const kind_cases[] = {
    [SHORT] = "match_short", [LONG] = "match_512", [CONVERSATION] = "match_conversation"};

// Of an index, from where the server takes it.
struct memory {
    void *block;
    size_t size;
};

struct world {
    uint32_t backend_count;
    uint32_t counts[KIND_COUNT]; // prompts
    uint64_t holder_blocks;
    bool is_held[prompt_count][UINT16_MAX + 1]; // system prompts by backends
    size_t memory;                              // what they take
    struct memory index_memory;
    struct prefix_index *index;
    const char *suffix;
    uint32_t rounds;
};

struct prompt {
    uint32_t backend;
    uint32_t count;
    uint64_t keys[long_blocks];
};

static struct prompt prompts[batch];

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static uint32_t system_blocks(uint32_t system_prompt)
{
    uint32_t span = prompt_blocks_max - prompt_blocks_min + 1;
    return prompt_blocks_min + (uint32_t)(mix(77, system_prompt) % span);
}

// The n-th prompt of a kind.  Keys need not be chained by a hash to behave as if they were.
static void make_prompt(const struct world *world, enum kind kind, uint32_t n, struct prompt *out)
{
    uint64_t seed = mix((uint64_t)kind + 1, n);
    uint64_t shared_seed = 0;
    uint32_t shared = 0;
    out->backend = (uint32_t)(mix(seed, 1) % world->backend_count);
    out->count = kind == SHORT ? short_blocks : long_blocks;
    if (kind == CONVERSATION) {
        uint32_t system_prompt = (uint32_t)(mix(seed, 2) % prompt_count);
        shared = system_blocks(system_prompt);
        shared_seed = mix(99, system_prompt);
        uint32_t span = own_blocks_max - own_blocks_min + 1;
        out->count = shared + own_blocks_min + (uint32_t)(mix(seed, 3) % span);
    }
    for (uint32_t i = 0; i < out->count; i++) {
        out->keys[i] = mix(i < shared ? shared_seed : seed, 1000 + i);
    }
}

static void say(const struct world *world, const char *name, const char *metric, double value,
                const char *unit)
{
    printf("{\"case\":\"%s%s\",\"metric\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"}\n", name,
           world->suffix, metric, value, unit);
    fflush(stdout);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof(values[0]), compare_doubles);
    return values[count / 2];
}

static struct prefix_index *make_index(const struct world *world, size_t size,
                                       struct memory *memory)
{
    *memory = (struct memory){.block = pages_reserve_huge(size), .size = size};
    ASSERT(memory->block != NULL);
    struct prefix_index *index = prefix_index_create(&(struct prefix_limits){
        .block = memory->block, .memory = size, .backend_count_max = world->backend_count});
    ASSERT(index != NULL);
    return index;
}

static void free_index(struct prefix_index **index, struct memory *memory)
{
    prefix_index_destroy(index);
    pages_release(&memory->block, memory->size);
}

static void store_prompt(struct prefix_index *index, enum prefix_residency residency,
                         const struct prompt *prompt)
{
    prefix_index_store(index, &(struct prefix_span){.keys = prompt->keys,
                                                    .key_count = prompt->count,
                                                    .backend = prompt->backend,
                                                    .residency = residency});
}

// Stores the n-th prompt of a kind.  Of a system prompt the backend may hold the blocks already.
static void store_nth(struct world *world, enum kind kind, uint32_t n)
{
    struct prompt *prompt = &prompts[0];
    make_prompt(world, kind, n, prompt);
    store_prompt(world->index, PREFIX_CONFIRMED, prompt);
    world->holder_blocks += prompt->count;
    if (kind == CONVERSATION) {
        uint32_t system_prompt = (uint32_t)(mix(mix((uint64_t)kind + 1, n), 2) % prompt_count);
        bool *is_held = &world->is_held[system_prompt][prompt->backend];
        world->holder_blocks -= *is_held ? system_blocks(system_prompt) : 0;
        *is_held = true;
    }
}

// Kinds by turns, as they would come.
static void populate(struct world *world)
{
    uint32_t done[KIND_COUNT] = {0};
    uint32_t step = world->counts[LONG];
    for (uint32_t i = 0; i < step; i++) {
        for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
            uint32_t end = (uint32_t)((uint64_t)world->counts[kind] * (i + 1) / step);
            while (done[kind] < end) {
                store_nth(world, kind, done[kind]++);
            }
        }
    }
}

// The cost of reading the clock.
static double clock_cost_ns(void)
{
    double costs[1001];
    for (uint32_t i = 0; i < ARRAY_COUNT(costs); i++) {
        uint64_t before = clock_ns(CLOCK_MONOTONIC);
        costs[i] = (double)(clock_ns(CLOCK_MONOTONIC) - before);
    }
    return median(costs, ARRAY_COUNT(costs));
}

static void match_batch(const struct world *world, enum kind kind, uint64_t *query,
                        struct histogram *histogram)
{
    static struct prefix_hit hits[hit_max];
    for (uint32_t i = 0; i < batch; i++) {
        uint32_t n = (uint32_t)(mix(5, (*query)++) % world->counts[kind]);
        make_prompt(world, kind, n, &prompts[i]);
    }
    for (uint32_t i = 0; i < batch; i++) {
        // The caller has just made the keys: they are in its cache.
        for (uint32_t k = 0; k < prompts[i].count; k += 8) {
            *(volatile uint64_t *)&prompts[i].keys[k];
        }
        uint64_t before = clock_ns(CLOCK_MONOTONIC);
        uint32_t count =
            prefix_index_match(world->index, prompts[i].keys, prompts[i].count, 0, hits, hit_max);
        histogram_add(histogram, clock_ns(CLOCK_MONOTONIC) - before);
        ASSERT(count > 0 && (kind == CONVERSATION || hits[0].blocks == prompts[i].count));
    }
}

static void match_kind(const struct world *world, enum kind kind)
{
    static struct histogram histogram;
    double p50[round_max];
    double p99[round_max];
    double overhead = clock_cost_ns();
    uint64_t query = 0;
    for (uint32_t round = 0; round < world->rounds; round++) {
        memset(&histogram, 0, sizeof(histogram));
        for (uint32_t part = 0; part < 8; part++) {
            match_batch(world, kind, &query, &histogram);
        }
        p50[round] = (double)histogram_quantile(&histogram, 0.5) - overhead;
        p99[round] = (double)histogram_quantile(&histogram, 0.99) - overhead;
    }
    say(world, kind_cases[kind], "p50_ns", median(p50, world->rounds), "ns");
    say(world, kind_cases[kind], "p99_ns", median(p99, world->rounds), "ns");
}

// New conversations, each as an update, by one thread, which hence also applies them.
// Returns blocks a second of CPU time.
static double store_batch(const struct world *world, struct prefix_updates *updates, uint32_t *next)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < batch; i++) {
        make_prompt(world, CONVERSATION, (*next)++, &prompts[i]);
        blocks += prompts[i].count;
    }
    uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (uint32_t i = 0; i < batch; i++) {
        bool is_sent = prefix_updates_send(updates, 0,
                                           &(struct prefix_update){.verb = PREFIX_STORE,
                                                                   .backend = prompts[i].backend,
                                                                   .key_count = prompts[i].count,
                                                                   .keys = prompts[i].keys});
        ASSERT(is_sent);
    }
    return (double)blocks / ((double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) / 1e9);
}

static void store_rounds(const struct world *world, struct prefix_index *index, const char *name,
                         uint32_t *next)
{
    struct prefix_updates *updates = prefix_updates_create(index, 4);
    ASSERT(updates != NULL);
    double rates[4 * round_max];
    for (uint32_t i = 0; i < 4 * world->rounds; i++) {
        rates[i] = store_batch(world, updates, next);
    }
    say(world, name, "blocks_per_s", median(rates, 4 * world->rounds), "1/s");
    prefix_updates_destroy(&updates);
}

// An index as large as the population needs, and full: each new run takes the memory of an old one.
static void store_full(const struct world *world, uint32_t *next)
{
    struct memory memory;
    struct prefix_index *index = make_index(world, world->memory, &memory);
    struct prefix_usage usage = {0};
    while (usage.evictions < 1000) {
        make_prompt(world, CONVERSATION, (*next)++, &prompts[0]);
        store_prompt(index, PREFIX_PREDICTED, &prompts[0]);
        prefix_index_usage(index, &usage);
    }
    store_rounds(world, index, "store", next);
    free_index(&index, &memory);
}

struct reader {
    const struct world *world;
    pthread_t thread;
    uint32_t number;
    _Atomic bool *is_over;
    double matches_per_s;      // of the reader's CPU time
    double matches_per_wall_s; // of everybody's time
};

// Prompts of 16 blocks; making their keys is part of the work here, as it is in a worker.
static void *read_always(void *owner)
{
    struct reader *reader = owner;
    struct prompt prompt;
    struct prefix_hit hits[64];
    uint64_t count = 0;
    uint64_t wall = clock_ns(CLOCK_MONOTONIC);
    uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    while (!atomic_load_explicit(reader->is_over, memory_order_relaxed)) {
        for (uint32_t i = 0; i < 64; i++) {
            uint64_t draw = mix(reader->number + 10, count++);
            make_prompt(reader->world, SHORT, (uint32_t)(draw % reader->world->counts[SHORT]),
                        &prompt);
            prefix_index_match(reader->world->index, prompt.keys, prompt.count, 0, hits, 64);
        }
    }
    reader->matches_per_s =
        (double)count / ((double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) / 1e9);
    reader->matches_per_wall_s = (double)count / ((double)(clock_ns(CLOCK_MONOTONIC) - wall) / 1e9);
    return NULL;
}

// The writer stores about a million blocks a second and leaves the rest of its core to others.
static void write_for(const struct world *world, uint64_t ns, uint32_t *next)
{
    uint64_t start = clock_ns(CLOCK_MONOTONIC);
    uint64_t blocks = 0;
    uint64_t now = start;
    while (now - start < ns) {
        while (blocks * 1000 < now - start) {
            make_prompt(world, CONVERSATION, (*next)++, &prompts[0]);
            store_prompt(world->index, PREFIX_PREDICTED, &prompts[0]);
            blocks += prompts[0].count;
        }
        usleep(500);
        now = clock_ns(CLOCK_MONOTONIC);
    }
}

static void read_by(const struct world *world, uint32_t reader_count, uint32_t *next,
                    double *matches_per_s, double *matches_per_wall_s)
{
    struct reader readers[2];
    _Atomic bool is_over = false;
    for (uint32_t i = 0; i < reader_count; i++) {
        readers[i] = (struct reader){.world = world, .number = i, .is_over = &is_over};
        int error = pthread_create(&readers[i].thread, NULL, read_always, &readers[i]);
        ASSERT(error == 0);
    }
    write_for(world, 100000000, next);
    atomic_store(&is_over, true);
    *matches_per_s = 0;
    *matches_per_wall_s = 0;
    for (uint32_t i = 0; i < reader_count; i++) {
        pthread_join(readers[i].thread, NULL);
        *matches_per_s += readers[i].matches_per_s;
        *matches_per_wall_s += readers[i].matches_per_wall_s;
    }
}

static void scale_readers(const struct world *world, uint32_t *next)
{
    double ratios[round_max];
    double wall_ratios[round_max];
    double rates[round_max];
    for (uint32_t round = 0; round < world->rounds; round++) {
        double one;
        double one_wall;
        double two;
        double two_wall;
        read_by(world, 1, next, &one, &one_wall);
        read_by(world, 2, next, &two, &two_wall);
        ratios[round] = two / one;
        wall_ratios[round] = two_wall / one_wall;
        rates[round] = two;
    }
    say(world, "readers_2", "scaling", median(ratios, world->rounds), "x");
    say(world, "readers_2", "wall_scaling", median(wall_ratios, world->rounds), "x");
    say(world, "readers_2", "matches_per_s", median(rates, world->rounds), "1/s");
}

static void measure(struct world *world, uint64_t blocks)
{
    world->counts[SHORT] = (uint32_t)(blocks / 4 / short_blocks);
    world->counts[LONG] = (uint32_t)(blocks / 4 / long_blocks);
    world->counts[CONVERSATION] = (uint32_t)(blocks / 2 / ((own_blocks_min + own_blocks_max) / 2));
    world->index = make_index(world, blocks * 18 + (4 << 20), &world->index_memory);
    populate(world);

    struct prefix_usage usage;
    prefix_index_usage(world->index, &usage);
    ASSERT(usage.evictions == 0);
    // Twelve granules of 192 bytes come with a bucket of 64.
    world->memory = usage.memory / 2304 * (2304 + 64);
    say(world, "memory", "bytes_per_holder_block",
        (double)world->memory / (double)world->holder_blocks, "B");
    for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
        match_kind(world, kind);
    }
    uint32_t next = world->counts[CONVERSATION];
    store_rounds(world, world->index, "store_growing", &next);
    store_full(world, &next);
    scale_readers(world, &next);
    free_index(&world->index, &world->index_memory);
}

int main(int argc, char **argv)
{
    uint64_t blocks = 10000000;
    uint64_t backends = 64;
    uint64_t rounds = 5;
    static struct world world = {.suffix = ""};
    const struct flag flags[] = {
        {.name = "blocks", .number = &blocks},
        {.name = "backends", .number = &backends},
        {.name = "rounds", .number = &rounds},
        {.name = "suffix", .text = &world.suffix},
    };
    if (!flags_read(flags, ARRAY_COUNT(flags), argc - 1, argv + 1) || rounds < 1 ||
        rounds > round_max || backends < 1 || backends > UINT16_MAX) {
        return 2;
    }
    world.backend_count = (uint32_t)backends;
    world.rounds = (uint32_t)rounds;
    measure(&world, blocks);
    return 0;
}
