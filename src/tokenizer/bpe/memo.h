// SPDX-License-Identifier: Apache-2.0
//
// memo.h -- remembers the ids of texts that share a prefix.
//
// A text is cut into segments at places that its bytes decide (tokenizer_cut), so texts with a
// common prefix have common segments in it.  Each segment is named by a keyed hash of all bytes up
// to its end, and the memo maps that name to the ids of the segment:
//
//     text  [ segment 0 ][ segment 1 ][ segment 2 ][ new text .... ]
//     name     h0 --------> h1 --------> h2             encoded, and then remembered
//
// A known segment costs a hash of its bytes and a copy of its ids.  A name covers the tokenizer and
// whether special ids were added; clients who do not know the secret cannot make two texts with one
// name.
//
// Each thread writes to a ring of its own, in order, and reads all rings without waiting.  A reader
// whose entry is being overwritten notices it, and has found nothing.
//
// Threads: any, each with its number.  Memory: taken by memo_create; it does not grow.
#pragma once

#include "base/siphash.h"
#include "tokenizer/tokenizer.h"

struct memo;

struct memo_options {
    size_t memory;
    uint32_t thread_count;
    struct siphash_secret secret;
};

// NULL when out of memory.
struct memo *memo_create(const struct memo_options *options);
void memo_destroy(struct memo **memo);

// One text to encode.  Results are those of tokenizer_encode.
struct memo_task {
    struct memo *memo;
    uint32_t thread;
    const struct tokenizer *tokenizer;
    struct tokenizer_scratch *scratch;
    struct tokenizer_input input; // neither continues nor is continued
    uint64_t space;               // texts of one space are not known in another
    uint32_t *ids;
    size_t capacity;
    // Progress.  Set by memo_begin and written by memo.c only.
    size_t done;        // bytes; all of input.text when it is finished
    size_t count;       // ids so far
    size_t known_bytes; // found in the memo
    uint64_t state[4];  // of the hash
    bool is_known;      // all bytes so far were found in the memo
};

void memo_begin(struct memo_task *task);

// Encodes about `portion` bytes more, so that a long text does not hold up its thread; SIZE_MAX:
// all.  Call it at least once: an empty text may have ids too.  MALFORMED and TOO_LARGE end the
// task.  TOO_LARGE is also returned for memo_segment_max bytes without a place to cut, and for
// memo_whole_max bytes with a tokenizer that has no such places.
enum { memo_segment_max = 1 << 18, memo_whole_max = 1 << 20 };
enum status memo_continue(struct memo_task *task, size_t portion);
