// SPDX-License-Identifier: Apache-2.0
//
// Nearly all bytes of a request are inside strings.  Short ones, such as names of members, end
// within one or two loads right here.  Long ones are read by json_vector.c, or by its scalar
// twin, json_scalar_string_end, on processors without AVX2.  All else is read item by item,
// except token ids, which can be most of a prompt.

#include "json/json.h"

#include "base/base.h"
#include "base/text.h"
#include "base/utf8.h"
#include "json/json_vector_internal.h"

#include <math.h>
#include <stdlib.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif

// A function named read_... takes the place to read from and the end of the text, and returns the
// place after what it read, or NULL when that is not there.

// A branch for a rare or predictable condition: an address that depends on the byte just read
// would have to wait for it.
#define RARE(condition) (__builtin_expect((condition), 0))

// Kept out of line, so that its callers need no registers saved.
#define APART __attribute__((noinline))

static bool is_space(uint8_t byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

static bool is_json_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static const uint8_t *json_skip_space(const uint8_t *at, const uint8_t *end)
{
    while (at < end && is_space(*at)) {
        at++;
    }
    return at;
}

// Bytes that stand for themselves in a string: ASCII less quote, backslash and control characters.
static bool is_plain_byte(uint8_t byte)
{
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

// Bits for 16 bytes.
struct json_marks {
    unsigned quotes;
    unsigned others; // other bytes that are not plain
};

static inline struct json_marks marks_of(const uint8_t *at)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    const __m128i space = _mm_set1_epi8(' ');

    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    // As signed numbers, bytes from 0x80 up are below the space too.
    __m128i others = _mm_or_si128(_mm_cmplt_epi8(bytes, space), _mm_cmpeq_epi8(bytes, backslash));
    return (struct json_marks){
        .quotes = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, quote)),
        .others = (unsigned)_mm_movemask_epi8(others),
    };
#else
    struct json_marks marks = {0};
    for (unsigned i = 0; i < 16; i++) {
        marks.quotes |= (unsigned)(at[i] == '"') << i;
        marks.others |= (unsigned)(at[i] != '"' && !is_plain_byte(at[i])) << i;
    }
    return marks;
#endif
}

// The first byte that is not plain, or `end`.
static const uint8_t *plain_end(const uint8_t *at, const uint8_t *end)
{
    for (; end - at >= 16; at += 16) {
        struct json_marks marks = marks_of(at);
        if ((marks.quotes | marks.others) != 0) {
            return at + __builtin_ctz(marks.quotes | marks.others);
        }
    }
    while (at < end && is_plain_byte(*at)) {
        at++;
    }
    return at;
}

// The value of a hexadecimal digit plus hex_digit; 0 for other bytes.  A table because bodies of
// clients that escape all but ASCII consist of escapes.
enum { hex_digit = 0x10 };
static const uint8_t hex_values[256] = {
    ['0'] = 0x10, ['1'] = 0x11, ['2'] = 0x12, ['3'] = 0x13, ['4'] = 0x14, ['5'] = 0x15,
    ['6'] = 0x16, ['7'] = 0x17, ['8'] = 0x18, ['9'] = 0x19, ['a'] = 0x1a, ['b'] = 0x1b,
    ['c'] = 0x1c, ['d'] = 0x1d, ['e'] = 0x1e, ['f'] = 0x1f, ['A'] = 0x1a, ['B'] = 0x1b,
    ['C'] = 0x1c, ['D'] = 0x1d, ['E'] = 0x1e, ['F'] = 0x1f,
};

// An escape, from its backslash on, and the UTF-16 unit it stands for.
static const uint8_t *read_escape_unit(const uint8_t *at, const uint8_t *end, uint32_t *unit)
{
    // By letter, the character of \b, \f, \n, \r, \t, \", \\ and \/; 0 for other letters.
    static const uint8_t meaning[128] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };

    if (end - at < 2) {
        return NULL;
    }
    if (at[1] != 'u') {
        *unit = at[1] < sizeof(meaning) ? meaning[at[1]] : 0;
        return *unit != 0 ? at + 2 : NULL;
    }
    if (end - at < 6) {
        return NULL;
    }
    uint32_t a = hex_values[at[2]];
    uint32_t b = hex_values[at[3]];
    uint32_t c = hex_values[at[4]];
    uint32_t d = hex_values[at[5]];
    *unit = (a & 15) << 12 | (b & 15) << 8 | (c & 15) << 4 | (d & 15);
    return (a & b & c & d & hex_digit) != 0 ? at + 6 : NULL;
}

const uint8_t *json_scalar_string_end(const uint8_t *at, const uint8_t *end)
{
    for (;;) {
        at = plain_end(at, end);
        if (at == end) {
            return NULL;
        }
        if (*at == '"') {
            return at + 1;
        }
        if (*at == '\\') {
            uint32_t unit;
            at = read_escape_unit(at, end, &unit);
            if (at == NULL) {
                return NULL;
            }
        }
        // Characters beyond ASCII come in runs.  A control character ends the run and the string.
        while (at < end && (*at >= 0x80 || *at < 0x20)) {
            unsigned size = utf8_valid_size(at, (size_t)(end - at));
            if (size == 0) {
                return NULL;
            }
            at += size;
        }
    }
}

// From after the opening quote to after the closing one.
static const uint8_t *json_read_string(const uint8_t *at, const uint8_t *end)
{
    // Ids and names of models end within 64 bytes and are plain.
    for (int i = 0; i < 4 && end - at >= 16; i++, at += 16) {
        struct json_marks marks = marks_of(at);
        if ((marks.quotes | marks.others) != 0) {
            at += __builtin_ctz(marks.quotes | marks.others);
            if (*at == '"') {
                return at + 1;
            }
            break;
        }
    }
    // Near the end of the text json_vector_string_end would have to copy it.
    return end - at >= 64 && json_vector_is_supported() ? json_vector_string_end(at, end)
                                                        : json_scalar_string_end(at, end);
}

// The same for a string of at most 15 plain characters; NULL for any other.  16 bytes can be read.
static inline const uint8_t *read_short_string(const uint8_t *at)
{
    struct json_marks marks = marks_of(at);
    bool good = marks.quotes != 0 && ((marks.quotes ^ (marks.quotes - 1)) & marks.others) == 0;
    return good ? at + __builtin_ctz(marks.quotes) + 1 : NULL;
}

static const uint8_t *json_read_digits(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *begin = at;

    while (at < end && is_json_digit(*at)) {
        at++;
    }
    return at > begin ? at : NULL;
}

static const uint8_t *json_read_number(const uint8_t *at, const uint8_t *end)
{
    at += *at == '-';
    if (at < end && *at == '0') {
        at++; // a digit that follows is invalid where the next item is read
    } else {
        at = json_read_digits(at, end);
    }
    if (at != NULL && at < end && *at == '.') {
        at = json_read_digits(at + 1, end);
    }
    if (at != NULL && at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '+' || *at == '-');
        at = json_read_digits(at, end);
    }
    return at;
}

// The same for a whole number of at most seven digits with a comma behind it; NULL for any
// other.  Eight bytes can be read, the first one a digit.  The number of digits is found without
// a branch, since it is unpredictable.
static inline const uint8_t *read_short_number(const uint8_t *at)
{
    const uint64_t ones = 0x0101010101010101;
    uint64_t word;

    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__) {
        return NULL;
    }
    memcpy(&word, at, sizeof(word));
    word ^= ones * '0';
    // The top bit of each byte that was not a digit; and of some digits behind the first such
    // byte.
    uint64_t others = ((word + ones * (0x80 - 10)) | word) & ones * 0x80;
    if (others == 0) {
        return NULL;
    }
    const uint8_t *after = at + __builtin_ctzll(others) / 8;
    return *after == ',' && (*at != '0' || after == at + 1) ? after : NULL;
}

// true, false or null.
static inline const uint8_t *read_literal(const uint8_t *at, const uint8_t *end,
                                          enum json_kind *kind)
{
    struct slice text = slice_of(at, (size_t)(end - at));

    *kind = *at == 'n' ? JSON_NULL : JSON_BOOL;
    if (slice_starts_with(text, "true") || slice_starts_with(text, "null")) {
        return at + 4;
    }
    return slice_starts_with(text, "false") ? at + 5 : NULL;
}

static bool json_fail(struct json *json, enum status status)
{
    json->status = status;
    return false;
}

static inline bool container_begin(struct json *json, const uint8_t *at, struct json_value *out)
{
    if (json->depth == json_depth_max) {
        return json_fail(json, STATUS_TOO_LARGE);
    }
    bool object = *at == '{';
    uint64_t bit = (uint64_t)1 << json->depth % 64;
    uint64_t *word = &json->objects[json->depth / 64];
    *word = object ? *word | bit : *word & ~bit;

    out->kind = object ? JSON_OBJECT : JSON_ARRAY;
    out->raw = slice_of(at, 1);
    json->at = at + 1;
    json->depth++;
    json->closing = (uint8_t)(*at + 2); // in ASCII both pairs are two apart
    json->pending = true;
    return true;
}

static inline void container_end(struct json *json, const uint8_t *at)
{
    json->at = at + 1;
    json->depth--;
    json->first = false; // the ended container was an item of the one around it
    uint32_t level = json->depth > 0 ? json->depth - 1 : 0;
    json->closing = (json->objects[level / 64] >> level % 64 & 1) != 0 ? '}' : ']';
}

APART static bool value_read(struct json *json, const uint8_t *at, struct json_value *out)
{
    const uint8_t *end = json->end;
    const uint8_t *after = NULL;
    enum json_kind kind = JSON_ABSENT;

    switch (at < end ? *at : '\0') {
    case '{':
    case '[':
        return container_begin(json, at, out);
    case '"':
        kind = JSON_STRING;
        after = json_read_string(at + 1, end);
        break;
    case 't':
    case 'f':
    case 'n':
        after = read_literal(at, end, &kind);
        break;
    case '-':
    case '0' ... '9':
        kind = JSON_NUMBER;
        after = json_read_number(at, end);
        break;
    default:
        break;
    }
    if (after == NULL) {
        return json_fail(json, STATUS_MALFORMED);
    }
    json->at = after;
    out->kind = kind;
    out->raw = kind == JSON_STRING ? slice_of(at + 1, (size_t)(after - at) - 2)
                                   : slice_of(at, (size_t)(after - at));
    return true;
}

// From the opening quote of a member's name to where its value begins, or NULL.
static const uint8_t *read_key(const uint8_t *at, const uint8_t *end, struct slice *out)
{
    if (at == end || *at != '"') {
        return NULL;
    }
    const uint8_t *after = json_read_string(at + 1, end);
    if (after == NULL) {
        return NULL;
    }
    *out = slice_of(at + 1, (size_t)(after - at) - 2);
    after = json_skip_space(after, end);
    return after < end && *after == ':' ? json_skip_space(after + 1, end) : NULL;
}

// json_next for a cursor with nothing pending.
APART static bool any_item_read(struct json *json, struct json_item *out)
{
    const uint8_t *end = json->end;
    const uint8_t *at = json_skip_space(json->at, end);
    bool first = json->first;

    json->first = false;
    json->at = at;
    out->key = slice_of(at, 0);
    if (json->depth == 0) {
        return first && value_read(json, at, &out->value);
    }
    if (at == end) {
        return json_fail(json, STATUS_MALFORMED);
    }
    if (*at == json->closing) {
        container_end(json, at);
        return false;
    }
    if (!first) {
        if (*at != ',') {
            return json_fail(json, STATUS_MALFORMED);
        }
        at = json_skip_space(at + 1, end);
        out->key = slice_of(at, 0);
    }
    if (json->closing == '}') {
        at = read_key(at, end, &out->key);
        if (at == NULL) {
            return json_fail(json, STATUS_MALFORMED);
        }
    }
    return value_read(json, at, &out->value);
}

// From the first byte of a value to after it, or NULL for one that is not short.  17 bytes can be
// read.
static inline const uint8_t *read_short_value(const uint8_t *at, const uint8_t *end,
                                              struct json_value *out)
{
    const uint8_t *after = NULL;
    enum json_kind kind = JSON_STRING;

    if (*at == '"') {
        after = read_short_string(at + 1);
        if (after != NULL) {
            out->kind = JSON_STRING;
            out->raw = slice_of(at + 1, (size_t)(after - at) - 2);
        }
        return after;
    }
    if (is_json_digit(*at)) {
        kind = JSON_NUMBER;
        after = read_short_number(at);
    } else if (*at >= 'a' && *at <= 'z') {
        after = read_literal(at, end, &kind);
    }
    if (after != NULL) {
        out->kind = kind;
        out->raw = slice_of(at, (size_t)(after - at));
    }
    return after;
}

// How far item_read looks ahead: a comma and a space, a name of 15 characters in its quotes, a
// colon and a space, a value of the same size.
enum { short_item_size = 2 + 17 + 2 + 17 };

// The same, faster for short items with at most one space between their parts, as programs write
// them.  The cursor changes only once the item is known to be one of these.
static inline bool item_read(struct json *json, struct json_item *out)
{
    const uint8_t *at = json->at;

    if (json->end - at < short_item_size || json->depth == 0) {
        return any_item_read(json, out);
    }
    if (*at == json->closing) {
        container_end(json, at);
        return false;
    }
    if (!json->first) {
        if (*at != ',') {
            return any_item_read(json, out);
        }
        at += 1;
        if (RARE(*at == ' ')) {
            at++;
        }
    }
    out->key = slice_of(at, 0);
    if (json->closing == '}') {
        const uint8_t *after = *at == '"' ? read_short_string(at + 1) : NULL;
        if (after == NULL || *after != ':') {
            return any_item_read(json, out);
        }
        out->key = slice_of(at + 1, (size_t)(after - at) - 2);
        at = after + 1;
        if (RARE(*at == ' ')) {
            at++;
        }
    }
    const uint8_t *after = read_short_value(at, json->end, &out->value);
    if (after == NULL && is_space(*at)) {
        return any_item_read(json, out);
    }
    json->first = false;
    if (after == NULL) {
        return value_read(json, at, &out->value);
    }
    json->at = after;
    return true;
}

// Reads on until only `depth` containers are open.
APART static bool json_drain(struct json *json, uint32_t depth)
{
    struct json_item item;
    bool has_ids = true; // until an element of this container is not an id

    while (json->status == STATUS_OK && json->depth > depth) {
        if (json->pending) {
            json_enter(json);
            has_ids = true;
        }
        if (item_read(json, &item) && item.value.kind == JSON_NUMBER && has_ids) {
            has_ids = json_skip_ids(json) > 0;
        }
    }
    return json->status == STATUS_OK;
}

struct json json_open(struct slice text)
{
    return (struct json){.at = text.bytes, .end = slice_end(text), .first = true};
}

APART static bool pending_next(struct json *json, struct json_item *out)
{
    return json_drain(json, json->depth - 1) && item_read(json, out);
}

bool json_next(struct json *json, struct json_item *out)
{
    if (RARE(json->pending)) {
        return pending_next(json, out);
    }
    return json->status == STATUS_OK && item_read(json, out);
}

void json_enter(struct json *json)
{
    ASSERT(json->pending);

    json->pending = false;
    json->first = true;
}

bool json_skip(struct json *json, struct json_value *value)
{
    if (value->kind != JSON_ARRAY && value->kind != JSON_OBJECT) {
        return json->status == STATUS_OK;
    }
    ASSERT(json->pending);
    ASSERT(value->raw.bytes == json->at - 1);

    if (!json_drain(json, json->depth - 1)) {
        return false;
    }
    value->raw.size = (size_t)(json->at - value->raw.bytes);
    return true;
}

uint64_t json_skip_ids(struct json *json)
{
    uint64_t count = 0;

    if (json->status == STATUS_OK && json->depth > 0 && !json->pending && !json->first &&
        json->at < json->end && *json->at == ',' && json->closing == ']' &&
        json_vector_is_supported()) {
        json->at = json_vector_ids_end(json->at, json->end, &count);
    }
    return count;
}

struct json json_inside(struct slice container)
{
    struct json json = json_open(container);
    struct json_item item;

    if (json_next(&json, &item) && json.pending) {
        json_enter(&json);
    }
    return json;
}

bool json_next_whole(struct json *json, struct json_item *out)
{
    return json_next(json, out) && json_skip(json, &out->value);
}

enum status json_close(struct json *json)
{
    struct json_item item;

    if (json->status == STATUS_OK && json->depth == 0) {
        item_read(json, &item);
    }
    if (json_drain(json, 0)) {
        json->at = json_skip_space(json->at, json->end);
        if (json->at != json->end) {
            json->status = STATUS_MALFORMED;
        }
    }
    return json->status;
}

// The index of the name that `key` is, or name_count.
static uint32_t json_find_name(struct slice key, const char *const *names, uint32_t name_count)
{
    uint32_t i = 0;
    while (i < name_count && !json_string_is(key, names[i])) {
        i++;
    }
    return i;
}

enum status json_find(struct slice text, const char *const *names, uint32_t name_count,
                      struct json_value *out)
{
    ASSERT(name_count <= json_find_max);

    struct json_value found[json_find_max] = {0};
    struct json json = json_open(text);
    struct json_item item;

    if (json_next(&json, &item) && item.value.kind == JSON_OBJECT) {
        json_enter(&json);
        while (json_next(&json, &item)) {
            uint32_t i = json_find_name(item.key, names, name_count);
            if (i < name_count && json_skip(&json, &item.value)) {
                found[i] = item.value;
            }
        }
    }
    enum status status = json_close(&json);
    if (status == STATUS_OK) {
        memcpy(out, found, name_count * sizeof(*out));
    }
    return status;
}

// An escape, or two that make a surrogate pair, and the character.
static const uint8_t *read_escape(const uint8_t *at, const uint8_t *end, uint32_t *character)
{
    uint32_t high = 0;
    uint32_t low = 0;

    at = read_escape_unit(at, end, &high);
    if (at == NULL || high < 0xd800 || high > 0xdfff) {
        *character = high;
        return at;
    }
    if (high > 0xdbff || at == end || *at != '\\') {
        return NULL;
    }
    at = read_escape_unit(at, end, &low);
    if (at == NULL || low < 0xdc00 || low > 0xdfff) {
        return NULL;
    }
    *character = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return at;
}

static const uint8_t *json_find_backslash(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *found = at < end ? memchr(at, '\\', (size_t)(end - at)) : NULL;
    return found != NULL ? found : end;
}

// The next stretch of a string, unescaped: all up to an escape, in place, or the character of one
// escape, in `scratch`.  NULL for half a surrogate pair.
static const uint8_t *json_read_piece(const uint8_t *at, const uint8_t *end, uint8_t *scratch,
                                      struct slice *out)
{
    if (*at != '\\') {
        const uint8_t *after = json_find_backslash(at, end);
        *out = slice_of(at, (size_t)(after - at));
        return after;
    }
    uint32_t character = 0;
    at = read_escape(at, end, &character);
    if (at != NULL) {
        *out = slice_of(scratch, utf8_write(character, scratch));
    }
    return at;
}

bool json_string_is(struct slice raw, const char *text)
{
    struct slice wanted = slice_str(text);
    const uint8_t *at = raw.bytes;
    const uint8_t *end = slice_end(raw);

    if (raw.size < wanted.size) {
        return false; // unescaping only shortens
    }
    while (at < end) {
        uint8_t scratch[4];
        struct slice piece;
        at = json_read_piece(at, end, scratch, &piece);
        if (at == NULL || piece.size > wanted.size ||
            memcmp(piece.bytes, wanted.bytes, piece.size) != 0) {
            return false;
        }
        wanted = slice_of(wanted.bytes + piece.size, wanted.size - piece.size);
    }
    return wanted.size == 0;
}

enum status json_string_decode(struct slice raw, void *buffer, size_t capacity, struct slice *out)
{
    const uint8_t *at = raw.bytes;
    const uint8_t *end = slice_end(raw);

    if (json_find_backslash(at, end) == end) {
        *out = raw;
        return STATUS_OK;
    }
    struct text text = text_over(buffer, capacity);
    while (at < end) {
        uint8_t scratch[4];
        struct slice piece;
        at = json_read_piece(at, end, scratch, &piece);
        if (at == NULL) {
            return STATUS_MALFORMED;
        }
        text_add(&text, piece);
    }
    if (text.overflow) {
        return STATUS_TOO_LARGE;
    }
    *out = text_slice(&text);
    return STATUS_OK;
}

bool json_uint(const struct json_value *value, uint64_t *out)
{
    return value->kind == JSON_NUMBER && slice_parse_u64(value->raw, out);
}

bool json_is_unset(const struct json_value *value)
{
    return value->kind == JSON_ABSENT || value->kind == JSON_NULL;
}

bool json_is_string(const struct json_value *value, const char *text)
{
    return value->kind == JSON_STRING && json_string_is(value->raw, text);
}

bool json_is_true(const struct json_value *value)
{
    return value->kind == JSON_BOOL && slice_is(value->raw, "true");
}

double json_number(const struct json_value *value)
{
    char digits[64];
    if (value->kind != JSON_NUMBER || value->raw.size >= sizeof(digits)) {
        return (double)NAN;
    }
    memcpy(digits, value->raw.bytes, value->raw.size);
    digits[value->raw.size] = '\0';
    double number = strtod(digits, NULL);
    return isfinite(number) ? number : (double)NAN;
}

struct json_value json_member(const struct json_value *object, const char *name)
{
    struct json_value value = {0};
    if (object->kind != JSON_OBJECT || json_find(object->raw, &name, 1, &value) != STATUS_OK) {
        return (struct json_value){0};
    }
    return value;
}
