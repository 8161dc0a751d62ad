// SPDX-License-Identifier: Apache-2.0
//
// The space for the longest line is checked once.  After that each put_ function writes at `at`,
// without a check, and returns the end; it may overwrite some bytes behind it.

#include "metrics/access_line.h"

#include "base/base.h"
#include "base/date.h"
#include "base/decimal.h"
#include "base/utf8.h"
#include "metrics/receipt.h"

#include <math.h>
#include <string.h>

static inline uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + size;
}

// A literal: its size is known, so it is some moves and no call.
#define PUT(at, literal) put_bytes(at, literal, sizeof(literal) - 1)

// Short text of the program itself, never of a peer.
static uint8_t *put_str(uint8_t *at, const char *text)
{
    while (*text != '\0') {
        *at++ = (uint8_t)*text++;
    }
    return at;
}

// Values.  Each is a whole JSON value.

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

// In milliseconds.
static uint8_t *put_us(uint8_t *at, uint64_t us)
{
    return decimal_put_fixed(at, us, 3);
}

// 0 stands for a moment that never came.
static uint8_t *put_us_or_null(uint8_t *at, uint64_t us)
{
    return us == 0 ? put_null(at) : put_us(at, us);
}

// False for unknown times: negative, not finite, or beyond thirty thousand years.
static bool to_us(double ms, uint64_t *out)
{
    if (!(ms >= 0 && ms < 1e15)) {
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

// 2026-11-15T19:31:19.
static void write_second(struct access_second *second, uint64_t seconds)
{
    struct date date = date_of_days((int64_t)(seconds / 86400));
    uint32_t in_day = (uint32_t)(seconds % 86400);
    const struct {
        uint32_t number;
        char behind;
    } parts[] = {
        {date.month, '-'},       {date.day, 'T'},    {in_day / 3600, ':'},
        {in_day / 60 % 60, ':'}, {in_day % 60, '.'},
    };
    uint8_t *at =
        put_two(put_two(second->text, (uint32_t)date.year / 100), (uint32_t)date.year % 100);

    *at++ = '-';
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        at = put_two(at, parts[i].number);
        *at++ = (uint8_t)parts[i].behind;
    }
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

static uint8_t *put_quoted_time(uint8_t *at, struct access_second *second, uint64_t wall_us)
{
    *at = '"';
    at = put_time(at + 1, second, wall_us);
    *at = '"';
    return at + 1;
}

// Text of peers.  It may have been cut in the middle of a character.

// Moves the cursor of a terminal, or reverses the direction of text.
static bool is_control(uint32_t code_point)
{
    return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) ||
           (code_point >= 0x2028 && code_point <= 0x202e) ||
           (code_point >= 0x2066 && code_point <= 0x2069);
}

// 255 where a byte cannot be written as it is, in JSON or in text.  As signed numbers, bytes above
// 0x7f are below those of ASCII.
#define ODD(signed_bytes)                                                                          \
    (((signed_bytes) <= ' ') | ((signed_bytes) == 0x7f) | ((signed_bytes) == '"') |                \
     ((signed_bytes) == '\\'))

// Texts of sixteen bytes and more, sixteen at once; the last ones may be read twice.
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

// True: the copy is valid as it is, in both forms.
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

static uint8_t *put_escaped(uint8_t *at, struct slice text)
{
    uint8_t space[receipt_text_max];
    struct text out = text_over(at, 2 + (size_t)6 * receipt_text_max); // each as \u00ff

    text_add_json(&out, utf8_tamed(text, space));
    ASSERT(!out.overflow);
    return at + out.size;
}

static uint8_t *put_string(uint8_t *at, struct slice text)
{
    ASSERT(text.size <= receipt_text_max);
    if (!copy_plain(at + 1, text)) {
        return put_escaped(at, text);
    }
    at[0] = '"';
    at[text.size + 1] = '"';
    return at + text.size + 2;
}

// Without quotes: spaces and control characters become `?`.
static uint8_t *put_bare(uint8_t *at, struct slice text)
{
    uint8_t space[receipt_text_max];
    unsigned size;

    ASSERT(text.size <= receipt_text_max);
    if (text.size == 0) {
        return PUT(at, "-");
    }
    if (copy_plain(at, text)) {
        return at + text.size;
    }
    text = utf8_tamed(text, space);
    for (size_t i = 0; i < text.size; i += size) {
        uint32_t code_point = utf8_read(text.bytes + i, &size);
        at = code_point == ' ' || is_control(code_point) ? PUT(at, "?")
                                                         : put_bytes(at, text.bytes + i, size);
    }
    return at;
}

static uint8_t *put_trace(uint8_t *at, const uint64_t trace[2])
{
    *at++ = '"';
    for (unsigned i = 0; i < 32; i++) {
        *at++ = (uint8_t) "0123456789abcdef"[trace[i / 16] >> (60 - 4 * (i % 16)) & 15];
    }
    *at = '"';
    return at + 1;
}

static uint8_t *put_backend(uint8_t *at, uint64_t id, struct slice url)
{
    if (id == 0) {
        return put_null(at);
    }
    at = decimal_put(PUT(at, "{\"id\":"), id);
    at = put_string(PUT(at, ",\"url\":"), url);
    *at = '}';
    return at + 1;
}

static uint8_t *put_stages(uint8_t *at, const struct receipt *receipt)
{
    uint8_t *begin = at;
    // Tenths of a microsecond: the clock is not finer.
#define STAGE(id, name, help)                                                                      \
    at = decimal_put_fixed(PUT(at, ",\"" name "\":"),                                              \
                           (receipt->stage_ns[RECEIPT_STAGE_##id] + (uint64_t)50) / 100, 1);
#include "metrics/stages.def"
#undef STAGE
    *begin = '{'; // instead of the first comma
    *at = '}';
    return at + 1;
}

static const char *const slow_words[] = {
    [ACCESS_SLOW_FIRST] = "first",
    [ACCESS_SLOW_TOTAL] = "total",
};

// The beginning of the line; NULL: there may be too little space.
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

void access_line_json(const struct receipt *receipt, enum access_slow slow,
                      struct access_second *second, struct text *out)
{
    struct receipt_parts parts;
    uint8_t *begin = begin_line(out);
    uint8_t *at = begin;

    ASSERT((size_t)slow < ARRAY_COUNT(slow_words));
    if (at == NULL) {
        return;
    }
    receipt_parts(receipt, &parts);
#define FIELD(name, value, example, help)                                                          \
    at = PUT(at, ",\"" name "\":");                                                                \
    at = (value);
#define FIELD_IF(condition, name, value, example, help)                                            \
    if (condition) {                                                                               \
        FIELD(name, value, example, help)                                                          \
    }
#include "metrics/access_fields.def"
#undef FIELD
#undef FIELD_IF
    *begin = '{'; // instead of the first comma
    end_line(out, PUT(at, "}\n"));
}

// Writes the label, which ends in a sign, and the number.
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

static uint8_t *put_text_head(uint8_t *at, const struct receipt *receipt,
                              const struct receipt_parts *parts)
{
    at = receipt->status == 0 ? PUT(at, " ---") : put_label_u64(at, " ", receipt->status);
    *at++ = ' ';
    at = put_str(at, receipt_outcome_name(receipt->outcome));
    if (receipt->problem != NULL) {
        at = put_str(PUT(at, " ("), receipt->problem);
        *at++ = ')';
    }
    at = put_bare(PUT(at, " "), parts->url);
    at = put_bare(PUT(at, " "), parts->model);
    return put_bare(PUT(at, " "), parts->path);
}

// Words that everyone can read come first; the id, which is only searched for, comes last.
void access_line_text(const struct receipt *receipt, enum access_slow slow,
                      struct access_second *second, struct text *out)
{
    struct receipt_parts parts;
    uint8_t *at = begin_line(out);

    ASSERT((size_t)slow < ARRAY_COUNT(slow_words));
    if (at == NULL) {
        return;
    }
    receipt_parts(receipt, &parts);
    at = put_text_head(put_time(at, second, receipt->wall_us), receipt, &parts);
    at = put_label_u64(at, " prompt=", receipt->prompt_tokens);
    at = put_label_u64(at, " expected=", receipt->decision.chosen.expected_tokens);
    if (receipt->has_cached_tokens) {
        at = put_label_u64(at, " cached=", receipt->cached_tokens);
    }
    at = put_label_u64(at, " output=", receipt->output_tokens);
    at = put_label_ms(at, " predicted=", receipt_predicted_ms(receipt));
    at = put_label_ms(at, " ttft=", receipt_ttft_ms(receipt));
    at = put_label_ms(at, " tpot=", receipt_tpot_ms(receipt));
    at = put_label_ms(at, " total=", receipt_total_ms(receipt));
    if (receipt->attempts > 1) {
        at = put_label_u64(at, " attempts=", receipt->attempts);
    }
    if (slow != ACCESS_NOT_SLOW) {
        at = put_str(PUT(at, " slow="), slow_words[slow]);
    }
    at = put_bare(PUT(at, " id="), parts.id);
    end_line(out, PUT(at, "\n"));
}
