// SPDX-License-Identifier: Apache-2.0

#include "sys/pages.h"

#include "test.h"

TEST(reserves_far_more_than_it_touches)
{
    size_t size = (size_t)64 << 30;
    uint8_t *bytes = pages_reserve(size);
    CHECK(bytes != NULL);
    bytes[0] = 1;
    bytes[size - 1] = 1;
    pages_release(&bytes, size);
    CHECK(bytes == NULL);
}

TEST(a_discarded_page_is_zero_again_and_its_neighbours_are_not)
{
    const size_t page = 4096;
    uint8_t *bytes = pages_reserve(4 * page);
    CHECK(bytes != NULL);
    memset(bytes, 7, 4 * page);
    pages_discard(bytes + 100, 2 * page);
    CHECK_EQ(bytes[page - 1], 7);
    CHECK_EQ(bytes[page], 0);
    CHECK_EQ(bytes[2 * page - 1], 0);
    CHECK_EQ(bytes[2 * page], 7);
    pages_release(&bytes, 4 * page);
}
