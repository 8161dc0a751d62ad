// SPDX-License-Identifier: Apache-2.0

#include "replica/key_window.h"

#include "base/rng.h"
#include "test.h"

#include <stdlib.h>

enum { room = key_chain_size_max + 1000, length_max = 120, chain_count = 200 };

static struct key_window sender;
static struct key_window receiver;
static uint8_t bytes[room];
static uint64_t out[8192];

static void set_up(void)
{
    ASSERT(key_window_open_sender(&sender, key_window_bits_min));
    ASSERT(key_window_open_receiver(&receiver, key_window_bits_min));
}

static void tear_down(void)
{
    key_window_close(&sender);
    key_window_close(&receiver);
}

// Bytes that the chain took.
static size_t send(const uint64_t *keys, uint32_t count, uint32_t *written)
{
    struct wire_writer writer = wire_writer_over(bytes, sizeof(bytes));
    *written = key_window_write(&sender, &writer, keys, count);
    ASSERT(!writer.is_full);
    return writer.size;
}

static uint32_t receive(size_t size, bool *is_known, bool *is_bad)
{
    struct wire_reader reader = wire_reader_of(slice_of(bytes, size));
    uint32_t count = key_window_read(&receiver, &reader, out, 8192, is_known);
    *is_bad = reader.is_bad || reader.left != 0;
    return count;
}

// Whether the chain arrives as it was sent.
static bool passes(const uint64_t *keys, uint32_t count, size_t *size)
{
    uint32_t written;
    bool is_known;
    bool is_bad;
    *size = send(keys, count, &written);
    uint32_t got = receive(*size, &is_known, &is_bad);
    return written == count && got == count && is_known && !is_bad &&
           memcmp(out, keys, count * sizeof(keys[0])) == 0;
}

static void fill(uint64_t *keys, uint32_t count, uint64_t seed)
{
    struct rng rng = {.state = seed};
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = rng_next(&rng);
    }
}

TEST(a_chain_that_was_sent_before_costs_a_few_bytes)
{
    uint64_t keys[100];
    size_t size;
    set_up();
    fill(keys, 100, 1);
    CHECK(passes(keys, 100, &size));
    CHECK(size >= 800 && size < 810);
    CHECK(passes(keys, 100, &size));
    CHECK(size <= 8);
    fill(keys + 60, 40, 2); // goes its own way behind 60
    CHECK(passes(keys, 100, &size));
    CHECK(size < 40 * 8 + 12);
    tear_down();
}

TEST(random_chains_arrive_as_they_were_sent)
{
    static uint64_t chains[chain_count][length_max];
    struct rng rng = {.state = 3};
    size_t size;
    set_up();
    for (uint32_t i = 0; i < chain_count; i++) {
        uint32_t shared = i > 0 ? rng_below(&rng, length_max) : 0;
        memcpy(chains[i], chains[i > 0 ? rng_below(&rng, i) : 0], shared * sizeof(uint64_t));
        fill(chains[i] + shared, length_max - shared, rng_next(&rng));
    }
    for (uint32_t i = 0; i < 20000; i++) {
        const uint64_t *keys = chains[rng_below(&rng, chain_count)];
        CHECK(passes(keys, rng_below(&rng, length_max + 1), &size));
    }
    CHECK_EQ(sender.end, receiver.end);
    tear_down();
}

TEST(a_receiver_that_missed_keys_refuses_copies_of_them_and_no_others)
{
    uint64_t keys[100];
    uint32_t written;
    bool is_known;
    bool is_bad;
    size_t size;
    set_up();
    fill(keys, 100, 1);
    CHECK(passes(keys, 40, &size));
    (void)send(keys + 40, 30, &written); // lost
    CHECK(key_window_skip_to(&receiver, sender.end));
    size = send(keys, 100, &written);
    CHECK_EQ(receive(size, &is_known, &is_bad), 40);
    CHECK(!is_known);
    CHECK(!is_bad);
    CHECK_EQ(sender.end, receiver.end); // the new keys behind are known from now on
    CHECK(passes(keys + 70, 30, &size));
    CHECK(size < 10);
    tear_down();
}

TEST(keys_that_were_written_before_now_are_written_again)
{
    uint64_t keys[50];
    size_t size;
    set_up();
    fill(keys, 50, 1);
    CHECK(passes(keys, 50, &size));
    key_window_forget(&sender);
    CHECK(passes(keys, 50, &size));
    CHECK(size >= 400);
    tear_down();
}

TEST(an_older_position_is_a_repetition)
{
    uint64_t keys[50];
    size_t size;
    set_up();
    fill(keys, 50, 1);
    CHECK(passes(keys, 50, &size));
    CHECK(!key_window_skip_to(&receiver, 49));
    CHECK(key_window_skip_to(&receiver, 50));
    CHECK(key_window_skip_to(&receiver, 1000000));
    CHECK_EQ(receiver.end, 1000000);
    tear_down();
}

TEST(a_chain_with_too_many_new_keys_is_cut_behind_them)
{
    static uint64_t keys[4000];
    uint32_t written;
    bool is_known;
    bool is_bad;
    set_up();
    fill(keys, 4000, 1);
    size_t size = send(keys, 4000, &written);
    CHECK_EQ(written, key_chain_new_max);
    CHECK_EQ(receive(size, &is_known, &is_bad), key_chain_new_max);
    CHECK(is_known && !is_bad);
    tear_down();
}

TEST(malformed_chains_are_refused)
{
    static const struct {
        uint8_t bytes[16];
        size_t size;
    } cases[] = {
        {{1, 8}, 2},                   // four new keys, and none follows
        {{1, 0}, 2},                   // a piece of nothing
        {{2, 9, 1}, 3},                // a second piece that is missing
        {{0xff, 0xff, 0xff, 0xff}, 4}, // too many pieces
        {{1, 0xfe, 0xff, 0xff, 0xff, 0x7f}, 6},
    };
    bool is_known;
    bool is_bad;
    set_up();
    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        memcpy(bytes, cases[i].bytes, cases[i].size);
        CHECK_EQ(receive(cases[i].size, &is_known, &is_bad), 0);
        CHECK(is_bad);
    }
    tear_down();
}
