// SPDX-License-Identifier: Apache-2.0

#include "admin/document/decision_json.h"

#include "base/base.h"
#include "chronicle/chronicle.h"
#include "fleet/fleet.h"
#include "json/json_writer.h"
#include "metrics/reason.h"

enum {
    decision_digits = 6,
    sentence_size_max = 4096, // the URLs of two backends and a sentence about each
};

// The sources of one decision's document.
struct decision_sources {
    const struct chronicle_decision *decision;
    const struct receipt *receipt;
    const struct fleet *fleet;
    struct receipt_parts parts;
};

static void decision_put_figure(struct json_writer *json, const char *key, double number)
{
    json_put_number(json, key, number, decision_digits);
}

void decision_json_put_party(const struct decision *decision, const struct decision_party *party,
                             struct json_writer *json)
{
    json_put_u64(json, "expected_tokens", party->expected_tokens);
    json_put_u64(json, "queued_tokens", party->queued_tokens);
    json_put_u64(json, "running_requests", party->running_requests);
    decision_put_figure(json, "predicted_ms", decision_predicted_ms(decision, party));
    decision_put_figure(json, "cost", (double)party->cost);
}

void decision_json_put_reason(const struct reason *reason, const char *key,
                              struct json_writer *json)
{
    char line[sentence_size_max];
    struct text text = text_over(line, sizeof(line));

    reason_write(reason, &text);
    json_put_string(json, key, text_slice(&text));
}

// Empty once the backend has left the fleet.
static struct slice decision_url(const struct fleet *fleet, uint64_t id)
{
    const struct backend *backend = fleet_find(fleet, id);
    return slice_str(backend != NULL ? backend->url : "");
}

// The members "id" and "url".
static void decision_put_backend(struct json_writer *json, uint64_t id, struct slice url)
{
    json_put_u64(json, "id", id);
    if (url.size > 0) {
        json_put_string(json, "url", url);
    } else {
        json_put_null(json, "url");
    }
}

static void decision_put_chosen(struct json_writer *json, uint64_t id, struct slice url)
{
    if (id == 0) {
        json_put_null(json, "backend");
        return;
    }
    json_begin_object(json, "backend");
    decision_put_backend(json, id, url);
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
    json_put_known(json, "status", receipt->status != 0, receipt->status);
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

static void decision_put_numbers(const struct receipt *receipt, struct json_writer *json)
{
    const struct decision *decision = &receipt->decision;

    json_put_u64(json, "prompt_tokens", receipt->prompt_tokens);
    json_put_known(json, "cached_tokens", receipt->has_cached_tokens, receipt->cached_tokens);
    json_put_u64(json, "output_tokens", receipt->output_tokens);
    json_put_bool(json, "by_events", decision->chosen.by_events);
    json_put_u64(json, "candidates", decision->candidate_count);
    decision_json_put_party(decision, &decision->chosen, json);
    decision_put_figure(json, "ttft_ms", receipt_ttft_ms(receipt));
    decision_put_figure(json, "tpot_ms", receipt_tpot_ms(receipt));
    decision_put_figure(json, "total_ms", receipt_total_ms(receipt));
    decision_put_figure(json, "saved_ms", (double)receipt->saved_us / 1000);
    decision_put_stages(receipt, json);
}

// The estimate for round-robin.
static void decision_put_shadow(const struct decision_sources *from, struct json_writer *json)
{
    const struct chronicle_decision *decision = from->decision;

    if (decision->shadow_backend == 0) {
        json_put_null(json, "round_robin");
        return;
    }
    json_begin_object(json, "round_robin");
    json_put_u64(json, "cached_tokens", decision->shadow_cached_tokens);
    decision_put_figure(json, "ttft_ms", (double)decision->shadow_ttft_ms);
    decision_put_chosen(json, decision->shadow_backend,
                        decision_url(from->fleet, decision->shadow_backend));
    json_end(json);
}

static void decision_put_rivals(const struct decision_sources *from, struct json_writer *json)
{
    const struct receipt *receipt = from->receipt;
    struct reason reason = {
        .decision = &receipt->decision,
        .prompt_tokens = receipt->prompt_tokens,
        .attempts = receipt->attempts,
        .is_local = receipt->outcome == RECEIPT_LOCAL,
        .problem = receipt->problem,
        .url = from->parts.url,
    };

    json_begin_array(json, "rivals");
    for (uint32_t i = 0; i < receipt->rival_count; i++) {
        const struct decision_party *rival = &from->parts.rivals[i];
        struct slice url = decision_url(from->fleet, rival->backend);
        json_begin_object(json, NULL);
        decision_put_backend(json, rival->backend, url);
        decision_json_put_party(&receipt->decision, rival, json);
        json_end(json);
        reason_add_rival(&reason, rival, url);
    }
    json_end(json);
    decision_json_put_reason(&reason, "why", json);
}

void decision_json_put(const struct chronicle_decision *decision, const struct fleet *fleet,
                       struct json_writer *json)
{
    struct decision_sources from = {
        .decision = decision,
        .receipt = decision->receipt,
        .fleet = fleet,
    };

    receipt_parts(decision->receipt, &from.parts);
    json_begin_object(json, NULL);
    decision_put_request(&from, json);
    decision_put_numbers(decision->receipt, json);
    decision_put_shadow(&from, json);
    decision_put_rivals(&from, json);
    json_end(json);
}
