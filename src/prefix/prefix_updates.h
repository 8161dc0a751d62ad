// SPDX-License-Identifier: Apache-2.0
//
// prefix_updates.h -- lets several threads write to an index that has one writer.
//
// Each sender has a ring of its own.  A sender puts an update into it and tries to take the role of
// writer.  The thread with the role applies the updates of all senders, and looks once more after
// giving the role back, so that no update is left behind.  A sender that does not get the role goes
// on at once.  No thread waits for another.
//
//     sender 0  [ update update ] --.
//     sender 1  [ update ]       ---+--> thread with the role --> prefix_index
//     sender 2  [ ]              --'
//
// An update that does not fit its ring is dropped and counted: the index is a belief, and a dropped
// update costs one cache miss.
//
// Threads: each sender number belongs to one thread at a time.  Memory: taken by _create.
#pragma once

#include "prefix/prefix_index.h"

#include <stdbool.h>

struct prefix_updates;

enum prefix_verb {
    PREFIX_STORE,
    PREFIX_DROP,
    PREFIX_FORGET,
    PREFIX_FORGET_OLDER,
    PREFIX_MERGE, // prefix_index_merge
};

struct prefix_update {
    enum prefix_verb verb;
    enum prefix_residency residency;
    uint32_t backend;
    uint32_t now_s;        // STORE and MERGE
    uint32_t block_tokens; // STORE: tokens of one block
    uint32_t age;          // FORGET_OLDER and MERGE
    uint32_t age_s;        // MERGE
    uint32_t from;         // DROP: the first block to drop
    uint32_t key_count;    // STORE, MERGE and DROP: at most prefix_update_keys_max
    uint64_t prediction;   // STORE and DROP: see prefix_tap.h; 0: none
    const uint64_t *keys;  // copied
};

enum { prefix_update_keys_max = 8192 };

// The change itself.  The writer of the index only.
void prefix_update_apply(struct prefix_index *index, const struct prefix_update *update);

// NULL when memory is short.  Keeps `index`.
struct prefix_updates *prefix_updates_create(struct prefix_index *index, uint32_t sender_count);
void prefix_updates_destroy(struct prefix_updates **updates);

// False: the ring is full and the update is dropped.
bool prefix_updates_send(struct prefix_updates *updates, uint32_t sender,
                         const struct prefix_update *update);

// For a thread that may wait: applies the update now if no other thread has the role.  False: one
// has it, and nothing happened.  So a sender of many updates never leaves them to another thread.
bool prefix_updates_try(struct prefix_updates *updates, const struct prefix_update *update);

// Updates that all senders dropped since the start.  Any thread.
uint64_t prefix_updates_dropped(const struct prefix_updates *updates);
