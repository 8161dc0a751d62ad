// SPDX-License-Identifier: Apache-2.0

#include "feed/kv/kv_board.h"

#include "base/base.h"
#include "feed/kv/kv_feeder.h"

#include <stdatomic.h>
#include <stdlib.h>

struct board_row {
    uint64_t id;
    struct kv_feed_status status;
};

struct kv_board {
    struct board_row *rows;
    uint32_t row_count;
    uint32_t capacity;
    uint32_t next; // the row after the one that was found last
    // Held by the thread that reads or writes the rows.
    struct {
        _Alignas(64) atomic_flag is_held;
    } shared;
};

struct kv_board *kv_board_create(void)
{
    struct kv_board *board = aligned_alloc(64, sizeof(*board));
    if (board != NULL) {
        *board = (struct kv_board){.shared.is_held = ATOMIC_FLAG_INIT};
    }
    return board;
}

void kv_board_destroy(struct kv_board **board_ptr)
{
    struct kv_board *board = *board_ptr;
    *board_ptr = NULL;

    if (board != NULL) {
        free(board->rows);
        free(board);
    }
}

static bool board_try_hold(struct kv_board *board)
{
    return !atomic_flag_test_and_set_explicit(&board->shared.is_held, memory_order_acquire);
}

static void board_release(struct kv_board *board)
{
    atomic_flag_clear_explicit(&board->shared.is_held, memory_order_release);
}

bool kv_board_begin(struct kv_board *board, uint32_t count)
{
    if (!board_try_hold(board)) {
        return false;
    }
    if (count > board->capacity) {
        struct board_row *rows = reallocarray(board->rows, count, sizeof(struct board_row));
        if (rows == NULL) {
            board_release(board);
            return false;
        }
        board->rows = rows;
        board->capacity = count;
    }
    board->row_count = 0;
    return true;
}

void kv_board_put(struct kv_board *board, uint64_t id, const struct kv_feed_status *status)
{
    ASSERT(board->row_count < board->capacity);
    board->rows[board->row_count++] = (struct board_row){.id = id, .status = *status};
}

void kv_board_end(struct kv_board *board)
{
    board_release(board);
}

bool kv_board_find(struct kv_board *board, uint64_t id, struct kv_feed_status *out)
{
    bool is_found = false;

    while (!board_try_hold(board)) {
    }
    // A caller that lists all sources asks nearly in the order of the rows: then each is found at
    // once.
    for (uint32_t i = 0; i < board->row_count && !is_found; i++) {
        const struct board_row *row = &board->rows[(board->next + i) % board->row_count];
        if (row->id == id) {
            *out = row->status;
            is_found = true;
            board->next = (uint32_t)(row - board->rows) + 1;
        }
    }
    board_release(board);
    return is_found;
}
