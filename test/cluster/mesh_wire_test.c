// SPDX-License-Identifier: Apache-2.0

#include "cluster/mesh_wire.h"

#include "test.h"

static size_t write_sample(uint8_t bytes[mesh_hello_size_max])
{
    return mesh_hello_write(&(struct mesh_hello){.router = 0x1122334455667788,
                                                 .name = slice_str("warm-0"),
                                                 .hello = slice_str("shape")},
                            bytes);
}

TEST(a_hello_has_the_documented_bytes)
{
    uint8_t bytes[mesh_hello_size_max];
    size_t size = write_sample(bytes);
    CHECK(slice_equal(slice_of(bytes, size),
                      slice_of("warmmesh\x01\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11\x06\0\x05\0"
                               "warm-0shape",
                               35)));
}

TEST(a_hello_that_comes_in_pieces_says_how_much_is_missing)
{
    uint8_t bytes[mesh_hello_size_max];
    size_t size = write_sample(bytes);
    struct mesh_hello hello;
    for (size_t have = 0; have < size; have++) {
        size_t wanted = 0;
        CHECK_EQ(mesh_hello_read(slice_of(bytes, have), &hello, &wanted), STATUS_AGAIN);
        CHECK_EQ(wanted, have < 12 ? 12 : have < mesh_hello_head_size ? mesh_hello_head_size : 35);
    }
    size_t wanted = 0;
    CHECK_EQ(mesh_hello_read(slice_of(bytes, size), &hello, &wanted), STATUS_OK);
    CHECK_EQ(hello.version, mesh_version);
    CHECK_EQ(hello.router, 0x1122334455667788);
    CHECK(slice_is(hello.name, "warm-0"));
    CHECK(slice_is(hello.hello, "shape"));
}

static enum status read_with(size_t at, uint8_t byte)
{
    uint8_t bytes[mesh_hello_size_max];
    size_t size = write_sample(bytes);
    struct mesh_hello hello;
    size_t wanted = 0;
    bytes[at] = byte;
    return mesh_hello_read(slice_of(bytes, size), &hello, &wanted);
}

TEST(an_invalid_hello_is_malformed)
{
    CHECK_EQ(read_with(0, 'W'), STATUS_MALFORMED);
    CHECK_EQ(read_with(7, '\0'), STATUS_MALFORMED);
    CHECK_EQ(read_with(20, link_name_size), STATUS_MALFORMED);
    CHECK_EQ(read_with(20, link_name_size - 1), STATUS_AGAIN);
    CHECK_EQ(read_with(21, 1), STATUS_MALFORMED);
    CHECK_EQ(read_with(23, 2), STATUS_MALFORMED); // 517 bytes
    CHECK_EQ(read_with(24, '\n'), STATUS_MALFORMED);
    CHECK_EQ(read_with(24, 0), STATUS_MALFORMED);
    CHECK_EQ(read_with(24, 0x7f), STATUS_MALFORMED);
    CHECK_EQ(read_with(24, 0xff), STATUS_MALFORMED); // not UTF-8
    CHECK_EQ(read_with(30, 0xff), STATUS_OK);        // the hello is any bytes
}

TEST(a_hello_of_router_0_is_malformed)
{
    uint8_t bytes[mesh_hello_size_max];
    size_t size = write_sample(bytes);
    struct mesh_hello hello;
    size_t wanted = 0;
    memset(bytes + 12, 0, 8);
    CHECK_EQ(mesh_hello_read(slice_of(bytes, size), &hello, &wanted), STATUS_MALFORMED);
}

TEST(of_another_version_only_its_number_is_read)
{
    struct mesh_hello hello = {.router = 7};
    size_t wanted = 0;
    CHECK_EQ(mesh_hello_read(slice_of("warmmesh\x02\x01\0\0", 12), &hello, &wanted), STATUS_OK);
    CHECK_EQ(hello.version, 0x102);
    CHECK_EQ(hello.router, 0);
    CHECK_EQ(hello.name.size, 0);
}

TEST(the_largest_hello_fits)
{
    uint8_t bytes[mesh_hello_size_max];
    char name[link_name_size];
    uint8_t blob[link_hello_size_max] = {1, 2, 3};
    struct mesh_hello hello = {.router = 1, .hello = slice_of(blob, sizeof(blob))};
    size_t wanted = 0;
    memset(name, 'n', sizeof(name));
    hello.name = slice_of(name, sizeof(name) - 1);
    CHECK(!mesh_name_is_good(slice_of(name, sizeof(name))));
    size_t size = mesh_hello_write(&hello, bytes);
    CHECK_EQ(size, mesh_hello_size_max);
    struct mesh_hello out;
    CHECK_EQ(mesh_hello_read(slice_of(bytes, size), &out, &wanted), STATUS_OK);
    CHECK(slice_equal(out.name, hello.name));
    CHECK(slice_equal(out.hello, hello.hello));
}

TEST(an_empty_name_and_hello_are_allowed)
{
    uint8_t bytes[mesh_hello_size_max];
    struct mesh_hello out;
    size_t wanted = 0;
    size_t size = mesh_hello_write(&(struct mesh_hello){.router = 1}, bytes);
    CHECK_EQ(size, mesh_hello_head_size);
    CHECK_EQ(mesh_hello_read(slice_of(bytes, size), &out, &wanted), STATUS_OK);
    CHECK_EQ(out.name.size + out.hello.size, 0);
}

TEST(frames_follow_each_other)
{
    struct slice bytes = slice_of("\x03\0\0\0one\0\0\0\0\x03\0\0\0tw", 17);
    struct slice frame;
    size_t used = 0;
    CHECK_EQ(mesh_frame_read(bytes, &frame, &used), STATUS_OK);
    CHECK(slice_is(frame, "one"));
    CHECK_EQ(used, 7);
    CHECK_EQ(mesh_frame_read(slice_of(bytes.bytes + 7, 10), &frame, &used), STATUS_OK);
    CHECK_EQ(frame.size, 0);
    CHECK_EQ(used, 4);
    CHECK_EQ(mesh_frame_read(slice_of(bytes.bytes + 11, 6), &frame, &used), STATUS_AGAIN);
    CHECK_EQ(mesh_frame_read(slice_of(bytes.bytes + 11, 3), &frame, &used), STATUS_AGAIN);
}

TEST(a_frame_above_the_limit_is_malformed_by_its_head)
{
    uint8_t head[mesh_frame_head_size];
    struct slice frame;
    size_t used = 0;
    mesh_frame_head_write(link_frame_size_max, head);
    CHECK_EQ(mesh_frame_read(slice_of(head, 4), &frame, &used), STATUS_AGAIN);
    head[0]++;
    CHECK_EQ(mesh_frame_read(slice_of(head, 4), &frame, &used), STATUS_MALFORMED);
    CHECK_EQ(mesh_frame_read(slice_of("\0\0\0\x80", 4), &frame, &used), STATUS_MALFORMED);
}
