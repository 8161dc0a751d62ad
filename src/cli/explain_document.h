// SPDX-License-Identifier: Apache-2.0
//
// explain_document.h -- the documents of /explain, read for people.
//
//     POST /explain           where a request would go: candidates, and how well each was predicted
//     GET  /explain?id=ID     where a recent request went: chosen backend, rivals, outcome
//
// One table names the numbers that are read and their titles.  A number that the document lacks is
// NaN, and a column without any number is not shown, so documents of older and newer routers can be
// read.
//
// Memory: one block, freed by explain_document_free.  Strings are slices of the text with their
// JSON escapes, so they have no control characters; the text must outlive them.
#pragma once

#include "base/slice.h"
#include "base/status.h"

enum explain_unit {
    EXPLAIN_COUNT,
    EXPLAIN_SOME,       // a count; a column of zeros is not shown
    EXPLAIN_DIFFERENCE, // with a sign
    EXPLAIN_MS,
    EXPLAIN_SHARE,   // 0..1
    EXPLAIN_PERCENT, // 0..100
    EXPLAIN_COST,
};

struct explain_field {
    const char *group; // the object that has it; NULL: the row itself
    const char *name;
    const char *title;
    enum explain_unit unit;
    const char *kept_name; // its name in a recorded decision; NULL: not there
};

enum { explain_candidate_numbers = 9, explain_record_numbers = 10 };

extern const struct explain_field explain_candidate_fields[explain_candidate_numbers];
extern const struct explain_field explain_record_fields[explain_record_numbers];

struct explain_candidate {
    struct slice url;
    struct slice events; // none, learning, live; empty: unknown
    bool is_chosen;
    double numbers[explain_candidate_numbers];
};

// Predictions of one kind for one backend.
struct explain_record {
    struct slice url;
    const char *kind; // by_events, believed
    double numbers[explain_record_numbers];
};

// The outcome of a request.
struct explain_ending {
    struct slice outcome; // ok, failed …; empty: unknown
    double status;        // NaN: unknown, as in all fields below
    double attempts;
    double cached_tokens;
    double output_tokens;
    double ttft_ms;
    double total_ms;
    struct slice other_url; // where round-robin would have sent it; empty: unknown
    double other_cached_tokens;
    double other_ttft_ms;
};

struct explain_document {
    struct slice summary;
    struct slice policy;
    struct slice model;
    double prompt_tokens;
    double wait_ms; // predicted queueing time at the chosen backend; NaN: unknown
    double prefill_ms;
    bool is_counted; // prompt_tokens is exact; false: estimated from the size
    bool is_kept;    // a recorded decision
    struct explain_ending ending;
    uint32_t candidate_count;
    struct explain_candidate *candidates;
    uint32_t record_count;
    struct explain_record *records; // only of backends with samples
    void *memory;
};

// MALFORMED: not such a document.  EXHAUSTED: out of memory.
enum status explain_document_read(struct slice text, struct explain_document *out);

void explain_document_free(struct explain_document *document);
