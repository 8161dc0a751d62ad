// SPDX-License-Identifier: Apache-2.0

#include "base/text.h"

#include "test.h"

TEST(appends_until_full_and_then_says_so)
{
    char space[8];
    struct text text = text_over(space, sizeof(space));
    text_add_str(&text, "12345");
    text_add_u64(&text, 678);
    CHECK(!text.overflow);
    CHECK(slice_is(text_slice(&text), "12345678"));
    text_add_str(&text, "9");
    CHECK(text.overflow);
    CHECK_EQ(text.size, 8);
}

TEST(writes_numbers_at_their_limits)
{
    char space[64];
    struct text text = text_over(space, sizeof(space));
    text_add_u64(&text, UINT64_MAX);
    text_add_str(&text, " ");
    text_add_hex(&text, 0);
    text_add_str(&text, " ");
    text_add_hex(&text, UINT64_MAX);
    CHECK(slice_is(text_slice(&text), "18446744073709551615 0 ffffffffffffffff"));
}

TEST(escapes_what_json_forbids)
{
    char space[64];
    struct text text = text_over(space, sizeof(space));
    text_add_json(&text, slice_str("a\"b\\c\n\x01\xc3\xa9"));
    CHECK(slice_is(text_slice(&text), "\"a\\\"b\\\\c\\n\\u0001\xc3\xa9\""));
}

TEST(parses_whole_numbers_and_nothing_else)
{
    uint64_t number = 7;
    CHECK(slice_parse_u64(slice_str("18446744073709551615"), &number));
    CHECK(number == UINT64_MAX);
    static const char *const bad[] = {"", "+1", "-1", " 1", "1 ", "0x1", "18446744073709551616"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        CHECK(!slice_parse_u64(slice_str(bad[i]), &number));
    }
}
