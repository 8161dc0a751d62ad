// SPDX-License-Identifier: Apache-2.0
//
// The twin is a minimal terminal that applies the sequences cell by cell.

#include "cli/top/top_paint.h"

#include "base/rng.h"
#include "base/utf8.h"
#include "cli/top/top_fixture.h"
#include "test.h"

#include <stdlib.h>

struct twin {
    uint32_t width;
    uint32_t height;
    uint32_t row;
    uint32_t column;
    char look[16];
    uint32_t clear_count;
    struct {
        uint32_t code;
        char look[16];
    } cells[top_height_max][top_width_max];
};

static struct twin twin;
static struct top_paint paint;
static uint8_t frame_space[top_paint_size_max];
static struct text frame;
static struct top_fixture fixture;

static void twin_blank(uint32_t row, uint32_t column)
{
    twin.cells[row][column].code = ' ';
    twin.cells[row][column].look[0] = '\0';
}

static void twin_clear(void)
{
    twin.clear_count++;
    for (uint32_t row = 0; row < twin.height; row++) {
        for (uint32_t column = 0; column < twin.width; column++) {
            twin_blank(row, column);
        }
    }
}

// Writing over half of a wide character wipes out the other half, as terminals do.
static void twin_cut(uint32_t row, uint32_t column)
{
    if (twin.cells[row][column].code == 0 && column > 0) {
        twin_blank(row, column - 1);
    }
    if (column + 1 < twin.width && twin.cells[row][column + 1].code == 0) {
        twin_blank(row, column + 1);
    }
}

static void twin_print(uint32_t code)
{
    uint32_t width = code >= 0x3000 ? 2 : 1;
    ASSERT(twin.row < twin.height && twin.column + width <= twin.width);
    for (uint32_t i = 0; i < width; i++) {
        twin_cut(twin.row, twin.column + i);
    }
    for (uint32_t i = 0; i < width; i++) {
        twin.cells[twin.row][twin.column + i].code = i == 0 ? code : 0;
        memcpy(twin.cells[twin.row][twin.column + i].look, twin.look, sizeof(twin.look));
    }
    twin.column += width;
}

static size_t twin_sequence(const char *at)
{
    size_t size = 2 + strcspn(at + 2, "HmJhl") + 1;
    char last = at[size - 1];
    ASSERT(at[1] == '[');
    if (last == 'H') {
        char *rest;
        twin.row = (uint32_t)strtoul(at + 2, &rest, 10) - 1;
        twin.column = (uint32_t)strtoul(rest + 1, NULL, 10) - 1;
    } else if (last == 'm') {
        ASSERT(size - 3 < sizeof(twin.look));
        snprintf(twin.look, sizeof(twin.look), "%.*s", (int)(size - 3), at + 2);
    } else if (last == 'J') {
        ASSERT(memcmp(at, "\033[2J", 4) == 0);
        twin_clear();
    } else {
        ASSERT(memcmp(at, "\033[?2026", 7) == 0);
    }
    return size;
}

static void twin_show(void)
{
    frame.bytes[frame.size] = '\0';
    for (size_t at = 0; at < frame.size;) {
        if (frame.bytes[at] == '\033') {
            at += twin_sequence((const char *)frame.bytes + at);
            continue;
        }
        unsigned size;
        twin_print(utf8_read(frame.bytes + at, &size));
        at += size;
    }
}

static void update(const struct top_grid *grid)
{
    frame = text_over(frame_space, sizeof(frame_space) - 1);
    twin.width = grid->width;
    twin.height = grid->height;
    top_paint_update(&paint, grid, &frame);
    twin_show();
}

// The first cell of the twin that is not as it should be; -1: none.
static int64_t wrong_cell(const struct top_grid *grid)
{
    static const char *const looks[top_look_count] = {"0",    "0;2",    "0;1",  "0;32",
                                                      "0;33", "0;1;31", "0;36", "0;1"};
    for (uint32_t i = 0; i < grid->width * grid->height; i++) {
        uint32_t code = grid->cells[i].code;
        const char *look = twin.cells[i / grid->width][i % grid->width].look;
        if (twin.cells[i / grid->width][i % grid->width].code != code ||
            (code != ' ' && strcmp(look, looks[grid->cells[i].look]) != 0)) {
            return i;
        }
    }
    return -1;
}

static void begin(void)
{
    paint = (struct top_paint){.has_color = true};
    twin = (struct twin){0};
}

TEST(the_first_frame_clears_and_shows_all_of_it)
{
    begin();
    top_fixture_fill(&fixture, 30);
    top_fixture_draw(&fixture, 120, 40);
    update(&fixture.grid);
    CHECK_EQ(twin.clear_count, 1);
    CHECK_EQ(wrong_cell(&fixture.grid), -1);
}

TEST(an_unchanged_screen_writes_nothing)
{
    begin();
    top_fixture_fill(&fixture, 30);
    top_fixture_draw(&fixture, 120, 40);
    update(&fixture.grid);
    update(&fixture.grid);
    CHECK_EQ(frame.size, 0);
}

TEST(one_changed_figure_costs_some_bytes_and_no_clear)
{
    begin();
    top_fixture_fill(&fixture, 30);
    top_fixture_draw(&fixture, 120, 40);
    update(&fixture.grid);
    fixture.overview.recent.hit_rate = 0.719;
    top_fixture_draw(&fixture, 120, 40);
    update(&fixture.grid);
    CHECK(frame.size > 0 && frame.size < 64);
    CHECK_EQ(twin.clear_count, 1);
    CHECK_EQ(wrong_cell(&fixture.grid), -1);
}

TEST(another_size_and_a_lost_screen_are_painted_anew)
{
    begin();
    top_fixture_fill(&fixture, 30);
    top_fixture_draw(&fixture, 120, 40);
    update(&fixture.grid);
    top_fixture_draw(&fixture, 70, 20);
    update(&fixture.grid);
    CHECK_EQ(twin.clear_count, 2);
    CHECK_EQ(wrong_cell(&fixture.grid), -1);
    top_paint_forget(&paint);
    update(&fixture.grid);
    CHECK_EQ(twin.clear_count, 3);
    CHECK_EQ(wrong_cell(&fixture.grid), -1);
}

TEST(without_color_no_color_is_set)
{
    begin();
    paint.has_color = false;
    top_fixture_fill(&fixture, 30);
    top_fixture_draw(&fixture, 120, 40);
    update(&fixture.grid);
    CHECK(strstr((const char *)frame.bytes, ";32m") == NULL);
    CHECK(strstr((const char *)frame.bytes, "\033[0;1m") != NULL);
}

TEST(random_screens_of_narrow_and_wide_characters_follow_each_other)
{
    static const char *const texts[] = {"a", " ", "漢", "かな", "xyz", "  ", "😀", "…"};
    static struct top_grid grid;
    struct rng rng = {11};
    begin();
    for (int round = 0; round < 5000; round++) {
        top_grid_reset(&grid, 17, 3, false);
        for (uint32_t row = 0; row < grid.height; row++) {
            struct top_pen pen = top_pen_at(&grid, row);
            while (pen.column < pen.end && rng_below(&rng, 12) > 0) {
                top_pen_put(&pen, rng_below(&rng, top_look_count),
                            texts[rng_below(&rng, ARRAY_COUNT(texts))]);
            }
        }
        update(&grid);
        CHECK_EQ(wrong_cell(&grid), -1);
    }
    CHECK_EQ(twin.clear_count, 1);
}

TEST(the_largest_and_most_colorful_screen_fits_into_a_frame)
{
    static struct top_grid grid;
    begin();
    top_grid_reset(&grid, top_width_max, top_height_max, false);
    for (uint32_t row = 0; row < grid.height; row++) {
        struct top_pen pen = top_pen_at(&grid, row);
        while (pen.column < pen.end) {
            top_pen_put(&pen, pen.column % 2 == 0 ? TOP_BAD : TOP_GOOD, "█");
        }
    }
    update(&grid);
    CHECK_EQ(wrong_cell(&grid), -1);
}
