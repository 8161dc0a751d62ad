// SPDX-License-Identifier: Apache-2.0
//
// snapshot.h -- lists what an index holds, as chains for another router.
//
// The index knows runs, not chains: a run is found by its first key and has the tag of the key
// before it.  A snapshot scans all runs, links each to the run with that key, and lists for each
// backend the ends of the chains that it holds:
//
//     run A, held by 3 and 7 --+-- run B, held by 3        3: A B   3: A C   7: A C
//                              '-- run C, held by 3 and 7
//
// Chains come in the order of their last use, oldest first, so that the index that takes them gets
// the same order.  Changes during the read-out come by the batches.
//
// Threads: one.  Memory: about 170 bytes a run and 24 a holder, from begin to end: nearly as much
// as the index uses, so that what is listed stays as it was.
#pragma once

#include "prefix/prefix_scan.h"

struct index_snapshot;

struct snapshot_chain {
    uint32_t backend; // a slot
    uint32_t age;     // tokens, of its last block
    uint32_t age_s;
    const uint64_t *keys; // the snapshot's, until the next call
    uint32_t key_count;
};

// NULL when memory is short.
struct index_snapshot *snapshot_begin(const struct prefix_index *index, uint32_t backend_max,
                                      uint32_t now_s);
void snapshot_end(struct index_snapshot **snapshot);

enum snapshot_state {
    SNAPSHOT_UNFINISHED,
    SNAPSHOT_MADE,
    SNAPSHOT_FAILED, // memory is short
};

// Goes on with the list, for a few milliseconds: a full index of some gigabytes takes many seconds,
// in which the thread has to tell other routers that it lives.
enum snapshot_state snapshot_make(struct index_snapshot *snapshot);

// Of one that is made.  False: that was the last chain.
bool snapshot_next(struct index_snapshot *snapshot, struct snapshot_chain *out);
