// SPDX-License-Identifier: Apache-2.0
//
// text.h -- bounded writing: bytes are appended until the space ends, and never past it.
//
// Check `overflow` once, at the end: after the first append that did not fit, the rest are ignored,
// so a message is whole or known not to be.  Keeps the memory it is given.
#pragma once

#include "base/slice.h"

#include <stdarg.h>

struct text {
    uint8_t *bytes;
    size_t size;
    size_t capacity;
    bool overflow;
};

static inline struct text text_over(void *bytes, size_t capacity)
{
    return (struct text){.bytes = bytes, .capacity = capacity};
}

static inline struct slice text_slice(const struct text *text)
{
    return slice_of(text->bytes, text->size);
}

static inline void text_add(struct text *text, struct slice bytes)
{
    if (bytes.size > text->capacity - text->size) {
        text->overflow = true;
    }
    if (text->overflow || bytes.size == 0) {
        return;
    }
    memcpy(text->bytes + text->size, bytes.bytes, bytes.size);
    text->size += bytes.size;
}

static inline void text_add_str(struct text *text, const char *string)
{
    text_add(text, slice_str(string));
}

void text_add_u64(struct text *text, uint64_t number);
void text_add_hex(struct text *text, uint64_t number);

// With the quotes; escapes the bytes that JSON forbids inside a string; bytes above 0x7f pass
// unchanged.
void text_add_json(struct text *text, struct slice string);
// The same without the quotes, for a string that is written in pieces.
void text_add_escaped(struct text *text, struct slice string);

void text_add_format(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void text_add_vformat(struct text *text, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

// Reads an unsigned decimal number that fills the whole slice; false when it is not one or
// overflows.
bool slice_parse_u64(struct slice digits, uint64_t *out);
