// SPDX-License-Identifier: Apache-2.0

#include "cli/top/top_keys.h"

#include "cli/top/top_fleet.h"
#include "test.h"

static struct top_keys keys;
static struct top_view view;

// The last key of the bytes, and how many there were.
static enum top_key take_all(const char *bytes, uint32_t *count)
{
    enum top_key last = TOP_KEY_NONE;
    *count = 0;
    for (; *bytes != '\0'; bytes++) {
        enum top_key key = top_keys_take(&keys, (uint8_t)*bytes);
        *count += key != TOP_KEY_NONE;
        last = key != TOP_KEY_NONE ? key : last;
    }
    return last;
}

TEST(sequences_are_one_key_each_in_both_of_their_forms)
{
    static const struct {
        const char *bytes;
        enum top_key key;
    } cases[] = {
        {"\033[A", TOP_KEY_UP},         {"\033OA", TOP_KEY_UP},    {"\033[B", TOP_KEY_DOWN},
        {"\033[5~", TOP_KEY_PAGE_UP},   {"\033[H", TOP_KEY_HOME},  {"\033[1~", TOP_KEY_HOME},
        {"\033[6~", TOP_KEY_PAGE_DOWN}, {"\033OF", TOP_KEY_END},   {"\033[4~", TOP_KEY_END},
        {"\033[1;5A", TOP_KEY_UP},      {"\033q", TOP_KEY_LETTER}, {"\033\033[A", TOP_KEY_UP},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint32_t count;
        CHECK_EQ(take_all(cases[i].bytes, &count), cases[i].key);
        CHECK_EQ(count, 1);
    }
}

TEST(an_unknown_sequence_is_skipped_whole)
{
    uint32_t count;
    CHECK_EQ(take_all("\033[200~", &count), TOP_KEY_NONE);
    CHECK_EQ(take_all("\033[?1;2c", &count), TOP_KEY_NONE);
    CHECK_EQ(take_all("\033[99999999999999~", &count), TOP_KEY_NONE);
    CHECK_EQ(take_all("\033OP", &count), TOP_KEY_NONE);
    CHECK_EQ(take_all("x", &count), TOP_KEY_LETTER);
    CHECK_EQ(keys.letter, 'x');
}

static enum top_effect letter(char which)
{
    return top_keys_press(&view, TOP_KEY_LETTER, which);
}

TEST(letters_change_the_view)
{
    view = (struct top_view){0};
    CHECK_EQ(letter('q'), TOP_QUIT);
    CHECK_EQ(letter(0x0c), TOP_REPAINT);
    CHECK_EQ(letter('p'), TOP_STAY);
    CHECK(view.is_paused);
    letter('p');
    CHECK(!view.is_paused);
    letter('?');
    CHECK(view.shows_help);
    letter('3');
    CHECK(view.hides[TOP_HOTTEST] && !view.hides[TOP_FLEET]);
    letter('3');
    CHECK(!view.hides[TOP_HOTTEST]);
    CHECK_EQ(letter('5'), TOP_STAY);
    letter('d');
    CHECK_EQ(view.focus, TOP_DECISIONS);
    letter('d');
    CHECK_EQ(view.focus, TOP_FLEET);
}

TEST(sorting_goes_round_and_begins_at_the_top)
{
    view = (struct top_view){.scroll = {[TOP_FLEET] = 9}};
    letter('s');
    CHECK_EQ(view.order, 1);
    CHECK_EQ(view.scroll[TOP_FLEET], 0);
    letter('S');
    letter('S');
    CHECK_EQ(view.order, top_fleet_order_count() - 1);
    letter('s');
    CHECK_EQ(view.order, 0);
}

TEST(the_panel_that_has_the_focus_is_scrolled)
{
    view = (struct top_view){.page = {[TOP_FLEET] = 10, [TOP_DECISIONS] = 3}};
    top_keys_press(&view, TOP_KEY_UP, 0);
    CHECK_EQ(view.scroll[TOP_FLEET], 0);
    top_keys_press(&view, TOP_KEY_PAGE_DOWN, 0);
    top_keys_press(&view, TOP_KEY_DOWN, 0);
    CHECK_EQ(view.scroll[TOP_FLEET], 11);
    top_keys_press(&view, TOP_KEY_PAGE_UP, 0);
    CHECK_EQ(view.scroll[TOP_FLEET], 1);
    top_keys_press(&view, TOP_KEY_PAGE_UP, 0);
    CHECK_EQ(view.scroll[TOP_FLEET], 0);
    letter('d');
    top_keys_press(&view, TOP_KEY_PAGE_DOWN, 0);
    CHECK_EQ(view.scroll[TOP_DECISIONS], 3);
    CHECK_EQ(view.scroll[TOP_FLEET], 0);
    top_keys_press(&view, TOP_KEY_END, 0);
    CHECK(view.scroll[TOP_DECISIONS] >= top_decision_max);
    top_keys_press(&view, TOP_KEY_HOME, 0);
    CHECK_EQ(view.scroll[TOP_DECISIONS], 0);
}
