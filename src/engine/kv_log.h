// SPDX-License-Identifier: Apache-2.0
//
// kv_log.h -- the last messages of a publisher, for whoever still has to send them.
//
//     position  ... 41 | 42 43 44 45 | 46          oldest = 42, end = 46
//               gone     kept          to come
//
// A position counts messages ever kept; a reader remembers the one it wants next.  Bounded in number and
// in bytes: the oldest goes.  A message that a reader is in the middle of stays until it is released, so
// that nobody sends half of one.
//
// Threads: one owner.  Memory: each message by itself, since their sizes differ a thousandfold.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_message {
    uint32_t reference_count;
    uint32_t topic_size; // of its first frame, head included
    bool is_withheld;    // from subscribers; replays have it
    uint64_t sequence;
    size_t size;
    uint8_t bytes[]; // the frames, as they go out
};

struct kv_log {
    struct kv_message **ring;
    uint32_t capacity;
    uint64_t oldest;
    uint64_t end;
    size_t size;
    size_t size_max;
};

// EXHAUSTED: memory is short.
enum status kv_log_init(struct kv_log *log, uint32_t message_max, size_t size_max);
void kv_log_fini(struct kv_log *log);

// Positions go on.
void kv_log_clear(struct kv_log *log);

// NULL when memory is short.  The bytes are the caller's to write.
struct kv_message *kv_message_create(size_t size);

// TOO_LARGE: it is released at once.  Sequence numbers grow, but for kv_log_clear.
enum status kv_log_append(struct kv_log *log, struct kv_message **message);

// Whether the one at a position from `oldest` to before `end` is withheld.
bool kv_log_is_withheld(const struct kv_log *log, uint64_t position);

// The one at such a position; kv_message_release when done.
struct kv_message *kv_log_take(struct kv_log *log, uint64_t position);
void kv_message_release(struct kv_message **message);

// The position of the first one with that sequence number or a later one; `end` when there is none.
uint64_t kv_log_find(const struct kv_log *log, uint64_t sequence);
