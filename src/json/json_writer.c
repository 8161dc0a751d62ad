// SPDX-License-Identifier: Apache-2.0

#include "json/json_writer.h"

#include "base/base.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

struct json_writer json_writer_over(struct text *out)
{
    return (struct json_writer){.out = out};
}

struct json_writer json_writer_spaced(struct text *out)
{
    return (struct json_writer){.out = out, .is_spaced = true};
}

static bool json_writer_in_object(const struct json_writer *json)
{
    return json->depth > 0 && (json->objects >> (json->depth - 1) & 1) != 0;
}

// False: the next item goes on in the same line.
static bool json_writer_begin_line(struct json_writer *json)
{
    if (!json->breaks_line) {
        return false;
    }
    text_add_format(json->out, "\n%*s", (int)json->indent, "");
    json->breaks_line = false;
    return true;
}

void json_put_key(struct json_writer *json, const char *key)
{
    ASSERT((key != NULL) == json_writer_in_object(json));
    if (json->has_item) {
        text_add_str(json->out, ",");
    }
    if (!json_writer_begin_line(json) && json->has_item && json->is_spaced) {
        text_add_str(json->out, " ");
    }
    json->has_item = true;
    if (key != NULL) {
        text_add_str(json->out, "\"");
        text_add_str(json->out, key);
        text_add_str(json->out, json->is_spaced ? "\": " : "\":");
    }
}

void json_break_line(struct json_writer *json, unsigned indent)
{
    json->breaks_line = true;
    json->indent = (uint8_t)indent;
}

static void json_begin(struct json_writer *json, const char *key, bool is_object)
{
    ASSERT(json->depth < json_writer_depth_max);
    json_put_key(json, key);
    text_add_str(json->out, is_object ? "{" : "[");
    uint64_t bit = 1ULL << json->depth++;
    json->objects = is_object ? json->objects | bit : json->objects & ~bit;
    json->has_item = false;
}

void json_begin_object(struct json_writer *json, const char *key)
{
    json_begin(json, key, true);
}

void json_begin_array(struct json_writer *json, const char *key)
{
    json_begin(json, key, false);
}

void json_end(struct json_writer *json)
{
    ASSERT(json->depth > 0);
    json_writer_begin_line(json);
    text_add_str(json->out, json_writer_in_object(json) ? "}" : "]");
    json->depth--;
    json->has_item = true;
}

void json_put_null(struct json_writer *json, const char *key)
{
    json_put_key(json, key);
    text_add_str(json->out, "null");
}

void json_put_bool(struct json_writer *json, const char *key, bool value)
{
    json_put_key(json, key);
    text_add_str(json->out, value ? "true" : "false");
}

void json_put_u64(struct json_writer *json, const char *key, uint64_t number)
{
    json_put_key(json, key);
    text_add_u64(json->out, number);
}

void json_put_known(struct json_writer *json, const char *key, bool is_known, uint64_t number)
{
    if (is_known) {
        json_put_u64(json, key, number);
    } else {
        json_put_null(json, key);
    }
}

void json_put_i64(struct json_writer *json, const char *key, int64_t number)
{
    json_put_key(json, key);
    text_add_format(json->out, "%" PRId64, number);
}

// False: the number is not finite, and null is written in its place.
static bool json_put_finite_key(struct json_writer *json, const char *key, double number)
{
    json_put_key(json, key);
    if (!isfinite(number)) {
        text_add_str(json->out, "null");
    }
    return isfinite(number);
}

void json_put_number(struct json_writer *json, const char *key, double number, unsigned digits)
{
    if (json_put_finite_key(json, key, number)) {
        text_add_format(json->out, "%.*g", (int)digits, number);
    }
}

void json_put_fixed(struct json_writer *json, const char *key, double number, unsigned places)
{
    if (json_put_finite_key(json, key, number)) {
        text_add_format(json->out, "%.*f", (int)places, number);
    }
}

void json_put_string(struct json_writer *json, const char *key, struct slice string)
{
    json_put_key(json, key);
    text_add_json(json->out, string);
}

void json_put_str(struct json_writer *json, const char *key, const char *string)
{
    if (string == NULL) {
        json_put_null(json, key);
    } else {
        json_put_string(json, key, slice_str(string));
    }
}

void json_put_foreign(struct json_writer *json, const char *key, struct slice string)
{
    json_begin_string(json, key);
    size_t begin = 0; // of the characters that are valid and not yet written
    size_t at = 0;
    while (at < string.size) {
        unsigned size =
            string.bytes[at] < 0x80 ? 1 : utf8_valid_size(string.bytes + at, string.size - at);
        at += size;
        if (size > 0) {
            continue;
        }
        text_add_escaped(json->out, slice_of(string.bytes + begin, at - begin));
        text_add_str(json->out, "?");
        begin = ++at;
    }
    text_add_escaped(json->out, slice_of(string.bytes + begin, at - begin));
    json_end_string(json);
}

void json_put_format(struct json_writer *json, const char *key, const char *format, ...)
{
    va_list args;

    json_begin_string(json, key);
    va_start(args, format);
    text_add_vformat(json->out, format, args);
    va_end(args);
    json_end_string(json);
}

void json_begin_string(struct json_writer *json, const char *key)
{
    json_put_key(json, key);
    text_add_str(json->out, "\"");
}

void json_end_string(struct json_writer *json)
{
    text_add_str(json->out, "\"");
}
