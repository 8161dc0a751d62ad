// SPDX-License-Identifier: Apache-2.0
//
// memo.h -- remembers the ids of texts that begin alike.
//
// A text is cut into segments at places that its bytes decide (tokenizer_cut), so texts with a
// common beginning have common segments there.  Each segment is named by a keyed hash of all bytes
// up to its end, and the memo maps that name to the ids of the segment:
//
//     text  [ segment 0 ][ segment 1 ][ segment 2 ][ new text .... ]
//     name     h0 --------> h1 --------> h2             encoded, and then remembered
//
// What is known costs a hash of its bytes and a copy of its ids.  A name covers the tokenizer and
// how the text was begun; clients who do not know the secret cannot make two texts with one name.
//
// Each thread writes to a ring of its own, in order, and reads all of them without waiting: whoever
// reads what is being overwritten notices and has found nothing.
//
// Threads: any, each with its number.  Memory: taken by memo_create, whatever is put in.
#pragma once

#include "base/siphash.h"
#include "tokenizer/tokenizer.h"

struct memo;

struct memo_options {
    size_t memory;
    uint32_t thread_count;
    struct siphash_secret secret;
};

// NULL when memory is short.
struct memo *memo_create(const struct memo_options *options);
void memo_destroy(struct memo **memo);

// One text to encode.  Results are those of tokenizer_encode.
struct memo_task {
    struct memo *memo;
    uint32_t thread;
    const struct tokenizer *tokenizer;
    struct tokenizer_scratch *scratch;
    struct tokenizer_input input; // neither continues nor is continued
    uint64_t space;               // what is remembered in one is not known in another
    uint32_t *ids;
    size_t capacity;
    // How far it is.  Set by memo_begin; memo.c's own but for reading.
    size_t done;        // bytes; all of input.text when it is finished
    size_t count;       // ids so far
    size_t known_bytes; // that did not have to be encoded
    uint64_t state[4];  // of the hash
    bool is_known;      // everything so far was
};

void memo_begin(struct memo_task *task);

// Encodes about `portion` bytes more, so that a long text does not keep a thread to itself;
// SIZE_MAX: all.  To be called once at least: a text of no bytes may have ids too.  MALFORMED and
// TOO_LARGE end it.  TOO_LARGE is also what cannot be done in portions: so many bytes without a
// place to cut, or a text of so many with a tokenizer that has no such places.
enum { memo_segment_max = 1 << 18, memo_whole_max = 1 << 20 };
enum status memo_continue(struct memo_task *task, size_t portion);
