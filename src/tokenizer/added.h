// SPDX-License-Identifier: Apache-2.0
//
// added.h -- finds added tokens in a text: the leftmost, and of those the longest.
//
// A file lists thousands of them, most with a common prefix, and prompts contain few: bytes that no
// added token begins with are passed over at the speed of memory.
//
// The flags apply to the matches of the search.  A match that `single_word` rejects is consumed
// nevertheless.  `lstrip` and `rstrip` widen a match over white space; the search goes on behind
// the token itself, so that white space in the widened part can match again.  A match that lies in
// it entirely vanishes.
//
// Threads: shared after creation.  Memory: taken by added_create.
#pragma once

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct added_token {
    struct slice text; // not empty
    uint32_t id;
    bool single_word;
    bool lstrip;
    bool rstrip;
};

// For qsort: by the bytes of the texts.
int added_compare_texts(const void *a, const void *b);

struct added;

// Copies the tokens, no two of which have one text; `count` may be 0.  NULL when out of memory.
struct added *added_create(const struct added_token *tokens, uint32_t count);
void added_destroy(struct added **added);
size_t added_memory(const struct added *added);

// A walk over one text.
struct added_walk {
    const struct added *added;
    struct slice text;
    size_t search; // where the search goes on
    size_t end;    // of the last match, as widened
};

struct added_match {
    struct slice before; // between the last match and this one; may be empty
    uint32_t id;
};

struct added_walk added_begin(const struct added *added, struct slice text);

// False when no match is left; `out->before` is then the rest of the text.
bool added_next(struct added_walk *walk, struct added_match *out);
