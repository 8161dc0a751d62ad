// SPDX-License-Identifier: Apache-2.0

#include "metrics/span_json.h"

#include "base/base.h"
#include "base/utf8.h"
#include "metrics/receipt.h"

#include <math.h>

// Enumerations and bits of OTLP.
enum {
    kind_server = 2,
    status_error = 2,
    flag_sampled = 0x01,
    flag_knows_parent = 0x100, // whether it is remote is known
    flag_parent_is_remote = 0x200,
};

static const char tail[] = "]}]}]}";

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void add_id(struct text *out, uint64_t id)
{
    uint8_t digits[16];
    for (unsigned i = 0; i < sizeof(digits); i++) {
        digits[i] = (uint8_t) "0123456789abcdef"[id >> 4 * (15 - i) & 15];
    }
    text_add(out, slice_of(digits, sizeof(digits)));
}

// Texts of clients may be no UTF-8, and long ones were cut somewhere.  One wrong byte would cost the
// whole batch.
static void add_string(struct text *out, struct slice string)
{
    uint8_t plain[receipt_text_max];

    if (!utf8_is_valid(string)) {
        size_t last = (size_t)(utf8_back(string.bytes, string.bytes + string.size) - string.bytes);
        if (utf8_is_valid(slice_of(string.bytes, last))) {
            string.size = last;
        } else {
            string.size = least(string.size, sizeof(plain));
            for (size_t i = 0; i < string.size; i++) {
                plain[i] = string.bytes[i] < 0x80 ? string.bytes[i] : '?';
            }
            string.bytes = plain;
        }
    }
    text_add_json(out, string);
}

// Attributes.  Each begins with a comma; the first of a list is written by hand.

static void begin_attribute(struct text *out, const char *key)
{
    text_add_str(out, ",{\"key\":\"");
    text_add_str(out, key);
    text_add_str(out, "\",\"value\":{\"");
}

static void add_text(struct text *out, const char *key, struct slice value)
{
    if (value.size == 0) {
        return;
    }
    begin_attribute(out, key);
    text_add_str(out, "stringValue\":");
    add_string(out, value);
    text_add_str(out, "}}");
}

static void add_name(struct text *out, const char *key, const char *value)
{
    add_text(out, key, value != NULL ? slice_str(value) : (struct slice){0});
}

static void add_count(struct text *out, const char *key, uint64_t value)
{
    begin_attribute(out, key);
    text_add_str(out, "intValue\":\"");
    text_add_u64(out, value);
    text_add_str(out, "\"}}");
}

static void add_count_if_any(struct text *out, const char *key, uint64_t value)
{
    if (value > 0) {
        add_count(out, key, value);
    }
}

static void add_toggle(struct text *out, const char *key, bool value)
{
    begin_attribute(out, key);
    text_add_str(out, value ? "boolValue\":true}}" : "boolValue\":false}}");
}

// Thousandths are enough, and no float is printed.
static void add_number(struct text *out, const char *key, double value)
{
    if (!(fabs(value) < 1e15)) {
        return; // not known, or nothing to be said about it
    }
    uint64_t thousandths = (uint64_t)llround(fabs(value) * 1000);
    uint8_t digits[3] = {(uint8_t)('0' + thousandths / 100 % 10),
                         (uint8_t)('0' + thousandths / 10 % 10), (uint8_t)('0' + thousandths % 10)};
    begin_attribute(out, key);
    text_add_str(out, value < 0 ? "doubleValue\":-" : "doubleValue\":");
    text_add_u64(out, thousandths / 1000);
    text_add_str(out, ".");
    text_add(out, slice_of(digits, sizeof(digits)));
    text_add_str(out, "}}");
}

static void add_number_if_known(struct text *out, const char *key, double value)
{
    if (value >= 0) {
        add_number(out, key, value);
    }
}

// What the conventions call the work behind a path.
static const char *operation_of(struct slice path)
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

static struct slice until(struct slice text, const char *ends)
{
    for (size_t i = 0; i < text.size; i++) {
        if (strchr(ends, text.bytes[i]) != NULL && text.bytes[i] != '\0') {
            return slice_of(text.bytes, i);
        }
    }
    return text;
}

static struct slice behind(struct slice text, size_t size)
{
    return slice_of(text.bytes + size, text.size - size);
}

// `http://host:port`, perhaps with more behind it.
static void add_backend(struct text *out, struct slice url)
{
    if (url.size == 0) {
        return;
    }
    add_text(out, "warmpath.backend", url);
    bool is_tls = slice_starts_with(url, "https://");
    if (!is_tls && !slice_starts_with(url, "http://")) {
        return;
    }
    struct slice rest = until(behind(url, is_tls ? 8 : 7), "/#?");
    bool is_v6 = rest.size > 0 && rest.bytes[0] == '[';
    struct slice host = is_v6 ? until(behind(rest, 1), "]") : until(rest, ":");
    size_t used = least(rest.size, host.size + (is_v6 ? 2 : 0));
    struct slice port = behind(rest, used);
    uint64_t number = is_tls ? 443 : 80;
    add_text(out, "server.address", host);
    if (port.size == 0 || slice_parse_u64(behind(port, 1), &number)) {
        add_count(out, "server.port", number);
    }
}

static bool is_error(const struct receipt *receipt)
{
    return receipt->status >= 500 || receipt->outcome == RECEIPT_BROKEN;
}

static void add_error(struct text *out, const struct receipt *receipt)
{
    char code[8];
    if (!is_error(receipt)) {
        return;
    }
    if (receipt->problem != NULL) {
        add_name(out, "error.type", receipt->problem);
    } else if (receipt->outcome == RECEIPT_BROKEN) {
        add_name(out, "error.type", receipt_outcome_name(receipt->outcome));
    } else {
        struct text number = text_over(code, sizeof(code));
        text_add_u64(&number, receipt->status);
        add_text(out, "error.type", text_slice(&number));
    }
}

static void add_tokens(struct text *out, const struct receipt *receipt)
{
    add_count_if_any(out, "gen_ai.usage.input_tokens", receipt->prompt_tokens);
    add_count_if_any(out, "gen_ai.usage.output_tokens", receipt->output_tokens);
    if (receipt->has_cached_tokens) {
        add_count(out, "gen_ai.usage.cache_read.input_tokens", receipt->cached_tokens);
        add_count(out, "warmpath.cached_tokens", receipt->cached_tokens);
    }
    add_number_if_known(out, "warmpath.ttft_ms", receipt_ttft_ms(receipt));
    add_number_if_known(out, "warmpath.tpot_ms", receipt_tpot_ms(receipt));
    if (receipt->saved_us > 0) {
        add_number(out, "warmpath.saved_ms", (double)receipt->saved_us / 1000);
    }
}

static void add_decision(struct text *out, const struct receipt *receipt)
{
    const struct decision_party *chosen = &receipt->decision.chosen;

    if (receipt->decision.policy == NULL) {
        return;
    }
    add_name(out, "warmpath.policy", receipt->decision.policy->name);
    add_count(out, "warmpath.candidates", receipt->decision.candidate_count);
    add_count(out, "warmpath.expected_tokens", chosen->expected_tokens);
    add_toggle(out, "warmpath.by_events", chosen->by_events);
    add_count(out, "warmpath.running_requests", chosen->running_requests);
    add_count(out, "warmpath.queued_tokens", chosen->queued_tokens);
    add_number_if_known(out, "warmpath.predicted_ms",
                        (double)chosen->wait_ms + (double)chosen->prefill_ms);
    add_number(out, "warmpath.cost", (double)chosen->cost);
}

static void add_attributes(struct text *out, const struct receipt *receipt,
                           const struct receipt_parts *parts, struct slice path)
{
    text_add_str(out,
                 ",\"attributes\":[{\"key\":\"warmpath.outcome\",\"value\":{\"stringValue\":\"");
    text_add_str(out, receipt_outcome_name(receipt->outcome));
    text_add_str(out, "\"}}");
    add_text(out, "warmpath.request_id", parts->id);
    add_text(out, "url.path", path);
    add_count_if_any(out, "http.response.status_code", receipt->status);
    add_count_if_any(out, "http.request.body.size", receipt->request_bytes);
    add_count_if_any(out, "http.response.size", receipt->answer_bytes);
    add_error(out, receipt);
    add_name(out, "warmpath.problem", receipt->problem);
    add_name(out, "gen_ai.operation.name", operation_of(path));
    add_text(out, "gen_ai.request.model", parts->model);
    add_toggle(out, "warmpath.streamed", receipt->is_streamed);
    add_count(out, "warmpath.attempts", receipt->attempts);
    add_backend(out, parts->url);
    add_decision(out, receipt);
    add_tokens(out, receipt);
    text_add_str(out, "]");
}

// Events.

static void add_time(struct text *out, const struct receipt *receipt, uint64_t since_ns)
{
    text_add_str(out, "\"");
    text_add_u64(out, receipt->wall_us * 1000 + since_ns);
    text_add_str(out, "\"");
}

static void begin_event(struct text *out, const struct receipt *receipt, const char *name,
                        uint64_t since_ns)
{
    // The first one stands behind the bracket.
    text_add_str(out,
                 out->bytes[out->size - 1] == '[' ? "{\"timeUnixNano\":" : ",{\"timeUnixNano\":");
    add_time(out, receipt, least(since_ns, receipt->end_us * 1000));
    text_add_str(out, ",\"name\":\"");
    text_add_str(out, name);
    text_add_str(out, "\"");
}

static void add_moment(struct text *out, const struct receipt *receipt, const char *name,
                       uint64_t since_us)
{
    if (since_us > 0) {
        begin_event(out, receipt, name, since_us * 1000);
        text_add_str(out, "}");
    }
}

static void add_stages(struct text *out, const struct receipt *receipt)
{
    uint64_t at_ns = receipt->complete_us * 1000;
    uint64_t last_ns = (receipt->sent_us > 0 ? receipt->sent_us : receipt->end_us) * 1000;

    for (unsigned stage = 0; stage < RECEIPT_STAGE_COUNT; stage++) {
        if (receipt->stage_ns[stage] == 0) {
            continue;
        }
        at_ns = least(at_ns + receipt->stage_ns[stage], last_ns);
        begin_event(out, receipt, receipt_stage_name((enum receipt_stage)stage), at_ns);
        text_add_str(
            out, ",\"attributes\":[{\"key\":\"warmpath.duration_ns\",\"value\":{\"intValue\":\"");
        text_add_u64(out, receipt->stage_ns[stage]);
        text_add_str(out, "\"}}]}");
    }
}

static void add_events(struct text *out, const struct receipt *receipt)
{
    text_add_str(out, ",\"events\":[");
    if (out->overflow) {
        return;
    }
    add_moment(out, receipt, "request_complete", receipt->complete_us);
    add_stages(out, receipt);
    add_moment(out, receipt, "sent", receipt->sent_us);
    add_moment(out, receipt, "answer_head", receipt->head_us);
    add_moment(out, receipt, "first_token", receipt->first_us);
    add_moment(out, receipt, "end", receipt->end_us);
    text_add_str(out, "]");
}

// Names of models come from clients, and a name of a span should be one of few: the operation alone.
static void add_span_name(struct text *out, struct slice path)
{
    const char *operation = operation_of(path);
    text_add_str(out, "\",\"name\":\"");
    text_add_str(out, operation != NULL ? operation : "request");
}

static void add_span(struct text *out, const struct receipt *receipt)
{
    struct receipt_parts parts;
    receipt_parts(receipt, &parts);
    struct slice path = until(parts.path, "?");

    text_add_str(out, "{\"traceId\":\"");
    add_id(out, receipt->trace[0]);
    add_id(out, receipt->trace[1]);
    text_add_str(out, "\",\"spanId\":\"");
    add_id(out, receipt->span);
    if (receipt->parent != 0) {
        text_add_str(out, "\",\"parentSpanId\":\"");
        add_id(out, receipt->parent);
    }
    add_span_name(out, path);
    text_add_str(out, "\",\"flags\":");
    text_add_u64(out, flag_sampled | flag_knows_parent |
                          (receipt->parent != 0 ? flag_parent_is_remote : 0));
    text_add_str(out, ",\"kind\":");
    text_add_u64(out, kind_server);
    text_add_str(out, ",\"startTimeUnixNano\":");
    add_time(out, receipt, 0);
    text_add_str(out, ",\"endTimeUnixNano\":");
    add_time(out, receipt, receipt->end_us * 1000);
    add_attributes(out, receipt, &parts, path);
    add_events(out, receipt);
    text_add_str(out, ",\"status\":{");
    if (is_error(receipt)) {
        text_add_str(out, "\"code\":");
        text_add_u64(out, status_error);
        text_add_str(out, ",\"message\":\"");
        text_add_str(out, receipt->problem != NULL ? receipt->problem
                                                   : receipt_outcome_name(receipt->outcome));
        text_add_str(out, "\"");
    }
    text_add_str(out, "}}");
}

void span_json_begin(struct span_json *json, void *space, size_t capacity, const char *service,
                     const char *version)
{
    ASSERT(capacity >= sizeof(tail));
    json->span_count = 0;
    json->out =
        text_over(space, capacity - sizeof(tail)); // the end has its place from the beginning
    struct text *out = &json->out;
    text_add_str(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
                      "{\"key\":\"service.name\",\"value\":{\"stringValue\":");
    add_string(out, slice_str(service));
    text_add_str(out, "}}");
    add_name(out, "service.version", version);
    text_add_str(out, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"warmpath\",\"version\":");
    add_string(out, slice_str(version));
    text_add_str(out, "},\"spans\":[");
    ASSERT(!out->overflow);
}

bool span_json_add(struct span_json *json, const struct receipt *receipt)
{
    ASSERT((receipt->trace[0] | receipt->trace[1]) != 0 && receipt->span != 0);
    size_t size = json->out.size;
    if (json->span_count > 0) {
        text_add_str(&json->out, ",");
    }
    add_span(&json->out, receipt);
    if (json->out.overflow) {
        json->out.overflow = false;
        json->out.size = size;
        return false;
    }
    json->span_count++;
    return true;
}

struct slice span_json_end(struct span_json *json)
{
    json->out.capacity += sizeof(tail);
    text_add_str(&json->out, tail);
    ASSERT(!json->out.overflow);
    return text_slice(&json->out);
}
