// SPDX-License-Identifier: Apache-2.0
//
// certify.h -- compares the token ids of a dialect with those of an engine, feature by feature.
//
// The suite (certify_suite.h) has requests that use each feature alone and together.  The engine
// returns the ids of each, and we compare them with ours.  A feature is innocent if some request
// with it agrees.  A request that differs puts the blame on its features that are not innocent; if
// all are innocent, on all of them, since their combination is at fault.
//
//     agreed   plain; plain+system; plain+system+tools       innocent: plain, system, tools
//     differed plain+system+names                            to blame: names
//     certified plain, system, tools
//
// An engine without these endpoints, or too busy to respond, certifies nothing.
//
// Pure: the caller sends the requests and passes the responses.
// Threads: one owner.  Memory: the caller's.
#pragma once

#include "dialect/token_reader.h"

// At least as many as the suite has.
enum { certify_case_max = 96 };

struct certify {
    struct dialect *dialect;
    struct token_reader *reader;
    struct slice model; // as the engine calls it; empty: requests name no model
    uint64_t wall_s;

    // certify.c's own.
    uint32_t case_index;
    uint32_t way;      // position in the engine's list of endpoints
    bool has_text;     // llama.cpp: the text of the case agrees, its ids are next
    bool way_is_known; // the engine has that endpoint
    struct token_result ours;
    uint32_t innocent;
    uint32_t agreed_count;
    uint32_t differed_count;
    uint32_t skipped_count;
    uint32_t differing[certify_case_max]; // shapes of the cases that differed
    char why[256];                        // of the last case that differed or got no ids
};

enum certify_verdict {
    CERTIFY_AGREED,
    CERTIFY_DIFFERED,
    CERTIFY_SKIPPED,    // we have no ids for it, or the engine refused it
    CERTIFY_ASK_ON,     // undecided: certify_question has another request for the case
    CERTIFY_IMPOSSIBLE, // the engine has no such endpoint, or is busy
};

struct certify_question {
    const char *name; // of the case
    const char *path;
    struct slice body; // in the space that was given
};

void certify_begin(struct certify *certify, struct dialect *dialect, struct token_reader *reader,
                   struct slice model, uint64_t wall_s);

// The next request to the engine, its body in `space`.  Skips cases without ids of ours.  False:
// all cases are done.
bool certify_question(struct certify *certify, struct text *space, struct certify_question *out);

// Judges the engine's response to the last request.
enum certify_verdict certify_response(struct certify *certify, uint16_t status, struct slice body);

// The features that this engine certifies.
uint32_t certify_result(const struct certify *certify);
