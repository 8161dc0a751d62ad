// SPDX-License-Identifier: Apache-2.0
//
// Whole screens are compared with those in test/cli/top/screens/, one file each, named by width,
// height and backends.  `TOP_SCREENS=DIR build/debug/top_screen_test` writes the screens of today:
// look at them before they replace the recorded ones.

#include "cli/top/top_screen.h"

#include "cli/top/top_fixture.h"
#include "test.h"

#include <stdlib.h>

static struct top_fixture fixture;

static void write_screen(const char *directory, const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s.txt", directory, name);
    FILE *file = fopen(path, "w");
    ASSERT(file != NULL);
    for (uint32_t row = 0; row < fixture.grid.height; row++) {
        fprintf(file, "%s\n", top_fixture_row(&fixture.grid, row));
    }
    ASSERT(fclose(file) == 0);
}

// The number of the first row that is not as in the file; 0: all are.
static uint32_t first_difference(const char *name)
{
    static char line[top_width_max * 4 + 2];
    char path[512];
    uint32_t row = 0;
    const char *directory = getenv("TOP_SCREENS"); // NOLINT(concurrency-mt-unsafe)

    if (directory != NULL) {
        write_screen(directory, name);
    }
    snprintf(path, sizeof(path), "%s/test/cli/top/screens/%s.txt", SOURCE_ROOT, name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return UINT32_MAX;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const char *drawn = row < fixture.grid.height ? top_fixture_row(&fixture.grid, row) : "";
        row++;
        if (strcmp(line, drawn) != 0) {
            printf("# %s row %u is \"%s\"\n", name, row, drawn);
            fclose(file);
            return row;
        }
    }
    fclose(file);
    return row == fixture.grid.height ? 0 : row + 1;
}

TEST(whole_screens_equal_the_recorded_ones)
{
    static const struct {
        uint32_t width;
        uint32_t height;
    } sizes[] = {{80, 24}, {120, 40}, {40, 10}, {200, 60}};
    static const uint32_t counts[] = {0, 3, 1000};
    for (size_t i = 0; i < ARRAY_COUNT(sizes) * ARRAY_COUNT(counts); i++) {
        uint32_t width = sizes[i / ARRAY_COUNT(counts)].width;
        uint32_t height = sizes[i / ARRAY_COUNT(counts)].height;
        uint32_t count = counts[i % ARRAY_COUNT(counts)];
        char name[64];
        snprintf(name, sizeof(name), "%ux%u_%u", width, height, count);
        top_fixture_fill(&fixture, count);
        top_fixture_draw(&fixture, width, height);
        CHECK_EQ(first_difference(name), 0);
    }
}

TEST(without_utf8_a_screen_is_ascii)
{
    top_fixture_fill(&fixture, 3);
    fixture.grid.is_ascii = true;
    top_fixture_draw(&fixture, 80, 24);
    CHECK_EQ(first_difference("80x24_3_ascii"), 0);
    for (uint32_t i = 0; i < 80 * 24; i++) {
        CHECK(fixture.grid.cells[i].code >= ' ' && fixture.grid.cells[i].code < 0x7f);
    }
    fixture.grid.is_ascii = false;
}

TEST(decisions_that_have_the_focus_have_room_for_their_sentences)
{
    top_fixture_fill(&fixture, 1000);
    fixture.view.focus = TOP_DECISIONS;
    top_fixture_draw(&fixture, 80, 40);
    CHECK_EQ(first_difference("80x40_1000_decisions"), 0);
}

static bool has_text(const char *text)
{
    for (uint32_t row = 0; row < fixture.grid.height; row++) {
        if (strstr(top_fixture_row(&fixture.grid, row), text) != NULL) {
            return true;
        }
    }
    return false;
}

TEST(other_routers_have_a_panel_where_there_is_a_cluster)
{
    top_fixture_fill(&fixture, 3);
    top_fixture_cluster(&fixture.overview.cluster);
    top_fixture_draw(&fixture, 80, 30);
    CHECK_EQ(first_difference("80x30_3_cluster"), 0);
    fixture.view.hides[TOP_ROUTERS] = true;
    top_fixture_draw(&fixture, 80, 30);
    CHECK(!has_text("ROUTERS"));
}

TEST(a_cluster_that_shares_nothing_says_why)
{
    top_fixture_fill(&fixture, 3);
    fixture.overview.cluster = (struct top_cluster){.is_known = true, .why = "no reply in time"};
    top_fixture_draw(&fixture, 80, 30);
    CHECK(has_text("nothing is shared, the store does not obey: no reply in time"));
    CHECK(has_text("none yet"));
}

TEST(the_help_takes_the_place_of_the_panels)
{
    top_fixture_fill(&fixture, 3);
    fixture.view.shows_help = true;
    top_fixture_draw(&fixture, 80, 24);
    CHECK_EQ(first_difference("80x24_help"), 0);
}

TEST(a_low_screen_leaves_panels_out_in_the_order_that_is_promised)
{
    // The height from which on each panel is shown.
    static const struct {
        uint32_t height;
        const char *text;
    } cases[] = {{1, "warmpath 0.1.0"}, {2, "FLEET"},      {8, "TTFT p50"},
                 {9, "q quit"},         {14, "DECISIONS"}, {17, "hit rate, 0 to 100%"},
                 {19, "ROUTERS"},       {23, "HOTTEST"}};
    top_fixture_fill(&fixture, 3);
    top_fixture_cluster(&fixture.overview.cluster);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        top_fixture_draw(&fixture, 80, cases[i].height);
        CHECK(has_text(cases[i].text));
        top_fixture_draw(&fixture, 80, cases[i].height - 1);
        CHECK(!has_text(cases[i].text));
    }
}

TEST(panels_are_turned_off_and_the_rest_gets_their_rows)
{
    top_fixture_fill(&fixture, 1000);
    top_fixture_draw(&fixture, 80, 24);
    uint32_t page = fixture.view.page[TOP_FLEET];
    fixture.view.hides[TOP_FIGURES] = true;
    fixture.view.hides[TOP_HOTTEST] = true;
    fixture.view.hides[TOP_DECISIONS] = true;
    top_fixture_draw(&fixture, 80, 24);
    CHECK(!has_text("hit rate") && !has_text("HOTTEST") && !has_text("DECISIONS"));
    CHECK(fixture.view.page[TOP_FLEET] > page);
    CHECK_EQ(fixture.view.page[TOP_FLEET], 20);
    fixture.view.hides[TOP_FLEET] = true;
    top_fixture_draw(&fixture, 80, 24);
    CHECK(!has_text("FLEET"));
}

TEST(the_head_shows_the_state_of_the_connection)
{
    top_fixture_fill(&fixture, 3);
    fixture.scene.link = (struct top_link){TOP_LOST, 12, "Connection refused"};
    top_fixture_draw(&fixture, 80, 24);
    CHECK(has_text("router unreachable since 12 s, trying"));
    top_fixture_draw(&fixture, 140, 24);
    CHECK(has_text("Connection refused  router unreachable since 12 s, trying"));
    top_fixture_draw(&fixture, 40, 24);
    CHECK(has_text("router unreachable since 12 s, trying"));
    fixture.view.is_paused = true;
    top_fixture_draw(&fixture, 80, 24);
    CHECK(has_text("  paused") && !has_text("unreachable"));
    fixture.view.is_paused = false;
    fixture.scene.overview = NULL;
    top_fixture_draw(&fixture, 80, 24);
    CHECK_STR(top_fixture_row(&fixture.grid, 2), "Connection refused");
    fixture.scene.link = (struct top_link){0};
    top_fixture_draw(&fixture, 80, 24);
    CHECK(has_text("connecting"));
}

TEST(scrolling_stops_at_the_end)
{
    top_fixture_fill(&fixture, 1000);
    fixture.view.scroll[TOP_FLEET] = 4096;
    fixture.view.scroll[TOP_DECISIONS] = 4096;
    top_fixture_draw(&fixture, 80, 24);
    CHECK_EQ(fixture.view.scroll[TOP_FLEET] + fixture.view.page[TOP_FLEET], 1000);
    CHECK_EQ(fixture.view.scroll[TOP_DECISIONS] + fixture.view.page[TOP_DECISIONS], 12);
    CHECK(has_text("10.0.3.250:8000"));
    top_fixture_draw(&fixture, 80, 200);
    CHECK_EQ(fixture.view.scroll[TOP_FLEET] + fixture.view.page[TOP_FLEET], 1000);
}

TEST(focused_decisions_show_whole_sentences_down_to_the_last)
{
    top_fixture_fill(&fixture, 3);
    fixture.view.focus = TOP_DECISIONS;
    snprintf(fixture.decisions.rows[11].why, top_sentence_size,
             "It holds 1,024 of the prompt's 1,200 tokens, the most of 3 candidates, and its queue "
             "costs less than computing them again elsewhere. So it went there.");
    fixture.decisions.rows[10].why[0] = '\0';
    for (uint32_t height = 14; height < 100; height++) {
        fixture.view.scroll[TOP_DECISIONS] = 4096;
        top_fixture_draw(&fixture, 60, height);
        CHECK(has_text("So it went there.") || height < 30);
        CHECK_EQ(fixture.view.scroll[TOP_DECISIONS] + fixture.view.page[TOP_DECISIONS], 12);
    }
    CHECK_EQ(fixture.view.scroll[TOP_DECISIONS], 0);
}

TEST(unknown_is_a_dash_and_without_a_price_money_is_left_out)
{
    top_fixture_fill(&fixture, 0);
    fixture.overview.recent.hit_rate = (double)NAN;
    fixture.overview.recent.round_robin_hit_rate = (double)NAN;
    fixture.overview.totals.saved_money = (double)NAN;
    fixture.overview.totals.saved_s = 10;
    top_fixture_draw(&fixture, 80, 24);
    CHECK(has_text("hit rate       –  round-robin –"));
    CHECK(!has_text("$8"));
    CHECK(has_text("over round-robin    -3,990 GPU s"));
    CHECK(has_text("no backends"));
    CHECK(has_text("none yet"));
    fixture.overview.totals.failures = (double)NAN;
    top_fixture_draw(&fixture, 80, 24);
    CHECK(!has_text("none yet"));
    CHECK(has_text("requests are not counted: metrics.enabled is off"));
}

// Right halves of wide characters without a left one.
static uint32_t stray_halves(void)
{
    const struct top_grid *grid = &fixture.grid;
    uint32_t count = 0;
    for (uint32_t i = 0; i < grid->width * grid->height; i++) {
        bool is_good = i % grid->width > 0 && grid->cells[i - 1].code > 0x1100;
        count += grid->cells[i].code == 0 && !is_good;
    }
    return count;
}

TEST(wide_characters_in_names_are_cut_safely)
{
    top_fixture_fill(&fixture, 3);
    for (uint32_t i = 0; i < fixture.decisions.count; i++) {
        snprintf(fixture.decisions.rows[i].model, top_word_size, "%.*s模型模型模型模型模型",
                 (int)(i % 4), "abc");
        snprintf(
            fixture.decisions.rows[i].why, top_sentence_size,
            "模型 says 漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字");
    }
    for (uint32_t width = 1; width < 230; width++) {
        top_fixture_draw(&fixture, width, 40);
        CHECK_EQ(stray_halves(), 0);
    }
}

TEST(every_size_can_be_drawn)
{
    top_fixture_fill(&fixture, 50);
    top_fixture_cluster(&fixture.overview.cluster);
    for (uint32_t i = 0; i < 130 * 50; i++) {
        uint32_t width = i / 50;
        fixture.view.focus = width % 2 == 0 ? TOP_FLEET : TOP_DECISIONS;
        top_fixture_draw(&fixture, width, i % 50);
        CHECK_EQ(fixture.grid.width * fixture.grid.height, width * (i % 50));
        CHECK_EQ(stray_halves(), 0);
    }
}
