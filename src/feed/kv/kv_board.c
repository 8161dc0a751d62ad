// SPDX-License-Identifier: Apache-2.0

#include "feed/kv/kv_board.h"

#include "base/base.h"

#include <stdlib.h>

void kv_board_init(struct kv_board *board)
{
    *board = (struct kv_board){0};
    mutex_init(&board->mutex);
}

void kv_board_fini(struct kv_board *board)
{
    mutex_fini(&board->mutex);
    free(board->rows);
}

bool kv_board_begin(struct kv_board *board, uint32_t count)
{
    mutex_lock(&board->mutex);
    if (count > board->capacity) {
        struct kv_board_row *rows = reallocarray(board->rows, count, sizeof(struct kv_board_row));
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
    board->rows[board->row_count++] = (struct kv_board_row){.id = id, .status = *status};
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
        const struct kv_board_row *row = &board->rows[(board->next + i) % board->row_count];
        if (row->id == id) {
            *out = row->status;
            is_found = true;
            board->next = (uint32_t)(row - board->rows) + 1;
        }
    }
    mutex_unlock(&board->mutex);
    return is_found;
}
