// SPDX-License-Identifier: Apache-2.0
//
// wire.h -- numbers in the frames that routers exchange.
//
// Small numbers are LEB128 varints of at most 10 bytes; keys and ids are 8 bytes, little-endian.
// A writer that is full and a reader that met malformed bytes stay so, and say it at the end: the
// calls in between need no checks.  A bad reader returns zeros.
//
// Memory: the caller's.
#pragma once

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { wire_varint_size_max = 10 };

struct wire_writer {
    uint8_t *bytes;
    size_t size;
    size_t capacity;
    bool is_full;
};

struct wire_reader {
    const uint8_t *bytes;
    size_t left;
    bool is_bad;
};

static inline struct wire_writer wire_writer_over(uint8_t *bytes, size_t capacity)
{
    return (struct wire_writer){.bytes = bytes, .capacity = capacity};
}

static inline struct wire_reader wire_reader_of(struct slice bytes)
{
    return (struct wire_reader){.bytes = bytes.bytes, .left = bytes.size};
}

static inline void wire_put_bytes(struct wire_writer *writer, const void *bytes, size_t size)
{
    if (size > writer->capacity - writer->size) {
        writer->is_full = true;
        return;
    }
    memcpy(writer->bytes + writer->size, bytes, size);
    writer->size += size;
}

static inline void wire_put_byte(struct wire_writer *writer, uint8_t byte)
{
    wire_put_bytes(writer, &byte, 1);
}

static inline void wire_put_word(struct wire_writer *writer, uint64_t word)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(word >> 8 * i);
    }
    wire_put_bytes(writer, bytes, sizeof(bytes));
}

static inline void wire_put_varint(struct wire_writer *writer, uint64_t number)
{
    uint8_t bytes[wire_varint_size_max];
    size_t size = 0;
    do {
        bytes[size++] = (uint8_t)((number & 0x7f) | (number > 0x7f ? 0x80 : 0));
        number >>= 7;
    } while (number != 0);
    wire_put_bytes(writer, bytes, size);
}

static inline void wire_turn_bad(struct wire_reader *reader)
{
    reader->is_bad = true;
    reader->left = 0;
}

static inline uint8_t wire_take_byte(struct wire_reader *reader)
{
    if (reader->left == 0) {
        wire_turn_bad(reader);
        return 0;
    }
    reader->left--;
    return *reader->bytes++;
}

static inline uint64_t wire_take_word(struct wire_reader *reader)
{
    uint64_t word = 0;
    if (reader->left < 8) {
        wire_turn_bad(reader);
        return 0;
    }
    for (int i = 0; i < 8; i++) {
        word |= (uint64_t)reader->bytes[i] << 8 * i;
    }
    reader->bytes += 8;
    reader->left -= 8;
    return word;
}

static inline uint64_t wire_take_varint(struct wire_reader *reader)
{
    uint64_t number = 0;
    for (int i = 0; i < wire_varint_size_max; i++) {
        uint8_t byte = wire_take_byte(reader);
        number |= (uint64_t)(byte & 0x7f) << 7 * i;
        if ((byte & 0x80) == 0) {
            return reader->is_bad ? 0 : number;
        }
    }
    wire_turn_bad(reader);
    return 0;
}

// A number of at most `most`; a larger one is malformed.
static inline uint32_t wire_take_count(struct wire_reader *reader, uint32_t most)
{
    uint64_t number = wire_take_varint(reader);
    if (number > most) {
        wire_turn_bad(reader);
        return 0;
    }
    return (uint32_t)number;
}

// The next `size` bytes as a reader of their own.
static inline struct wire_reader wire_take_part(struct wire_reader *reader, size_t size)
{
    struct wire_reader part = {.bytes = reader->bytes, .left = size};
    if (size > reader->left) {
        wire_turn_bad(reader);
        return (struct wire_reader){.is_bad = true};
    }
    reader->bytes += size;
    reader->left -= size;
    return part;
}
