// SPDX-License-Identifier: Apache-2.0

#include "sim/workload/content.h"

#include "test.h"

#include <string.h>

TEST(equal_prefixes_have_equal_keys_up_to_where_they_part)
{
    const struct piece one[] = {{7, 100}, {8, 60}};
    const struct piece other[] = {{7, 100}, {9, 60}};
    uint64_t a[16];
    uint64_t b[16];
    CHECK_EQ(content_keys(one, 2, 16, a, 16), 10);
    CHECK_EQ(content_keys(other, 2, 16, b, 16), 10);
    for (int i = 0; i < 10; i++) {
        // The seventh block has the first 12 tokens of what differs.
        CHECK((a[i] == b[i]) == (i < 6));
    }
}

TEST(a_key_stands_for_all_before_it)
{
    const struct piece one[] = {{1, 16}, {2, 16}};
    const struct piece other[] = {{3, 16}, {2, 16}};
    uint64_t a[2];
    uint64_t b[2];
    CHECK_EQ(content_keys(one, 2, 16, a, 2), 2);
    CHECK_EQ(content_keys(other, 2, 16, b, 2), 2);
    CHECK(a[1] != b[1]);
}

TEST(a_block_that_is_not_whole_has_no_key)
{
    const struct piece pieces[] = {{1, 10}, {2, 21}};
    uint64_t keys[4];
    CHECK_EQ(content_keys(pieces, 2, 16, keys, 4), 1);
}

TEST(never_writes_more_keys_than_there_is_room_for)
{
    const struct piece piece = {1, 160};
    uint64_t keys[4] = {0, 0, 0, 42};
    CHECK_EQ(content_keys(&piece, 1, 16, keys, 3), 3);
    CHECK_EQ(keys[3], 42);
}

TEST(text_is_the_same_wherever_it_is_cut)
{
    char whole[40 * content_token_size];
    char part[10 * content_token_size];
    content_text(5, 0, 40, whole);
    content_text(5, 12, 10, part);
    CHECK(memcmp(whole + (size_t)12 * content_token_size, part, sizeof(part)) == 0);
    content_text(6, 12, 10, part);
    CHECK(memcmp(whole + (size_t)12 * content_token_size, part, sizeof(part)) != 0);
}
