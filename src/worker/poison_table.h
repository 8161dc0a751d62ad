// SPDX-License-Identifier: Apache-2.0
//
// poison_table.h -- prompts that may kill engines, and the servers that they may have killed.
//
// A request was sent whole, and its connection ended without a byte of a response: perhaps the
// engine died of its prompt.  Each such death is noted here by the hash of the prompt.  A prompt on
// which two servers died is poison, until poison_fade_s have passed without another death:
//
//           a death           a death at another server
//     none ---------> suspect --------------------------> poison
//      ^                 |                                  |
//      +--- time --------+--------------- time -------------+
//
// The table has poison_slot_count places, in sets of four that bits of the hash choose.  A full set
// forgets its oldest suspect, or its oldest poison if it has no suspect.  Forgotten and confused
// prompts (36 bits of the hash are compared) cost or save a retry, and no more.
//
// Threads: shared by all workers, without locks.  A place is one atomic word, so that nobody sees
// half of a record.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { poison_fade_s = 60, poison_slot_count = 1024 };

struct poison_table {
    _Alignas(64) atomic_uint_fast64_t slots[poison_slot_count]; // all zero: empty
};

struct poison_death {
    uint64_t prompt;  // a hash
    uint64_t server;  // backend->server
    uint64_t earlier; // the server that died of the same request before; 0: none
};

enum poison_verdict {
    POISON_SUSPECT, // no other server has died of the prompt
    POISON_PROVEN,  // this death makes it poison
    POISON_KNOWN,   // it was poison already
};

// Notes a death.  POISON_PROVEN: *other gets the short name of the server that died first.
enum poison_verdict poison_note(struct poison_table *table, const struct poison_death *death,
                                uint64_t now_ms, uint32_t *other);

// The short name of a server in the table; it repeats after a million servers.
uint32_t poison_server_name(uint64_t server);
