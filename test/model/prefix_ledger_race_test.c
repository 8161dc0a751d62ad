// SPDX-License-Identifier: Apache-2.0
//
// One writer and three readers of a ledger, compiled for this test alone, so that every load and
// store of shared words may yield to another thread: see prefix_index_race_test.c.
//
// Time is cut into generations.  Each begins with a few new chains, which two backends hold and
// never leave, one of them in host memory; a third one moves them to host memory and back, and so
// always has all of them in some tier.  Others enter them too, each in a tier of its own, branch
// off them at every block and leave again, so that runs come and go and their memory is reused.
// Then the chains of the generation before are left.

#include "base/rng.h"
#include "prefix/prefix_ledger.h"
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
    on_gpu, // stays there; backends 0 and 1 are not special
    in_host,
    mover,
    special_end,
    early_backends = 90,
    backend_count = 200, // more than a list of holders takes
    branch_count = 40,   // of a generation
    length_max = 80,
    reader_count = 3,
    turns = 300, // of the writer, in a generation
    filler_count = 200,
};

// Called by the ledger, see prefix_runs_internal.h.
void prefix_index_pause(void);

void prefix_index_pause(void)
{
    static _Thread_local struct rng rng;
    if (rng_below(&rng, 64) == 0) {
        sched_yield();
    }
}

struct race {
    struct prefix_ledger *ledger;
    _Atomic uint32_t generation; // chains of this one are there; 0: it is over
    _Atomic uint64_t matches;
    _Atomic uint64_t missing;    // must stay 0: answers without one who holds it all
    _Atomic uint64_t impossible; // must stay 0: answers with what was never entered

    // The writer's.  A block is of the chain that had it first.
    uint32_t places[2][branch_count][length_max];
    bool is_held[2][branch_count][length_max][backend_count]; // in the backend's tier
    uint32_t fillers[filler_count];
    uint64_t filled;
    uint64_t refused;
};

static struct race race;

struct prompt {
    uint32_t count;
    uint32_t shared; // with the stable chain that it begins like
    uint64_t keys[length_max];
};

// A key that falls into the first 64th of the buckets, so that each has many runs and readers
// meet those that come and go.  Inverts the product by which runs are spread.
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
    prompt.shared = chain < stable_chains ? prompt.count : 1 + chain * 7 % 29;
    for (uint32_t i = 0; i < prompt.count; i++) {
        prompt.keys[i] = key_of(generation, i < prompt.shared ? chain % stable_chains : chain, i);
    }
    return prompt;
}

// Branches are entered by backends of the same parity only.
static bool may_enter(uint32_t backend, uint32_t chain)
{
    return chain < stable_chains || (backend >= special_end && backend % 2 == chain % 2);
}

// Where a backend has what it has, but for the one that moves.
static enum prefix_tier tier_of(uint32_t backend)
{
    return backend == in_host || (backend >= special_end && backend % 5 < 2) ? PREFIX_HOST
                                                                             : PREFIX_GPU;
}

// Whether a hit says what is true of its backend at any time.
static bool is_possible(const struct prefix_hit *hit, const struct prompt *prompt, uint32_t chain)
{
    if (hit->backend >= backend_count || hit->blocks > prompt->count || hit->disk != 0 ||
        hit->confirmed != hit->blocks) {
        return false;
    }
    bool is_placed = hit->backend == mover ||
                     hit->host == (tier_of(hit->backend) == PREFIX_HOST ? hit->blocks : 0);
    return is_placed && (hit->blocks < prompt->count || may_enter(hit->backend, chain));
}

static bool ask(uint32_t generation, uint32_t chain)
{
    struct prefix_hit hits[backend_count];
    struct prompt prompt = make(generation, chain);
    uint32_t count =
        prefix_ledger_match(race.ledger, prompt.keys, prompt.count, hits, backend_count);
    uint32_t whole = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_special = hits[i].backend >= on_gpu && hits[i].backend < special_end;
        if (!is_possible(&hits[i], &prompt, chain)) {
            atomic_fetch_add(&race.impossible, 1);
        }
        whole += is_special && hits[i].blocks == prompt.count;
    }
    return chain >= stable_chains || whole == special_end - on_gpu;
}

static void *read_always(void *owner)
{
    struct rng rng = *(const struct rng *)owner;
    uint64_t matches = 0;
    uint32_t generation;
    while ((generation = atomic_load(&race.generation)) != 0) {
        uint32_t span = rng_below(&rng, 2) == 0 ? branch_count : stable_chains;
        if (!ask(generation, rng_below(&rng, span)) &&
            atomic_load(&race.generation) == generation) {
            atomic_fetch_add(&race.missing, 1);
        }
        matches++;
    }
    atomic_fetch_add(&race.matches, matches);
    return NULL;
}

// Enters a chain from a block on, of which those before are held.
static void enter(uint32_t generation, uint32_t chain, uint32_t from, uint32_t backend,
                  enum prefix_tier tier)
{
    struct prompt prompt = make(generation, chain);
    uint32_t base = chain % stable_chains;
    uint32_t(*places)[length_max] = race.places[generation % 2];
    uint32_t found[length_max];
    uint32_t count =
        prefix_ledger_enter(race.ledger,
                            &(struct prefix_entry){.keys = prompt.keys + from,
                                                   .key_count = prompt.count - from,
                                                   .after = from > 0 ? places[base][from - 1] : 0,
                                                   .backend = backend,
                                                   .tier = tier},
                            found);
    race.refused += prompt.count - from - count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t owner = from + i < prompt.shared ? base : chain;
        places[owner][from + i] = found[i];
        race.is_held[generation % 2][owner][from + i][backend] |= tier == tier_of(backend);
    }
}

// Leaves one chain from a block on: its own blocks, where it has own ones.
static void leave(uint32_t generation, uint32_t chain, uint32_t from, uint32_t backend)
{
    for (uint32_t i = from; i < length_max; i++) {
        bool *is_held = &race.is_held[generation % 2][chain][i][backend];
        if (*is_held) {
            prefix_ledger_leave(race.ledger, race.places[generation % 2][chain][i], backend,
                                tier_of(backend));
            *is_held = false;
        }
    }
}

// To host memory, if it is on the GPU, or back.
static void move(uint32_t generation, uint32_t chain)
{
    struct prompt prompt = make(generation, chain);
    const uint32_t *places = race.places[generation % 2][chain];
    bool is_on_gpu = race.is_held[generation % 2][chain][0][mover];
    enter(generation, chain, 0, mover, is_on_gpu ? PREFIX_HOST : PREFIX_GPU);
    for (uint32_t i = 0; i < prompt.count; i++) {
        prefix_ledger_leave(race.ledger, places[i], mover, is_on_gpu ? PREFIX_GPU : PREFIX_HOST);
        race.is_held[generation % 2][chain][i][mover] = !is_on_gpu;
    }
}

static void churn(struct rng *rng, uint32_t generation)
{
    uint32_t backend = special_end + rng_below(rng, backend_count - special_end);
    uint32_t chain = rng_below(rng, branch_count);
    uint32_t shared = make(generation, chain).shared;
    uint32_t from = rng_below(rng, 2) == 0 ? 0 : rng_below(rng, shared + 1);
    if (rng_below(rng, 3) == 0) {
        leave(generation, chain, rng_below(rng, length_max), backend);
    } else if (rng_below(rng, 4) == 0) { // so that whole runs go
        for (uint32_t i = special_end; i < backend_count; i++) {
            leave(generation, chain, 0, i);
        }
    } else if (may_enter(backend, chain) && from < make(generation, chain).count) {
        enter(generation, chain, from, backend, tier_of(backend));
    }
}

// Runs of one block, never seen again, that stay for a while.
static void fill(struct rng *rng)
{
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t *place = &race.fillers[race.filled++ % filler_count];
        if (*place != 0) {
            prefix_ledger_leave(race.ledger, *place, 0, PREFIX_GPU);
        }
        uint64_t key = crowded(rng_next(rng));
        race.refused +=
            1 - prefix_ledger_enter(race.ledger,
                                    &(struct prefix_entry){.keys = &key, .key_count = 1}, place);
    }
}

static void leave_generation(uint32_t generation)
{
    for (uint32_t chain = 0; chain < branch_count; chain++) {
        for (uint32_t backend = 0; backend < backend_count; backend++) {
            leave(generation, chain, 0, backend);
        }
    }
    for (uint32_t chain = 0; chain < stable_chains; chain++) {
        for (uint32_t i = 0; i < make(generation, chain).count; i++) {
            uint32_t place = race.places[generation % 2][chain][i];
            prefix_ledger_leave(race.ledger, place, mover, PREFIX_HOST);
        }
    }
}

static void write_generation(struct rng *rng, uint32_t generation)
{
    for (uint32_t chain = 0; chain < stable_chains; chain++) {
        // Almost as many as a list takes.  The special ones come last: not among the holders
        // within runs.
        for (uint32_t backend = special_end; backend < early_backends; backend++) {
            enter(generation, chain, 0, backend, tier_of(backend));
        }
        enter(generation, chain, 0, on_gpu, PREFIX_GPU);
        enter(generation, chain, 0, in_host, PREFIX_HOST);
        enter(generation, chain, 0, mover, PREFIX_GPU);
    }
    atomic_store(&race.generation, generation);
    if (generation > 1) {
        leave_generation(generation - 1);
    }
    for (uint32_t i = 0; i < turns; i++) {
        churn(rng, generation);
        fill(rng);
        if (i % 8 == 0) {
            move(generation, i / 8 % stable_chains);
        }
    }
}

TEST(blocks_that_stay_are_always_found_while_a_writer_changes_the_rest)
{
    race.ledger = prefix_ledger_create(
        &(struct prefix_ledger_limits){.memory = 768 << 10, .backend_count_max = backend_count});
    struct rng rng = {.state = 5};
    write_generation(&rng, 1);
    pthread_t readers[reader_count];
    struct rng seeds[reader_count];
    for (uint32_t i = 0; i < reader_count; i++) {
        seeds[i] = (struct rng){.state = i};
        CHECK_EQ(pthread_create(&readers[i], NULL, read_always, &seeds[i]), 0);
    }
    for (uint32_t i = 2; i < 2 + generation_count; i++) {
        write_generation(&rng, i);
    }
    atomic_store(&race.generation, 0);
    for (uint32_t i = 0; i < reader_count; i++) {
        CHECK_EQ(pthread_join(readers[i], NULL), 0);
    }
    struct prefix_ledger_usage usage;
    prefix_ledger_usage(race.ledger, &usage);
    printf("# %" PRIu64 " matches\n", atomic_load(&race.matches));
    CHECK(atomic_load(&race.matches) > 1000);
    CHECK_EQ(race.refused, 0);
    CHECK_EQ(atomic_load(&race.impossible), 0);
    CHECK_EQ(atomic_load(&race.missing), 0);
    leave_generation(1 + generation_count);
    prefix_ledger_usage(race.ledger, &usage);
    CHECK_EQ(usage.run_count, filler_count);
    prefix_ledger_destroy(&race.ledger);
}
