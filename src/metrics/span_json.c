// SPDX-License-Identifier: Apache-2.0

#include "metrics/span_json.h"

#include "base/base.h"
#include "metrics/receipt.h"

#include <math.h>

// Enumerations and bits of OTLP.
enum {
    kind_server = 2,
    status_error = 2,
    flag_sampled = 0x01,
    flag_knows_parent = 0x100, // whether the parent is remote is known
    flag_parent_is_remote = 0x200,
};

// Closes the arrays and objects that span_json_begin opens.
static const char span_tail[] = "]}]}]}";

static uint64_t span_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void span_begin_attribute(struct json_writer *json, const char *key)
{
    json_begin_object(json, NULL);
    json_put_str(json, "key", key);
    json_begin_object(json, "value");
}

static void span_end_attribute(struct json_writer *json)
{
    json_end(json);
    json_end(json);
}

static void span_put_text(struct json_writer *json, const char *key, struct slice value)
{
    if (value.size > 0) {
        span_begin_attribute(json, key);
        json_put_foreign(json, "stringValue", value);
        span_end_attribute(json);
    }
}

static void span_put_name(struct json_writer *json, const char *key, const char *value)
{
    span_put_text(json, key, slice_str(value != NULL ? value : ""));
}

static void span_put_count(struct json_writer *json, const char *key, uint64_t value)
{
    span_begin_attribute(json, key);
    json_put_format(json, "intValue", "%lu", (unsigned long)value);
    span_end_attribute(json);
}

static void span_put_count_if_any(struct json_writer *json, const char *key, uint64_t value)
{
    if (value > 0) {
        span_put_count(json, key, value);
    }
}

static void span_put_bool(struct json_writer *json, const char *key, bool value)
{
    span_begin_attribute(json, key);
    json_put_bool(json, "boolValue", value);
    span_end_attribute(json);
}

// Left out if it is not finite.
static void span_put_number(struct json_writer *json, const char *key, double value)
{
    if (isfinite(value)) {
        span_begin_attribute(json, key);
        json_put_fixed(json, "doubleValue", value, 3);
        span_end_attribute(json);
    }
}

// The name that the conventions give to the operation of a path.
static const char *span_operation(struct slice path)
{
    static const struct {
        const char *path;
        const char *operation;
    } rows[] = {
        {"/v1/chat/completions", "chat"}, {"/v1/completions", "text_completion"},
        {"/v1/embeddings", "embeddings"}, {"/v1/messages", "chat"},
        {"/v1/responses", "chat"},        {"/generate", "text_completion"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (slice_is(path, rows[i].path)) {
            return rows[i].operation;
        }
    }
    return NULL;
}

static struct slice span_until(struct slice text, const char *ends)
{
    for (size_t i = 0; i < text.size; i++) {
        if (strchr(ends, text.bytes[i]) != NULL && text.bytes[i] != '\0') {
            return slice_of(text.bytes, i);
        }
    }
    return text;
}

static struct slice span_after(struct slice text, size_t size)
{
    return slice_of(text.bytes + size, text.size - size);
}

// `http://host:port`, perhaps with more behind it.
static void span_put_backend(struct json_writer *json, struct slice url)
{
    span_put_text(json, "warmpath.backend", url);
    bool is_tls = slice_starts_with(url, "https://");
    if (!is_tls && !slice_starts_with(url, "http://")) {
        return;
    }
    struct slice rest = span_until(span_after(url, is_tls ? 8 : 7), "/#?");
    bool is_v6 = rest.size > 0 && rest.bytes[0] == '[';
    struct slice host = is_v6 ? span_until(span_after(rest, 1), "]") : span_until(rest, ":");
    struct slice port = span_after(rest, span_least(rest.size, host.size + (is_v6 ? 2 : 0)));
    uint64_t number = is_tls ? 443 : 80;
    span_put_text(json, "server.address", host);
    if (port.size == 0 || slice_parse_u64(span_after(port, 1), &number)) {
        span_put_count(json, "server.port", number);
    }
}

static bool span_is_error(const struct receipt *receipt)
{
    return receipt->status >= 500 || receipt->outcome == RECEIPT_BROKEN;
}

static void span_put_error(struct json_writer *json, const struct receipt *receipt)
{
    char code[8];
    struct text status = text_over(code, sizeof(code));

    if (!span_is_error(receipt)) {
        return;
    }
    if (receipt->problem != NULL) {
        span_put_name(json, "error.type", receipt->problem);
    } else if (receipt->outcome == RECEIPT_BROKEN) {
        span_put_name(json, "error.type", receipt_outcome_name(receipt->outcome));
    } else {
        text_add_u64(&status, receipt->status);
        span_put_text(json, "error.type", text_slice(&status));
    }
}

static void span_put_tokens(struct json_writer *json, const struct receipt *receipt)
{
    span_put_count_if_any(json, "gen_ai.usage.input_tokens", receipt->prompt_tokens);
    span_put_count_if_any(json, "gen_ai.usage.output_tokens", receipt->output_tokens);
    if (receipt->has_cached_tokens) {
        span_put_count(json, "gen_ai.usage.cache_read.input_tokens", receipt->cached_tokens);
        span_put_count(json, "warmpath.cached_tokens", receipt->cached_tokens);
    }
    span_put_number(json, "warmpath.ttft_ms", receipt_ttft_ms(receipt));
    span_put_number(json, "warmpath.tpot_ms", receipt_tpot_ms(receipt));
    if (receipt->saved_us > 0) {
        span_put_number(json, "warmpath.saved_ms", (double)receipt->saved_us / 1000);
    }
}

static void span_put_decision(struct json_writer *json, const struct receipt *receipt)
{
    const struct decision_party *chosen = &receipt->decision.chosen;

    if (receipt->decision.policy == NULL) {
        return;
    }
    span_put_name(json, "warmpath.policy", receipt->decision.policy->name);
    span_put_count(json, "warmpath.candidates", receipt->decision.candidate_count);
    span_put_count(json, "warmpath.expected_tokens", chosen->expected_tokens);
    span_put_bool(json, "warmpath.by_events", chosen->by_events);
    span_put_count(json, "warmpath.running_requests", chosen->running_requests);
    span_put_count(json, "warmpath.queued_tokens", chosen->queued_tokens);
    span_put_number(json, "warmpath.predicted_ms", receipt_predicted_ms(receipt));
    span_put_number(json, "warmpath.cost", (double)chosen->cost);
}

static void span_put_attributes(struct json_writer *json, const struct receipt *receipt,
                                const struct receipt_parts *parts, struct slice path)
{
    json_begin_array(json, "attributes");
    span_put_name(json, "warmpath.outcome", receipt_outcome_name(receipt->outcome));
    span_put_text(json, "warmpath.request_id", parts->id);
    span_put_text(json, "url.path", path);
    span_put_count_if_any(json, "http.response.status_code", receipt->status);
    span_put_count_if_any(json, "http.request.body.size", receipt->request_bytes);
    span_put_count_if_any(json, "http.response.size", receipt->response_bytes);
    span_put_error(json, receipt);
    span_put_name(json, "warmpath.problem", receipt->problem);
    span_put_name(json, "gen_ai.operation.name", span_operation(path));
    span_put_text(json, "gen_ai.request.model", parts->model);
    span_put_bool(json, "warmpath.streamed", receipt->is_streamed);
    span_put_count(json, "warmpath.attempts", receipt->attempts);
    span_put_backend(json, parts->url);
    span_put_decision(json, receipt);
    span_put_tokens(json, receipt);
    json_end(json);
}

static void span_put_time(struct json_writer *json, const char *key, const struct receipt *receipt,
                          uint64_t since_ns)
{
    json_put_format(json, key, "%lu", (unsigned long)(receipt->wall_us * 1000 + since_ns));
}

// The event stays open.
static void span_begin_event(struct json_writer *json, const struct receipt *receipt,
                             const char *name, uint64_t since_ns)
{
    json_begin_object(json, NULL);
    span_put_time(json, "timeUnixNano", receipt, span_least(since_ns, receipt->end_us * 1000));
    json_put_str(json, "name", name);
}

static void span_put_moment(struct json_writer *json, const struct receipt *receipt,
                            const char *name, uint64_t since_us)
{
    if (since_us > 0) {
        span_begin_event(json, receipt, name, since_us * 1000);
        json_end(json);
    }
}

static void span_put_stages(struct json_writer *json, const struct receipt *receipt)
{
    uint64_t at_ns = receipt->complete_us * 1000;
    uint64_t last_ns = (receipt->sent_us > 0 ? receipt->sent_us : receipt->end_us) * 1000;

    for (unsigned stage = 0; stage < RECEIPT_STAGE_COUNT; stage++) {
        if (receipt->stage_ns[stage] == 0) {
            continue;
        }
        at_ns = span_least(at_ns + receipt->stage_ns[stage], last_ns);
        span_begin_event(json, receipt, receipt_stage_name((enum receipt_stage)stage), at_ns);
        json_begin_array(json, "attributes");
        span_put_count(json, "warmpath.duration_ns", receipt->stage_ns[stage]);
        json_end(json);
        json_end(json);
    }
}

static void span_put_events(struct json_writer *json, const struct receipt *receipt)
{
    json_begin_array(json, "events");
    span_put_moment(json, receipt, "request_complete", receipt->complete_us);
    span_put_stages(json, receipt);
    span_put_moment(json, receipt, "sent", receipt->sent_us);
    span_put_moment(json, receipt, "answer_head", receipt->head_us);
    span_put_moment(json, receipt, "first_token", receipt->first_us);
    span_put_moment(json, receipt, "end", receipt->end_us);
    json_end(json);
}

static void span_put(struct json_writer *json, const struct receipt *receipt)
{
    struct receipt_parts parts;
    receipt_parts(receipt, &parts);
    struct slice path = span_until(parts.path, "?");
    const char *operation = span_operation(path);

    json_begin_object(json, NULL);
    json_put_format(json, "traceId", "%016lx%016lx", (unsigned long)receipt->trace[0],
                    (unsigned long)receipt->trace[1]);
    json_put_format(json, "spanId", "%016lx", (unsigned long)receipt->span);
    if (receipt->parent != 0) {
        json_put_format(json, "parentSpanId", "%016lx", (unsigned long)receipt->parent);
    }
    // Span names should be few, so the model, which the client chooses, is not part of it.
    json_put_str(json, "name", operation != NULL ? operation : "request");
    json_put_u64(json, "flags",
                 flag_sampled | flag_knows_parent |
                     (receipt->parent != 0 ? flag_parent_is_remote : 0));
    json_put_u64(json, "kind", kind_server);
    span_put_time(json, "startTimeUnixNano", receipt, 0);
    span_put_time(json, "endTimeUnixNano", receipt, receipt->end_us * 1000);
    span_put_attributes(json, receipt, &parts, path);
    span_put_events(json, receipt);
    json_begin_object(json, "status");
    if (span_is_error(receipt)) {
        json_put_u64(json, "code", status_error);
        json_put_str(json, "message",
                     receipt->problem != NULL ? receipt->problem
                                              : receipt_outcome_name(receipt->outcome));
    }
    json_end(json);
    json_end(json);
}

void span_json_begin(struct span_json *batch, void *space, size_t capacity, const char *service,
                     const char *version)
{
    struct json_writer *json = &batch->json;

    ASSERT(capacity >= sizeof(span_tail));
    batch->span_count = 0;
    batch->out = text_over(space, capacity - sizeof(span_tail)); // keeps space for the tail
    *json = json_writer_over(&batch->out);
    json_begin_object(json, NULL);
    json_begin_array(json, "resourceSpans");
    json_begin_object(json, NULL);
    json_begin_object(json, "resource");
    json_begin_array(json, "attributes");
    span_put_name(json, "service.name", service);
    span_put_name(json, "service.version", version);
    json_end(json);
    json_end(json);
    json_begin_array(json, "scopeSpans");
    json_begin_object(json, NULL);
    json_begin_object(json, "scope");
    json_put_str(json, "name", "warmpath");
    json_put_str(json, "version", version);
    json_end(json);
    json_begin_array(json, "spans");
    ASSERT(!batch->out.overflow);
}

bool span_json_add(struct span_json *batch, const struct receipt *receipt)
{
    ASSERT((receipt->trace[0] | receipt->trace[1]) != 0 && receipt->span != 0);
    struct json_writer before = batch->json;
    size_t size = batch->out.size;

    span_put(&batch->json, receipt);
    if (batch->out.overflow) {
        batch->json = before;
        batch->out.overflow = false;
        batch->out.size = size;
        return false;
    }
    batch->span_count++;
    return true;
}

struct slice span_json_end(struct span_json *batch)
{
    batch->out.capacity += sizeof(span_tail);
    text_add_str(&batch->out, span_tail);
    ASSERT(!batch->out.overflow);
    return text_slice(&batch->out);
}
