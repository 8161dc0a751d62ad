// SPDX-License-Identifier: Apache-2.0

#include "cli/top/top_fleet.h"

#include "cli/top/top_fixture.h"
#include "test.h"

static struct top_fixture fixture;

static void draw(uint32_t width, uint32_t height, uint32_t scroll, uint32_t order)
{
    struct top_fleet_rows rows = {0, height, scroll, order};
    top_grid_reset(&fixture.grid, width, height, false);
    top_fleet_draw(&fixture.overview, &rows, &fixture.grid);
}

// The place of the order with that name.
static uint32_t order_of(const char *name)
{
    uint32_t order = 0;
    while (strcmp(top_fleet_order_name(order), name) != 0) {
        order++;
    }
    return order;
}

static bool row_begins(uint32_t row, const char *text)
{
    return strncmp(top_fixture_row(&fixture.grid, row), text, strlen(text)) == 0;
}

TEST(columns_go_in_their_order_as_the_screen_gets_narrower)
{
    static const struct {
        uint32_t width;
        const char *head;
    } cases[] = {
        {100,
         "BACKEND                        STATE     FLIGHT  QUEUED  HIT    P50    P95   KV WEIGHT  "
         "REQ/S FAILED"},
        {80, "BACKEND           STATE     FLIGHT  QUEUED  HIT    P50    P95   KV WEIGHT  REQ/S"},
        {72, "BACKEND          STATE     FLIGHT  QUEUED  HIT    P50    P95   KV  REQ/S"},
        {50, "BACKEND               STATE     FLIGHT  HIT    P95"},
        {40, "BACKEND            STATE     FLIGHT  HIT"},
        {20, "BACKEND          ST…"},
    };
    top_fixture_fill(&fixture, 3);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        draw(cases[i].width, 4, 0, 0);
        CHECK_STR(top_fixture_row(&fixture.grid, 0), cases[i].head);
    }
}

TEST(the_first_order_is_the_routers_and_rows_are_scrolled)
{
    top_fixture_fill(&fixture, 1000);
    draw(80, 5, 0, 0);
    CHECK(row_begins(1, "10.0.0.1:8000"));
    CHECK(row_begins(4, "10.0.0.4:8000"));
    draw(80, 5, 996, 0);
    CHECK(row_begins(1, "10.0.3.247:8000"));
    CHECK(row_begins(4, "10.0.3.250:8000"));
    draw(80, 5, 5000, 0);
    CHECK_STR(top_fixture_row(&fixture.grid, 1), "");
}

TEST(a_column_sorts_largest_first_and_unknown_last)
{
    top_fixture_fill(&fixture, 6);
    draw(80, 7, 0, order_of("hit rate"));
    static const char *const rows[] = {"10.0.0.6:8000", "10.0.0.4:8000", "10.0.0.3:8000",
                                       "10.0.0.2:8000", "10.0.0.1:8000", "10.0.0.5:8000"};
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CHECK(row_begins(i + 1, rows[i]));
    }
}

TEST(by_state_the_worst_is_first_and_equals_stay_in_order)
{
    top_fixture_fill(&fixture, 8);
    draw(80, 9, 0, order_of("by state"));
    static const char *const rows[] = {"10.0.0.5:8000     down",      "10.0.0.3:8000     ejected",
                                       "10.0.0.6:8000     half_open", "10.0.0.4:8000     draining",
                                       "10.0.0.1:8000     up",        "10.0.0.2:8000     up",
                                       "10.0.0.7:8000     up",        "10.0.0.8:8000     up"};
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CHECK(row_begins(i + 1, rows[i]));
    }
}

static uint32_t look_at(uint32_t row, uint32_t column)
{
    return fixture.grid.cells[row * fixture.grid.width + column].look;
}

TEST(a_state_is_a_word_and_a_color)
{
    top_fixture_fill(&fixture, 6);
    snprintf(fixture.overview.backends[1].state, top_word_size, "warming");
    draw(80, 7, 0, 0);
    CHECK_EQ(look_at(1, 18), TOP_GOOD);
    CHECK_EQ(look_at(2, 18), TOP_DIM);
    CHECK_EQ(look_at(3, 18), TOP_BAD);
    CHECK_EQ(look_at(4, 18), TOP_WARN);
    CHECK_EQ(look_at(5, 18), TOP_BAD);
    CHECK_EQ(look_at(6, 18), TOP_WARN);
    CHECK(strstr(top_fixture_row(&fixture.grid, 2), " warming ") != NULL);
}

TEST(a_long_url_keeps_its_end)
{
    top_fixture_fill(&fixture, 2);
    snprintf(fixture.overview.backends[0].url, top_url_size,
             "https://engine-0017.inference.svc.cluster.example:8443/v1");
    snprintf(fixture.overview.backends[1].url, top_url_size, "http://漢字漢字漢字漢字漢字:8000");
    draw(80, 3, 0, 0);
    CHECK(row_begins(1, "https:…le:8443/v1 up"));
    CHECK(row_begins(2, "漢字漢…漢字:8000  up"));
}
