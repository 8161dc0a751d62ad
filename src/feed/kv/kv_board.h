// SPDX-License-Identifier: Apache-2.0
//
// kv_board.h -- the status of each source, written by the feeder's thread and read by others.
//
// Writer and readers wait for each other, for microseconds.
//
// Threads: one writer, any readers.  Memory: grows with the number of sources.
#pragma once

#include "kvevent/kv_follower.h"
#include "sys/mutex.h"

struct kv_feed_status {
    enum kv_follower_state state;
    bool is_connected;
    uint64_t next_number;
    uint64_t block_count;
    uint32_t block_tokens;
    uint32_t orphan_count;
    uint64_t last_ms; // since the last message; UINT64_MAX: none has come
    uint64_t lag_ms;  // of the last one, from the engine's timestamp; UINT64_MAX: unknown
    struct kv_follower_counts follower;
    struct kv_holdings_counts holdings;
};

struct kv_board_row {
    uint64_t id;
    struct kv_feed_status status;
};

// Its fields are private.
struct kv_board {
    struct mutex mutex; // held by the thread that reads or writes the rows
    struct kv_board_row *rows;
    uint32_t row_count;
    uint32_t capacity;
    uint32_t next; // the row after the one that was found last
};

void kv_board_init(struct kv_board *board);
void kv_board_fini(struct kv_board *board);

// Writer.  Empties the board, makes room for `count` sources and keeps readers out until
// kv_board_end.  False: memory is short, and the board is unchanged.
bool kv_board_begin(struct kv_board *board, uint32_t count);
void kv_board_put(struct kv_board *board, uint64_t id, const struct kv_feed_status *status);
void kv_board_end(struct kv_board *board);

// Any thread.  False: the source is not on the board.
bool kv_board_find(struct kv_board *board, uint64_t id, struct kv_feed_status *out);
