// SPDX-License-Identifier: Apache-2.0

#include "feed/kv/kv_board.h"

#include "base/base.h"
#include "sys/mutex.h"

#include <stdlib.h>

struct board_row {
    uint64_t id;
    struct kv_feed_status status;
};

struct kv_board {
    struct mutex mutex; // held by the thread that reads or writes the rows
    struct board_row *rows;
    uint32_t row_count;
    uint32_t capacity;
    uint32_t next; // the row after the one that was found last
};

struct kv_board *kv_board_create(void)
{
    struct kv_board *board = calloc(1, sizeof(*board));
    if (board != NULL) {
        mutex_init(&board->mutex);
    }
    return board;
}

void kv_board_destroy(struct kv_board **board_ptr)
{
    struct kv_board *board = *board_ptr;
    *board_ptr = NULL;

    if (board != NULL) {
        mutex_fini(&board->mutex);
        free(board->rows);
        free(board);
    }
}

bool kv_board_begin(struct kv_board *board, uint32_t count)
{
    mutex_lock(&board->mutex);
    if (count > board->capacity) {
        struct board_row *rows = reallocarray(board->rows, count, sizeof(struct board_row));
        if (rows == NULL) {
            mutex_unlock(&board->mutex);
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
    mutex_unlock(&board->mutex);
}

bool kv_board_find(struct kv_board *board, uint64_t id, struct kv_feed_status *out)
{
    bool is_found = false;

    mutex_lock(&board->mutex);
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
    mutex_unlock(&board->mutex);
    return is_found;
}
