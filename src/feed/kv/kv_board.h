// SPDX-License-Identifier: Apache-2.0
//
// kv_board.h -- what the feeder's thread shows of its sources, for another thread to read.
//
// The writer never waits: while somebody reads it leaves the board as it is.  A reader waits as long as
// the board is being written, which is microseconds.
//
// Threads: one writer, any readers.  Memory: grows with the number of sources.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct kv_board;
struct kv_feed_status;

// NULL when memory is short.
struct kv_board *kv_board_create(void);

// Clears the caller's pointer, which may be NULL.
void kv_board_destroy(struct kv_board **board);

// Writer.  Wipes the board, for as many as `count` to be put on it.  False: somebody reads it, or memory is
// short; nothing has changed.
bool kv_board_begin(struct kv_board *board, uint32_t count);
void kv_board_put(struct kv_board *board, uint64_t id, const struct kv_feed_status *status);
void kv_board_end(struct kv_board *board);

// Any thread.  False: it is not on the board.
bool kv_board_find(struct kv_board *board, uint64_t id, struct kv_feed_status *out);
