// SPDX-License-Identifier: Apache-2.0

#include "audit/audit_history.h"

void audit_history_note(struct audit_history *history, const struct audit_page *page)
{
    struct engine_counters done;
    struct audit_page next = *page;

    history->why = NULL;
    if (history->page_count == 0) {
        history->first = next;
    } else if (next.counters.lists_steps) {
        // An engine that lists no steps has taken none: its counters stand.
        engine_counters_complete(&next.counters, &history->last.counters);
    }
    history->restarted = history->page_count > 0 &&
                         !engine_counters_since(&history->last.counters, &next.counters, &done);
    if (history->restarted) {
        // Counters begin at 0 with the restart, at an unknown time in between.
        engine_counters_read(slice_str(""), &history->last.counters);
        history->first = history->last;
        history->has_restarted = true;
    }
    history->before = history->page_count == 0 ? next : history->last;
    history->last = next;
    history->page_count++;
}

void audit_history_fail(struct audit_history *history, const char *why)
{
    history->why = why;
}

static double seconds_between(const struct audit_page *from, const struct audit_page *to)
{
    return (double)(to->at_ms - from->at_ms) / 1000;
}

static double age_s(const struct engine_counters *counters, double wall_s)
{
    bool is_known = counters->started_s > 0 && wall_s > counters->started_s;
    return is_known ? wall_s - counters->started_s : -1;
}

static const char *audit_history_gap(const struct audit_history *history, enum audit_span span)
{
    if (history->why != NULL && (span != AUDIT_WHOLE || history->page_count < 2)) {
        return history->why;
    }
    if (history->page_count < (span == AUDIT_EVER ? 1 : 2)) {
        return "it was read only once";
    }
    if (!engine_counters_has_any(&history->last.counters)) {
        return history->last.counters.lists_steps ? "it lists no steps"
                                                  : "its page says nothing of prompts";
    }
    return NULL;
}

void audit_history_span(const struct audit_history *history, enum audit_span span, double wall_s,
                        struct audit_replica *out)
{
    const struct audit_page *from = span == AUDIT_WHOLE ? &history->first : &history->before;
    out->why = audit_history_gap(history, span);
    out->restarted = span == AUDIT_WHOLE ? history->has_restarted : history->restarted;
    out->span_s = -1;
    engine_counters_read(slice_str(""), &out->done); // says nothing
    if (out->why != NULL) {
        return;
    }
    if (span == AUDIT_EVER) {
        out->done = history->last.counters;
        out->span_s = age_s(&out->done, wall_s);
        return;
    }
    if (!engine_counters_since(&from->counters, &history->last.counters, &out->done)) {
        out->restarted = true; // it fell a little each time
    }
    out->span_s = seconds_between(from, &history->last);
}
