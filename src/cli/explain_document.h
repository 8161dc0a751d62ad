// SPDX-License-Identifier: Apache-2.0
//
// explain_document.h -- what /explain answers, read for people.
//
//     POST /explain           where a request would go: candidates, and how well each was predicted
//     GET  /explain?id=ID     where one went, of those that are kept: the chosen one and its rivals, and what
//                             became of it
//
// One list says which numbers are read and under which title they are shown.  A number that the
// document does not have is NAN, and a column that no row has a number for is not shown: a router that
// tells more or less than this program knows is read all the same.
//
// Memory: one piece, released by explain_document_free.  Strings are parts of the text, as JSON writes
// them, so none has a character that a terminal would act on; the text must outlive them.
#pragma once

#include "base/slice.h"
#include "base/status.h"

enum explain_unit {
    EXPLAIN_COUNT,
    EXPLAIN_SOME,       // a count, and no column where all are 0
    EXPLAIN_DIFFERENCE, // with a sign
    EXPLAIN_MS,
    EXPLAIN_SHARE,   // 0..1
    EXPLAIN_PERCENT, // 0..100
    EXPLAIN_COST,
};

struct explain_field {
    const char *group; // the object in which it is; NULL: the row itself
    const char *name;
    const char *title;
    enum explain_unit unit;
    const char *kept_name; // in a decision that is kept; NULL: it has no such number
};

enum { explain_candidate_numbers = 9, explain_record_numbers = 10 };

extern const struct explain_field explain_candidate_fields[explain_candidate_numbers];
extern const struct explain_field explain_record_fields[explain_record_numbers];

struct explain_candidate {
    struct slice url;
    struct slice events; // none, learning, live; empty: not said
    bool is_chosen;
    double numbers[explain_candidate_numbers];
};

// Predictions of one kind for one backend.
struct explain_record {
    struct slice url;
    const char *kind; // exact, believed
    double numbers[explain_record_numbers];
};

// What became of a request.
struct explain_ending {
    struct slice outcome; // ok, failed …; empty: not said
    double status;        // NAN: not said, as for all of these
    double attempts;
    double cached_tokens;
    double output_tokens;
    double ttft_ms;
    double total_ms;
    struct slice other_url; // where round-robin would have sent it; empty: not known
    double other_cached_tokens;
    double other_ttft_ms;
};

struct explain_document {
    struct slice summary;
    struct slice policy;
    struct slice model;
    double prompt_tokens;
    double wait_ms; // of the chosen one, predicted, before its prompt is begun; NAN: not said
    double prefill_ms;
    bool is_counted; // the prompt's tokens, rather than guessed from its size
    bool is_kept;    // it is of a decision that was made
    struct explain_ending ending;
    uint32_t candidate_count;
    struct explain_candidate *candidates;
    uint32_t record_count;
    struct explain_record *records; // only of backends that have some
    void *memory;
};

// MALFORMED: it is no such document.  EXHAUSTED: memory is short.
enum status explain_document_read(struct slice text, struct explain_document *out);

void explain_document_free(struct explain_document *document);
