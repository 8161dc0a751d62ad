// SPDX-License-Identifier: Apache-2.0
//
// body_edit.h -- what a backend gets in place of parts of the client's body.
//
// The client's bytes are never rewritten: an edit is a place in them and a text that goes there,
// and a send writes the pieces in between one after the other.  So another attempt can edit
// otherwise.
//
//     body   {"prompt": "Hi", "stream": true}
//     edits   ^0         ^ over 4 bytes, [72,105]
//
// Memory: texts belong to the caller.
#pragma once

#include "base/slice.h"

#include <stdint.h>

enum { body_edit_max = 3, body_part_max = 2 * body_edit_max + 1 };

struct body_edit {
    size_t at;
    size_t over; // bytes of the body that the text replaces
    struct slice text;
};

// Sorted by place; they do not overlap.  Of two insertions at one place the first added comes
// first.
struct body_edits {
    struct body_edit all[body_edit_max];
    uint32_t count;
};

void body_edits_add(struct body_edits *edits, size_t at, size_t over, struct slice text);

// Of a body of that size, with the edits made.
size_t body_edits_size(const struct body_edits *edits, size_t body_size);

// The edited body in pieces; returns how many.  Some may be empty.
uint32_t body_edits_parts(const struct body_edits *edits, struct slice body,
                          struct slice parts[body_part_max]);
