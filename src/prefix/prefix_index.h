// SPDX-License-Identifier: Apache-2.0
//
// prefix_index.h -- which backend is believed to hold which prefix of a prompt in its KV cache.
//
// Keys are those of prefix_chain.h: one key stands for a whole prefix.  Blocks that follow each
// other are kept as runs of up to 16 keys, with the set of holders beside each run, one bit a
// block:
//
//     run A  k0 .. k15   holders: 3 (all), 7 (all), 9 (0..11 and 13..15: 12 was evicted)
//       |--> run B  k16 .. k20   holders: 3
//       |--> run C  k16'.. k31'  holders: 7
//
// A run is found by its first key in one shared table.  Because keys are chained, this table is the
// whole tree: a child costs one entry whether it has no sibling or thousands.  When memory is
// short, the ends of chains are evicted before their prefixes.
//
// Residency.  A block is predicted when a request that contains it was sent, and confirmed when a
// response shows that the engine had or computed it.  With KV events, unconfirmed blocks are
// expected again with each request.  Whether a holder still has a block is computed by a match, not
// maintained as time passes: each backend has a clock that counts its new tokens, each holder
// remembers the clock at its last touch, and
//
//     still held  =  clock - touch < capacity of the backend, and seconds since touch < ttl
//
// so forgetting a backend, correcting its capacity and expiring what is old are O(1).
//
// Threads: one writer at a time (prefix_updates.h passes the role on), any number of readers.
// Readers take no lock and never wait: a run that changes under a reader is read again.  A match
// may be as old as the call; a stale match costs a cache miss, never a wrong response.
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
    PREFIX_EXPECTED, // predicted; clears the confirmed bits, because it may be evicted since
};

// Returns NULL when memory is short, which only startup has to handle.
struct prefix_index *prefix_index_create(const struct prefix_limits *limits);

// Frees the index and clears the caller's pointer.  `*index` may be NULL.
void prefix_index_destroy(struct prefix_index **index);

// The first blocks of a chain, and the backend that holds them.
struct prefix_span {
    const uint64_t *keys;
    uint32_t key_count;
    uint32_t block_tokens; // by which the clock advances for a new block; 0 counts as 1
    uint32_t backend;
    uint32_t now_s;
    enum prefix_residency residency;
};

// Writer only.  The backend has, or will have, these blocks.  Touches all of them, the first ones
// last, because engines evict the end of a prompt before its prefix.
void prefix_index_store(struct prefix_index *index, const struct prefix_span *span);

// Writer only.  The same, as another index knows it: the blocks were touched `age` tokens of the
// backend and `age_s` seconds ago.  The clock stands, blocks that were touched since keep their
// age, and blocks older than the floor are left out.  PREFIX_EXPECTED counts as predicted.
void prefix_index_merge(struct prefix_index *index, const struct prefix_span *span, uint32_t age,
                        uint32_t age_s);

// Writer only.  The backend does not have blocks `from` to key_count - 1 of this chain.  The chain
// is given from its first block, because runs are found that way.  With PREFIX_PREDICTED only
// unconfirmed blocks are dropped.
void prefix_index_drop(struct prefix_index *index, uint32_t backend,
                       enum prefix_residency residency, const uint64_t *keys, uint32_t key_count,
                       uint32_t from);

// Writer only, O(1) except for one sweep in 65,536 calls.  The backend restarted, or its slot has a
// new backend.
void prefix_index_forget(struct prefix_index *index, uint32_t backend);

// Writer only, O(1).  The backend has evicted blocks that were not used during its last `age` new
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
    // Blocks that are not on the GPU: in host memory, and only on disk.  0 from the index; see
    // prefix_ledger.h.
    uint32_t host;
    uint32_t disk;
    // Private to the match, which finds the hit of a backend with them.
    uint16_t first;
    uint16_t next;
};

// Any thread.  Fills `hits` with every backend that holds the first key and how much follows, in no
// order, and returns their number, at most hit_max (further ones are left out).  The rest of `hits`
// may have changed.
uint32_t prefix_index_match(const struct prefix_index *index, const uint64_t *keys,
                            uint32_t key_count, uint32_t now_s, struct prefix_hit *hits,
                            uint32_t hit_max);

// A question about the blocks of a chain from `from` on: which are not in a backend's events yet?
struct prefix_pending {
    const uint64_t *keys;
    uint32_t key_count;
    uint32_t from;
    uint32_t backend;
    uint32_t now_s;
    uint32_t settle_s; // confirmed blocks count, too, for this long; 0: they do not count
};

// Any thread.  The number of leading blocks that are predicted and not confirmed, or in a run that
// was touched at most `settle_s` ago.
uint32_t prefix_index_pending(const struct prefix_index *index,
                              const struct prefix_pending *pending);

// Any thread.  Prefetches the bucket of a key that will be stored or matched soon.
void prefix_index_prefetch(const struct prefix_index *index, uint64_t key);

struct prefix_usage {
    size_t memory;      // of the limit, what runs and holders take now
    uint64_t run_count; // now
    uint64_t evictions; // runs dropped because the index was full, since the start
    uint64_t expiries;  // runs dropped because of their age, since the start
};

// Any thread.
void prefix_index_usage(const struct prefix_index *index, struct prefix_usage *out);
