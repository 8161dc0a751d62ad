// SPDX-License-Identifier: Apache-2.0
//
// log_limit.h -- which of many equal messages are written: the first at once, then one in a while.
//
// A message is known by a key: where it comes from and what it is about.  Keys share a table of fixed size: one
// that finds no place is held back with others of its kind, so no number of keys makes a flood.
//
// Threads: any, without locks.  A count may be off by one where two meet.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { log_limit_slots = 2048, log_limit_ways = 8 };

struct log_limit_slot {
    atomic_uint_fast64_t key; // 0: nobody's
    atomic_uint_fast64_t quiet_until_ms;
    atomic_uint_fast32_t held;
};

struct log_limit {
    struct log_limit_slot slots[log_limit_slots];
    struct log_limit_slot others; // keys that found no place
};

// True: write it, and say that *held more were not written since the last time.  `key` is not 0.
bool log_limit_pass(struct log_limit *limit, uint64_t key, uint64_t now_ms, uint64_t pause_ms,
                    uint32_t *held);
