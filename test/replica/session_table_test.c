// SPDX-License-Identifier: Apache-2.0

#include "replica/session_table.h"

#include "base/rng.h"
#include "test.h"

#include <stdlib.h>

enum { few_places = 64 };

static struct session_table table;

static void set_up(uint32_t place_count)
{
    ASSERT(session_table_open(&table, place_count));
}

static bool move_in(struct session_table *at, uint64_t key, uint64_t stamp, uint64_t backend,
                    uint64_t *before)
{
    return session_table_move(
        at, &(struct shared_session){.key = key, .stamp = stamp, .backend = backend}, before);
}

static bool move(uint64_t key, uint64_t stamp, uint64_t backend, uint64_t *before)
{
    return move_in(&table, key, stamp, backend, before);
}

static uint64_t backend_of(uint64_t key)
{
    const struct shared_session *session = session_table_find(&table, key);
    return session != NULL ? session->backend : 0;
}

TEST(the_later_move_wins)
{
    uint64_t before = 99;
    set_up(few_places);
    CHECK(session_table_find(&table, 5) == NULL);
    CHECK(move(5, 10, 1, &before));
    CHECK_EQ(before, 0);
    CHECK(move(5, 11, 2, &before));
    CHECK_EQ(before, 1);
    CHECK(!move(5, 10, 3, &before));
    CHECK_EQ(before, 0);
    CHECK_EQ(backend_of(5), 2);
    session_table_close(&table);
}

TEST(the_same_move_twice_is_one)
{
    uint64_t before;
    set_up(few_places);
    CHECK(move(5, 10, 1, &before));
    CHECK(!move(5, 10, 1, &before));
    CHECK_EQ(backend_of(5), 1);
    session_table_close(&table);
}

TEST(of_two_moves_with_one_stamp_the_larger_backend_wins_everywhere)
{
    uint64_t before;
    set_up(few_places);
    CHECK(move(5, 10, 1, &before));
    CHECK(move(5, 10, 2, &before));
    CHECK(!move(5, 10, 1, &before));
    CHECK_EQ(backend_of(5), 2);
    session_table_close(&table);
}

TEST(a_key_of_zero_is_a_session_like_any_other)
{
    uint64_t before;
    set_up(few_places);
    CHECK(session_table_find(&table, 0) == NULL);
    CHECK(move(0, 10, 1, &before));
    CHECK_EQ(backend_of(0), 1);
    session_table_close(&table);
}

TEST(a_full_group_gives_up_its_oldest_session)
{
    uint64_t before;
    set_up(4);
    CHECK(session_table_at(&table, 3) != NULL);
    CHECK(session_table_at(&table, 4) == NULL);
    for (uint64_t i = 1; i <= 4; i++) {
        CHECK(move(i, 20 + i, i, &before));
    }
    CHECK(move(1, 30, 9, &before)); // the oldest is session 2 now
    CHECK(move(5, 31, 5, &before));
    CHECK_EQ(before, 0);
    CHECK_EQ(backend_of(1), 9);
    CHECK_EQ(backend_of(2), 0);
    CHECK_EQ(backend_of(3), 3);
    CHECK_EQ(backend_of(5), 5);
    session_table_close(&table);
}

TEST(a_session_that_is_older_than_a_full_group_is_left_out)
{
    uint64_t before;
    set_up(4);
    for (uint64_t i = 1; i <= 4; i++) {
        CHECK(move(i, 20 + i, i, &before));
    }
    CHECK(!move(9, 5, 9, &before));
    for (uint64_t i = 1; i <= 4; i++) {
        CHECK_EQ(backend_of(i), i);
    }
    session_table_close(&table);
}

static bool tables_are_equal(const struct session_table *a, const struct session_table *b,
                             uint64_t key_max)
{
    for (uint64_t key = 0; key < key_max; key++) {
        const struct shared_session *x = session_table_find(a, key);
        const struct shared_session *y = session_table_find(b, key);
        if ((x == NULL) != (y == NULL) ||
            (x != NULL && (x->stamp != y->stamp || x->backend != y->backend))) {
            return false;
        }
    }
    return true;
}

static void shuffle(struct rng *rng, struct shared_session *moves, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = rng_below(rng, i);
        struct shared_session swapped = moves[i - 1];
        moves[i - 1] = moves[other];
        moves[other] = swapped;
    }
}

// Merges commute, associate and repeat: any order of any moves, some of them twice, ends in the
// same table.  Also when sessions fall out.
static bool orders_agree(struct rng *rng, uint32_t place_count, uint64_t key_max)
{
    enum { move_count = 200 };
    struct shared_session moves[move_count];
    struct session_table other;
    uint64_t before;
    for (uint32_t i = 0; i < move_count; i++) {
        moves[i] = (struct shared_session){.key = rng_below(rng, (uint32_t)key_max),
                                           .stamp = 1 + rng_below(rng, 50),
                                           .backend = 1 + rng_below(rng, 4)};
    }
    ASSERT(session_table_open(&table, place_count) && session_table_open(&other, place_count));
    for (uint32_t i = 0; i < move_count; i++) {
        (void)move(moves[i].key, moves[i].stamp, moves[i].backend, &before);
    }
    for (uint32_t round = 0; round < 2; round++) {
        shuffle(rng, moves, move_count);
        for (uint32_t i = 0; i < move_count; i++) {
            (void)move_in(&other, moves[i].key, moves[i].stamp, moves[i].backend, &before);
        }
    }
    bool is_equal = tables_are_equal(&table, &other, key_max);
    session_table_close(&table);
    session_table_close(&other);
    return is_equal;
}

TEST(moves_in_any_order_end_in_the_same_table)
{
    struct rng rng = {.state = 1};
    for (int round = 0; round < 300; round++) {
        CHECK(orders_agree(&rng, 1024, 12));
        CHECK(orders_agree(&rng, 4, 12)); // two of three fall out
    }
}

TEST(two_tables_that_exchange_their_sessions_agree)
{
    struct rng rng = {.state = 2};
    for (int round = 0; round < 200; round++) {
        struct session_table other;
        uint64_t before;
        set_up(1024);
        CHECK(session_table_open(&other, 1024));
        for (uint32_t i = 0; i < 60; i++) {
            struct session_table *at = rng_below(&rng, 2) == 0 ? &table : &other;
            (void)move_in(at, rng_below(&rng, 12), 1 + rng_below(&rng, 40), 1 + rng_below(&rng, 4),
                          &before);
        }
        const struct shared_session *session;
        for (uint32_t i = 0; (session = session_table_at(&table, i)) != NULL; i++) {
            if (session->stamp != 0) {
                (void)session_table_move(&other, session, &before);
            }
        }
        for (uint32_t i = 0; (session = session_table_at(&other, i)) != NULL; i++) {
            if (session->stamp != 0) {
                (void)session_table_move(&table, session, &before);
            }
        }
        bool is_equal = tables_are_equal(&table, &other, 12);
        session_table_close(&table);
        session_table_close(&other);
        CHECK(is_equal);
    }
}

// Of the sessions of one group the latest four stay, whatever the order.
TEST(a_table_that_is_too_small_keeps_the_latest_in_any_order)
{
    struct rng rng = {.state = 3};
    for (int round = 0; round < 300; round++) {
        enum { count = 12 };
        struct shared_session moves[count];
        uint64_t before;
        for (uint64_t i = 0; i < count; i++) {
            moves[i] = (struct shared_session){.key = i, .stamp = 100 + i, .backend = 1};
        }
        shuffle(&rng, moves, count);
        set_up(4);
        for (uint32_t i = 0; i < count; i++) {
            (void)session_table_move(&table, &moves[i], &before);
        }
        for (uint64_t i = 0; i < count; i++) {
            CHECK_EQ(session_table_find(&table, i) != NULL, i >= count - 4);
        }
        session_table_close(&table);
    }
}
