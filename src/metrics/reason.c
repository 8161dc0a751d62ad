// SPDX-License-Identifier: Apache-2.0

#include "metrics/reason.h"

#include <math.h>

// 40,000: people read digits in threes.
static void add_count(struct text *out, uint64_t count)
{
    if (count >= 1000) {
        add_count(out, count / 1000);
        text_add_format(out, ",%03u", (unsigned)(count % 1000));
    } else {
        text_add_u64(out, count);
    }
}

static void add_counted(struct text *out, uint64_t count, const char *noun)
{
    add_count(out, count);
    text_add_format(out, " %s%s", noun, count == 1 ? "" : "s");
}

static void add_time(struct text *out, double ms)
{
    if (ms < 0.95) {
        text_add_str(out, "under 1 ms");
    } else if (ms < 999.5) {
        text_add_format(out, "about %.0f ms", ms);
    } else {
        text_add_format(out, ms < 9950 ? "about %.1f s" : "about %.0f s", ms / 1000);
    }
}

static void add_url(struct text *out, const struct reason_party *party)
{
    if (party->url.size > 0) {
        text_add(out, party->url);
    } else {
        text_add_str(out, "a backend that is gone");
    }
}

static void add_queue(struct text *out, const struct reason_party *party)
{
    text_add_str(out, "has ");
    if (party->queued_tokens == 0) {
        text_add_str(out, "nothing queued");
    } else {
        add_counted(out, party->queued_tokens, "token");
        text_add_str(out, " queued");
    }
}

// A number that is known is less than one that is not.
static int compare(double a, double b)
{
    if (isnan(a) || isnan(b)) {
        return (int)isnan(a) - (int)isnan(b);
    }
    return (a > b) - (a < b);
}

// By what the policy went by, as far as that is known.
static bool is_better(const struct reason_party *a, const struct reason_party *b)
{
    int order = compare(a->cost, b->cost);
    return (order != 0 ? order : compare(a->predicted_ms, b->predicted_ms)) < 0;
}

void reason_add_rival(struct reason *reason, const struct reason_party *rival)
{
    if (reason->rival_count == 0 || is_better(rival, &reason->next)) {
        reason->next = *rival;
    }
    if (reason->rival_count == 0 || rival->expected_tokens > reason->fullest.expected_tokens) {
        reason->fullest = *rival;
    }
    reason->rival_count++;
}

static void add_first_token(const struct reason *reason, struct text *out)
{
    if (isfinite(reason->chosen.predicted_ms)) {
        text_add_str(out, ": first token in ");
        add_time(out, reason->chosen.predicted_ms);
    }
}

// What spoke against one that holds more, the plainest first.
static void add_passed_over(const struct reason *reason, struct text *out)
{
    const struct reason_party *chosen = &reason->chosen;
    const struct reason_party *rival = &reason->fullest;
    bool is_slower = isfinite(rival->predicted_ms) && rival->predicted_ms > chosen->predicted_ms;

    text_add_str(out, "; ");
    add_url(out, rival);
    text_add_str(out, " holds more (");
    add_count(out, rival->expected_tokens);
    text_add_str(out, ") but ");
    if (rival->queued_tokens > chosen->queued_tokens) {
        add_queue(out, rival);
    } else if (rival->running_requests > chosen->running_requests) {
        text_add_str(out, "runs ");
        add_counted(out, rival->running_requests, "request");
    } else if (!is_slower) {
        text_add_format(out, "lost by %s's own measure", reason->policy);
        return;
    }
    if (is_slower) {
        bool is_first = rival->queued_tokens <= chosen->queued_tokens &&
                        rival->running_requests <= chosen->running_requests;
        text_add_str(out, is_first ? "would take " : " and would take ");
        add_time(out, rival->predicted_ms);
    }
}

// Nothing of what it holds is worth saying where nobody holds anything.
static void add_next(const struct reason *reason, bool says_held, struct text *out)
{
    const struct reason_party *chosen = &reason->chosen;
    const struct reason_party *next = &reason->next;
    const char *link = " ";

    text_add_str(out, "; the next best, ");
    add_url(out, next);
    text_add_str(out, ",");
    if (says_held) {
        text_add_str(out, " holds ");
        if (next->expected_tokens == 0) {
            text_add_str(out, "none of them");
        } else if (next->expected_tokens == chosen->expected_tokens) {
            text_add_str(out, "as many");
        } else {
            add_count(out, next->expected_tokens);
            text_add_str(out, " of them");
        }
        link = " and ";
    }
    if (next->queued_tokens != chosen->queued_tokens || !isfinite(next->predicted_ms)) {
        bool is_last = !isfinite(next->predicted_ms);
        text_add_str(out, says_held && !is_last ? ", " : link);
        add_queue(out, next);
        link = " and ";
    }
    if (isfinite(next->predicted_ms)) {
        text_add_str(out, link);
        text_add_str(out, "would take ");
        add_time(out, next->predicted_ms);
    }
}

static void add_opening(const struct reason *reason, bool is_inside, struct text *out)
{
    if (reason->attempts > 1) {
        text_add_str(out, is_inside ? "after " : "After ");
        add_counted(out, reason->attempts - 1, "attempt");
        text_add_str(out, " elsewhere, ");
    }
    text_add_format(out, "%s chose ", reason->policy);
    add_url(out, &reason->chosen);
}

static void write_undecided(const struct reason *reason, struct text *out)
{
    if (reason->is_local) {
        text_add_str(out, "No backend was chosen: the router had the answer itself.");
    } else if (reason->problem != NULL) {
        text_add_format(out, "No backend was chosen: the router answered %s in its own name.",
                        reason->problem);
    } else {
        text_add_str(out, "No backend was chosen: it ended before that.");
    }
}

static void write_blind(const struct reason *reason, struct text *out)
{
    add_opening(reason, false, out);
    if (reason->candidate_count == 1) {
        text_add_str(out, ", the only candidate");
    } else {
        text_add_str(out, ", one of ");
        add_count(out, reason->candidate_count);
        text_add_str(out, " candidates");
    }
    text_add_str(out, ", without a look at the prompt; it was running ");
    if (reason->chosen.running_requests == 0) {
        text_add_str(out, "nothing else.");
    } else {
        add_counted(out, reason->chosen.running_requests, "other request");
        text_add_str(out, ".");
    }
}

// No cache speaks for anybody.
static void write_cold(const struct reason *reason, struct text *out)
{
    if (reason->prompt_tokens == 0) {
        text_add_str(out, "No prompt was found in the request, so ");
    } else {
        text_add_str(out, reason->candidate_count == 1 ? "The only candidate holds none of the "
                                                       : "No candidate holds any of the ");
        add_counted(out, reason->prompt_tokens, "prompt token");
        text_add_str(out, reason->candidate_count == 1 ? ": " : ", so ");
    }
    add_opening(reason, true, out);
    text_add_str(out, ", which ");
    add_queue(out, &reason->chosen);
    add_first_token(reason, out);
    if (reason->rival_count > 0) {
        add_next(reason, false, out);
    }
    text_add_str(out, ".");
}

static void write_warm(const struct reason *reason, struct text *out)
{
    const struct reason_party *chosen = &reason->chosen;
    // The prompt's tokens are what the engine counted, when it has; ours may have been more.
    uint32_t held = chosen->expected_tokens < reason->prompt_tokens ? chosen->expected_tokens
                                                                    : reason->prompt_tokens;

    add_opening(reason, false, out);
    text_add_str(out, reason->candidate_count == 1 ? ", the only candidate, which " : ", which ");
    if (chosen->expected_tokens == 0) {
        text_add_str(out, "holds none of the ");
        add_counted(out, reason->prompt_tokens, "prompt token");
    } else {
        text_add_str(out, reason->by_events ? "holds " : "is believed to hold ");
        add_count(out, held);
        text_add_str(out, " of ");
        add_counted(out, reason->prompt_tokens, "prompt token");
    }
    text_add_str(out, " and ");
    add_queue(out, chosen);
    add_first_token(reason, out);
    if (reason->rival_count > 0 && reason->fullest.expected_tokens > chosen->expected_tokens) {
        add_passed_over(reason, out);
    } else if (reason->rival_count > 0) {
        add_next(reason, true, out);
    }
    text_add_str(out, ".");
}

void reason_write(const struct reason *reason, struct text *out)
{
    if (reason->policy == NULL) {
        write_undecided(reason, out);
    } else if (!reason->reads_prompt) {
        write_blind(reason, out);
    } else if (reason->prompt_tokens == 0 ||
               (reason->chosen.expected_tokens == 0 &&
                (reason->rival_count == 0 || reason->fullest.expected_tokens == 0))) {
        write_cold(reason, out);
    } else {
        write_warm(reason, out);
    }
}
