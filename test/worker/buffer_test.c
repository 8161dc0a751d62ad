// SPDX-License-Identifier: Apache-2.0

#include "worker/buffer.h"

#include "test.h"
#include "worker/worker.h"

TEST(a_buffer_is_taken_from_the_pool_until_it_is_empty_and_goes_back)
{
    enum { slot_size = 64 };
    static _Alignas(64) uint8_t memory[4096];
    static struct worker worker;
    struct buffer one = {0};
    struct buffer two = {0};
    CHECK(pool_memory_size(slot_size, 1) <= sizeof(memory));
    pool_init(&worker.buffers, memory, slot_size, 1);
    CHECK(buffer_is_empty(&one));
    CHECK(buffer_take(&worker, &one));
    CHECK(!buffer_take(&worker, &two));
    one.bytes[0] = 'a';
    one.bytes[1] = 'b';
    one.end = 2;
    one.begin = 1;
    CHECK(!buffer_is_empty(&one));
    CHECK(slice_is(buffer_slice(&one), "b"));
    buffer_put(&worker, &one);
    buffer_put(&worker, &one); // empty: nothing to give back
    CHECK(buffer_is_empty(&one));
    CHECK_EQ(pool_in_use(&worker.buffers), 0);
    CHECK(buffer_take(&worker, &two));
    buffer_put(&worker, &two);
}
