// SPDX-License-Identifier: Apache-2.0

#include "lab/chart.h"

#include "test.h"

#include <math.h>
#include <stdlib.h>

static char page[64 << 10];

static void draw_lines(const struct chart_lines *chart)
{
    FILE *out = fmemopen(page, sizeof(page), "w");
    chart_write_lines(out, chart);
    fclose(out);
}

static void draw_bars(const struct chart_bars *chart)
{
    FILE *out = fmemopen(page, sizeof(page), "w");
    chart_write_bars(out, chart);
    fclose(out);
}

static int count_of(const char *word)
{
    int count = 0;
    for (const char *at = page; (at = strstr(at, word)) != NULL; at++) {
        count++;
    }
    return count;
}

// The number behind the first `word` at or behind `from`.
static double number_behind(const char *from, const char *word)
{
    const char *at = strstr(from, word);
    return at == NULL ? NAN : strtod(at + strlen(word), NULL);
}

TEST(values_are_written_with_the_digits_that_count)
{
    static const struct {
        enum chart_unit unit;
        double value;
        const char *text;
    } cases[] = {
        {CHART_NUMBER, 0, "0"},         {CHART_NUMBER, 1.2345, "1.23"},
        {CHART_NUMBER, 12031, "12031"}, {CHART_NUMBER, 0.0123, "0.012"},
        {CHART_MS, 12.345, "12.3 ms"},  {CHART_MS, 999, "999 ms"},
        {CHART_MS, 1234, "1.23 s"},     {CHART_PERCENT, 0.97149, "97.1%"},
        {CHART_NUMBER, 9.999, "10.0"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[chart_value_size];
        chart_format(cases[i].unit, cases[i].value, text);
        CHECK_STR(text, cases[i].text);
    }
}

TEST(names_cannot_leave_their_place_in_the_page)
{
    double x[] = {0, 1};
    struct chart_series series = {"<script>\"&", x, x, 2, 1};
    draw_lines(&(struct chart_lines){.title = "a<b",
                                     .x = {.label = "x"},
                                     .y = {.label = "y"},
                                     .series = &series,
                                     .series_count = 1});
    CHECK_EQ(count_of("<script>"), 0);
    CHECK_EQ(count_of("&lt;script&gt;&quot;&amp;"), 2);
    CHECK_EQ(count_of("a&lt;b"), 2);
}

TEST(a_line_goes_through_its_points_and_higher_values_lie_higher)
{
    double x[] = {0, 50, 100};
    double y[] = {1, 10, 100};
    struct chart_series series = {"a", x, y, 3, 0};
    draw_lines(&(struct chart_lines){.title = "t",
                                     .x = {.label = "x"},
                                     .y = {.label = "y", .is_log = true},
                                     .series = &series,
                                     .series_count = 1});
    const char *path = strstr(page, "d=\"M");
    CHECK(path != NULL);
    char *end = NULL;
    double point[6];
    path += 4;
    for (int i = 0; i < 6; i++) {
        point[i] = strtod(path, &end);
        path = end + (i % 2 == 1);
    }
    CHECK(point[0] < point[2] && point[2] < point[4]);
    CHECK(point[1] > point[3] && point[3] > point[5]);
    // Equal ratios are equal distances on a logarithmic axis.
    CHECK(fabs((point[1] - point[3]) - (point[3] - point[5])) < 0.2);
}

TEST(every_series_has_a_place_in_the_legend)
{
    double x[] = {1, 2};
    struct chart_series series[23];
    char names[23][8];
    for (uint32_t i = 0; i < 23; i++) {
        snprintf(names[i], sizeof(names[i]), "p%u", i);
        series[i] = (struct chart_series){names[i], x, x, 2, i};
    }
    draw_lines(&(struct chart_lines){.title = "t",
                                     .x = {.label = "x"},
                                     .y = {.label = "y"},
                                     .series = series,
                                     .series_count = 23});
    CHECK_EQ(count_of("<g class=\"s"), 23);
    double height = number_behind(page, "viewBox=\"0 0 760 ");
    CHECK(number_behind(strstr(page, "<title>p22<"), "<line class=\"d2\" x1=\"576\" y1=\"") <
          height);
}

TEST(values_that_cannot_be_drawn_are_left_out)
{
    double x[] = {1, 2, 3};
    double y[] = {NAN, 5, INFINITY};
    struct chart_series series[] = {{"a", x, y, 3, 1}, {"none", NULL, NULL, 0, 2}};
    draw_lines(&(struct chart_lines){.title = "t",
                                     .x = {.label = "x"},
                                     .y = {.label = "y", .is_log = true},
                                     .series = series,
                                     .series_count = 2});
    CHECK_EQ(count_of("nan"), 0);
    CHECK_EQ(count_of("inf"), 0);
    CHECK_EQ(count_of("<circle"), 1);
    draw_lines(&(struct chart_lines){.title = "nothing", .x = {.label = "x"}, .y = {.label = "y"}});
    CHECK_EQ(count_of("nan"), 0);
}

TEST(bars_are_as_long_as_their_values_and_the_mark_stands_where_it_should)
{
    const struct chart_bar bars[] = {{"half", 0.25, 1}, {"whole", 0.5, 0}};
    draw_bars(&(struct chart_bars){.title = "hits",
                                   .unit = CHART_PERCENT,
                                   .bars = bars,
                                   .bar_count = 2,
                                   .mark_name = "infinite cache",
                                   .mark = 0.5});
    double half = number_behind(page, "width=\"155.0\" height=\"13");
    CHECK(!isnan(half));
    const char *whole = strstr(page, "whole");
    CHECK(whole != NULL);
    CHECK(number_behind(whole, "width=\"") == 310);
    CHECK(number_behind(page, "class=\"mark\" x1=\"") == 480);
    CHECK_EQ(count_of("infinite cache: 50.0%"), 1);
}

TEST(bars_of_zero_are_drawn)
{
    const struct chart_bar bar = {"idle", 0, 1};
    draw_bars(&(struct chart_bars){.title = "t", .bars = &bar, .bar_count = 1});
    CHECK_EQ(count_of("width=\"0.0\""), 1);
}

TEST(the_style_knows_light_and_dark)
{
    FILE *out = fmemopen(page, sizeof(page), "w");
    chart_begin_page(out, "a<b");
    chart_end_page(out);
    fclose(out);
    CHECK_EQ(count_of("prefers-color-scheme:dark"), 2); // of the page and of the charts
    CHECK_EQ(count_of("a&lt;b"), 2);
    CHECK_EQ(count_of("http"), 0);
}
