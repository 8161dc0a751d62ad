// SPDX-License-Identifier: Apache-2.0
//
// access_line.h -- a request that is over, as one line of a log: JSON for programs, text for people.
//
// Names are those of GET /decisions, so what reads one reads the other.  What is not known is null and never
// 0.  Texts that came from outside (ids, names of models, paths) cannot end a line or a string: what JSON
// forbids is escaped, and in text what is no visible character becomes `?`.
//
// Half a microsecond a line: whoever writes one for each request counts on that.
//
// Threads: any.
#pragma once

#include "base/text.h"

struct receipt;

// Why a request is told as a slow one.
enum access_slow { ACCESS_NOT_SLOW, ACCESS_SLOW_FIRST, ACCESS_SLOW_TOTAL };

// The longest, its end included.
enum { access_line_size_max = 8192 };

// Both add the line and its end.
void access_line_json(const struct receipt *receipt, enum access_slow slow, struct text *out);
void access_line_text(const struct receipt *receipt, enum access_slow slow, struct text *out);

// What a line in JSON has, in its order; for documents.
struct access_field {
    const char *name;
    const char *example; // as JSON
    const char *help;
};

// NULL: there are no more.
const struct access_field *access_field_at(uint32_t index);
