// SPDX-License-Identifier: Apache-2.0
//
// bench_kvevents -- how fast what engines say of their caches becomes known, one figure a line:
// case, metric, value, unit.
//
//     $ bench_kvevents --blocks 10000000 --backends 64 --rounds 15
//     {"case":"apply","metric":"blocks_per_s","value":9.1e+06,"unit":"1/s"}
//
// Each engine computes prompts in steps of 64 blocks of 16 tokens, one BlockStored each, in msgpack
// as vLLM writes it now.  A prompt goes on for four steps on average; one in eight begins with one
// of 32 steps that all engines come to hold.  When an engine is full, there is a BlockRemoved for
// each block of its oldest step, the last block first: one hash each, as vLLM tells it.  Ids are
// spread evenly over the logarithm, up to 150,000: small ones, which are short on the wire, are as
// frequent as in text.
//
//     apply       blocks stored a second, by events of 64, into a ledger that is nearly full
//     remove      blocks removed a second, by events of one
//     turnover    blocks stored a second, each with the removal that makes room for it
//
// Measured is the time from the first byte that is read until everything is in the ledger, in CPU
// time of the thread; making the bytes is not.

#include "base/base.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/text.h"
#include "flags.h"
#include "kvevent/kv_holdings.h"
#include "prefix/prefix_chain.h"
#include "sim/engine/kv_event_writer.h"
#include "sys/pages.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    step_blocks = 64,
    block_tokens = 16,
    step_tokens = step_blocks * block_tokens,
    common_count = 32,
    vocabulary = 150000,
    id_table = 1 << 16,
    batch_max = 512, // of one round
    batch_bytes = 24 << 10,
    backend_max = 4096,
    round_max = 64,
    asked_count = 4096, // prompts that readers ask for
    hit_max = 64,
};

struct world {
    uint32_t backend_count;
    uint32_t rounds;
    uint64_t step_max;          // that an engine holds
    uint64_t done[backend_max]; // steps
    uint64_t gone[backend_max];
    struct prefix_ledger *ledger;
    void *ledger_block;
    size_t ledger_size;
    struct kv_names_budget budget;
    struct kv_holdings *holdings[backend_max];
    struct kv_reader *reader;
    struct rng rng;
    uint32_t ids[id_table];
    uint64_t asked[asked_count][step_blocks]; // keys of first steps, of those stored last
    uint32_t asked_next;
};

struct batch {
    uint32_t backend;
    size_t size;
    uint8_t bytes[batch_bytes];
};

static struct world world;
static struct batch removals[batch_max];
static struct batch stores[batch_max];

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void say(const char *name, const char *metric, double value, const char *unit)
{
    printf("{\"case\":\"%s\",\"metric\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"}\n", name, metric,
           value, unit);
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

// A step of an engine: all of it follows from its number.
struct step {
    bool is_first;  // of a prompt
    uint64_t text;  // what it says: equal ones have equal tokens
    uint64_t names; // of its blocks
};

static struct step step_of(uint32_t backend, uint64_t number)
{
    uint64_t draw = rng_mix((uint64_t)backend << 40 ^ number ^ 0x5eed);
    struct step step = {.is_first = number == 0 || draw % 4 == 0, .text = draw};
    if (step.is_first && draw / 4 % 8 == 0) {
        step.text = draw / 32 % common_count;
    }
    step.names = rng_mix(step.text * backend_max + backend);
    return step;
}

static void make_hashes(const struct step *step, uint64_t hashes[step_blocks])
{
    for (uint32_t i = 0; i < step_blocks; i++) {
        hashes[i] = rng_mix(step->names + i);
    }
}

static void make_tokens(const struct step *step, uint32_t tokens[step_tokens])
{
    struct rng rng = {.state = step->text};
    for (uint32_t i = 0; i < step_tokens; i += 4) {
        uint64_t draw = rng_next(&rng);
        for (uint32_t k = 0; k < 4; k++, draw >>= 16) {
            tokens[i + k] = world.ids[draw & (id_table - 1)];
        }
    }
}

static void remember_for_readers(const uint32_t tokens[step_tokens])
{
    uint64_t key = prefix_seed(&(struct prefix_space){0});
    uint64_t *keys = world.asked[world.asked_next++ % asked_count];
    for (uint32_t i = 0; i < step_blocks; i++) {
        key = hash_bytes(
            slice_of(tokens + (size_t)i * block_tokens, block_tokens * sizeof(uint32_t)), key);
        keys[i] = key;
    }
}

static void write_event(struct text *out, const struct kv_event *event, uint32_t *count)
{
    struct kv_hash_form form = {.format = kv_event_format_at(0)};
    kv_event_write(form, event, out);
    ++*count;
}

// Removes blocks to make room for the next step.
static void write_removed(struct text *out, uint32_t backend, uint32_t *count)
{
    uint64_t hashes[step_blocks];
    struct step step = step_of(backend, world.gone[backend]++);
    make_hashes(&step, hashes);
    for (uint32_t i = step_blocks; i-- > 0;) {
        write_event(out,
                    &(struct kv_event){.kind = KV_EVENT_REMOVED,
                                       .hashes = &hashes[i],
                                       .hash_count = 1,
                                       .medium = "GPU",
                                       .has_group = true},
                    count);
    }
}

static void write_stored(struct text *out, uint32_t backend, uint32_t *count)
{
    static uint32_t tokens[step_tokens];
    uint64_t hashes[step_blocks];
    uint64_t before[step_blocks];
    uint64_t number = world.done[backend]++;
    struct step step = step_of(backend, number);
    make_hashes(&step, hashes);
    make_tokens(&step, tokens);
    if (step.is_first) {
        remember_for_readers(tokens);
    } else {
        struct step parent = step_of(backend, number - 1);
        make_hashes(&parent, before);
    }
    write_event(out,
                &(struct kv_event){.kind = KV_EVENT_STORED,
                                   .hashes = hashes,
                                   .hash_count = step_blocks,
                                   .has_parent = !step.is_first,
                                   .parent = step.is_first ? 0 : before[step_blocks - 1],
                                   .tokens = tokens,
                                   .token_count = step_tokens,
                                   .block_tokens = block_tokens,
                                   .has_group = true,
                                   .medium = "GPU",
                                   .spec_kind = "full_attention"},
                count);
}

typedef void write_fn(struct text *out, uint32_t backend, uint32_t *count);

static void make_batch(struct batch *batch, uint32_t backend, write_fn *write)
{
    static uint8_t events[batch_bytes];
    struct text inner = text_over(events, sizeof(events));
    struct text outer = text_over(batch->bytes, sizeof(batch->bytes));
    uint32_t count = 0;
    write(&inner, backend, &count);
    kv_batch_write(kv_event_format_at(0),
                   &(struct kv_batch){
                       .seconds = 1755907200.5, .events = text_slice(&inner), .event_count = count},
                   &outer);
    ASSERT(!inner.overflow && !outer.overflow);
    batch->backend = backend;
    batch->size = outer.size;
}

static void apply_batch(const struct batch *batch)
{
    struct kv_holdings *holdings = world.holdings[batch->backend];
    enum status status = kv_reader_begin(world.reader, slice_of(batch->bytes, batch->size));
    ASSERT(status == STATUS_OK);
    kv_reader_prefetch(world.reader, kv_holdings_prefetch, holdings);
    struct kv_notice notice;
    while ((status = kv_reader_next(world.reader, &notice)) == STATUS_OK) {
        kv_holdings_apply(holdings, &notice, 0);
    }
    ASSERT(status == STATUS_CLOSED);
    kv_holdings_settle(holdings);
}

// Returns the seconds that it took.
static double apply_all(const struct batch *batches)
{
    uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (uint32_t i = 0; i < batch_max; i++) {
        apply_batch(&batches[i]);
    }
    return (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) / 1e9;
}

static void apply_rounds(const char *suffix)
{
    static const char *const names[] = {"apply", "remove", "turnover"};
    double rates[ARRAY_COUNT(names)][4 * round_max];
    const double blocks = (double)batch_max * step_blocks;
    for (uint32_t i = 0; i < 4 * world.rounds; i++) {
        for (uint32_t k = 0; k < batch_max; k++) {
            uint32_t backend = rng_below(&world.rng, world.backend_count);
            make_batch(&removals[k], backend, write_removed);
            make_batch(&stores[k], backend, write_stored);
        }
        double removing = apply_all(removals);
        double storing = apply_all(stores);
        rates[0][i] = blocks / storing;
        rates[1][i] = blocks / removing;
        rates[2][i] = blocks / (storing + removing);
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(names); i++) {
        char name[64];
        snprintf(name, sizeof(name), "%s%s", names[i], suffix);
        say(name, "blocks_per_s", median(rates[i], 4 * world.rounds), "1/s");
    }
}

struct reader {
    pthread_t thread;
    struct rng rng;
    _Atomic bool *is_over;
    uint64_t found;
};

static void *read_always(void *owner)
{
    struct reader *reader = owner;
    struct prefix_hit hits[hit_max];
    while (!atomic_load_explicit(reader->is_over, memory_order_relaxed)) {
        // A prompt that is being replaced is at worst half of one and half of another.
        const uint64_t *keys = world.asked[rng_below(&reader->rng, asked_count)];
        uint32_t count = prefix_ledger_match(world.ledger, keys, step_blocks, hits, hit_max);
        reader->found += count > 0;
    }
    return NULL;
}

static void apply_with_readers(void)
{
    struct reader readers[2];
    _Atomic bool is_over = false;
    for (uint32_t i = 0; i < ARRAY_COUNT(readers); i++) {
        readers[i] = (struct reader){.rng = {.state = i}, .is_over = &is_over};
        int error = pthread_create(&readers[i].thread, NULL, read_always, &readers[i]);
        ASSERT(error == 0);
    }
    apply_rounds("_readers_2");
    atomic_store(&is_over, true);
    for (uint32_t i = 0; i < ARRAY_COUNT(readers); i++) {
        pthread_join(readers[i].thread, NULL);
        ASSERT(readers[i].found > 0);
    }
}

static void fill(void)
{
    for (uint64_t step = 0; step < world.step_max; step++) {
        for (uint32_t backend = 0; backend < world.backend_count; backend++) {
            make_batch(&stores[0], backend, write_stored);
            apply_batch(&stores[0]);
        }
    }
}

static void measure_memory(void)
{
    struct prefix_ledger_usage usage;
    prefix_ledger_usage(world.ledger, &usage);
    ASSERT(usage.refused == 0);
    uint64_t blocks = 0;
    size_t names = world.budget.used;
    for (uint32_t i = 0; i < world.backend_count; i++) {
        ASSERT(kv_holdings_counts(world.holdings[i])->orphans == 0);
        blocks += kv_holdings_block_count(world.holdings[i]);
    }
    // Twelve granules of 192 bytes come with a bucket of 64.
    double ledger = (double)usage.memory * (2304 + 64) / 2304;
    say("memory", "bytes_per_holder_block", (ledger + (double)names) / (double)blocks, "B");
    say("memory", "bytes_per_name", (double)names / (double)blocks, "B");
}

static void world_make(uint64_t blocks)
{
    for (uint32_t i = 0; i < id_table; i++) {
        world.ids[i] = (uint32_t)pow(vocabulary, (double)i / id_table);
    }
    world.step_max = blocks / world.backend_count / step_blocks;
    world.ledger_size = blocks * 24 + (16 << 20);
    world.ledger_block = pages_reserve_huge(world.ledger_size);
    ASSERT(world.ledger_block != NULL);
    world.ledger = prefix_ledger_create(
        &(struct prefix_ledger_limits){.block = world.ledger_block,
                                       .memory = world.ledger_size,
                                       .backend_count_max = world.backend_count});
    world.budget.limit = blocks * 24 + (16 << 20);
    world.budget.block = pages_reserve_huge(world.budget.limit);
    ASSERT(world.budget.block != NULL);
    world.reader = kv_reader_create();
    ASSERT(world.ledger != NULL && world.reader != NULL);
    for (uint32_t i = 0; i < world.backend_count; i++) {
        world.holdings[i] = kv_holdings_create(&(struct kv_holdings_options){
            .ledger = world.ledger, .budget = &world.budget, .backend = i});
        ASSERT(world.holdings[i] != NULL);
    }
}

static void world_unmake(void)
{
    for (uint32_t i = 0; i < world.backend_count; i++) {
        kv_holdings_destroy(&world.holdings[i]);
    }
    kv_reader_destroy(&world.reader);
    prefix_ledger_destroy(&world.ledger);
    pages_release(&world.ledger_block, world.ledger_size);
    pages_release(&world.budget.block, world.budget.limit);
}

int main(int argc, char **argv)
{
    uint64_t blocks = 10000000;
    uint64_t backends = 64;
    uint64_t rounds = 15;
    uint64_t readers = 2;
    const struct flag flags[] = {
        {.name = "blocks", .number = &blocks},
        {.name = "backends", .number = &backends},
        {.name = "rounds", .number = &rounds},
        {.name = "readers", .number = &readers}, // 0: without the case that has them
    };
    if (!flags_read(flags, ARRAY_COUNT(flags), argc - 1, argv + 1) || rounds < 1 ||
        rounds > round_max || backends < 1 || backends > backend_max ||
        blocks < backends * step_blocks) {
        return 2;
    }
    world.backend_count = (uint32_t)backends;
    world.rounds = (uint32_t)rounds;
    world_make(blocks);
    fill();
    measure_memory();
    apply_rounds("");
    if (readers != 0) {
        apply_with_readers();
    }
    world_unmake();
    return 0;
}
