// SPDX-License-Identifier: Apache-2.0

#include "worker/body_store.h"

#include "test.h"

static atomic_uint_fast64_t used;

TEST(takes_the_smallest_class_that_fits_and_grows_with_its_bytes)
{
    struct body_store store;
    CHECK(body_store_init(&store, 32 << 20, 64 << 20, &used));
    struct body_block block = {0};
    CHECK(body_store_take(&store, 1000, &block));
    CHECK_EQ(block.capacity, 128 << 10);
    memset(block.bytes, 7, block.capacity);
    CHECK(body_store_grow(&store, &block, block.capacity, block.capacity + 1));
    CHECK_EQ(block.capacity, 1 << 20);
    CHECK_EQ(block.bytes[(128 << 10) - 1], 7);
    CHECK(body_store_grow(&store, &block, 10, 32 << 20));
    CHECK_EQ(block.capacity, 32 << 20);
    CHECK_EQ(atomic_load(&used), 32 << 20);
    body_store_put(&store, &block);
    CHECK(block.bytes == NULL);
    body_store_put(&store, &block);
    CHECK_EQ(atomic_load(&used), 0);
    body_store_trim(&store);
    body_store_fini(&store);
}

TEST(the_bound_holds_for_all_workers_together)
{
    struct body_store a;
    struct body_store b;
    CHECK(body_store_init(&a, 1 << 20, 2 << 20, &used));
    CHECK(body_store_init(&b, 1 << 20, 2 << 20, &used));
    struct body_block blocks[3] = {0};
    CHECK(body_store_take(&a, 1 << 20, &blocks[0]));
    CHECK(body_store_take(&b, 1 << 20, &blocks[1]));
    CHECK(!body_store_take(&a, 1, &blocks[2]));
    body_store_put(&a, &blocks[0]);
    CHECK(body_store_take(&b, 1, &blocks[2]));
    body_store_put(&b, &blocks[1]);
    body_store_put(&b, &blocks[2]);
    CHECK_EQ(atomic_load(&used), 0);
    body_store_fini(&a);
    body_store_fini(&b);
}

TEST(a_body_that_grows_to_the_bound_fits_if_it_is_alone)
{
    struct body_store store;
    CHECK(body_store_init(&store, (1 << 20) + 4096, 1 << 20, &used));
    struct body_block block = {0};
    CHECK(body_store_take(&store, 1, &block));
    CHECK(body_store_grow(&store, &block, block.capacity, block.capacity + 1));
    CHECK(body_store_grow(&store, &block, block.capacity, block.capacity + 1));
    CHECK(block.capacity >= (1 << 20) + 4096);
    struct body_block other = {0};
    CHECK(!body_store_take(&store, 1, &other));
    body_store_put(&store, &block);
    CHECK_EQ(atomic_load(&used), 0);
    body_store_fini(&store);
}
