// SPDX-License-Identifier: Apache-2.0

#include "base/pool.h"

#include "test.h"

static _Alignas(4096) uint8_t memory[65536];

TEST(gives_each_slot_once_and_then_none)
{
    struct pool pool;
    pool_init(&pool, memory, 100, 3);
    uint8_t *a = pool_take(&pool);
    uint8_t *b = pool_take(&pool);
    uint8_t *c = pool_take(&pool);
    CHECK(a != NULL && b != NULL && c != NULL && a != b && b != c && a != c);
    CHECK(pool_take(&pool) == NULL);
    CHECK_EQ(pool_in_use(&pool), 3);

    uint8_t *was_b = b;
    pool_put(&pool, &b);
    CHECK(b == NULL);
    b = pool_take(&pool);
    CHECK(b == was_b);

    pool_put(&pool, &a);
    pool_put(&pool, &b);
    pool_put(&pool, &c);
    CHECK_EQ(pool_in_use(&pool), 0);
    pool_fini(&pool);
}

static unsigned discard_calls;
static void count_discard(void *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    discard_calls++;
}

TEST(trims_once_only_slots_that_were_not_used_since_the_last_trim)
{
    struct pool pool;
    CHECK(pool_memory_size(4096, 8) <= sizeof(memory));
    pool_init(&pool, memory, 4096, 8);
    void *slots[8];
    for (int i = 0; i < 8; i++) {
        slots[i] = pool_take(&pool);
    }
    for (int i = 0; i < 8; i++) {
        pool_put(&pool, &slots[i]);
    }
    CHECK_EQ(pool_trim(&pool, count_discard), 0); // all were in use since the start
    void *hot = pool_take(&pool);
    pool_put(&pool, &hot);
    CHECK_EQ(pool_trim(&pool, count_discard), 7);
    CHECK_EQ(pool_trim(&pool, count_discard), 1);
    CHECK_EQ(pool_trim(&pool, count_discard), 0);
    CHECK_EQ(discard_calls, 8);
    pool_fini(&pool);
}
