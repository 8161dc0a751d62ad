// SPDX-License-Identifier: Apache-2.0
//
// prefix_tap.h -- tells another thread what the senders of index updates have learned.
//
//     sender 0  [ note note note ] --.
//     sender 1  [ note ]          ---+--> the reader, a few milliseconds later
//     sender 2  [ ]               ---'
//
// Each sender has a ring of its own and never waits.  A note that does not fit is dropped and
// counted: what it told stays unknown to the reader.  Notes of one sender stay in order; those of
// different senders have none.
//
// A note names its backend by identity and life, because slots are reused while notes wait.
//
// Threads: each sender number belongs to one thread at a time; one reader.  Memory: taken by
// _create.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct prefix_tap;

enum prefix_note_kind {
    PREFIX_NOTE_PREDICT,  // the backend was sent these blocks, and will have them
    PREFIX_NOTE_EXPECT,   // the same where KV events decide what is confirmed
    PREFIX_NOTE_CONFIRM,  // it has them; ends the prediction of that number
    PREFIX_NOTE_WITHDRAW, // ends the prediction: the backend never got the request
    PREFIX_NOTE_EMPTIED,  // its cache is empty, though the process lives
    PREFIX_NOTE_EVICTED,  // it has evicted what was not used during its last `age` new tokens
    PREFIX_NOTE_SESSION,  // the session of the one key lives here now
    PREFIX_NOTE_CAPACITY, // its cache holds `age` tokens, as responses show
};

struct prefix_note {
    enum prefix_note_kind kind;
    uint32_t lives;        // of the backend, as this process counts them
    uint64_t backend;      // its identity
    uint64_t prediction;   // 0: none
    uint32_t block_tokens; // of a block of the keys
    uint32_t age;          // EVICTED
    uint32_t key_count;
    const uint64_t *keys; // copied by put; valid until the next take
};

enum { prefix_tap_keys_max = 8192 }; // of a note; further keys are left out

// NULL when memory is short.
struct prefix_tap *prefix_tap_create(uint32_t sender_count);
void prefix_tap_destroy(struct prefix_tap **tap);

// A number for a prediction of this sender: never 0, and not used before.
uint64_t prefix_tap_number(struct prefix_tap *tap, uint32_t sender);

void prefix_tap_put(struct prefix_tap *tap, uint32_t sender, const struct prefix_note *note);

// The reader.  False: there is none.  A note stays valid until the next take.
bool prefix_tap_take(struct prefix_tap *tap, struct prefix_note *out);

// Notes that were dropped since the start.  Any thread.
uint64_t prefix_tap_dropped(const struct prefix_tap *tap);
