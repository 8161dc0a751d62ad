// SPDX-License-Identifier: Apache-2.0
//
// access_line.h -- a finished request as one line of the request log: JSON for programs, text for
// people.
//
// Fields have the names of GET /decisions, so that one reader can read both.  Unknown values are
// null, never 0; access_fields.def says which fields are left out of most lines.  Text of peers
// (ids, names of models, paths) cannot end a line or a string: JSON escapes it, and text shows `?`
// for characters that are not visible.
//
// A line takes less than 0.2 microseconds: the log may have one for each request.
//
// Threads: any; a struct access_second has one owner.
#pragma once

#include "base/text.h"

struct receipt;

// Why a request counts as slow.
enum access_slow { ACCESS_NOT_SLOW, ACCESS_SLOW_FIRST, ACCESS_SLOW_TOTAL };

// The longest line, its newline included.
enum { access_line_size_max = 8192 };

// The last second that was written, as text: the next line most likely has the same.  Begins as
// {0}.
struct access_second {
    uint64_t end;     // of that second, since 1970; 0: none was written
    uint8_t text[20]; // 2026-03-01T12:00:00.
};

// Both add the line and its newline.  `out` must have space for the longest line, or it overflows.
void access_line_json(const struct receipt *receipt, enum access_slow slow,
                      struct access_second *second, struct text *out);
void access_line_text(const struct receipt *receipt, enum access_slow slow,
                      struct access_second *second, struct text *out);
