// SPDX-License-Identifier: Apache-2.0
//
// poison_table.h -- prompts that may kill engines, and the servers that they may have killed.
//
// A request was sent whole, and its connection ended without a byte of a response: perhaps the
// engine died of its prompt.  Each such death is noted here by the hash of the prompt.  A prompt on
// which two servers died is poison:
//
//           a death           a death at another server
//     none ---------> suspect --------------------------> poison
//                        |                                  |
//                        +-------> a complete response <----+
//                                          |
//                                       harmless: deaths prove nothing
//
// A record is dropped poison_fade_s after the last event that it shows.
//
// An engine that dies ends all requests in flight, and many of them may have one harmless prompt.
// Hence the responses, and poison concerns only requests that were routed after its proof.
//
// The table has poison_slot_count places, in sets of four that bits of the hash choose.  A full set
// forgets its oldest record, poison last.  Forgotten and confused prompts (35 bits of the hash are
// compared) cost or save a retry, and no more.
//
// Threads: shared by all workers, without locks.  A place is one atomic word, so that no reader
// sees half of a record.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { poison_fade_s = 60, poison_slot_count = 1024 };

struct poison_table {
    _Alignas(64) atomic_uint epoch;                // how many prompts were proven to be poison
    atomic_uint_fast64_t last_ms;                  // the time of the last death; 0: none
    atomic_uint_fast64_t slots[poison_slot_count]; // all zero: empty
};

struct poison_death {
    uint64_t prompt;  // a hash
    uint64_t server;  // backend->server
    uint64_t earlier; // the server that died of the same request before; 0: none
    uint32_t epoch;   // when the request was routed first
};

enum poison_verdict {
    POISON_UNPROVEN, // or proven after the request was routed
    POISON_PROVEN,   // this death makes it poison
    POISON_KNOWN,    // it was poison already
};

uint32_t poison_epoch(const struct poison_table *table);

// Notes a death.  POISON_PROVEN: *other gets the short name of the server that died first.
enum poison_verdict poison_note_death(struct poison_table *table, const struct poison_death *death,
                                      uint64_t now_ms, uint32_t *other);

// Whether the table needs to know of responses.
bool poison_awaits_response(const struct poison_table *table, uint64_t now_ms);

// A response to the prompt is complete.
void poison_note_response(struct poison_table *table, uint64_t prompt, uint64_t now_ms);

// The short name of a server in the table; it repeats after a million servers.
uint32_t poison_server_name(uint64_t server);
