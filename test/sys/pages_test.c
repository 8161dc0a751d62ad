// SPDX-License-Identifier: Apache-2.0

#include "sys/pages.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>

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

// In bytes, of this process.
static uint64_t address_space(void)
{
    char line[256];
    FILE *file = fopen("/proc/self/statm", "r");
    ASSERT(file != NULL && fgets(line, sizeof(line), file) != NULL);
    fclose(file);
    return strtoull(line, NULL, 10) * 4096;
}

static void reserve_huge(size_t size)
{
    uint8_t *bytes = pages_reserve_huge(size);
    CHECK(bytes != NULL);
    CHECK_EQ((uintptr_t)bytes % (2 << 20), 0);
    CHECK_EQ(bytes[0], 0);
    CHECK_EQ(bytes[size - 1], 0);
    memset(bytes, 7, size);
    pages_release(&bytes, size);
    CHECK(bytes == NULL);
}

TEST(huge_pages_are_aligned_and_as_many_as_were_asked_for)
{
    const size_t sizes[] = {1, 4096, 5000, 2 << 20, (2 << 20) + 1, (4 << 20) - 1, 6 << 20};
    for (uint32_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        reserve_huge(sizes[i]);
    }
}

TEST(the_rest_around_huge_pages_is_given_back)
{
    uint64_t used = address_space();
    for (uint32_t i = 0; i < 100; i++) {
        uint8_t *bytes = pages_reserve_huge(8192);
        CHECK(bytes != NULL);
        pages_release(&bytes, 8192);
    }
    CHECK(address_space() <= used + (16 << 20));
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
