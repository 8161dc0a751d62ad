// SPDX-License-Identifier: Apache-2.0

#include "feed/kv/kv_board.h"

#include "feed/kv/kv_feeder.h"
#include "sys/thread.h"
#include "test.h"

#include <stdatomic.h>

static void show(struct kv_board *board, uint64_t id, uint64_t number)
{
    struct kv_feed_status status = {.next_number = number, .block_count = number};
    status.holdings.refused = number; // the last field
    kv_board_put(board, id, &status);
}

TEST(a_status_is_found_by_the_id_of_its_source)
{
    struct kv_board space;
    struct kv_board *board = &space;
    kv_board_init(board);
    struct kv_feed_status status = {0};
    CHECK(!kv_board_find(board, 7, &status));
    CHECK(kv_board_begin(board, 2));
    show(board, 7, 70);
    show(board, 8, 80);
    kv_board_end(board);
    CHECK(kv_board_find(board, 8, &status));
    CHECK_EQ(status.next_number, 80);
    CHECK(kv_board_find(board, 7, &status));
    CHECK_EQ(status.next_number, 70);
    CHECK(!kv_board_find(board, 9, &status));
    kv_board_fini(board);
}

TEST(a_source_that_is_not_put_again_is_gone)
{
    struct kv_board space;
    struct kv_board *board = &space;
    kv_board_init(board);
    struct kv_feed_status status = {0};
    CHECK(kv_board_begin(board, 1));
    show(board, 7, 70);
    kv_board_end(board);
    CHECK(kv_board_begin(board, 1));
    show(board, 8, 80);
    kv_board_end(board);
    CHECK(!kv_board_find(board, 7, &status));
    CHECK(kv_board_find(board, 8, &status));
    kv_board_fini(board);
}

struct race {
    struct kv_board *board;
    atomic_bool is_over;
};

static void write_all(void *owner)
{
    struct race *race = owner;
    for (uint64_t i = 1; !atomic_load(&race->is_over); i++) {
        if (kv_board_begin(race->board, (uint32_t)(1 + i % 100))) {
            show(race->board, 7, i);
            kv_board_end(race->board);
        }
    }
}

TEST(a_reader_never_sees_half_of_a_row)
{
    struct kv_board board;
    struct race race = {.board = &board};
    struct thread *thread = NULL;
    uint64_t seen = 0;
    uint64_t torn = 0;
    kv_board_init(&board);
    CHECK_EQ(thread_start("write", write_all, &race, &thread), STATUS_OK);
    while (seen < 20000) {
        struct kv_feed_status status;
        if (kv_board_find(race.board, 7, &status)) {
            seen++;
            torn += status.next_number != status.block_count ||
                    status.next_number != status.holdings.refused;
        }
    }
    atomic_store(&race.is_over, true);
    thread_join(&thread);
    CHECK_EQ(torn, 0);
    kv_board_fini(&board);
}
