// SPDX-License-Identifier: Apache-2.0
//
// slice.h -- borrowed bytes: a pointer and a length, never NUL-terminated, never owned.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const uint8_t *bytes;
    size_t size;
};

static inline struct slice slice_of(const void *bytes, size_t size)
{
    return (struct slice){.bytes = bytes, .size = size};
}

static inline struct slice slice_str(const char *text)
{
    return (struct slice){.bytes = (const uint8_t *)text, .size = strlen(text)};
}

// An empty slice may have no bytes to point at, and even adding nothing to NULL is undefined.
static inline const uint8_t *slice_end(struct slice a)
{
    return a.size > 0 ? a.bytes + a.size : a.bytes;
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.bytes, b.bytes, a.size) == 0);
}

static inline bool slice_is(struct slice a, const char *text)
{
    return slice_equal(a, slice_str(text));
}

static inline uint8_t ascii_lower(uint8_t byte)
{
    return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte | 0x20) : byte;
}

// -1 when it is not a hexadecimal digit.
static inline int ascii_hex_value(uint8_t byte)
{
    uint8_t lower = ascii_lower(byte);
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// ASCII only, as header names and hosts are.
static inline bool slice_equal_nocase(struct slice a, struct slice b)
{
    if (a.size != b.size) {
        return false;
    }
    for (size_t i = 0; i < a.size; i++) {
        // Most texts are written as expected.
        if (a.bytes[i] != b.bytes[i] && ascii_lower(a.bytes[i]) != ascii_lower(b.bytes[i])) {
            return false;
        }
    }
    return true;
}

static inline bool slice_is_nocase(struct slice a, const char *text)
{
    return slice_equal_nocase(a, slice_str(text));
}

static inline bool slice_starts_with(struct slice a, const char *text)
{
    size_t size = strlen(text);
    return a.size >= size && memcmp(a.bytes, text, size) == 0;
}
