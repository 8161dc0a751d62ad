// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_memory.h"

#include "test.h"

#include <stdlib.h>

static bool holds(const struct drive_memory *memory, uint64_t session, uint64_t id,
                  const char *expected)
{
    struct slice text;
    return drive_memory_find(memory, session, id, &text) && slice_is(text, expected);
}

TEST(a_response_is_found_by_its_session_and_piece)
{
    struct drive_memory *memory = drive_memory_create();
    struct slice text;
    drive_memory_keep(memory, 1, 10, slice_str("one"));
    drive_memory_keep(memory, 2, 10, slice_str("two"));
    drive_memory_keep(memory, 1, 11, slice_str(""));
    CHECK(holds(memory, 1, 10, "one"));
    CHECK(holds(memory, 2, 10, "two"));
    CHECK(holds(memory, 1, 11, ""));
    CHECK(!drive_memory_find(memory, 2, 11, &text));
    CHECK(!drive_memory_find(memory, 3, 10, &text));
    drive_memory_destroy(&memory);
}

TEST(the_last_text_of_a_piece_counts)
{
    struct drive_memory *memory = drive_memory_create();
    drive_memory_keep(memory, 1, 10, slice_str("one"));
    drive_memory_keep(memory, 1, 10, slice_str("another"));
    CHECK(holds(memory, 1, 10, "another"));
    drive_memory_destroy(&memory);
}

TEST(thousands_are_kept_side_by_side)
{
    struct drive_memory *memory = drive_memory_create();
    char text[32];
    for (uint64_t i = 1; i <= 20000; i++) {
        snprintf(text, sizeof(text), "text %" PRIu64, i);
        drive_memory_keep(memory, i, i * 7, slice_str(text));
    }
    for (uint64_t i = 1; i <= 20000; i++) {
        snprintf(text, sizeof(text), "text %" PRIu64, i);
        CHECK(holds(memory, i, i * 7, text));
    }
    drive_memory_destroy(&memory);
}

TEST(when_the_ring_is_full_the_oldest_are_forgotten)
{
    enum { size = 3 << 20, count = 2 * (drive_memory_size / size) + 3 };
    struct drive_memory *memory = drive_memory_create();
    struct slice text;
    char *large = malloc(size);
    memset(large, 'a', size);
    for (uint64_t i = 1; i <= count; i++) {
        large[0] = (char)('a' + i % 26);
        large[size - 1] = (char)('A' + i % 26);
        drive_memory_keep(memory, i, i, slice_of(large, size));
        // Whatever the place in the ring, the latest is whole.
        CHECK(drive_memory_find(memory, i, i, &text));
        CHECK_EQ(text.size, size);
        CHECK_EQ(text.bytes[0], 'a' + i % 26);
        CHECK_EQ(text.bytes[size - 1], 'A' + i % 26);
    }
    CHECK(!drive_memory_find(memory, 1, 1, &text));
    CHECK(!drive_memory_find(memory, count / 2 - 2, count / 2 - 2, &text));
    CHECK(drive_memory_find(memory, count - 10, count - 10, &text));
    CHECK_EQ(text.bytes[0], 'a' + (count - 10) % 26);
    free(large);
    drive_memory_destroy(&memory);
}

TEST(a_response_larger_than_the_ring_is_remembered_without_its_text)
{
    struct drive_memory *memory = drive_memory_create();
    struct slice text = slice_of("", (size_t)drive_memory_size + 1);
    drive_memory_keep(memory, 1, 1, text);
    CHECK(holds(memory, 1, 1, ""));
    drive_memory_destroy(&memory);
}
