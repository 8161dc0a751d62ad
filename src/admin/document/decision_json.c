// SPDX-License-Identifier: Apache-2.0

#include "admin/document/decision_json.h"

#include "admin/admin_call.h"
#include "base/base.h"
#include "base/text.h"
#include "base/utf8.h"
#include "chronicle/chronicle.h"
#include "fleet/fleet.h"
#include "metrics/reason.h"
#include "policy/policy.h"

#include <math.h>

// Urls of two backends and what is said of them.
enum { why_size_max = 4096 };

// What a decision is written from.
struct view {
    const struct chronicle_decision *decision;
    const struct receipt *receipt;
    const struct fleet *fleet;
    struct receipt_parts parts;
    bool reads_prompt; // the policy does, so there are predictions
};

static double known(double number)
{
    return number >= 0 ? number : (double)NAN;
}

static struct slice url_of(const struct fleet *fleet, uint64_t id)
{
    const struct backend *backend = fleet_find(fleet, id);
    return backend != NULL ? slice_str(backend->url) : (struct slice){0};
}

// A member with its comma and its key.
static void add_text(struct text *json, const char *key, struct slice text)
{
    text_add_format(json, ",\"%s\":", key);
    text_add_json(json, text);
}

// Of a client: one that is no UTF-8, or was cut within a letter, would make the whole document none.
static void add_foreign(struct text *json, const char *key, struct slice text)
{
    uint8_t space[receipt_text_max];
    ASSERT(text.size <= sizeof(space));
    add_text(json, key, utf8_tamed(text, space));
}

static void add_text_or_null(struct text *json, const char *key, const char *text)
{
    if (text != NULL) {
        add_text(json, key, slice_str(text));
    } else {
        text_add_format(json, ",\"%s\":null", key);
    }
}

static void add_number(struct text *json, const char *key, double number)
{
    text_add_format(json, ",\"%s\":", key);
    admin_add_number(json, number);
}

static void add_backend(struct text *json, const char *key, uint64_t id, struct slice url)
{
    if (id == 0) {
        text_add_format(json, ",\"%s\":null", key);
        return;
    }
    text_add_format(json, ",\"%s\":{\"id\":%lu,\"url\":", key, (unsigned long)id);
    if (url.size > 0) {
        text_add_json(json, url);
    } else {
        text_add_str(json, "null");
    }
    text_add_str(json, "}");
}

static double predicted_ms(const struct view *view)
{
    const struct receipt *receipt = view->receipt;
    return view->reads_prompt ? (double)(receipt->wait_ms + receipt->prefill_ms) : (double)NAN;
}

static void add_request(const struct view *view, struct text *json)
{
    const struct receipt *receipt = view->receipt;

    text_add_format(json, "{\"serial\":%lu", (unsigned long)view->decision->serial);
    add_foreign(json, "id", view->parts.id);
    text_add_format(json, ",\"time_ms\":%lu", (unsigned long)(receipt->wall_us / 1000));
    add_foreign(json, "model", view->parts.model);
    add_foreign(json, "path", view->parts.path);
    add_text_or_null(json, "policy", receipt->policy);
    add_backend(json, "backend", receipt->backend, view->parts.url);
    add_text(json, "outcome", slice_str(receipt_outcome_name(receipt->outcome)));
    add_number(json, "status", receipt->status != 0 ? receipt->status : (double)NAN);
    add_text_or_null(json, "problem", receipt->problem);
    text_add_format(json, ",\"attempts\":%u,\"streamed\":%s", receipt->attempts,
                    receipt->is_streamed ? "true" : "false");
}

static void add_numbers(const struct view *view, struct text *json)
{
    const struct receipt *receipt = view->receipt;

    text_add_format(json, ",\"prompt_tokens\":%u,\"expected_tokens\":%u,\"cached_tokens\":",
                    receipt->prompt_tokens, receipt->expected_tokens);
    if (receipt->is_told) {
        text_add_u64(json, receipt->cached_tokens);
    } else {
        text_add_str(json, "null");
    }
    text_add_format(json,
                    ",\"output_tokens\":%u,\"exact\":%s,\"candidates\":%u,"
                    "\"running_requests\":%u,\"queued_tokens\":%lu",
                    receipt->output_tokens, receipt->is_exact ? "true" : "false",
                    receipt->candidate_count, receipt->running_requests,
                    (unsigned long)receipt->queued_tokens);
    add_number(json, "predicted_ms", predicted_ms(view));
    add_number(json, "cost", (double)receipt->cost);
    add_number(json, "ttft_ms", known(receipt_ttft_ms(receipt)));
    add_number(json, "tpot_ms", known(receipt_tpot_ms(receipt)));
    add_number(json, "total_ms",
               receipt->end_us > 0 ? (double)receipt->end_us / 1000 : (double)NAN);
    add_number(json, "saved_ms", (double)receipt->saved_us / 1000);
    if (!receipt_is_timed(receipt)) {
        text_add_str(json, ",\"stages_us\":null");
        return;
    }
    text_add_str(json, ",\"stages_us\":{");
    for (int i = 0; i < RECEIPT_STAGE_COUNT; i++) {
        text_add_format(json, "%s\"%s\":%.6g", i > 0 ? "," : "",
                        receipt_stage_name((enum receipt_stage)i),
                        (double)receipt->stage_ns[i] / 1000);
    }
    text_add_str(json, "}");
}

// What a rotation would have done.
static void add_shadow(const struct view *view, struct text *json)
{
    const struct chronicle_decision *decision = view->decision;

    if (decision->shadow_backend == 0) {
        text_add_str(json, ",\"round_robin\":null");
        return;
    }
    text_add_format(json, ",\"round_robin\":{\"cached_tokens\":%u", decision->shadow_cached_tokens);
    add_number(json, "ttft_ms", known((double)decision->shadow_ttft_ms));
    add_backend(json, "backend", decision->shadow_backend,
                url_of(view->fleet, decision->shadow_backend));
    text_add_str(json, "}");
}

static void add_rival(const struct view *view, const struct receipt_rival *rival, struct text *json)
{
    struct slice url = url_of(view->fleet, rival->backend);

    text_add_format(json, "{\"id\":%lu", (unsigned long)rival->backend);
    if (url.size > 0) {
        add_text(json, "url", url);
    } else {
        text_add_str(json, ",\"url\":null");
    }
    text_add_format(json, ",\"expected_tokens\":%u,\"queued_tokens\":%lu,\"running_requests\":%u",
                    rival->expected_tokens, (unsigned long)rival->queued_tokens,
                    rival->running_requests);
    add_number(json, "predicted_ms", (double)rival->predicted_ms);
    add_number(json, "cost", (double)rival->cost);
    text_add_str(json, "}");
}

static void add_rivals(const struct view *view, struct text *json)
{
    text_add_str(json, ",\"rivals\":[");
    for (uint32_t i = 0; i < view->receipt->rival_count; i++) {
        text_add_str(json, i > 0 ? "," : "");
        add_rival(view, &view->parts.rivals[i], json);
    }
    text_add_str(json, "]");
}

static void add_why(const struct view *view, struct text *json)
{
    const struct receipt *receipt = view->receipt;
    struct reason reason = {
        .policy = receipt->policy,
        .reads_prompt = view->reads_prompt,
        .is_exact = receipt->is_exact,
        .is_local = receipt->outcome == RECEIPT_LOCAL,
        .problem = receipt->problem,
        .prompt_tokens = receipt->prompt_tokens,
        .candidate_count = receipt->candidate_count,
        .attempts = receipt->attempts,
        .chosen = {.url = view->parts.url,
                   .expected_tokens = receipt->expected_tokens,
                   .running_requests = receipt->running_requests,
                   .queued_tokens = receipt->queued_tokens,
                   .predicted_ms = predicted_ms(view),
                   .cost = (double)receipt->cost},
    };
    char line[why_size_max];
    struct text text = text_over(line, sizeof(line));

    for (uint32_t i = 0; i < receipt->rival_count; i++) {
        const struct receipt_rival *rival = &view->parts.rivals[i];
        reason_add_rival(&reason, &(struct reason_party){
                                      .url = url_of(view->fleet, rival->backend),
                                      .expected_tokens = rival->expected_tokens,
                                      .running_requests = rival->running_requests,
                                      .queued_tokens = rival->queued_tokens,
                                      .predicted_ms = (double)rival->predicted_ms,
                                      .cost = (double)rival->cost,
                                  });
    }
    reason_write(&reason, &text);
    add_text(json, "why", text_slice(&text));
}

void decision_json_add(const struct chronicle_decision *decision, const struct fleet *fleet,
                       struct text *json)
{
    const struct receipt *receipt = decision->receipt;
    const struct policy *policy = receipt->policy != NULL ? policy_find(receipt->policy) : NULL;
    struct view view = {
        .decision = decision,
        .receipt = receipt,
        .fleet = fleet,
        .reads_prompt = policy != NULL && policy->reads_prompt,
    };

    receipt_parts(receipt, &view.parts);
    add_request(&view, json);
    add_numbers(&view, json);
    add_shadow(&view, json);
    add_rivals(&view, json);
    add_why(&view, json);
    text_add_str(json, "}");
}
