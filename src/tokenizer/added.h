// SPDX-License-Identifier: Apache-2.0
//
// added.h -- finds added tokens in a text: the longest of those that begin first.
//
// A file lists thousands of them, most with a common beginning, and prompts contain few: bytes that
// no added token begins with are passed over at the speed of memory.
//
// The flags work on what the search finds.  A match that `single_word` rejects is consumed all the
// same; `lstrip` and `rstrip` widen a match over white space, and the search goes on behind the
// pattern, not behind what was widened.  White space that was taken so can match again; if a match
// then has nothing left of its own, it vanishes.
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

struct added;

// Copies the tokens, of which there may be none.  Of two with one text the later one counts.  NULL
// when memory is short.
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

// False when there is none any more; `out->before` is then the rest of the text.
bool added_next(struct added_walk *walk, struct added_match *out);
