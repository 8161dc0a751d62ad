// SPDX-License-Identifier: Apache-2.0
//
// access_line.h -- a request that is over, as one line of a log: JSON for programs, text for people.
//
// Names are those of GET /decisions, so what reads one reads the other.  What is not known is null and never
// 0; what most requests do not have (access_fields.def) is left out where it is missing.  Texts that came from
// outside (ids, names of models, paths) cannot end a line or a string: what JSON forbids is escaped, and in text
// what is no visible character becomes `?`.
//
// Less than two tenths of a microsecond a line: whoever writes one for each request counts on that.
//
// Threads: any; a struct access_second has one owner.
#pragma once

#include "base/text.h"

struct receipt;

// Why a request is told as a slow one.
enum access_slow { ACCESS_NOT_SLOW, ACCESS_SLOW_FIRST, ACCESS_SLOW_TOTAL };

// The longest, its end included.
enum { access_line_size_max = 8192 };

// The second that was written last, as text: the next line is most likely of the same.  Begins as {0}.
struct access_second {
    uint64_t end;     // of the seconds since 1970; 0: none was written
    uint8_t text[20]; // 2026-03-01T12:00:00.
};

// Both add the line and its end.  There must be room for the longest; if not, `out` overflows.
void access_line_json(const struct receipt *receipt, enum access_slow slow,
                      struct access_second *second, struct text *out);
void access_line_text(const struct receipt *receipt, enum access_slow slow,
                      struct access_second *second, struct text *out);

// What a line in JSON has, in its order; for documents.
struct access_field {
    const char *name;
    const char *example; // as JSON
    const char *help;
};

// NULL: there are no more.
const struct access_field *access_field_at(uint32_t index);
