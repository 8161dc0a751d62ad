// SPDX-License-Identifier: Apache-2.0
//
// A chain is its number of pieces, then each: a count of keys, twice, plus one for a copy.  Behind
// a copy stands the distance from the end of the window to its first key, and behind a count of new
// keys stand the keys.

#include "replica/key_window.h"

#include "base/base.h"

#include <stdlib.h>

enum {
    piece_max = 512, // of a chain: further keys are left out
    copy_bit = 1,
    copy_min = 2, // a copy of one key saves little, and cuts the new keys around it in two
};

static uint64_t window_size(const struct key_window *window)
{
    return UINT64_C(1) << window->bits;
}

static uint64_t *window_key(const struct key_window *window, uint64_t position)
{
    return &window->keys[position & (window_size(window) - 1)];
}

static uint32_t *window_place(const struct key_window *window, uint64_t key)
{
    return &window->places[(key * UINT64_C(0x9e3779b97f4a7c15)) >> (63 - window->bits)];
}

bool key_window_open_receiver(struct key_window *window, uint32_t bits)
{
    ASSERT(bits >= key_window_bits_min && bits <= key_window_bits_max);
    *window = (struct key_window){.bits = bits, .keys = calloc(UINT64_C(1) << bits, 8)};
    return window->keys != NULL;
}

bool key_window_open_sender(struct key_window *window, uint32_t bits)
{
    if (!key_window_open_receiver(window, bits)) {
        return false;
    }
    window->places = calloc(UINT64_C(2) << bits, sizeof(uint32_t));
    if (window->places == NULL) {
        key_window_close(window);
        return false;
    }
    return true;
}

void key_window_close(struct key_window *window)
{
    free(window->keys);
    free(window->places);
    *window = (struct key_window){0};
}

static void window_add(struct key_window *window, uint64_t key)
{
    *window_key(window, window->end) = key;
    if (window->places != NULL) {
        *window_place(window, key) = (uint32_t)window->end;
    }
    window->end++;
}

// Where the window has the key; its end: nowhere.  Places are the lower half of positions.
static uint64_t window_find(const struct key_window *window, uint64_t key)
{
    uint32_t back = (uint32_t)window->end - *window_place(window, key);
    uint64_t position = window->end - back;
    bool is_there = back > 0 && back <= window_size(window) && back <= window->end &&
                    position >= window->floor && *window_key(window, position) == key && key != 0;
    return is_there ? position : window->end;
}

void key_window_forget(struct key_window *window)
{
    window->floor = window->end;
}

// How many keys from here on stand in the window one after the other, from *position on.
static uint32_t window_copy(const struct key_window *window, const uint64_t *keys,
                            uint32_t key_count, uint64_t *position)
{
    uint32_t count = 0;
    *position = window_find(window, keys[0]);
    while (count < key_count && *position + count < window->end &&
           *window_key(window, *position + count) == keys[count]) {
        count++;
    }
    return count;
}

struct chain_writer {
    struct key_window *window;
    struct wire_writer *writer;
    const uint64_t *keys;
    uint32_t key_count;
    uint32_t new_left;
    uint32_t piece_count;
};

// New keys up to the next copy.  They enter the window when all of them are known.
static uint32_t chain_write_new(struct chain_writer *chain, uint32_t at)
{
    uint32_t count = 0;
    uint64_t position;
    while (at + count < chain->key_count && count < chain->new_left &&
           window_copy(chain->window, chain->keys + at + count, chain->key_count - at - count,
                       &position) < copy_min) {
        count++;
    }
    if (count > 0) {
        wire_put_varint(chain->writer, (uint64_t)count << 1);
        for (uint32_t i = 0; i < count; i++) {
            wire_put_word(chain->writer, chain->keys[at + i]);
        }
        for (uint32_t i = 0; i < count; i++) {
            window_add(chain->window, chain->keys[at + i]);
        }
        chain->new_left -= count;
    }
    return count;
}

static uint32_t chain_write_piece(struct chain_writer *chain, uint32_t at)
{
    uint64_t position;
    uint32_t count = window_copy(chain->window, chain->keys + at, chain->key_count - at, &position);
    if (count < copy_min) {
        return chain_write_new(chain, at);
    }
    wire_put_varint(chain->writer, (uint64_t)count << 1 | copy_bit);
    wire_put_varint(chain->writer, chain->window->end - position);
    return count;
}

uint32_t key_window_write(struct key_window *window, struct wire_writer *writer,
                          const uint64_t *keys, uint32_t key_count)
{
    ASSERT(writer->capacity - writer->size >= key_chain_size_max);
    struct chain_writer chain = {.window = window,
                                 .writer = writer,
                                 .keys = keys,
                                 .key_count = key_count,
                                 .new_left = key_chain_new_max};
    // The number of pieces comes first and is known last; it has two bytes.
    size_t head = writer->size;
    wire_put_byte(writer, 0);
    wire_put_byte(writer, 0);
    uint32_t at = 0;
    uint32_t count = 1;
    for (; at < key_count && chain.piece_count < piece_max && count > 0; at += count) {
        count = chain_write_piece(&chain, at);
        chain.piece_count += count > 0;
    }
    writer->bytes[head] = (uint8_t)((chain.piece_count & 0x7f) | 0x80);
    writer->bytes[head + 1] = (uint8_t)(chain.piece_count >> 7);
    ASSERT(!writer->is_full);
    return at;
}

bool key_window_skip_to(struct key_window *window, uint64_t position)
{
    if (position < window->end) {
        return false;
    }
    uint64_t missing = position - window->end;
    if (missing >= window_size(window)) {
        memset(window->keys, 0, window_size(window) * sizeof(uint64_t));
    } else {
        for (uint64_t i = 0; i < missing; i++) {
            *window_key(window, window->end + i) = 0;
        }
    }
    window->end = position;
    return true;
}

void key_window_restart(struct key_window *window, uint64_t position)
{
    memset(window->keys, 0, window_size(window) * sizeof(uint64_t));
    window->end = position;
}

// How many of the keys the receiver has, up to the first that it lacks.
static uint32_t window_read_copy(const struct key_window *window, uint64_t distance, uint32_t count,
                                 uint64_t *keys)
{
    if (distance > window->end || distance > window_size(window) || count > distance) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = *window_key(window, window->end - distance + i);
        if (keys[i] == 0) {
            return i;
        }
    }
    return count;
}

uint32_t key_window_read(struct key_window *window, struct wire_reader *reader, uint64_t *keys,
                         uint32_t key_max, bool *is_known)
{
    uint32_t done = 0;
    uint32_t piece_count = wire_take_count(reader, piece_max);
    *is_known = true;
    for (uint32_t i = 0; i < piece_count && !reader->is_bad; i++) {
        uint64_t word = wire_take_varint(reader);
        uint32_t count = (uint32_t)(word >> 1);
        if (word >> 1 > key_max - done || count == 0) {
            wire_turn_bad(reader);
        } else if ((word & copy_bit) != 0) {
            uint64_t distance = wire_take_varint(reader);
            uint32_t known = *is_known ? window_read_copy(window, distance, count, keys + done) : 0;
            *is_known = known == count;
            done += known;
        } else {
            for (uint32_t k = 0; k < count && !reader->is_bad; k++) {
                uint64_t key = wire_take_word(reader);
                window_add(window, key);
                keys[done] = key;
                done += *is_known;
            }
        }
    }
    return reader->is_bad ? 0 : done;
}
