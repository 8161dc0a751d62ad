// SPDX-License-Identifier: Apache-2.0

#include "template/template_memory.h"

#include "test.h"

static bool is_zero(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

TEST(pieces_are_zeroed_aligned_and_apart)
{
    struct template_memory memory = {0};
    unsigned char *before = NULL;
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
        unsigned char *piece = template_memory_take(&memory, size);
        CHECK(piece != NULL && piece != before);
        CHECK_EQ((uintptr_t)piece % 16, 0);
        CHECK(is_zero(piece, size));
        memset(piece, 0xff, size);
        before = piece;
    }
    template_memory_clear(&memory);
}

TEST(pieces_beyond_the_bound_are_refused)
{
    struct template_memory memory = {0};
    CHECK(template_memory_take(&memory, (size_t)template_memory_max + 1) == NULL);
    CHECK(template_memory_take(&memory, 16) != NULL);
    CHECK(template_memory_take(&memory, template_memory_max) == NULL);
    CHECK(template_memory_take(&memory, 16) != NULL);
    template_memory_clear(&memory);
    CHECK(memory.blocks == NULL);
}

TEST(a_piece_may_have_no_bytes)
{
    struct template_memory memory = {0};
    CHECK(template_memory_take(&memory, 0) != NULL);
    template_memory_clear(&memory);
}
