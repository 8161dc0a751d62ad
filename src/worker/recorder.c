// SPDX-License-Identifier: Apache-2.0
//
// A ring is an array of words.  Positions only grow; an entry lies in one piece from its position
// modulo ring_words on, and so may reach into the room behind the ring, of which the array has as
// much as the longest entry needs.  The words at the beginning that it would have covered stay
// unused.

#include "worker/recorder.h"

#include "base/base.h"
#include "prefix/prefix_updates.h"
#include "sys/pages.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    ring_words = recorder_ring_size / sizeof(uint64_t),
    head_words = sizeof(struct recorder_entry) / sizeof(uint64_t),
    entry_words_max = head_words + prefix_update_keys_max,
    array_size = (ring_words + entry_words_max) * sizeof(uint64_t),
};

_Static_assert(sizeof(struct recorder_entry) % sizeof(uint64_t) == 0, "an entry is whole words");

struct ring {
    uint64_t *words;
    struct {
        _Alignas(64) _Atomic uint64_t written; // by the worker
        _Atomic uint64_t lost;                 // by the worker
        _Alignas(64) _Atomic uint64_t read;    // by the keeper
    } shared;
};

struct recorder {
    uint32_t worker_count;
    uint32_t span_tokens;
    _Alignas(64) struct ring rings[];
};

void recorder_destroy(struct recorder **recorder)
{
    for (uint32_t i = 0; *recorder != NULL && i < (*recorder)->worker_count; i++) {
        pages_release(&(*recorder)->rings[i].words, array_size);
    }
    free(*recorder);
    *recorder = NULL;
}

struct recorder *recorder_create(const struct recorder_options *options)
{
    uint32_t worker_count = options->worker_count;
    size_t size = sizeof(struct recorder) + worker_count * sizeof(struct ring);
    struct recorder *recorder = aligned_alloc(64, size);
    if (recorder == NULL) {
        return NULL;
    }
    memset((void *)recorder, 0, size);
    recorder->worker_count = worker_count;
    recorder->span_tokens = options->span_tokens;
    for (uint32_t i = 0; recorder != NULL && i < worker_count; i++) {
        recorder->rings[i].words = pages_reserve(array_size);
        if (recorder->rings[i].words == NULL) {
            recorder_destroy(&recorder);
        }
    }
    return recorder;
}

uint32_t recorder_stride(const struct recorder *recorder, uint32_t block_size)
{
    uint32_t stride = (recorder->span_tokens * 4 + block_size / 2) / block_size;
    return stride > 0 ? stride : 1;
}

void recorder_put(struct recorder *recorder, uint32_t worker, const struct recorder_entry *entry,
                  const uint64_t *keys, uint32_t key_count, uint32_t stride)
{
    ASSERT(worker < recorder->worker_count);
    ASSERT(key_count <= prefix_update_keys_max && stride > 0);

    struct ring *ring = &recorder->rings[worker];
    struct recorder_entry head = *entry;
    head.key_count = key_count / stride;
    uint64_t written = atomic_load_explicit(&ring->shared.written, memory_order_relaxed);
    uint64_t read = atomic_load_explicit(&ring->shared.read, memory_order_acquire);
    uint64_t size = head_words + head.key_count;
    if (written + size - read > ring_words) {
        uint64_t lost = atomic_load_explicit(&ring->shared.lost, memory_order_relaxed);
        atomic_store_explicit(&ring->shared.lost, lost + 1, memory_order_relaxed);
        return;
    }
    uint64_t *words = ring->words + written % ring_words;
    memcpy(words, &head, sizeof(head));
    for (uint32_t i = 0; i < head.key_count; i++) {
        words[head_words + i] = keys[(i + 1) * stride - 1];
    }
    atomic_store_explicit(&ring->shared.written, written + size, memory_order_release);
}

bool recorder_peek(struct recorder *recorder, uint32_t worker, struct recorder_entry *out,
                   const uint64_t **keys)
{
    ASSERT(worker < recorder->worker_count);

    struct ring *ring = &recorder->rings[worker];
    uint64_t written = atomic_load_explicit(&ring->shared.written, memory_order_acquire);
    uint64_t read = atomic_load_explicit(&ring->shared.read, memory_order_relaxed);
    if (read == written) {
        return false;
    }
    const uint64_t *words = ring->words + read % ring_words;
    memcpy(out, words, sizeof(*out));
    *keys = words + head_words;
    return true;
}

void recorder_drop(struct recorder *recorder, uint32_t worker)
{
    struct recorder_entry entry;
    const uint64_t *keys = NULL;
    bool is_there = recorder_peek(recorder, worker, &entry, &keys);
    ASSERT(is_there);

    struct ring *ring = &recorder->rings[worker];
    uint64_t read = atomic_load_explicit(&ring->shared.read, memory_order_relaxed);
    atomic_store_explicit(&ring->shared.read, read + head_words + entry.key_count,
                          memory_order_release);
}

uint32_t recorder_worker_count(const struct recorder *recorder)
{
    return recorder->worker_count;
}

uint64_t recorder_lost(const struct recorder *recorder)
{
    uint64_t lost = 0;
    for (uint32_t i = 0; i < recorder->worker_count; i++) {
        lost += atomic_load_explicit(&recorder->rings[i].shared.lost, memory_order_relaxed);
    }
    return lost;
}
