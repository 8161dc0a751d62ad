// SPDX-License-Identifier: Apache-2.0

#include "admin/document/decision_json.h"

#include "base/base.h"
#include "chronicle/chronicle.h"
#include "fleet/fleet.h"
#include "json/json_writer.h"
#include "metrics/reason.h"

#include <math.h>

enum {
    decision_digits = 6,
    why_size_max = 4096, // the URLs of two backends and a sentence about each
};

// The sources of one decision's document.
struct decision_sources {
    const struct chronicle_decision *decision;
    const struct receipt *receipt;
    const struct fleet *fleet;
    struct receipt_parts parts;
    bool reads_prompt; // the policy does, so there are predictions
};

// Negative means unknown in a receipt; JSON says null.
static void decision_put_known(struct json_writer *json, const char *key, double number)
{
    json_put_number(json, key, number >= 0 ? number : (double)NAN, decision_digits);
}

static void decision_put_figure(struct json_writer *json, const char *key, double number)
{
    json_put_number(json, key, number, decision_digits);
}

// NULL once the backend has left the fleet.
static const char *decision_url(const struct fleet *fleet, uint64_t id)
{
    const struct backend *backend = fleet_find(fleet, id);
    return backend != NULL ? backend->url : NULL;
}

static void decision_put_chosen(struct json_writer *json, uint64_t id, struct slice url)
{
    if (id == 0) {
        json_put_null(json, "backend");
        return;
    }
    json_begin_object(json, "backend");
    json_put_u64(json, "id", id);
    if (url.size > 0) {
        json_put_string(json, "url", url);
    } else {
        json_put_null(json, "url");
    }
    json_end(json);
}

static void decision_put_request(const struct decision_sources *from, struct json_writer *json)
{
    const struct receipt *receipt = from->receipt;

    json_put_u64(json, "serial", from->decision->serial);
    json_put_foreign(json, "id", from->parts.id);
    json_put_u64(json, "time_ms", receipt->wall_us / 1000);
    json_put_foreign(json, "model", from->parts.model);
    json_put_foreign(json, "path", from->parts.path);
    json_put_str(json, "policy", receipt_policy_name(receipt));
    decision_put_chosen(json, receipt->decision.chosen.backend, from->parts.url);
    json_put_str(json, "outcome", receipt_outcome_name(receipt->outcome));
    decision_put_figure(json, "status", receipt->status != 0 ? receipt->status : (double)NAN);
    json_put_str(json, "problem", receipt->problem);
    json_put_u64(json, "attempts", receipt->attempts);
    json_put_bool(json, "streamed", receipt->is_streamed);
}

static void decision_put_stages(const struct receipt *receipt, struct json_writer *json)
{
    if (!receipt_is_timed(receipt)) {
        json_put_null(json, "stages_us");
        return;
    }
    json_begin_object(json, "stages_us");
    for (int i = 0; i < RECEIPT_STAGE_COUNT; i++) {
        decision_put_figure(json, receipt_stage_name((enum receipt_stage)i),
                            (double)receipt->stage_ns[i] / 1000);
    }
    json_end(json);
}

static void decision_put_numbers(const struct decision_sources *from, struct json_writer *json)
{
    const struct receipt *receipt = from->receipt;

    json_put_u64(json, "prompt_tokens", receipt->prompt_tokens);
    json_put_u64(json, "expected_tokens", receipt->decision.chosen.expected_tokens);
    if (receipt->has_cached_tokens) {
        json_put_u64(json, "cached_tokens", receipt->cached_tokens);
    } else {
        json_put_null(json, "cached_tokens");
    }
    json_put_u64(json, "output_tokens", receipt->output_tokens);
    json_put_bool(json, "by_events", receipt->decision.chosen.by_events);
    json_put_u64(json, "candidates", receipt->decision.candidate_count);
    json_put_u64(json, "running_requests", receipt->decision.chosen.running_requests);
    json_put_u64(json, "queued_tokens", receipt->decision.chosen.queued_tokens);
    decision_put_figure(json, "predicted_ms",
                        decision_predicted_ms(&receipt->decision, &receipt->decision.chosen));
    decision_put_figure(json, "cost", (double)receipt->decision.chosen.cost);
    decision_put_known(json, "ttft_ms", receipt_ttft_ms(receipt));
    decision_put_known(json, "tpot_ms", receipt_tpot_ms(receipt));
    decision_put_figure(json, "total_ms",
                        receipt->end_us > 0 ? (double)receipt->end_us / 1000 : (double)NAN);
    decision_put_figure(json, "saved_ms", (double)receipt->saved_us / 1000);
    decision_put_stages(receipt, json);
}

// The estimate for round-robin.
static void decision_put_shadow(const struct decision_sources *from, struct json_writer *json)
{
    const struct chronicle_decision *decision = from->decision;
    const char *url = decision_url(from->fleet, decision->shadow_backend);

    if (decision->shadow_backend == 0) {
        json_put_null(json, "round_robin");
        return;
    }
    json_begin_object(json, "round_robin");
    json_put_u64(json, "cached_tokens", decision->shadow_cached_tokens);
    decision_put_known(json, "ttft_ms", (double)decision->shadow_ttft_ms);
    decision_put_chosen(json, decision->shadow_backend, slice_str(url != NULL ? url : ""));
    json_end(json);
}

static void decision_put_rivals(const struct decision_sources *from, struct json_writer *json)
{
    json_begin_array(json, "rivals");
    for (uint32_t i = 0; i < from->receipt->rival_count; i++) {
        const struct decision_party *rival = &from->parts.rivals[i];
        json_begin_object(json, NULL);
        json_put_u64(json, "id", rival->backend);
        json_put_str(json, "url", decision_url(from->fleet, rival->backend));
        json_put_u64(json, "expected_tokens", rival->expected_tokens);
        json_put_u64(json, "queued_tokens", rival->queued_tokens);
        json_put_u64(json, "running_requests", rival->running_requests);
        decision_put_figure(json, "predicted_ms",
                            decision_predicted_ms(&from->receipt->decision, rival));
        decision_put_figure(json, "cost", (double)rival->cost);
        json_end(json);
    }
    json_end(json);
}

static void decision_put_why(const struct decision_sources *from, struct json_writer *json)
{
    const struct receipt *receipt = from->receipt;
    struct reason reason = {
        .policy = receipt_policy_name(receipt),
        .reads_prompt = from->reads_prompt,
        .by_events = receipt->decision.chosen.by_events,
        .is_local = receipt->outcome == RECEIPT_LOCAL,
        .problem = receipt->problem,
        .prompt_tokens = receipt->prompt_tokens,
        .candidate_count = receipt->decision.candidate_count,
        .attempts = receipt->attempts,
        .chosen = {.url = from->parts.url,
                   .expected_tokens = receipt->decision.chosen.expected_tokens,
                   .running_requests = receipt->decision.chosen.running_requests,
                   .queued_tokens = receipt->decision.chosen.queued_tokens,
                   .predicted_ms =
                       decision_predicted_ms(&receipt->decision, &receipt->decision.chosen),
                   .cost = (double)receipt->decision.chosen.cost},
    };
    char line[why_size_max];
    struct text text = text_over(line, sizeof(line));

    for (uint32_t i = 0; i < receipt->rival_count; i++) {
        const struct decision_party *rival = &from->parts.rivals[i];
        const char *url = decision_url(from->fleet, rival->backend);
        reason_add_rival(&reason,
                         &(struct reason_party){
                             .url = slice_str(url != NULL ? url : ""),
                             .expected_tokens = rival->expected_tokens,
                             .running_requests = rival->running_requests,
                             .queued_tokens = rival->queued_tokens,
                             .predicted_ms = decision_predicted_ms(&from->receipt->decision, rival),
                             .cost = (double)rival->cost,
                         });
    }
    reason_write(&reason, &text);
    json_put_string(json, "why", text_slice(&text));
}

void decision_json_put(const struct chronicle_decision *decision, const struct fleet *fleet,
                       struct json_writer *json)
{
    const struct receipt *receipt = decision->receipt;
    const struct policy *policy = receipt->decision.policy;
    struct decision_sources from = {
        .decision = decision,
        .receipt = receipt,
        .fleet = fleet,
        .reads_prompt = policy != NULL && policy->reads_prompt,
    };

    receipt_parts(receipt, &from.parts);
    json_begin_object(json, NULL);
    decision_put_request(&from, json);
    decision_put_numbers(&from, json);
    decision_put_shadow(&from, json);
    decision_put_rivals(&from, json);
    decision_put_why(&from, json);
    json_end(json);
}
