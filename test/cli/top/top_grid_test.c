// SPDX-License-Identifier: Apache-2.0

#include "cli/top/top_grid.h"

#include "base/rng.h"
#include "base/utf8.h"
#include "cli/top/top_fixture.h"
#include "test.h"

static struct top_grid grid;

// A field and a bar behind it.
static const char *field(enum top_cut cut, uint32_t width, const char *text)
{
    top_grid_reset(&grid, 40, 1, grid.is_ascii);
    struct top_pen pen = top_pen_at(&grid, 0);
    top_pen_field(&pen, TOP_PLAIN, cut, width, text);
    ASSERT(pen.column == width);
    top_pen_put(&pen, TOP_PLAIN, "|");
    return top_fixture_row(&grid, 0);
}

TEST(a_text_that_fits_is_aligned)
{
    CHECK_STR(field(TOP_LEFT, 6, "abc"), "abc   |");
    CHECK_STR(field(TOP_RIGHT, 6, "abc"), "   abc|");
    CHECK_STR(field(TOP_MIDDLE, 6, "abcdef"), "abcdef|");
}

TEST(a_text_that_does_not_fit_is_cut_and_the_cut_is_marked)
{
    CHECK_STR(field(TOP_LEFT, 4, "abcdef"), "abc…|");
    CHECK_STR(field(TOP_RIGHT, 4, "abcdef"), "abc…|");
    CHECK_STR(field(TOP_MIDDLE, 7, "gpu-node-17.example:8000"), "gp…8000|");
    CHECK_STR(field(TOP_LEFT, 1, "abcdef"), "…|");
    CHECK_STR(field(TOP_LEFT, 0, "abcdef"), "|");
}

TEST(wide_characters_are_never_halved)
{
    CHECK_STR(field(TOP_LEFT, 6, "漢字かな"), "漢字… |");
    CHECK_STR(field(TOP_LEFT, 5, "漢字かな"), "漢字…|");
    CHECK_STR(field(TOP_LEFT, 4, "漢字かな"), "漢… |");
    CHECK_STR(field(TOP_LEFT, 8, "漢字かな"), "漢字かな|");
    CHECK_STR(field(TOP_MIDDLE, 6, "漢字かな"), "漢…な |");
    CHECK_EQ(top_text_width("漢字", false), 4);
    CHECK_EQ(grid.cells[1].code, 0);
}

TEST(a_character_whose_width_terminals_do_not_agree_on_is_a_question_mark)
{
    // A combining accent, a joiner, a variation selector, a mark that turns the direction.
    CHECK_STR(field(TOP_LEFT, 6, "e\u0301a"), "e?a   |");
    CHECK_STR(field(TOP_LEFT, 6, "a\u200db"), "a?b   |");
    CHECK_STR(field(TOP_LEFT, 6, "a\ufe0fb"), "a?b   |");
    CHECK_STR(field(TOP_LEFT, 6, "a\u202eb"), "a?b   |");
    CHECK_STR(field(TOP_LEFT, 6, "a\u00adb"), "a?b   |");
}

TEST(without_utf8_our_signs_have_stand_ins_and_others_do_not)
{
    grid.is_ascii = true;
    CHECK_STR(field(TOP_LEFT, 4, "abcdef"), "abc>|");
    CHECK_STR(field(TOP_LEFT, 6, "▁█–é漢"), ".@-?? |");
    CHECK_EQ(top_text_width("漢字", true), 2);
    grid.is_ascii = false;
}

TEST(half_a_character_at_the_end_is_not_shown)
{
    CHECK_STR(field(TOP_LEFT, 6, "ab\xe6\xbc"), "ab    |");
    CHECK_STR(field(TOP_LEFT, 6, "ab\xf0"), "ab    |");
}

TEST(lines_are_broken_between_words)
{
    CHECK_EQ(top_text_break("one two three", 20, false), 13);
    CHECK_EQ(top_text_break("one two three", 9, false), 7);
    CHECK_EQ(top_text_break("one two three", 7, false), 7);
    CHECK_EQ(top_text_break("one two three", 6, false), 3);
    CHECK_EQ(top_text_break("unbreakable", 4, false), 4);
    CHECK_EQ(top_text_break("漢字かな", 5, false), 6);
    CHECK_EQ(top_text_break("", 5, false), 0);
}

TEST(a_size_beyond_the_limits_is_cut_down)
{
    top_grid_reset(&grid, 100000, 100000, false);
    CHECK_EQ(grid.width, top_width_max);
    CHECK_EQ(grid.height, top_height_max);
}

// Cells of which the right half is missing, or there without the left one.
static uint32_t wrong_pairs(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < grid.width; i++) {
        uint32_t code = grid.cells[i].code;
        bool is_wide = code > 0x1100 && code != 0x2588 && code != 0x2026;
        bool has_half = i + 1 < grid.width && grid.cells[i + 1].code == 0;
        count += is_wide != has_half;
    }
    return count;
}

TEST(cells_add_up_whatever_is_written)
{
    static const uint32_t codes[] = {'a', ' ', 0x6f22, 0x1f600, 0x301, 0xac00, 0x2588, 0x10ffff};
    struct rng rng = {7};
    for (int round = 0; round < 2000; round++) {
        char text[64];
        size_t size = 0;
        for (uint32_t i = rng_below(&rng, 12); i > 0; i--) {
            size += utf8_write(codes[rng_below(&rng, ARRAY_COUNT(codes))], (uint8_t *)text + size);
        }
        text[size] = '\0';
        field(rng_below(&rng, 3), rng_below(&rng, 20), text);
        CHECK_EQ(wrong_pairs(), 0);
    }
}
