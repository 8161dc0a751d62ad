// SPDX-License-Identifier: Apache-2.0

#include "cluster/mesh_queue.h"

#include "base/rng.h"
#include "cluster/mesh_wire.h"
#include "test.h"

TEST(a_frame_that_does_not_fit_leaves_the_queue_as_it_was)
{
    uint8_t bytes[16];
    struct mesh_queue queue;
    struct slice parts[2];
    mesh_queue_init(&queue, bytes, sizeof(bytes));
    CHECK_EQ(mesh_queue_room(&queue), 12);
    CHECK(!mesh_queue_put(&queue, slice_str("thirteen byte")));
    CHECK_EQ(mesh_queue_room(&queue), 12);
    CHECK(mesh_queue_put(&queue, slice_str("six bytes")));
    CHECK_EQ(mesh_queue_room(&queue), 0);
    CHECK(!mesh_queue_put(&queue, slice_of("", 0))); // three bytes are left
    CHECK_EQ(mesh_queue_slices(&queue, parts), 1);
    CHECK(slice_equal(parts[0], slice_of("\x09\0\0\0six bytes", 13)));
}

TEST(bytes_at_the_start_stay_in_place_until_they_are_taken)
{
    uint8_t bytes[16];
    struct mesh_queue queue;
    struct slice before[2];
    struct slice after[2];
    mesh_queue_init(&queue, bytes, sizeof(bytes));
    CHECK(mesh_queue_put(&queue, slice_str("abcdef")));
    mesh_queue_take(&queue, 8);
    CHECK_EQ(mesh_queue_slices(&queue, before), 1);
    CHECK(mesh_queue_put(&queue, slice_str("ghijkl")));
    CHECK_EQ(mesh_queue_slices(&queue, after), 2);
    CHECK(after[0].bytes == before[0].bytes);
    CHECK(slice_equal(slice_of(after[0].bytes, before[0].size), before[0]));
}

// Random frames go in, random portions come out, and the stream is that of a plain array.
TEST(the_ring_gives_the_stream_that_went_in)
{
    static uint8_t in[1 << 16];
    static uint8_t out[1 << 16];
    uint8_t ring[100];
    uint8_t frame[64];
    struct mesh_queue queue;
    struct rng rng = {.state = 5};
    size_t in_size = 0;
    size_t out_size = 0;
    mesh_queue_init(&queue, ring, sizeof(ring));
    while (in_size < sizeof(in) - 2 * sizeof(ring)) {
        struct slice one = slice_of(frame, 1 + rng_below(&rng, sizeof(frame)));
        for (size_t i = 0; i < one.size; i++) {
            frame[i] = (uint8_t)rng_next(&rng);
        }
        size_t room = mesh_queue_room(&queue);
        bool fits = mesh_queue_put(&queue, one);
        CHECK_EQ(fits, one.size <= room);
        if (fits) {
            mesh_frame_head_write(one.size, in + in_size);
            memcpy(in + in_size + mesh_frame_head_size, frame, one.size);
            in_size += mesh_frame_head_size + one.size;
        }
        struct slice parts[2];
        uint32_t count = mesh_queue_slices(&queue, parts);
        CHECK_EQ(count, (parts[0].size > 0) + (parts[1].size > 0));
        CHECK_EQ(parts[0].size + parts[1].size, in_size - out_size);
        size_t taken = rng_below(&rng, (uint32_t)(in_size - out_size) + 1);
        for (size_t i = 0; i < taken; i++) {
            bool is_first = i < parts[0].size;
            out[out_size++] = is_first ? parts[0].bytes[i] : parts[1].bytes[i - parts[0].size];
        }
        mesh_queue_take(&queue, taken);
    }
    CHECK(memcmp(in, out, out_size) == 0);
}
