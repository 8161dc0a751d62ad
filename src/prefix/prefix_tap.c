// SPDX-License-Identifier: Apache-2.0
//
// A ring is an array of words, as in prefix_updates.c: a note lies in one piece from its position
// modulo tap_words on, and may reach behind the end of the ring, where the array has room for the
// longest note.

#include "prefix/prefix_tap.h"

#include "base/base.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    tap_words = 1 << 15, // 256 KiB for each sender: 20 ms of 20,000 requests of 60 blocks
    note_words = sizeof(struct prefix_note) / sizeof(uint64_t),
    note_words_max = note_words + prefix_tap_keys_max,
};
_Static_assert(sizeof(struct prefix_note) % sizeof(uint64_t) == 0, "a note is whole words");

struct tap_ring {
    uint64_t *words;
    uint64_t number; // of the last prediction; the sender's
    struct {
        _Alignas(64) _Atomic uint64_t written; // by the sender
        _Atomic uint64_t dropped;              // by the sender
        _Alignas(64) _Atomic uint64_t read;    // by the reader
    } shared;
};

struct prefix_tap {
    uint32_t ring_count;
    // The reader's.
    uint32_t turn;    // the ring that it reads
    uint32_t pending; // words of the note that it took last
    struct tap_ring rings[];
};

void prefix_tap_destroy(struct prefix_tap **tap)
{
    for (uint32_t i = 0; *tap != NULL && i < (*tap)->ring_count; i++) {
        free((*tap)->rings[i].words);
    }
    free(*tap);
    *tap = NULL;
}

struct prefix_tap *prefix_tap_create(uint32_t sender_count)
{
    size_t size = sizeof(struct prefix_tap) + sender_count * sizeof(struct tap_ring);
    struct prefix_tap *tap = aligned_alloc(64, (size + 63) / 64 * 64);
    if (tap == NULL) {
        return NULL;
    }
    memset((void *)tap, 0, size);
    tap->ring_count = sender_count;
    for (uint32_t i = 0; i < sender_count; i++) {
        tap->rings[i].words = malloc((tap_words + note_words_max) * sizeof(uint64_t));
        if (tap->rings[i].words == NULL) {
            prefix_tap_destroy(&tap);
            return NULL;
        }
    }
    return tap;
}

uint64_t prefix_tap_number(struct prefix_tap *tap, uint32_t sender)
{
    ASSERT(sender < tap->ring_count);
    return ++tap->rings[sender].number * tap->ring_count + sender;
}

void prefix_tap_put(struct prefix_tap *tap, uint32_t sender, const struct prefix_note *note)
{
    ASSERT(sender < tap->ring_count);
    struct tap_ring *ring = &tap->rings[sender];
    uint64_t written = atomic_load_explicit(&ring->shared.written, memory_order_relaxed);
    uint64_t read = atomic_load_explicit(&ring->shared.read, memory_order_acquire);
    uint32_t key_count =
        note->key_count < prefix_tap_keys_max ? note->key_count : prefix_tap_keys_max;
    uint64_t size = note_words + key_count;
    if (written + size - read > tap_words) {
        uint64_t dropped = atomic_load_explicit(&ring->shared.dropped, memory_order_relaxed);
        atomic_store_explicit(&ring->shared.dropped, dropped + 1, memory_order_relaxed);
        return;
    }
    uint64_t *words = ring->words + written % tap_words;
    memcpy(words, note, sizeof(*note));
    ((struct prefix_note *)(void *)words)->key_count = key_count;
    if (key_count > 0) {
        memcpy(words + note_words, note->keys, key_count * sizeof(note->keys[0]));
    }
    atomic_store_explicit(&ring->shared.written, written + size, memory_order_release);
}

// Frees the place of the note that was taken last.
static void tap_release(struct prefix_tap *tap)
{
    if (tap->pending > 0) {
        struct tap_ring *ring = &tap->rings[tap->turn];
        uint64_t read = atomic_load_explicit(&ring->shared.read, memory_order_relaxed);
        atomic_store_explicit(&ring->shared.read, read + tap->pending, memory_order_release);
        tap->pending = 0;
    }
}

bool prefix_tap_take(struct prefix_tap *tap, struct prefix_note *out)
{
    tap_release(tap);
    for (uint32_t i = 0; i < tap->ring_count; i++) {
        struct tap_ring *ring = &tap->rings[tap->turn];
        uint64_t read = atomic_load_explicit(&ring->shared.read, memory_order_relaxed);
        if (atomic_load_explicit(&ring->shared.written, memory_order_acquire) != read) {
            const uint64_t *words = ring->words + read % tap_words;
            memcpy(out, words, sizeof(*out));
            out->keys = words + note_words;
            tap->pending = note_words + out->key_count;
            return true;
        }
        tap->turn = (tap->turn + 1) % tap->ring_count;
    }
    return false;
}

uint64_t prefix_tap_dropped(const struct prefix_tap *tap)
{
    uint64_t dropped = 0;
    for (uint32_t i = 0; i < tap->ring_count; i++) {
        dropped += atomic_load_explicit(&tap->rings[i].shared.dropped, memory_order_relaxed);
    }
    return dropped;
}
