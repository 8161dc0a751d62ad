// SPDX-License-Identifier: Apache-2.0
//
// prefix_mail.h -- lets several threads write to an index that has one writer.
//
// Each sender has a ring of its own.  A sender puts a letter into it and tries to take the role of
// writer.  The thread with the role delivers the letters of all senders, and looks once more after
// giving the role back, so that no letter is left behind.  A sender that does not get the role goes
// on at once.  No thread waits for another.
//
//     sender 0  [ letter letter ] --.
//     sender 1  [ letter ]       ---+--> thread with the role --> prefix_index
//     sender 2  [ ]              --'
//
// A letter that does not fit its ring is lost and counted: the index is a belief, and a lost letter
// costs one cache miss.
//
// Threads: each sender number belongs to one thread at a time.  Memory: taken by _create.
#pragma once

#include "prefix/prefix_index.h"

#include <stdbool.h>

struct prefix_mail;

enum prefix_verb {
    PREFIX_STORE,
    PREFIX_DROP,
    PREFIX_FORGET,
    PREFIX_FORGET_OLDER,
};

struct prefix_letter {
    enum prefix_verb verb;
    enum prefix_residency residency;
    uint32_t backend;
    uint32_t now_s;        // STORE
    uint32_t block_tokens; // STORE: what one block stands for
    uint32_t age;          // FORGET_OLDER
    uint32_t from;         // DROP: the first block that goes
    uint32_t key_count;    // STORE and DROP: at most prefix_letter_keys_max
    const uint64_t *keys;  // copied
};

enum { prefix_letter_keys_max = 8192 };

// NULL when memory is short.  Keeps `index`.
struct prefix_mail *prefix_mail_create(struct prefix_index *index, uint32_t sender_count);
void prefix_mail_destroy(struct prefix_mail **mail);

// False: the ring is full and the letter is lost.
bool prefix_mail_send(struct prefix_mail *mail, uint32_t sender,
                      const struct prefix_letter *letter);

// Letters lost by all senders, since the start.  Any thread.
uint64_t prefix_mail_lost(const struct prefix_mail *mail);
