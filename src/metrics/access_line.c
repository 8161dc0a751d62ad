// SPDX-License-Identifier: Apache-2.0
//
// A line is written from its beginning to its end by one pointer.  That there is room for the longest is seen
// to once, so nobody below looks: each writes from `at` on, where it may spoil some bytes more, and returns the
// place behind.

#include "metrics/access_line.h"

#include "base/base.h"
#include "base/decimal.h"
#include "base/utf8.h"
#include "metrics/receipt.h"

#include <math.h>
#include <string.h>

struct line {
    const struct receipt *receipt;
    struct receipt_parts parts;
    enum access_slow slow;
    struct access_second *second;
};

static inline uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + size;
}

// A literal: its size is known, so it is some moves and no call.
#define PUT(at, literal) put_bytes(at, literal, sizeof(literal) - 1)

// Short text that a program wrote, and no peer.
static uint8_t *put_str(uint8_t *at, const char *text)
{
    while (*text != '\0') {
        *at++ = (uint8_t)*text++;
    }
    return at;
}

// Values.  Each is whole JSON.

static uint8_t *put_null(uint8_t *at)
{
    return PUT(at, "null");
}

static uint8_t *put_bool(uint8_t *at, bool value)
{
    return value ? PUT(at, "true") : PUT(at, "false");
}

static uint8_t *put_word(uint8_t *at, const char *word)
{
    if (word == NULL) {
        return put_null(at);
    }
    *at = '"';
    at = put_str(at + 1, word);
    *at = '"';
    return at + 1;
}

// Milliseconds.
static uint8_t *put_us(uint8_t *at, uint64_t us)
{
    return decimal_put_fixed(at, us, 3);
}

// Microseconds that milliseconds round to; false: that is no number to write.
static bool to_us(double ms, uint64_t *out)
{
    static const double most = 1e15; // some thirty years
    if (!(ms >= 0 && ms < most)) {
        return false;
    }
    *out = (uint64_t)(int64_t)(ms * 1000 + 0.5);
    return true;
}

static uint8_t *put_ms(uint8_t *at, double ms)
{
    uint64_t us;
    return to_us(ms, &us) ? put_us(at, us) : put_null(at);
}

static uint8_t *put_two(uint8_t *at, uint32_t number)
{
    at[0] = (uint8_t)('0' + number / 10);
    at[1] = (uint8_t)('0' + number % 10);
    return at + 2;
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

// 2026-11-15T19:31:19.
static void write_second(struct access_second *second, uint64_t seconds)
{
    uint32_t in_day = (uint32_t)(seconds % 86400);
    struct date date = date_of(seconds / 86400);
    uint8_t *at = put_two(second->text, date.year / 100);

    at = put_two(at, date.year % 100);
    *at++ = '-';
    at = put_two(at, date.month);
    *at++ = '-';
    at = put_two(at, date.day);
    *at++ = 'T';
    at = put_two(at, in_day / 3600);
    *at++ = ':';
    at = put_two(at, in_day / 60 % 60);
    *at++ = ':';
    at = put_two(at, in_day % 60);
    *at = '.';
    second->end = seconds + 1;
}

// 2026-11-15T19:31:19.123Z
static uint8_t *put_time(uint8_t *at, struct access_second *second, uint64_t wall_us)
{
    static const uint64_t last_us = 253402300799999999; // of the year 9999
    wall_us = wall_us < last_us ? wall_us : last_us;
    uint64_t seconds = wall_us / 1000000;
    uint32_t ms = (uint32_t)(wall_us % 1000000) / 1000;

    if (second->end != seconds + 1) {
        write_second(second, seconds);
    }
    at = put_bytes(at, second->text, sizeof(second->text));
    *at = (uint8_t)('0' + ms / 100);
    at = put_two(at + 1, ms % 100);
    *at = 'Z';
    return at + 1;
}

// Text from outside.

// Moves text where a terminal goes, or reads in another direction.
static bool is_control(uint32_t code_point)
{
    return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) ||
           (code_point >= 0x2028 && code_point <= 0x202e) ||
           (code_point >= 0x2066 && code_point <= 0x2069);
}

// 255 where a byte cannot be written as it is, in one form or the other.  As signed numbers all bytes above
// 0x7f are below those of ASCII.
#define ODD(signed_bytes)                                                                          \
    (((signed_bytes) <= ' ') | ((signed_bytes) == 0x7f) | ((signed_bytes) == '"') |                \
     ((signed_bytes) == '\\'))

// Texts of sixteen bytes and more, sixteen at once; the last ones may be looked at twice.
static bool copy_long(uint8_t *at, struct slice text)
{
    int8_t __attribute__((vector_size(16))) bytes;
    int8_t __attribute__((vector_size(16))) odd = {0};
    uint64_t halves[2];

    for (size_t i = 0; i < text.size; i += sizeof(bytes)) {
        size_t from = i + sizeof(bytes) <= text.size ? i : text.size - sizeof(bytes);
        memcpy(&bytes, text.bytes + from, sizeof(bytes));
        memcpy(at + from, &bytes, sizeof(bytes));
        odd |= ODD(bytes);
    }
    memcpy(halves, &odd, sizeof(halves));
    return (halves[0] | halves[1]) == 0;
}

// True: it can stand as it is, in both forms.
static bool copy_plain(uint8_t *at, struct slice text)
{
    bool is_odd = false;
    if (text.size >= 16) {
        return copy_long(at, text);
    }
    for (size_t i = 0; i < text.size; i++) {
        int8_t byte = (int8_t)text.bytes[i];
        at[i] = (uint8_t)byte;
        is_odd |= ODD(byte);
    }
    return !is_odd;
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

static uint8_t *put_tamed_string(uint8_t *at, struct slice text)
{
    uint8_t space[receipt_text_max];
    struct text out = text_over(at, 2 + (size_t)6 * receipt_text_max); // each as \u00ff

    text_add_json(&out, tamed(text, none_is_bad, space));
    ASSERT(!out.overflow);
    return at + out.size;
}

static uint8_t *put_string(uint8_t *at, struct slice text)
{
    if (!copy_plain(at + 1, text)) {
        return put_tamed_string(at, text);
    }
    at[0] = '"';
    at[text.size + 1] = '"';
    return at + text.size + 2;
}

static bool is_bad_in_text(uint32_t code_point)
{
    return code_point == ' ' || is_control(code_point);
}

static uint8_t *put_bare(uint8_t *at, struct slice text)
{
    uint8_t space[receipt_text_max];
    if (text.size == 0) {
        return PUT(at, "-");
    }
    if (copy_plain(at, text)) {
        return at + text.size;
    }
    text = tamed(text, is_bad_in_text, space);
    return put_bytes(at, text.bytes, text.size);
}

// Fields.

static uint8_t *put_wall_time(uint8_t *at, const struct line *line)
{
    *at = '"';
    at = put_time(at + 1, line->second, line->receipt->wall_us);
    *at = '"';
    return at + 1;
}

static uint8_t *put_id(uint8_t *at, const struct line *line)
{
    return put_string(at, line->parts.id);
}

static bool has_trace(const struct line *line)
{
    return (line->receipt->trace[0] | line->receipt->trace[1]) != 0;
}

static uint8_t *put_trace(uint8_t *at, const struct line *line)
{
    static const char digits[] = "0123456789abcdef";
    *at++ = '"';
    for (unsigned i = 0; i < 32; i++) {
        *at++ = (uint8_t)digits[line->receipt->trace[i / 16] >> (60 - 4 * (i % 16)) & 15];
    }
    *at = '"';
    return at + 1;
}

static uint8_t *put_model(uint8_t *at, const struct line *line)
{
    return put_string(at, line->parts.model);
}

static uint8_t *put_path(uint8_t *at, const struct line *line)
{
    return put_string(at, line->parts.path);
}

static uint8_t *put_policy(uint8_t *at, const struct line *line)
{
    return put_word(at, receipt_policy_name(line->receipt));
}

static uint8_t *put_backend(uint8_t *at, const struct line *line)
{
    if (line->receipt->decision.chosen.backend == 0) {
        return put_null(at);
    }
    at = decimal_put(PUT(at, "{\"id\":"), line->receipt->decision.chosen.backend);
    at = put_string(PUT(at, ",\"url\":"), line->parts.url);
    *at = '}';
    return at + 1;
}

static uint8_t *put_outcome(uint8_t *at, const struct line *line)
{
    return put_word(at, receipt_outcome_name(line->receipt->outcome));
}

static uint8_t *put_status(uint8_t *at, const struct line *line)
{
    return line->receipt->status == 0 ? put_null(at) : decimal_put(at, line->receipt->status);
}

static bool has_problem(const struct line *line)
{
    return line->receipt->problem != NULL;
}

static uint8_t *put_problem(uint8_t *at, const struct line *line)
{
    return put_word(at, line->receipt->problem);
}

static uint8_t *put_attempts(uint8_t *at, const struct line *line)
{
    return decimal_put(at, line->receipt->attempts);
}

static uint8_t *put_streamed(uint8_t *at, const struct line *line)
{
    return put_bool(at, line->receipt->is_streamed);
}

static uint8_t *put_prompt_tokens(uint8_t *at, const struct line *line)
{
    return decimal_put(at, line->receipt->prompt_tokens);
}

static uint8_t *put_expected_tokens(uint8_t *at, const struct line *line)
{
    return decimal_put(at, line->receipt->decision.chosen.expected_tokens);
}

static uint8_t *put_cached_tokens(uint8_t *at, const struct line *line)
{
    return line->receipt->has_cached_tokens ? decimal_put(at, line->receipt->cached_tokens)
                                            : put_null(at);
}

static uint8_t *put_output_tokens(uint8_t *at, const struct line *line)
{
    return decimal_put(at, line->receipt->output_tokens);
}

static uint8_t *put_by_events(uint8_t *at, const struct line *line)
{
    return put_bool(at, line->receipt->decision.chosen.by_events);
}

static uint8_t *put_candidates(uint8_t *at, const struct line *line)
{
    return decimal_put(at, line->receipt->decision.candidate_count);
}

static uint8_t *put_running_requests(uint8_t *at, const struct line *line)
{
    return decimal_put(at, line->receipt->decision.chosen.running_requests);
}

static uint8_t *put_queued_tokens(uint8_t *at, const struct line *line)
{
    return decimal_put(at, line->receipt->decision.chosen.queued_tokens);
}

static double predicted_ms(const struct receipt *receipt)
{
    const struct decision_party *chosen = &receipt->decision.chosen;
    return receipt->decision.policy == NULL ? -1
                                            : (double)chosen->wait_ms + (double)chosen->prefill_ms;
}

static uint8_t *put_predicted(uint8_t *at, const struct line *line)
{
    return put_ms(at, predicted_ms(line->receipt));
}

// Of a moment that did not come it is 0.
static uint8_t *put_us_or_null(uint8_t *at, uint64_t us)
{
    return us == 0 ? put_null(at) : put_us(at, us);
}

static uint8_t *put_ttft(uint8_t *at, const struct line *line)
{
    return put_us_or_null(at, line->receipt->first_us);
}

static uint8_t *put_tpot(uint8_t *at, const struct line *line)
{
    return put_ms(at, receipt_tpot_ms(line->receipt));
}

static uint8_t *put_total(uint8_t *at, const struct line *line)
{
    return put_us_or_null(at, line->receipt->end_us);
}

static uint8_t *put_saved(uint8_t *at, const struct line *line)
{
    return put_us(at, line->receipt->saved_us);
}

// Tenths of a microsecond: the clock knows no more.
static uint8_t *put_stage(uint8_t *at, uint64_t ns)
{
    return decimal_put_fixed(at, (ns + 50) / 100, 1);
}

static bool has_stages(const struct line *line)
{
    return receipt_is_timed(line->receipt);
}

static uint8_t *put_stages(uint8_t *at, const struct line *line)
{
    uint8_t *begin = at;
#define STAGE(id, name, help)                                                                      \
    at = put_stage(PUT(at, ",\"" name "\":"), line->receipt->stage_ns[RECEIPT_STAGE_##id]);
#include "metrics/stages.def"
#undef STAGE
    *begin = '{'; // no comma before the first
    *at = '}';
    return at + 1;
}

static uint8_t *put_request_bytes(uint8_t *at, const struct line *line)
{
    return decimal_put(at, line->receipt->request_bytes);
}

static uint8_t *put_answer_bytes(uint8_t *at, const struct line *line)
{
    return decimal_put(at, line->receipt->answer_bytes);
}

static const char *const slow_words[] = {
    [ACCESS_SLOW_FIRST] = "first",
    [ACCESS_SLOW_TOTAL] = "total",
};

static bool is_slow(const struct line *line)
{
    return line->slow != ACCESS_NOT_SLOW;
}

static uint8_t *put_slow(uint8_t *at, const struct line *line)
{
    return put_word(at, slow_words[line->slow]);
}

static const struct access_field fields[] = {
#define FIELD(name, put, example, help) {name, example, help},
#define FIELD_IF(is_there, name, put, example, help) {name, example, help},
#include "metrics/access_fields.def"
#undef FIELD
#undef FIELD_IF
};

const struct access_field *access_field_at(uint32_t index)
{
    return index < ARRAY_COUNT(fields) ? &fields[index] : NULL;
}

// Where the line begins; NULL: there may be too little room.
static uint8_t *begin_line(struct text *out)
{
    if (out->overflow || out->capacity - out->size < access_line_size_max) {
        out->overflow = true;
        return NULL;
    }
    return out->bytes + out->size;
}

static void end_line(struct text *out, const uint8_t *end)
{
    out->size = (size_t)(end - out->bytes);
    ASSERT(out->size <= out->capacity);
}

static inline void gather(struct line *line, const struct receipt *receipt, enum access_slow slow,
                          struct access_second *second)
{
    ASSERT((size_t)slow < ARRAY_COUNT(slow_words));
    line->receipt = receipt;
    line->slow = slow;
    line->second = second;
    receipt_parts(receipt, &line->parts);
}

void access_line_json(const struct receipt *receipt, enum access_slow slow,
                      struct access_second *second, struct text *out)
{
    struct line line;
    uint8_t *begin = begin_line(out);
    uint8_t *at = begin;

    if (at == NULL) {
        return;
    }
    gather(&line, receipt, slow, second);
#define FIELD(name, put, example, help) at = put(PUT(at, ",\"" name "\":"), &line);
#define FIELD_IF(is_there, name, put, example, help)                                               \
    if (is_there(&line)) {                                                                         \
        FIELD(name, put, example, help)                                                            \
    }
#include "metrics/access_fields.def"
#undef FIELD
#undef FIELD_IF
    *begin = '{'; // no comma before the first
    end_line(out, PUT(at, "}\n"));
}

// A name with its sign, and the number.
static uint8_t *put_label_u64(uint8_t *at, const char *label, uint64_t number)
{
    return decimal_put(put_str(at, label), number);
}

static uint8_t *put_label_ms(uint8_t *at, const char *label, double ms)
{
    uint64_t us;
    if (!to_us(ms, &us)) {
        return at;
    }
    at = put_us(put_str(at, label), us);
    return PUT(at, "ms");
}

static uint8_t *put_head(uint8_t *at, const struct line *line)
{
    const struct receipt *receipt = line->receipt;

    at = put_time(at, line->second, receipt->wall_us);
    *at++ = ' ';
    at = receipt->status == 0 ? PUT(at, "---") : decimal_put(at, receipt->status);
    *at++ = ' ';
    at = put_str(at, receipt_outcome_name(receipt->outcome));
    if (receipt->problem != NULL) {
        at = put_str(PUT(at, " ("), receipt->problem);
        *at++ = ')';
    }
    *at++ = ' ';
    at = put_bare(at, line->parts.url);
    *at++ = ' ';
    at = put_bare(at, line->parts.model);
    *at++ = ' ';
    return put_bare(at, line->parts.path);
}

// Words that everyone can read come first, and what is only looked for last.
void access_line_text(const struct receipt *receipt, enum access_slow slow,
                      struct access_second *second, struct text *out)
{
    struct line line;
    uint8_t *at = begin_line(out);

    if (at == NULL) {
        return;
    }
    gather(&line, receipt, slow, second);
    at = put_head(at, &line);
    at = put_label_u64(at, " prompt=", receipt->prompt_tokens);
    at = put_label_u64(at, " expected=", receipt->decision.chosen.expected_tokens);
    if (receipt->has_cached_tokens) {
        at = put_label_u64(at, " cached=", receipt->cached_tokens);
    }
    at = put_label_u64(at, " output=", receipt->output_tokens);
    at = put_label_ms(at, " predicted=", predicted_ms(receipt));
    at = put_label_ms(at, " ttft=", receipt_ttft_ms(receipt));
    at = put_label_ms(at, " tpot=", receipt_tpot_ms(receipt));
    at = put_label_ms(at, " total=", receipt->end_us > 0 ? (double)receipt->end_us / 1000 : -1);
    if (receipt->attempts > 1) {
        at = put_label_u64(at, " attempts=", receipt->attempts);
    }
    if (slow != ACCESS_NOT_SLOW) {
        at = put_str(PUT(at, " slow="), slow_words[slow]);
    }
    at = put_bare(PUT(at, " id="), line.parts.id);
    end_line(out, PUT(at, "\n"));
}
