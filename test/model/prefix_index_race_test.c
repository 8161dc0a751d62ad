// SPDX-License-Identifier: Apache-2.0
//
// One writer, two readers and a scan of an index.  It is compiled for this test alone, so that
// every load and store of shared words may yield to another thread: a race that would take weeks to
// show shows within seconds.
//
// Time is cut into generations.  Each begins with a few new chains, which two stable backends
// store and no thread touches from then on.  Other backends store them too, branch off them at
// every block, drop them, are forgotten, and store so much else that runs are evicted and their
// memory is reused.

#include "base/rng.h"
#include "prefix/prefix_index.h"
#include "prefix/prefix_scan.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#ifdef __SANITIZE_THREAD__
enum { generation_count = 20 };
#else
enum { generation_count = 100 };
#endif

enum {
    stable_chains = 2,
    stable_backends = 2,
    early_backends = 90,
    backend_count = 200, // more than a list of holders takes
    branch_count = 40,   // of a generation
    length_max = 80,
    reader_count = 2,
    turns = 300,       // of the writer, in a generation
    filler_count = 20, // of a turn
};

// Called by the index, see prefix_runs_internal.h.
void prefix_index_pause(void);

void prefix_index_pause(void)
{
    static _Thread_local struct rng rng;
    if (rng_below(&rng, 64) == 0) {
        sched_yield();
    }
}

struct race {
    struct prefix_index *index;
    _Atomic uint32_t generation; // chains of this one are there; 0: it is over
    _Atomic uint64_t matches;
    _Atomic uint64_t missing;    // must stay 0: answers without a stable holder
    _Atomic uint64_t impossible; // must stay 0: answers with what was never stored
    _Atomic uint64_t scans;
    _Atomic uint64_t unseen; // must stay 0: stable runs that a scan has missed
    uint64_t evicted;        // must stay 0: what the writer itself misses
};

static struct race race;

struct prompt {
    uint32_t count;
    uint64_t keys[length_max];
};

// A key that falls into the first 64th of the buckets, so that each has many runs and readers
// meet those that come and go.  Inverts the product by which the index spreads keys.
static uint64_t crowded(uint64_t random)
{
    return (random >> 6) * UINT64_C(0xf1de83e19937733d);
}

static uint64_t key_of(uint32_t generation, uint32_t chain, uint32_t depth)
{
    struct rng rng = {.state = (uint64_t)generation << 32 ^ chain << 16 ^ depth};
    rng_next(&rng);
    return crowded(rng_next(&rng));
}

// Chains below stable_chains are stable; the others begin like one of these and have their own end.
static struct prompt make(uint32_t generation, uint32_t chain)
{
    struct prompt prompt = {.count = 30 + chain % (length_max - 30)};
    uint32_t base = chain % stable_chains;
    uint32_t shared = chain < stable_chains ? prompt.count : 1 + chain * 7 % 29;
    for (uint32_t i = 0; i < prompt.count; i++) {
        prompt.keys[i] = key_of(generation, i < shared ? base : chain, i);
    }
    return prompt;
}

// Branches are stored by backends of the same parity only.
static bool may_store(uint32_t backend, uint32_t chain)
{
    return chain < stable_chains || (backend >= stable_backends && backend % 2 == chain % 2);
}

// Whether all stable holders are there in full.  Of its last block each chain has its own key.
static bool ask(uint32_t generation, uint32_t chain)
{
    struct prefix_hit hits[backend_count];
    struct prompt prompt = make(generation, chain);
    uint32_t count =
        prefix_index_match(race.index, prompt.keys, prompt.count, 0, hits, backend_count);
    uint32_t whole = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (hits[i].blocks > prompt.count || hits[i].backend >= backend_count ||
            (hits[i].blocks == prompt.count && !may_store(hits[i].backend, chain))) {
            atomic_fetch_add(&race.impossible, 1);
        }
        whole += hits[i].backend < stable_backends && hits[i].blocks == prompt.count;
    }
    return chain >= stable_chains || whole == stable_backends;
}

static void *read_always(void *owner)
{
    struct rng rng = *(const struct rng *)owner;
    uint64_t matches = 0;
    uint32_t generation;
    while ((generation = atomic_load(&race.generation)) != 0) {
        uint32_t span = rng_below(&rng, 4) == 0 ? branch_count : stable_chains;
        if (!ask(generation, rng_below(&rng, span)) &&
            atomic_load(&race.generation) == generation) {
            atomic_fetch_add(&race.missing, 1);
        }
        matches++;
    }
    atomic_fetch_add(&race.matches, matches);
    return NULL;
}

// One scan, within one generation or not.
struct survey {
    uint32_t generation;
    uint32_t seen[stable_chains]; // stable holders of the first run
    uint64_t impossible;
    struct prompt prompts[stable_chains];
    struct prefix_scan_holder holders[backend_count];
};

static uint32_t keys_in_common(const struct prefix_scan_run *run, const struct prompt *prompt)
{
    uint32_t count = 0;
    while (count < run->key_count && count < prompt->count &&
           run->keys[count] == prompt->keys[count]) {
        count++;
    }
    return count;
}

// The first run of a stable chain stays, whatever is cut off it or added to it; the stable backends
// hold of it what is of the chain.
static void note_run(void *owner, const struct prefix_scan_run *run)
{
    struct survey *survey = owner;
    for (uint32_t chain = 0; chain < stable_chains; chain++) {
        uint32_t common = keys_in_common(run, &survey->prompts[chain]);
        for (uint32_t i = 0; common > 0 && i < run->holder_count; i++) {
            const struct prefix_scan_holder *holder = &run->holders[i];
            bool is_stable = holder->backend < stable_backends;
            survey->seen[chain] += is_stable;
            survey->impossible += (is_stable && holder->confirmed != common) ||
                                  holder->backend >= backend_count || run->before != 0;
        }
    }
}

static void survey_index(uint32_t generation, struct survey *survey)
{
    survey->generation = generation;
    survey->impossible = 0;
    for (uint32_t chain = 0; chain < stable_chains; chain++) {
        survey->seen[chain] = 0;
        survey->prompts[chain] = make(generation, chain);
    }
    struct prefix_scan scan = {.index = race.index,
                               .holders = survey->holders,
                               .holder_max = backend_count,
                               .found = note_run,
                               .owner = survey};
    while (prefix_scan_step(&scan, 64)) {
    }
}

static void *scan_always(void *owner)
{
    struct survey *survey = owner;
    uint32_t generation;
    while ((generation = atomic_load(&race.generation)) != 0) {
        survey_index(generation, survey);
        if (atomic_load(&race.generation) != generation) {
            continue;
        }
        for (uint32_t chain = 0; chain < stable_chains; chain++) {
            atomic_fetch_add(&race.unseen, survey->seen[chain] != stable_backends);
        }
        atomic_fetch_add(&race.impossible, survey->impossible);
        atomic_fetch_add(&race.scans, 1);
    }
    return NULL;
}

static void store(uint32_t backend, const struct prompt *prompt)
{
    prefix_index_store(race.index, &(struct prefix_span){.keys = prompt->keys,
                                                         .key_count = prompt->count,
                                                         .backend = backend,
                                                         .residency = PREFIX_CONFIRMED});
}

static void churn(struct rng *rng, uint32_t generation)
{
    uint32_t backend = stable_backends + rng_below(rng, backend_count - stable_backends);
    uint32_t chain = rng_below(rng, branch_count);
    struct prompt prompt = make(generation, chain);
    switch (rng_below(rng, 6)) {
    case 0:
        prefix_index_drop(race.index, backend, PREFIX_CONFIRMED, prompt.keys, prompt.count,
                          rng_below(rng, prompt.count));
        break;
    case 1:
        if (rng_below(rng, 10) == 0) {
            prefix_index_forget(race.index, backend);
        }
        break;
    default:
        if (may_store(backend, chain)) {
            store(backend, &prompt);
        }
    }
}

static void write_generation(struct rng *rng, uint32_t generation)
{
    for (uint32_t chain = 0; chain < stable_chains; chain++) {
        struct prompt prompt = make(generation, chain);
        // Almost as many as a list takes.  The stable ones come last: not among the holders
        // within runs.
        for (uint32_t backend = early_backends; backend-- > 0;) {
            store(backend, &prompt);
        }
    }
    atomic_store(&race.generation, generation);
    for (uint32_t i = 0; i < turns; i++) {
        churn(rng, generation);
        for (uint32_t k = 0; k < filler_count; k++) { // never seen again
            struct prompt filler = {.count = 1, .keys = {crowded(rng_next(rng))}};
            store(stable_backends, &filler);
        }
        // Used by another backend, so that others are evicted instead.
        struct prompt prompt = make(generation, i % stable_chains);
        store(stable_backends, &prompt);
        race.evicted += i % 16 == 0 && !ask(generation, i % stable_chains);
    }
}

TEST(chains_that_stay_are_always_found_while_a_writer_changes_the_rest)
{
    race.index = prefix_index_create(
        &(struct prefix_limits){.memory = 768 << 10, .backend_count_max = backend_count});
    struct rng rng = {.state = 5};
    write_generation(&rng, 1);
    pthread_t readers[reader_count];
    struct rng seeds[reader_count];
    for (uint32_t i = 0; i < reader_count; i++) {
        seeds[i] = (struct rng){.state = i};
        CHECK_EQ(pthread_create(&readers[i], NULL, read_always, &seeds[i]), 0);
    }
    static struct survey survey;
    pthread_t scanner;
    CHECK_EQ(pthread_create(&scanner, NULL, scan_always, &survey), 0);
    for (uint32_t i = 2; i < 2 + generation_count; i++) {
        write_generation(&rng, i);
    }
    atomic_store(&race.generation, 0);
    for (uint32_t i = 0; i < reader_count; i++) {
        CHECK_EQ(pthread_join(readers[i], NULL), 0);
    }
    CHECK_EQ(pthread_join(scanner, NULL), 0);
    struct prefix_usage usage;
    prefix_index_usage(race.index, &usage);
    printf("# %" PRIu64 " matches, %" PRIu64 " scans, %" PRIu64 " evictions\n",
           atomic_load(&race.matches), atomic_load(&race.scans), usage.evictions);
    CHECK(atomic_load(&race.matches) > 1000);
    CHECK(usage.evictions > 1000);
    CHECK_EQ(race.evicted, 0);
    CHECK_EQ(atomic_load(&race.impossible), 0);
    CHECK_EQ(atomic_load(&race.missing), 0);
    CHECK(atomic_load(&race.scans) > 20);
    CHECK_EQ(atomic_load(&race.unseen), 0);
    prefix_index_destroy(&race.index);
}
