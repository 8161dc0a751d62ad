// SPDX-License-Identifier: Apache-2.0

#include "metrics/access_line.h"

#include "base/base.h"
#include "base/utf8.h"
#include "metrics/receipt.h"

#include <math.h>
#include <string.h>

struct line {
    const struct receipt *receipt;
    struct receipt_parts parts;
    enum access_slow slow;
};

// Values.  Each is whole JSON.

static void add_null(struct text *out)
{
    text_add(out, slice_of("null", 4));
}

static void add_bool(struct text *out, bool value)
{
    text_add(out, value ? slice_of("true", 4) : slice_of("false", 5));
}

// Of text that a program wrote, and no peer.
static void add_word(struct text *out, const char *word)
{
    if (word == NULL) {
        add_null(out);
        return;
    }
    text_add(out, slice_of("\"", 1));
    text_add_str(out, word);
    text_add(out, slice_of("\"", 1));
}

// Milliseconds from microseconds; microseconds from nanoseconds.
static void add_thousandths(struct text *out, uint64_t count)
{
    text_add_fixed(out, count, 3);
}

// Microseconds that milliseconds round to; false: that is no number to write.
static bool to_us(double ms, uint64_t *out)
{
    static const double most = 1e15; // some thirty years
    if (!(ms >= 0 && ms < most)) {
        return false;
    }
    *out = (uint64_t)(ms * 1000 + 0.5);
    return true;
}

static void add_ms(struct text *out, double ms)
{
    uint64_t us;
    if (to_us(ms, &us)) {
        add_thousandths(out, us);
    } else {
        add_null(out);
    }
}

static void add_two(uint8_t *at, uint32_t number)
{
    at[0] = (uint8_t)('0' + number / 10);
    at[1] = (uint8_t)('0' + number % 10);
}

struct date {
    uint32_t year;
    uint32_t month;
    uint32_t day;
};

// Years begin in March here, so that the day that some have more is their last.
static struct date date_of(uint64_t days_since_1970)
{
    uint64_t days = days_since_1970 + 719468; // since the 1st of March of the year 0
    uint64_t era = days / 146097;             // of 400 years
    uint32_t day_of_era = (uint32_t)(days % 146097);
    uint32_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint32_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint32_t month = (5 * day_of_year + 2) / 153; // 0: March
    return (struct date){
        .year = (uint32_t)(era * 400) + year_of_era + (month >= 10),
        .month = month < 10 ? month + 3 : month - 9,
        .day = day_of_year - (153 * month + 2) / 5 + 1,
    };
}

// 2026-11-15T19:31:19.123Z
static void add_time(struct text *out, uint64_t wall_us)
{
    uint8_t bytes[] = "0000-00-00T00:00:00.000Z";
    static const uint64_t last_us = 253402300799999999; // of the year 9999
    uint64_t ms = (wall_us < last_us ? wall_us : last_us) / 1000;
    uint32_t in_day = (uint32_t)(ms / 1000 % 86400);
    struct date date = date_of(ms / 1000 / 86400);

    add_two(bytes, date.year / 100);
    add_two(bytes + 2, date.year % 100);
    add_two(bytes + 5, date.month);
    add_two(bytes + 8, date.day);
    add_two(bytes + 11, in_day / 3600);
    add_two(bytes + 14, in_day / 60 % 60);
    add_two(bytes + 17, in_day % 60);
    bytes[20] = (uint8_t)('0' + ms % 1000 / 100);
    add_two(bytes + 21, (uint32_t)(ms % 100));
    text_add(out, slice_of(bytes, sizeof(bytes) - 1));
}

// Text from outside.

// Moves text where a terminal goes, or reads in another direction.
static bool is_control(uint32_t code_point)
{
    return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) ||
           (code_point >= 0x2028 && code_point <= 0x202e) ||
           (code_point >= 0x2066 && code_point <= 0x2069);
}

// True: it can be written as it is, in both forms.
static bool is_plain(struct slice text)
{
    uint8_t odd = 0; // no way out in the middle: so the compiler takes sixteen at once
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.bytes[i];
        odd |= (uint8_t)((byte <= ' ') | (byte >= 0x7f) | (byte == '"') | (byte == '\\'));
    }
    return odd == 0;
}

// What is no UTF-8, and what `is_bad`, becomes `?`.  It may have been cut in the middle of a character.
static struct slice tamed(struct slice text, bool (*is_bad)(uint32_t code_point),
                          uint8_t space[receipt_text_max])
{
    size_t size = 0;

    ASSERT(text.size <= receipt_text_max);
    for (size_t i = 0; i < text.size;) {
        unsigned length = utf8_size_of_lead(text.bytes[i]);
        bool is_whole = length <= text.size - i && utf8_is_valid(slice_of(text.bytes + i, length));
        if (is_whole && !is_bad(utf8_read(text.bytes + i, &length))) {
            memcpy(space + size, text.bytes + i, length);
            size += length;
        } else {
            space[size++] = '?';
        }
        i += is_whole ? length : 1;
    }
    return slice_of(space, size);
}

static bool none_is_bad(uint32_t code_point)
{
    (void)code_point;
    return false;
}

static void add_string(struct text *out, struct slice text)
{
    uint8_t space[receipt_text_max];

    if (is_plain(text)) {
        text_add(out, slice_of("\"", 1));
        text_add(out, text);
        text_add(out, slice_of("\"", 1));
        return;
    }
    text_add_json(out, tamed(text, none_is_bad, space));
}

static bool is_bad_in_text(uint32_t code_point)
{
    return code_point == ' ' || is_control(code_point);
}

static void add_bare(struct text *out, struct slice text)
{
    uint8_t space[receipt_text_max];
    text = is_plain(text) ? text : tamed(text, is_bad_in_text, space);
    text_add(out, text.size > 0 ? text : slice_of("-", 1));
}

// Fields.

static void write_time(const struct line *line, struct text *out)
{
    text_add(out, slice_of("\"", 1));
    add_time(out, line->receipt->wall_us);
    text_add(out, slice_of("\"", 1));
}

static void write_id(const struct line *line, struct text *out)
{
    add_string(out, line->parts.id);
}

static void add_hex16(struct text *out, uint64_t number)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[16];
    for (unsigned i = 0; i < 16; i++) {
        bytes[i] = (uint8_t)digits[number >> (60 - 4 * i) & 15];
    }
    text_add(out, slice_of(bytes, sizeof(bytes)));
}

static void write_trace(const struct line *line, struct text *out)
{
    const uint64_t *trace = line->receipt->trace;
    if ((trace[0] | trace[1]) == 0) {
        add_null(out);
        return;
    }
    text_add(out, slice_of("\"", 1));
    add_hex16(out, trace[0]);
    add_hex16(out, trace[1]);
    text_add(out, slice_of("\"", 1));
}

static void write_model(const struct line *line, struct text *out)
{
    add_string(out, line->parts.model);
}

static void write_path(const struct line *line, struct text *out)
{
    add_string(out, line->parts.path);
}

static void write_policy(const struct line *line, struct text *out)
{
    add_word(out, line->receipt->policy);
}

static void write_backend(const struct line *line, struct text *out)
{
    if (line->receipt->backend == 0) {
        add_null(out);
        return;
    }
    text_add_str(out, "{\"id\":");
    text_add_u64(out, line->receipt->backend);
    text_add_str(out, ",\"url\":");
    add_string(out, line->parts.url);
    text_add(out, slice_of("}", 1));
}

static void write_outcome(const struct line *line, struct text *out)
{
    add_word(out, receipt_outcome_name(line->receipt->outcome));
}

static void write_status(const struct line *line, struct text *out)
{
    if (line->receipt->status == 0) {
        add_null(out);
        return;
    }
    text_add_u64(out, line->receipt->status);
}

static void write_problem(const struct line *line, struct text *out)
{
    add_word(out, line->receipt->problem);
}

static void write_attempts(const struct line *line, struct text *out)
{
    text_add_u64(out, line->receipt->attempts);
}

static void write_streamed(const struct line *line, struct text *out)
{
    add_bool(out, line->receipt->is_streamed);
}

static void write_prompt_tokens(const struct line *line, struct text *out)
{
    text_add_u64(out, line->receipt->prompt_tokens);
}

static void write_expected_tokens(const struct line *line, struct text *out)
{
    text_add_u64(out, line->receipt->expected_tokens);
}

static void write_cached_tokens(const struct line *line, struct text *out)
{
    if (!line->receipt->is_told) {
        add_null(out);
        return;
    }
    text_add_u64(out, line->receipt->cached_tokens);
}

static void write_output_tokens(const struct line *line, struct text *out)
{
    text_add_u64(out, line->receipt->output_tokens);
}

static void write_exact(const struct line *line, struct text *out)
{
    add_bool(out, line->receipt->is_exact);
}

static void write_candidates(const struct line *line, struct text *out)
{
    text_add_u64(out, line->receipt->candidate_count);
}

static void write_running_requests(const struct line *line, struct text *out)
{
    text_add_u64(out, line->receipt->running_requests);
}

static void write_queued_tokens(const struct line *line, struct text *out)
{
    text_add_u64(out, line->receipt->queued_tokens);
}

static double predicted_ms(const struct receipt *receipt)
{
    return receipt->policy == NULL ? -1 : (double)receipt->wait_ms + (double)receipt->prefill_ms;
}

static void write_predicted(const struct line *line, struct text *out)
{
    add_ms(out, predicted_ms(line->receipt));
}

static void write_ttft(const struct line *line, struct text *out)
{
    add_ms(out, receipt_ttft_ms(line->receipt));
}

static void write_tpot(const struct line *line, struct text *out)
{
    add_ms(out, receipt_tpot_ms(line->receipt));
}

static double total_ms(const struct receipt *receipt)
{
    return receipt->end_us > 0 ? (double)receipt->end_us / 1000 : -1;
}

static void write_total(const struct line *line, struct text *out)
{
    add_ms(out, total_ms(line->receipt));
}

static void write_saved(const struct line *line, struct text *out)
{
    add_thousandths(out, line->receipt->saved_us);
}

static void write_stages(const struct line *line, struct text *out)
{
#define STAGE(id, name, help)                                                                      \
    text_add(out, slice_of(",\"" name "\":" + (RECEIPT_STAGE_##id == 0),                           \
                           sizeof(",\"" name "\":") - 1 - (RECEIPT_STAGE_##id == 0)));             \
    add_thousandths(out, line->receipt->stage_ns[RECEIPT_STAGE_##id]);
    text_add(out, slice_of("{", 1));
#include "metrics/stages.def"
    text_add(out, slice_of("}", 1));
#undef STAGE
}

static void write_request_bytes(const struct line *line, struct text *out)
{
    text_add_u64(out, line->receipt->request_bytes);
}

static void write_answer_bytes(const struct line *line, struct text *out)
{
    text_add_u64(out, line->receipt->answer_bytes);
}

static const char *const slow_words[] = {
    [ACCESS_SLOW_FIRST] = "first",
    [ACCESS_SLOW_TOTAL] = "total",
};

static void write_slow(const struct line *line, struct text *out)
{
    add_word(out, slow_words[line->slow]);
}

enum { key_width = 24 };

struct field {
    struct access_field shown;
    void (*write)(const struct line *line, struct text *out);
    size_t key_size;
    // With what parts it from the field before, and as wide for all: copying it is two moves.
    char key[key_width];
};

#define FIELD(name, write, example, help)                                                          \
    {                                                                                              \
        {name, example, help}, write, sizeof(",\"" name "\":") - 1, ",\"" name "\":"               \
    }

// The one list of what a line has.
static const struct field fields[] = {
    FIELD("time", write_time, "\"2026-03-01T12:00:00.250Z\"",
          "When the first byte of the request was here, in UTC."),
    FIELD("id", write_id, "\"6f1c2a\"",
          "The request id: `x-request-id` of the client, or the one that it was given."),
    FIELD("trace_id", write_trace, "\"0af7651916cd43dd8448eb211c80319c\"",
          "The W3C trace that it belongs to; null: none."),
    FIELD("model", write_model, "\"llama\"",
          "The model that was asked for; empty: none was named."),
    FIELD("path", write_path, "\"/v1/chat/completions\"", "The path of the request."),
    FIELD("policy", write_policy, "\"warm\"", "Who decided; null: nothing was decided."),
    FIELD("backend", write_backend, "{\"id\":3,\"url\":\"http://10.0.0.7:8000\"}",
          "The last one that had it; null: it came to none."),
    FIELD("outcome", write_outcome, "\"ok\"", "How it ended; see below."),
    FIELD("status", write_status, "200", "The status that the client saw; null: it saw none."),
    FIELD("problem", write_problem, "null",
          "The code of the router's own answer; null: the answer was a backend's."),
    FIELD("attempts", write_attempts, "1", "Backends that were tried, one after the other."),
    FIELD("streamed", write_streamed, "true", "Whether the answer came as a stream of events."),
    FIELD("prompt_tokens", write_prompt_tokens, "1200",
          "Of the prompt: as the engine says, or else as counted or estimated here."),
    FIELD("expected_tokens", write_expected_tokens, "1024",
          "Of them, that were thought to be in the backend's cache."),
    FIELD("cached_tokens", write_cached_tokens, "1024",
          "Of them, that were there, by the engine; null: it did not say."),
    FIELD("output_tokens", write_output_tokens, "85", "Of the answer."),
    FIELD("exact", write_exact, "false",
          "Whether the expectation rests on what the engine told (KV events)."),
    FIELD("candidates", write_candidates, "4", "Backends that the policy could choose from."),
    FIELD("running_requests", write_running_requests, "2",
          "Requests that the chosen one had when it was chosen."),
    FIELD("queued_tokens", write_queued_tokens, "310",
          "Tokens of prompts that waited there at that moment."),
    FIELD("predicted_ms", write_predicted, "41.500",
          "Until the first token, as the policy saw it; null: it does not look."),
    FIELD(
        "ttft_ms", write_ttft, "43.210",
        "From the first byte of the request to the first token; null: not streamed, or none came."),
    FIELD("tpot_ms", write_tpot, "8.120",
          "Between two tokens after the first; null: fewer than two came."),
    FIELD("total_ms", write_total, "725.300", "From its first byte to its end."),
    FIELD("saved_ms", write_saved, "96.000",
          "That the backend would have needed for the cached tokens."),
    FIELD("stages_us", write_stages,
          "{\"parse\":3.1,\"tokenize\":40.2,\"match\":1.9,\"decide\":0.4,\"queue\":0.0}",
          "What the router itself spent on it, in microseconds; see below."),
    FIELD("request_bytes", write_request_bytes, "5120", "Of the body of the request."),
    FIELD("answer_bytes", write_answer_bytes, "20480", "That went to the client, heads included."),
    // Last: only slow ones have it.
    FIELD("slow", write_slow, "\"first\"",
          "Only where a request was slow: `first`, its first token was (`access_log.slow_first`), "
          "or `total`, "
          "all of it was (`access_log.slow_total`)."),
};

const struct access_field *access_field_at(uint32_t index)
{
    return index < ARRAY_COUNT(fields) ? &fields[index].shown : NULL;
}

static struct line line_of(const struct receipt *receipt, enum access_slow slow)
{
    struct line line = {.receipt = receipt, .slow = slow};
    ASSERT((size_t)slow < ARRAY_COUNT(slow_words));
    receipt_parts(receipt, &line.parts);
    return line;
}

static void add_key(struct text *out, const struct field *field)
{
    if (out->overflow || out->capacity - out->size < key_width) {
        text_add(out, slice_of(field->key, field->key_size));
        return;
    }
    memcpy(out->bytes + out->size, field->key, key_width);
    out->size += field->key_size;
}

void access_line_json(const struct receipt *receipt, enum access_slow slow, struct text *out)
{
    struct line line = line_of(receipt, slow);
    size_t count = ARRAY_COUNT(fields) - (slow == ACCESS_NOT_SLOW);

    text_add(out, slice_of("{\"time\":", 8)); // no comma before the first
    fields[0].write(&line, out);
    for (size_t i = 1; i < count; i++) {
        add_key(out, &fields[i]);
        fields[i].write(&line, out);
    }
    text_add(out, slice_of("}\n", 2));
}

static void add_label(struct text *out, const char *label)
{
    text_add(out, slice_of(" ", 1));
    text_add_str(out, label);
}

static void add_label_u64(struct text *out, const char *label, uint64_t number)
{
    add_label(out, label);
    text_add_u64(out, number);
}

static void add_label_ms(struct text *out, const char *label, double ms)
{
    uint64_t us;
    if (to_us(ms, &us)) {
        add_label(out, label);
        add_thousandths(out, us);
        text_add(out, slice_of("ms", 2));
    }
}

static void add_head(struct text *out, const struct line *line)
{
    const struct receipt *receipt = line->receipt;

    add_time(out, receipt->wall_us);
    text_add(out, slice_of(" ", 1));
    if (receipt->status == 0) {
        text_add_str(out, "---");
    } else {
        text_add_u64(out, receipt->status);
    }
    add_label(out, receipt_outcome_name(receipt->outcome));
    if (receipt->problem != NULL) {
        add_label(out, "(");
        text_add_str(out, receipt->problem);
        text_add(out, slice_of(")", 1));
    }
    text_add(out, slice_of(" ", 1));
    add_bare(out, line->parts.url);
    text_add(out, slice_of(" ", 1));
    add_bare(out, line->parts.model);
    text_add(out, slice_of(" ", 1));
    add_bare(out, line->parts.path);
}

// Words that everyone can read come first, and what is only looked for last.
void access_line_text(const struct receipt *receipt, enum access_slow slow, struct text *out)
{
    struct line line = line_of(receipt, slow);

    add_head(out, &line);
    add_label_u64(out, "prompt=", receipt->prompt_tokens);
    add_label_u64(out, "expected=", receipt->expected_tokens);
    if (receipt->is_told) {
        add_label_u64(out, "cached=", receipt->cached_tokens);
    }
    add_label_u64(out, "output=", receipt->output_tokens);
    add_label_ms(out, "predicted=", predicted_ms(receipt));
    add_label_ms(out, "ttft=", receipt_ttft_ms(receipt));
    add_label_ms(out, "tpot=", receipt_tpot_ms(receipt));
    add_label_ms(out, "total=", total_ms(receipt));
    if (receipt->attempts > 1) {
        add_label_u64(out, "attempts=", receipt->attempts);
    }
    if (slow != ACCESS_NOT_SLOW) {
        add_label(out, "slow=");
        text_add_str(out, slow_words[slow]);
    }
    add_label(out, "id=");
    add_bare(out, line.parts.id);
    text_add(out, slice_of("\n", 1));
}
