// SPDX-License-Identifier: Apache-2.0
//
// prefix_index.h -- which backend is believed to hold which beginning of a prompt in its KV cache.
//
// Keys are those of prefix_chain.h: one names a whole prefix.  Blocks that follow each other are
// kept as runs of up to 16 keys, with the set of holders beside each run, one bit a block:
//
//     run A  k0 .. k15   holders: 3 (all), 7 (all), 9 (0..11 and 13..15: 12 was evicted)
//       |--> run B  k16 .. k20   holders: 3
//       |--> run C  k16'.. k31'  holders: 7
//
// A run is found by its first key in one shared table.  Because keys are chained, that table is all
// the fan-out a node needs: a child costs one entry whether it has no sibling or thousands.  When
// memory is short, the ends of chains go before their beginnings.
//
// Residency.  A block is predicted when a request that contains it was sent, and confirmed when the
// engine has shown that it computed it; where an engine tells what it has by itself, what is not
// told is expected again with each request.  Whether a holder still has it is a question asked when
// matching, not work done when time passes: each backend has a clock that counts the tokens that
// were new to it, each holder remembers the clock at its last touch, and
//
//     still held  =  clock - touch < capacity of the backend, and seconds since touch < ttl
//
// so forgetting a backend, correcting its capacity and expiring what is old are O(1).
//
// Threads: one writer at a time (prefix_mail.h passes the role on), any number of readers.  Readers
// take no lock and never wait: a run that changes under a reader is read again.  What one reader
// sees may be as old as the call; a stale answer costs a cache miss, never a wrong response.
//
// Memory: all of it is taken by _create, from the heap or from a block of the caller, who knows how
// to get large pages: most of a match is waiting for memory that is in no cache.  A full index
// drops the runs that were stored longest ago; no call below allocates or fails.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct prefix_index;

struct prefix_limits {
    void *block;   // of `memory` bytes, in cache lines; the caller's; NULL: from the heap
    size_t memory; // bytes, all of it
    uint32_t backend_count_max; // at most 65,535
    uint32_t ttl_s;             // 0: no limit
};

enum prefix_residency {
    PREFIX_PREDICTED,
    PREFIX_CONFIRMED,
    PREFIX_EXPECTED, // predicted, whatever was confirmed before: it may have gone since
};

// Returns NULL when memory is short, which only startup has to handle.
struct prefix_index *prefix_index_create(const struct prefix_limits *limits);

// Frees the index and clears the caller's pointer.  `*index` may be NULL.
void prefix_index_destroy(struct prefix_index **index);

// The first blocks of a chain, and who holds them.
struct prefix_span {
    const uint64_t *keys;
    uint32_t key_count;
    uint32_t block_tokens; // by which the clock advances for a new block; 0 counts as 1
    uint32_t backend;
    uint32_t now_s;
    enum prefix_residency residency;
};

// Writer only.  The backend has, or will have, these blocks; touches all of them, the first ones
// last, as engines evict the end of a prompt before its beginning.
void prefix_index_store(struct prefix_index *index, const struct prefix_span *span);

// Writer only.  The backend does not have blocks `from` to key_count - 1 of this chain, whatever
// was said before; the chain is given from its first block, since that is how runs are found.  With
// PREFIX_PREDICTED only what was never confirmed goes.
void prefix_index_drop(struct prefix_index *index, uint32_t backend,
                       enum prefix_residency residency, const uint64_t *keys, uint32_t key_count,
                       uint32_t from);

// Writer only, O(1) but for one sweep in 65,536 calls.  The backend restarted, or its number now
// means another one.
void prefix_index_forget(struct prefix_index *index, uint32_t backend);

// Writer only, O(1).  The backend has dropped what it was not asked for during its last `age` new
// tokens.
void prefix_index_forget_older(struct prefix_index *index, uint32_t backend, uint32_t age);

// Any thread.  How many tokens the backend can hold; 0: no limit.
void prefix_index_set_capacity(struct prefix_index *index, uint32_t backend, uint32_t tokens);

// A backend and what it holds of a prompt.
struct prefix_hit {
    uint32_t backend;
    uint32_t blocks;    // leading ones, at least 1
    uint32_t confirmed; // leading ones that are confirmed, perhaps none
    uint32_t age;       // new tokens since the least recently touched of them was touched
    // Of the blocks, how many are no longer on the GPU: in host memory, and only on disk.  0 here,
    // where nobody knows; see prefix_ledger.h.
    uint32_t host;
    uint32_t disk;
    // The match's own: how it finds the hit of a backend when there are many.
    uint16_t first;
    uint16_t next;
};

// Any thread.  Fills `hits` with every backend that holds the first key and how much follows, in no
// order, and returns their number, at most hit_max (further ones are left out).  What is behind
// them in `hits` may have changed.
uint32_t prefix_index_match(const struct prefix_index *index, const uint64_t *keys,
                            uint32_t key_count, uint32_t now_s, struct prefix_hit *hits,
                            uint32_t hit_max);

// Any thread.  How many blocks from `from` on the backend is expected to have without having shown
// any of them yet: what requests have been sent there for, and no more.
uint32_t prefix_index_pending(const struct prefix_index *index, const uint64_t *keys,
                              uint32_t key_count, uint32_t from, uint32_t backend, uint32_t now_s);

// Any thread.  This key will be stored or asked for soon: fetches the memory that tells whether it
// is there, and waits for nothing.
void prefix_index_expect(const struct prefix_index *index, uint64_t key);

struct prefix_usage {
    size_t memory;      // of the limit, what runs and holders take now
    uint64_t run_count; // now
    uint64_t evictions; // runs dropped because the index was full, ever
    uint64_t expiries;  // runs dropped because of their age, ever
};

// Any thread.
void prefix_index_usage(const struct prefix_index *index, struct prefix_usage *out);
