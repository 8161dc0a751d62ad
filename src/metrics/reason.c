// SPDX-License-Identifier: Apache-2.0

#include "metrics/reason.h"

#include <math.h>

// With commas: 40,000.
static void reason_add_count(struct text *out, uint64_t count)
{
    if (count >= 1000) {
        reason_add_count(out, count / 1000);
        text_add_format(out, ",%03u", (unsigned)(count % 1000));
    } else {
        text_add_u64(out, count);
    }
}

static void reason_add_counted(struct text *out, uint64_t count, const char *noun)
{
    reason_add_count(out, count);
    text_add_format(out, " %s%s", noun, count == 1 ? "" : "s");
}

static void reason_add_time(struct text *out, double ms)
{
    if (ms < 0.95) {
        text_add_str(out, "under 1 ms");
    } else if (ms < 999.5) {
        text_add_format(out, "about %.0f ms", ms);
    } else {
        text_add_format(out, ms < 9950 ? "about %.1f s" : "about %.0f s", ms / 1000);
    }
}

static void reason_add_url(struct text *out, struct slice url)
{
    text_add(out, url.size > 0 ? url : slice_str("a backend that has left"));
}

static void reason_add_queue(struct text *out, const struct decision_party *party)
{
    text_add_str(out, "has ");
    if (party->queued_tokens == 0) {
        text_add_str(out, "nothing queued");
    } else {
        reason_add_counted(out, party->queued_tokens, "token");
        text_add_str(out, " queued");
    }
}

// An unknown number (NAN) comes after all known ones.
static int reason_compare(double a, double b)
{
    if (isnan(a) || isnan(b)) {
        return (int)isnan(a) - (int)isnan(b);
    }
    return (a > b) - (a < b);
}

// By the policy's own cost; by the predicted time if that is equal or unknown.
static bool reason_is_better(const struct decision *decision, const struct decision_party *a,
                             const struct decision_party *b)
{
    int order = reason_compare((double)a->cost, (double)b->cost);
    return (order != 0 ? order
                       : reason_compare(decision_predicted_ms(decision, a),
                                        decision_predicted_ms(decision, b))) < 0;
}

void reason_add_rival(struct reason *reason, const struct decision_party *party, struct slice url)
{
    struct reason_party rival = {.party = party, .url = url};

    if (reason->next.party == NULL ||
        reason_is_better(reason->decision, party, reason->next.party)) {
        reason->next = rival;
    }
    if (reason->fullest.party == NULL ||
        party->expected_tokens > reason->fullest.party->expected_tokens) {
        reason->fullest = rival;
    }
}

static void reason_add_first_token(const struct reason *reason, struct text *out)
{
    double predicted_ms = decision_predicted_ms(reason->decision, &reason->decision->chosen);
    if (isfinite(predicted_ms)) {
        text_add_str(out, ": first token in ");
        reason_add_time(out, predicted_ms);
    }
}

// Names the plainest argument against a rival that holds more.
static void reason_add_fullest(const struct reason *reason, struct text *out)
{
    const struct decision_party *chosen = &reason->decision->chosen;
    const struct decision_party *rival = reason->fullest.party;
    double rival_ms = decision_predicted_ms(reason->decision, rival);
    bool is_slower =
        isfinite(rival_ms) && rival_ms > decision_predicted_ms(reason->decision, chosen);
    const char *link = " and ";

    text_add_str(out, "; ");
    reason_add_url(out, reason->fullest.url);
    text_add_str(out, " holds more (");
    reason_add_count(out, rival->expected_tokens);
    text_add_str(out, ") but ");
    if (rival->queued_tokens > chosen->queued_tokens) {
        reason_add_queue(out, rival);
    } else if (rival->running_requests > chosen->running_requests) {
        text_add_str(out, "runs ");
        reason_add_counted(out, rival->running_requests, "request");
    } else if (is_slower) {
        link = "";
    } else {
        text_add_format(out, "lost by %s's own measure", reason->decision->policy->name);
    }
    if (is_slower) {
        text_add_str(out, link);
        text_add_str(out, "would take ");
        reason_add_time(out, rival_ms);
    }
}

// `says_held` is false when no candidate holds any of the prompt.
static void reason_add_next(const struct reason *reason, bool says_held, struct text *out)
{
    const struct decision_party *chosen = &reason->decision->chosen;
    const struct decision_party *next = reason->next.party;
    double next_ms = decision_predicted_ms(reason->decision, next);
    const char *link = " ";

    text_add_str(out, "; the next best, ");
    reason_add_url(out, reason->next.url);
    text_add_str(out, ",");
    if (says_held) {
        text_add_str(out, " holds ");
        if (next->expected_tokens == 0) {
            text_add_str(out, "none of them");
        } else if (next->expected_tokens == chosen->expected_tokens) {
            text_add_str(out, "as many");
        } else {
            reason_add_count(out, next->expected_tokens);
            text_add_str(out, " of them");
        }
        link = " and ";
    }
    if (next->queued_tokens != chosen->queued_tokens || !isfinite(next_ms)) {
        text_add_str(out, says_held && isfinite(next_ms) ? ", " : link);
        reason_add_queue(out, next);
        link = " and ";
    }
    if (isfinite(next_ms)) {
        text_add_str(out, link);
        text_add_str(out, "would take ");
        reason_add_time(out, next_ms);
    }
}

static void reason_add_opening(const struct reason *reason, bool is_inside, struct text *out)
{
    if (reason->attempts > 1) {
        text_add_str(out, is_inside ? "after " : "After ");
        reason_add_counted(out, reason->attempts - 1, "attempt");
        text_add_str(out, " elsewhere, ");
    }
    text_add_format(out, "%s chose ", reason->decision->policy->name);
    reason_add_url(out, reason->url);
}

static void reason_write_undecided(const struct reason *reason, struct text *out)
{
    if (reason->is_local) {
        text_add_str(out, "No backend was chosen: the router responded itself.");
    } else if (reason->problem != NULL) {
        text_add_format(out, "No backend was chosen: the router responded %s.", reason->problem);
    } else {
        text_add_str(out, "No backend was chosen: the request ended before.");
    }
}

static void reason_write_blind(const struct reason *reason, struct text *out)
{
    reason_add_opening(reason, false, out);
    if (reason->decision->candidate_count == 1) {
        text_add_str(out, ", the only candidate");
    } else {
        text_add_str(out, ", one of ");
        reason_add_count(out, reason->decision->candidate_count);
        text_add_str(out, " candidates");
    }
    text_add_str(out, ", without a look at the prompt; it was running ");
    if (reason->decision->chosen.running_requests == 0) {
        text_add_str(out, "nothing else.");
    } else {
        reason_add_counted(out, reason->decision->chosen.running_requests, "other request");
        text_add_str(out, ".");
    }
}

// No candidate holds any of the prompt.
static void reason_write_cold(const struct reason *reason, struct text *out)
{
    if (reason->prompt_tokens == 0) {
        text_add_str(out, "No prompt was found in the request, so ");
    } else {
        text_add_str(out, reason->decision->candidate_count == 1
                              ? "The only candidate holds none of the "
                              : "No candidate holds any of the ");
        reason_add_counted(out, reason->prompt_tokens, "prompt token");
        text_add_str(out, reason->decision->candidate_count == 1 ? ": " : ", so ");
    }
    reason_add_opening(reason, true, out);
    text_add_str(out, ", which ");
    reason_add_queue(out, &reason->decision->chosen);
    reason_add_first_token(reason, out);
    if (reason->next.party != NULL) {
        reason_add_next(reason, false, out);
    }
    text_add_str(out, ".");
}

static void reason_write_warm(const struct reason *reason, struct text *out)
{
    const struct decision_party *chosen = &reason->decision->chosen;
    // prompt_tokens is the engine's count once it has one; our estimate may have been higher.
    uint32_t held = chosen->expected_tokens < reason->prompt_tokens ? chosen->expected_tokens
                                                                    : reason->prompt_tokens;

    reason_add_opening(reason, false, out);
    text_add_str(out, reason->decision->candidate_count == 1 ? ", the only candidate, which "
                                                             : ", which ");
    if (chosen->expected_tokens == 0) {
        text_add_str(out, "holds none of the ");
        reason_add_counted(out, reason->prompt_tokens, "prompt token");
    } else {
        text_add_str(out, chosen->by_events ? "holds " : "is believed to hold ");
        reason_add_count(out, held);
        text_add_str(out, " of ");
        reason_add_counted(out, reason->prompt_tokens, "prompt token");
    }
    text_add_str(out, " and ");
    reason_add_queue(out, chosen);
    reason_add_first_token(reason, out);
    if (reason->fullest.party != NULL &&
        reason->fullest.party->expected_tokens > chosen->expected_tokens) {
        reason_add_fullest(reason, out);
    } else if (reason->next.party != NULL) {
        reason_add_next(reason, true, out);
    }
    text_add_str(out, ".");
}

void reason_write(const struct reason *reason, struct text *out)
{
    const struct decision *decision = reason->decision;
    uint32_t fullest = reason->fullest.party != NULL ? reason->fullest.party->expected_tokens : 0;

    if (decision->policy == NULL) {
        reason_write_undecided(reason, out);
    } else if (!decision->policy->reads_prompt) {
        reason_write_blind(reason, out);
    } else if (reason->prompt_tokens == 0 ||
               (decision->chosen.expected_tokens == 0 && fullest == 0)) {
        reason_write_cold(reason, out);
    } else {
        reason_write_warm(reason, out);
    }
}
