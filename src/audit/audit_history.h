// SPDX-License-Identifier: Apache-2.0
//
// audit_history.h -- one replica's pages over time, and its work between two of them.
//
//     page   page            page   page
//     |------|------ ... ----|------|
//     first                  before last
//                            <------>  AUDIT_LAST
//     <----------------------------->  AUDIT_WHOLE
//     the engine's start ... last      AUDIT_EVER
//
// A page that could not be had leaves a hole: the next interval then begins before it.  After a
// restart of the engine everything begins there.  Pure: time is handed in.
#pragma once

#include "audit/audit_verdict.h"

enum audit_span { AUDIT_LAST, AUDIT_WHOLE, AUDIT_EVER };

struct audit_page {
    uint64_t at_ms; // of one clock for all
    struct engine_counters counters;
};

struct audit_history {
    struct audit_page first;
    struct audit_page before;
    struct audit_page last;
    uint32_t page_count;
    const char *why;    // the last page could not be had
    bool restarted;     // before the last page
    bool has_restarted; // ever
};

// Starts zeroed.
void audit_history_note(struct audit_history *history, const struct audit_page *page);

// `why` is kept.
void audit_history_fail(struct audit_history *history, const char *why);

// The work done in that span.  `wall_s`, since 1970, tells how long ago an engine started;
// negative: not known.  Leaves the name alone.
void audit_history_span(const struct audit_history *history, enum audit_span span, double wall_s,
                        struct audit_replica *out);
