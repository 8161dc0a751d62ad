// SPDX-License-Identifier: Apache-2.0
//
// certify.h -- the examination of a dialect by one engine: is this what you would compute?
//
// The suite (certify_suite.h) has requests that use each feature alone and together.  We ask the
// engine for the ids of each and compare them with ours.  A feature is innocent when a request that
// uses it agreed.  A request that differs puts the blame on those of its features that are not
// innocent; if all are innocent, on all of them, since their combination is at fault.
//
//     agreed   plain; plain+system; plain+system+tools       innocent: plain, system, tools
//     differed plain+system+names                            to blame: names
//     certified plain, system, tools
//
// An engine without these endpoints, or too busy to respond, certifies nothing.
//
// Pure: the caller sends the requests and brings the responses.
// Threads: one owner.  Memory: the caller's.
#pragma once

#include "dialect/token_reader.h"

// At least as many as the suite has.
enum { certify_case_max = 96 };

struct certify {
    struct dialect *dialect;
    struct token_reader *reader;
    struct slice model; // as the engine calls it; empty: questions name none
    uint64_t wall_s;

    // certify.c's own.
    uint32_t case_index;
    uint32_t way;      // of asking, in the engine's list
    bool has_text;     // llama.cpp: the text of the case agreed, and its ids are asked for next
    bool way_is_known; // the engine has responded to it
    struct token_result ours;
    uint32_t innocent;
    uint32_t agreed_count;
    uint32_t differed_count;
    uint32_t skipped_count;
    uint32_t differing[certify_case_max]; // shapes of the cases that differed
    char why[256];                        // of the last case that differed or could not be asked
};

enum certify_verdict {
    CERTIFY_AGREED,
    CERTIFY_DIFFERED,
    CERTIFY_SKIPPED,    // we have no ids for it, or the engine refused it
    CERTIFY_ASK_ON,     // the case is not decided: certify_question has the next question
    CERTIFY_IMPOSSIBLE, // the engine cannot be asked
};

struct certify_question {
    const char *name; // of the case
    const char *path;
    struct slice body; // in the space that was given
};

void certify_begin(struct certify *certify, struct dialect *dialect, struct token_reader *reader,
                   struct slice model, uint64_t wall_s);

// The next question, its body written to `space`.  Cases that we have no ids for are skipped.
// False when all cases are done.
bool certify_question(struct certify *certify, struct text *space, struct certify_question *out);

// The engine's response to the last question.
enum certify_verdict certify_answer(struct certify *certify, uint16_t status, struct slice body);

// The features that this engine certifies.
uint32_t certify_result(const struct certify *certify);
