// SPDX-License-Identifier: Apache-2.0
//
// log_limit.h -- limits the rate of messages with the same key: the first is written at once, then
// one in a while.
//
// A key stands for a place in the code and a subject.  Keys share a table of fixed size: keys that
// find no place are limited together, so no number of keys floods the log.
//
// Threads: any, without locks.  A count may be off by one when two threads meet.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { log_limit_slots = 2048, log_limit_ways = 8 };

struct log_limit_slot {
    atomic_uint_fast64_t key; // 0: free
    atomic_uint_fast64_t quiet_until_ms;
    atomic_uint_fast32_t held;
};

struct log_limit {
    struct log_limit_slot slots[log_limit_slots];
    struct log_limit_slot others; // keys that found no place
};

// True: write the message; *held messages were held back since the last one.  `key` is not 0.
bool log_limit_pass(struct log_limit *limit, uint64_t key, uint64_t now_ms, uint64_t pause_ms,
                    uint32_t *held);
