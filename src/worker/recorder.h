// SPDX-License-Identifier: Apache-2.0
//
// recorder.h -- what workers tell of requests that were answered, on its way to whoever writes it
// down.
//
//     worker 0  [ entry entry ] --.
//     worker 1  [ entry ]       ---+--> the keeper, now and then
//     worker 2  [ ]             --'
//
// Each worker has a ring of its own.  One that is full loses the entry, which is counted: no
// request waits for a disk.  An entry holds sizes, times and keys (prefix_chain.h), and no text.
//
// Threads: each worker puts into its own ring, one other thread takes from all; counts are for any.
// Memory: taken by _create; a ring costs nothing until it is used.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct recorder;

// Sizes are bytes as they were hashed: of text, or four for each token id.
struct recorder_entry {
    uint64_t arrived_us;  // of the loop's clock
    uint64_t session_key; // 0: no session
    uint64_t prompt_size;
    uint64_t told_tokens; // of the prompt, as the engine counted them; 0: it did not
    uint64_t output_tokens;
    uint32_t turn; // answers that were in the prompt
    uint32_t pool;
    uint32_t span_size;   // of what one of its keys stands for alone
    uint32_t span_tokens; // the same, by what is known of the pool now
    uint32_t key_count;   // in the recorder
    bool is_text;
};

// Entries by their fate.
struct recorder_totals {
    uint64_t recorded;
    uint64_t dropped; // for want of room, here or on the disk
};

// Bytes of a ring.  They hold a thousand prompts of 16,000 tokens at 128 tokens a span, which must
// be enough from one read of the keeper to the next.
enum { recorder_ring_size = 1 << 20 };

struct recorder_options {
    uint32_t worker_count;
    uint32_t span_tokens; // that a key stands for alone, about; four bytes are taken for one
};

// NULL when memory is short.
struct recorder *recorder_create(const struct recorder_options *options);
void recorder_destroy(struct recorder **recorder);

// How many blocks of that size are one span; at least 1.
uint32_t recorder_stride(const struct recorder *recorder, uint32_t block_size);

// Worker: takes the last key of every `stride` keys; those behind the last whole span are left out.
// The entry says all but key_count.
void recorder_put(struct recorder *recorder, uint32_t worker, const struct recorder_entry *entry,
                  const uint64_t *keys, uint32_t key_count, uint32_t stride);

// Keeper: the oldest entry of that worker, and its keys; false when there is none.  They lie in the
// ring until recorder_drop, which lets go of the entry.
bool recorder_peek(struct recorder *recorder, uint32_t worker, struct recorder_entry *out,
                   const uint64_t **keys);
void recorder_drop(struct recorder *recorder, uint32_t worker);

uint32_t recorder_worker_count(const struct recorder *recorder);

// Entries for which there was no room, ever.
uint64_t recorder_lost(const struct recorder *recorder);
