// SPDX-License-Identifier: Apache-2.0

#include "base/rng.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_fixture.h"

static size_t naive_place(struct slice string, struct slice part, bool last)
{
    size_t found = PLACE_NONE;
    for (size_t at = 0; at + part.size <= string.size && (last || found == PLACE_NONE); at++) {
        if (part.size == 0 || memcmp(string.bytes + at, part.bytes, part.size) == 0) {
            found = at;
        }
    }
    return found;
}

TEST(places_match_those_of_a_plain_search)
{
    struct rng rng = {.state = 3};
    for (int i = 0; i < 20000; i++) {
        uint8_t bytes[16];
        uint8_t wanted[4];
        for (size_t j = 0; j < sizeof(bytes); j++) {
            bytes[j] = (uint8_t)('a' + rng_below(&rng, 2));
            wanted[j % 4] = (uint8_t)('a' + rng_below(&rng, 2));
        }
        struct slice string = slice_of(bytes, rng_below(&rng, 17));
        struct slice part = slice_of(wanted, rng_below(&rng, 5));
        CHECK_EQ(place_of(string, part, false), naive_place(string, part, false));
        CHECK_EQ(place_of(string, part, true), naive_place(string, part, true));
    }
}

TEST(strings_without_memory_can_be_searched)
{
    struct slice none = slice_of(NULL, 0);
    CHECK_EQ(place_of(none, none, false), 0);
    CHECK_EQ(place_of(none, none, true), 0);
    CHECK_EQ(place_of(none, slice_str("a"), false), PLACE_NONE);
    CHECK_EQ(place_of(none, slice_str("a"), true), PLACE_NONE);
    CHECK_EQ(string_strip(none, none, STRIP_LEFT | STRIP_RIGHT).size, 0);
    struct slice rest = none;
    struct string_line line;
    CHECK(!string_next_line(&rest, &line));
}

TEST(unchanged_strings_are_not_copied)
{
    fresh_room();
    struct slice string = slice_str("abc");
    const struct slice pair[2] = {slice_str("x"), slice_str("y")};
    CHECK(string_replace(&fixture_room, string, pair, -1).bytes == string.bytes);
    CHECK(string_pad(&fixture_room, string, 2, PAD_BOTH).bytes == string.bytes);
    CHECK_EQ(fixture_arena.used, 0);
}

TEST(a_replacement_that_does_not_fit_is_too_large)
{
    fresh_room();
    fixture_arena.size = 64;
    const struct slice pair[2] = {slice_str("a"), slice_str("0123456789")};
    CHECK_EQ(string_replace(&fixture_room, slice_str("aaaaaaaaaa"), pair, -1).size, 0);
    CHECK_EQ(fixture_room.status, STATUS_TOO_LARGE);
    fresh_room();
    CHECK_EQ(string_pad(&fixture_room, slice_str("a"), INT64_MAX, PAD_BOTH).size, 0);
    CHECK_EQ(fixture_room.status, STATUS_TOO_LARGE);
}

TEST(lines_end_within_the_string_whatever_its_last_bytes)
{
    struct slice rest = slice_str("a\r\nb\r");
    struct string_line line;
    CHECK(string_next_line(&rest, &line));
    CHECK(slice_is(line.line, "a") && slice_is(line.whole, "a\r\n"));
    CHECK(string_next_line(&rest, &line));
    CHECK(slice_is(line.line, "b") && slice_is(line.whole, "b\r"));
    CHECK(!string_next_line(&rest, &line));
}
