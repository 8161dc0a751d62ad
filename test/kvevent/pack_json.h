// SPDX-License-Identifier: Apache-2.0
//
// pack_json.h -- msgpack as one can read it: JSON, with ' for ", written by another library.
//
// A string that begins with "hex:" is binary.
#pragma once

#include "base/base.h"
#include "json/json.h"

#include <msgpack.h>
#include <stdlib.h>

static void pack_number(msgpack_packer *out, struct slice raw)
{
    char digits[32] = {0};
    ASSERT(raw.size < sizeof(digits));
    memcpy(digits, raw.bytes, raw.size);
    if (memchr(digits, '.', raw.size) != NULL) {
        msgpack_pack_double(out, strtod(digits, NULL));
    } else if (digits[0] == '-') {
        msgpack_pack_int64(out, strtoll(digits, NULL, 10));
    } else {
        msgpack_pack_uint64(out, strtoull(digits, NULL, 10));
    }
}

static void pack_text(msgpack_packer *out, struct slice raw)
{
    uint8_t bytes[64];
    size_t size = 0;
    if (!slice_starts_with(raw, "hex:")) {
        msgpack_pack_str_with_body(out, raw.bytes, raw.size);
        return;
    }
    for (size_t i = 4; i + 1 < raw.size; i += 2) {
        ASSERT(size < sizeof(bytes));
        bytes[size++] =
            (uint8_t)(ascii_hex_value(raw.bytes[i]) << 4 | ascii_hex_value(raw.bytes[i + 1]));
    }
    msgpack_pack_bin_with_body(out, bytes, size);
}

static void pack_value(msgpack_packer *out, struct json_value value);

// The cursor stands before the first item of the container.
static struct json open_items(struct json_value value)
{
    struct json json = json_open(value.raw);
    struct json_item item;
    ASSERT(json_next(&json, &item));
    json_enter(&json);
    return json;
}

static uint32_t count_items(struct json_value value)
{
    struct json json = open_items(value);
    struct json_item item;
    uint32_t count = 0;
    while (json_next(&json, &item)) {
        count++;
    }
    ASSERT(json_close(&json) == STATUS_OK);
    return count;
}

static void pack_items(msgpack_packer *out, struct json_value value)
{
    struct json json = open_items(value);
    struct json_item item;

    if (value.kind == JSON_ARRAY) {
        msgpack_pack_array(out, count_items(value));
    } else {
        msgpack_pack_map(out, count_items(value));
    }
    while (json_next(&json, &item)) {
        ASSERT(json_skip(&json, &item.value));
        if (value.kind == JSON_OBJECT) {
            pack_text(out, item.key);
        }
        pack_value(out, item.value);
    }
    ASSERT(json_close(&json) == STATUS_OK);
}

static void pack_value(msgpack_packer *out, struct json_value value)
{
    switch (value.kind) {
    case JSON_BOOL:
        json_is_true(&value) ? msgpack_pack_true(out) : msgpack_pack_false(out);
        break;
    case JSON_NUMBER:
        pack_number(out, value.raw);
        break;
    case JSON_STRING:
        pack_text(out, value.raw);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        pack_items(out, value);
        break;
    default:
        msgpack_pack_nil(out);
        break;
    }
}

// In space that the next call uses again.
static struct slice pack_json(const char *text)
{
    static char space[1 << 16];
    static msgpack_sbuffer buffer;
    msgpack_packer packer;
    size_t size = strlen(text);

    ASSERT(size < sizeof(space));
    for (size_t i = 0; i < size; i++) {
        space[i] = text[i];
        if (space[i] == '\'') {
            space[i] = '"';
        }
    }
    struct json json = json_open(slice_of(space, size));
    struct json_item item;
    ASSERT(json_next(&json, &item) && json_skip(&json, &item.value));
    msgpack_sbuffer_destroy(&buffer);
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    pack_value(&packer, item.value);
    return slice_of(buffer.data, buffer.size);
}
