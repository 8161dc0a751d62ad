// SPDX-License-Identifier: Apache-2.0

#include "sweep/report.h"

#include "grid.h"
#include "test.h"

// A point of five policies with that TTFT each and that share of hits.
static struct sweep_cell cells[5];
static const struct sweep_point point = {.cells = cells};
static const struct sweep sweep = {.options = {.policy_count = 5}};

static void set(const double *ttft, const double *hits)
{
    for (int i = 0; i < 5; i++) {
        cells[i].figures.ttft.mean = ttft[i];
        cells[i].figures.hit_rate = hits[i];
    }
}

TEST(rows_come_best_first_and_equal_ones_in_their_order)
{
    set((double[]){30, 10, 20, 10, 40}, (double[]){0.1, 0.5, 0.2, 0.5, 0.9});
    uint32_t rows[sweep_policy_max];
    report_order(&sweep, &point, report_column_find("ttft"), rows);
    CHECK(memcmp(rows, (uint32_t[]){1, 3, 2, 0, 4}, 20) == 0);
    report_order(&sweep, &point, report_column_find("hits"), rows);
    CHECK(memcmp(rows, (uint32_t[]){4, 1, 3, 2, 0}, 20) == 0);
    report_order(&sweep, &point, NULL, rows);
    CHECK(memcmp(rows, (uint32_t[]){0, 1, 2, 3, 4}, 20) == 0);
}

TEST(cells_that_print_like_the_best_are_the_best)
{
    set((double[]){30, 100.1, 20.01, 20.02, 40}, (double[]){0.1, 0.5, 0.2, 0.5, 0.9});
    const struct report_column *ttft = report_column_find("ttft");
    CHECK(!report_is_best(&sweep, &point, ttft, 0));
    CHECK(report_is_best(&sweep, &point, ttft, 2));
    CHECK(report_is_best(&sweep, &point, ttft, 3));
    CHECK(report_is_best(&sweep, &point, report_column_find("hits"), 4));
    CHECK(!report_is_best(&sweep, &point, report_column_find("hits"), 0));
}

TEST(equal_cells_have_no_best)
{
    set((double[]){30.01, 30.02, 30, 30, 30}, (double[]){0, 0, 0, 0, 0});
    for (uint32_t i = 0; i < 5; i++) {
        CHECK(!report_is_best(&sweep, &point, report_column_find("ttft"), i));
    }
}

TEST(cells_have_the_digits_that_count)
{
    struct figures figures = {.hit_rate = 0.1234};
    const struct report_column *ttft = report_column_find("ttft");
    char cell[report_cell_size];
    static const struct {
        double value;
        const char *text;
    } cases[] = {{1.234, "1.23"}, {9.999, "10.0"}, {99.96, "100"}, {12345.6, "12346"}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        figures.ttft.mean = cases[i].value;
        report_format(ttft, &figures, cell);
        CHECK_STR(cell, cases[i].text);
    }
    report_format(report_column_find("hits"), &figures, cell);
    CHECK_STR(cell, "12.3%");
}

TEST(an_unknown_column_is_not_found)
{
    CHECK(report_column_find("ttfT") == NULL);
}
