// SPDX-License-Identifier: Apache-2.0
//
// kv_board.h -- the status of each source, written by the feeder's thread and read by others.
//
// The writer never waits: while a reader holds the board, the writer leaves it as it is.  A reader
// waits for the writer, for microseconds.
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

// Writer.  Empties the board and makes room for `count` sources.  False: a reader holds it, or
// memory is short; the board is unchanged.
bool kv_board_begin(struct kv_board *board, uint32_t count);
void kv_board_put(struct kv_board *board, uint64_t id, const struct kv_feed_status *status);
void kv_board_end(struct kv_board *board);

// Any thread.  False: the source is not on the board.
bool kv_board_find(struct kv_board *board, uint64_t id, struct kv_feed_status *out);
