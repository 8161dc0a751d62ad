// SPDX-License-Identifier: Apache-2.0
//
// json_twin.h -- the simple twin of json/json.h: the same language, one byte after the other.
//
// Recursive, without vectors, tables or tricks, and decoding every UTF-8 character where the
// scanner compares bounds.  Both write down what they read in one notation, so that a test compares
// not only verdicts but where every key and value begins and ends:
//
//     {"a": [1, "x"], "b": null}      ->      {a:[#1;"x;]b:~null;}
#pragma once

#include "base/text.h"
#include "json/json.h"

struct twin {
    const uint8_t *at;
    const uint8_t *end;
    struct text *trace;
    enum status status;
    uint32_t depth;
};

static inline int twin_peek(const struct twin *twin)
{
    return twin->at < twin->end ? *twin->at : -1;
}

static inline bool twin_fail(struct twin *twin, enum status status)
{
    twin->status = status;
    return false;
}

static inline bool twin_take(struct twin *twin, char wanted)
{
    if (twin_peek(twin) != wanted) {
        return twin_fail(twin, STATUS_MALFORMED);
    }
    twin->at++;
    return true;
}

static inline void twin_space(struct twin *twin)
{
    int byte = twin_peek(twin);
    while (byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n') {
        twin->at++;
        byte = twin_peek(twin);
    }
}

static inline bool twin_hex(struct twin *twin)
{
    for (int i = 0; i < 4; i++) {
        int byte = twin_peek(twin);
        bool hex = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') ||
                   (byte >= 'A' && byte <= 'F');
        if (!hex) {
            return twin_fail(twin, STATUS_MALFORMED);
        }
        twin->at++;
    }
    return true;
}

// One character of more than one byte: decode, then ask whether that was its shortest form.
static inline bool twin_utf8(struct twin *twin)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    int lead = twin_peek(twin);
    int size = lead >= 0xf8 ? 0 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 0;
    if (size == 0) {
        return twin_fail(twin, STATUS_MALFORMED);
    }
    uint32_t character = (uint32_t)lead & (0x7fu >> size);
    twin->at++;
    for (int i = 1; i < size; i++) {
        int byte = twin_peek(twin);
        if (byte < 0x80 || byte > 0xbf) {
            return twin_fail(twin, STATUS_MALFORMED);
        }
        character = character << 6 | ((uint32_t)byte & 0x3f);
        twin->at++;
    }
    bool surrogate = character >= 0xd800 && character <= 0xdfff;
    return (character >= least[size] && character <= 0x10ffff && !surrogate) ||
           twin_fail(twin, STATUS_MALFORMED);
}

static inline bool twin_escape(struct twin *twin)
{
    int byte = twin_peek(twin);
    if (byte < 0 || strchr("\"\\/bfnrtu", byte) == NULL || byte == 0) {
        return twin_fail(twin, STATUS_MALFORMED);
    }
    twin->at++;
    return byte != 'u' || twin_hex(twin);
}

static inline bool twin_string(struct twin *twin, const char *after)
{
    if (!twin_take(twin, '"')) {
        return false;
    }
    const uint8_t *begin = twin->at;
    while (twin_peek(twin) != '"') {
        int byte = twin_peek(twin);
        bool good = true;
        if (byte < 0x20) { // or the end
            return twin_fail(twin, STATUS_MALFORMED);
        }
        if (byte >= 0x80) {
            good = twin_utf8(twin);
        } else {
            twin->at++;
            good = byte != '\\' || twin_escape(twin);
        }
        if (!good) {
            return false;
        }
    }
    text_add(twin->trace, slice_of(begin, (size_t)(twin->at - begin)));
    text_add_str(twin->trace, after);
    twin->at++;
    return true;
}

static inline bool twin_digits(struct twin *twin)
{
    int byte = twin_peek(twin);
    if (byte < '0' || byte > '9') {
        return twin_fail(twin, STATUS_MALFORMED);
    }
    while (byte >= '0' && byte <= '9') {
        twin->at++;
        byte = twin_peek(twin);
    }
    return true;
}

static inline bool twin_number(struct twin *twin)
{
    if (twin_peek(twin) == '-') {
        twin->at++;
    }
    if (twin_peek(twin) == '0') {
        twin->at++;
    } else if (!twin_digits(twin)) {
        return false;
    }
    if (twin_peek(twin) == '.') {
        twin->at++;
        if (!twin_digits(twin)) {
            return false;
        }
    }
    if (twin_peek(twin) == 'e' || twin_peek(twin) == 'E') {
        twin->at++;
        if (twin_peek(twin) == '+' || twin_peek(twin) == '-') {
            twin->at++;
        }
        return twin_digits(twin);
    }
    return true;
}

static inline bool twin_literal(struct twin *twin, const char *text)
{
    for (; *text != '\0'; text++) {
        if (!twin_take(twin, *text)) {
            return false;
        }
    }
    return true;
}

static inline bool twin_value(struct twin *twin);

static inline bool twin_container(struct twin *twin, bool object)
{
    char close = object ? '}' : ']';
    if (++twin->depth > json_depth_max) {
        return twin_fail(twin, STATUS_TOO_LARGE);
    }
    twin->at++;
    twin_space(twin);
    text_add_str(twin->trace, object ? "{" : "[");
    for (bool first = true; twin_peek(twin) != close; first = false) {
        if (!first) {
            if (!twin_take(twin, ',')) {
                return false;
            }
            twin_space(twin);
        }
        if (object) {
            if (!twin_string(twin, ":")) {
                return false;
            }
            twin_space(twin);
            if (!twin_take(twin, ':')) {
                return false;
            }
            twin_space(twin);
        }
        if (!twin_value(twin)) {
            return false;
        }
        twin_space(twin);
    }
    text_add_str(twin->trace, object ? "}" : "]");
    twin->at++;
    twin->depth--;
    return true;
}

static inline bool twin_value(struct twin *twin)
{
    const uint8_t *begin = twin->at;
    int byte = twin_peek(twin);
    if (byte == '{' || byte == '[') {
        return twin_container(twin, byte == '{');
    }
    if (byte == '"') {
        text_add_str(twin->trace, "\"");
        return twin_string(twin, ";");
    }

    bool literal = byte == 't' || byte == 'f' || byte == 'n';
    bool good = literal ? twin_literal(twin, byte == 't'   ? "true"
                                             : byte == 'f' ? "false"
                                                           : "null")
                        : twin_number(twin);
    if (good) {
        text_add_str(twin->trace, !literal ? "#" : byte == 'n' ? "~" : "?");
        text_add(twin->trace, slice_of(begin, (size_t)(twin->at - begin)));
        text_add_str(twin->trace, ";");
    }
    return good;
}

// The status that json_close would return for `text`, and the trace up to the point that decided
// it.
static inline enum status twin_read(struct slice text, struct text *trace)
{
    struct twin twin = {.at = text.bytes, .end = text.bytes + text.size, .trace = trace};
    twin_space(&twin);
    if (twin_value(&twin)) {
        twin_space(&twin);
        if (twin.at != twin.end) {
            twin.status = STATUS_MALFORMED;
        }
    }
    return twin.status;
}

static inline void scan_scalar(const struct json_value *value, struct text *trace)
{
    static const char *const marks[] = {
        [JSON_NULL] = "~", [JSON_BOOL] = "?", [JSON_NUMBER] = "#", [JSON_STRING] = "\""};
    text_add_str(trace, marks[value->kind]);
    text_add(trace, value->raw);
    text_add_str(trace, ";");
}

// The same through the scanner, entering everything.
static inline enum status scan_read(struct slice text, struct text *trace)
{
    bool object[json_depth_max + 1] = {false};
    uint32_t depth = 0;
    struct json json = json_open(text);
    struct json_item item;

    for (;;) {
        if (!json_next(&json, &item)) {
            if (json.status != STATUS_OK || depth == 0) {
                return json_close(&json);
            }
            text_add_str(trace, object[depth] ? "}" : "]");
            depth--;
            continue;
        }
        if (depth > 0 && object[depth]) {
            text_add(trace, item.key);
            text_add_str(trace, ":");
        }
        if (item.value.kind == JSON_OBJECT || item.value.kind == JSON_ARRAY) {
            object[++depth] = item.value.kind == JSON_OBJECT;
            text_add_str(trace, object[depth] ? "{" : "[");
            json_enter(&json);
        } else {
            scan_scalar(&item.value, trace);
        }
    }
}
