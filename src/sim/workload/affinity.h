// SPDX-License-Identifier: Apache-2.0
//
// affinity.h -- how often a request goes to the backend of the last one with the same prefix.
//
// Router benchmarks often call this a hit: it says where requests were sent, and nothing about
// caches.  A router that keeps a popular prompt on several backends scores low here and still hits
// them all.
//
// Pure.  Threads: one owner.  Memory: from the heap, 24 bytes for each visit, given back by _fini.
#pragma once

#include <stdint.h>

struct affinity_visit {
    uint64_t prefix;
    double due_ms;
    uint32_t number; // in the order of noting
    uint32_t backend;
};

// {0} is empty.
struct affinity {
    struct affinity_visit *visits;
    uint32_t count;
    uint32_t capacity;
};

// In the order of sending.  `prefix` names the prefix that prompts share.
void affinity_note(struct affinity *affinity, uint64_t prefix, double due_ms, uint32_t backend);

// The share of the visits due from `from_ms` on that went to the backend of the visit before with
// the same prefix.  The first visit of a prefix did not; visits before `from_ms` count as earlier
// ones.  0 when there are none.  Reorders the visits.
double affinity_rate(struct affinity *affinity, double from_ms);

void affinity_fini(struct affinity *affinity);
