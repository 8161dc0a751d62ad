// SPDX-License-Identifier: Apache-2.0
//
// prefix_scan.h -- reads a whole index while it is written to.
//
// A scan walks the table of runs once.  It sees every run that is there throughout (I13), and each
// as it was at one moment (I9).  A run is found by its first key alone, and does not say by itself
// which run it goes on from; `before` does, with the tag of the key before its first one:
//
//     run A  k0 .. k12     before 0
//       |--> run B  k10' .. before tag(k9)     A had ten keys when B began, and has grown since
//
// Tags have 32 bits, so two keys may have the same.
//
// Threads: any, as a reader.  Memory: the caller's.
#pragma once

#include "prefix/prefix_index.h"

#include <stdbool.h>

enum { prefix_scan_keys_max = 16 };

struct prefix_scan_holder {
    uint32_t backend;
    uint32_t confirmed; // leading blocks of the run that it is known to hold
    uint32_t age;       // tokens
    uint32_t age_s;
};

struct prefix_scan_run {
    uint32_t before; // the tag of the key before its first one; 0: it begins a chain
    uint32_t key_count;
    uint64_t keys[prefix_scan_keys_max];
    const struct prefix_scan_holder *holders; // that have confirmed blocks
    uint32_t holder_count;
};

typedef void prefix_scan_fn(void *owner, const struct prefix_scan_run *run);

struct prefix_scan {
    const struct prefix_index *index;
    uint32_t now_s;
    struct prefix_scan_holder *holders; // room for holder_max; further holders are left out
    uint32_t holder_max;
    prefix_scan_fn *found;
    void *owner;
    uint32_t bucket; // where it goes on; 0 at first
};

uint32_t prefix_scan_tag(uint64_t key);

// Tells the runs of at most `bucket_count` buckets of the table.  False: that was the last of them.
bool prefix_scan_step(struct prefix_scan *scan, uint32_t bucket_count);
