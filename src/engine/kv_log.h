// SPDX-License-Identifier: Apache-2.0
//
// kv_log.h -- the last batches of a publisher, for replays.
//
//     position  ... 41 | 42 43 44 45 | 46          oldest = 42, end = 46
//               gone     kept          to come
//
// A position counts messages ever kept.  Bounded in number and in bytes: the oldest goes.
//
// Threads: one owner.  Memory: each message by itself, since their sizes differ a thousandfold.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_message {
    uint64_t sequence;
    size_t size;
    uint8_t bytes[]; // of the batch
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

// Owns the message, which malloc made, from now on.  TOO_LARGE: it is freed at once.  Sequence
// numbers grow, but for kv_log_clear.
enum status kv_log_append(struct kv_log *log, struct kv_message **message);

// The message at a position from `oldest` to before `end`.
const struct kv_message *kv_log_at(const struct kv_log *log, uint64_t position);

// The position of the first message with that sequence number or a later one; else `end`.
uint64_t kv_log_find(const struct kv_log *log, uint64_t sequence);
