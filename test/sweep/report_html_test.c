// SPDX-License-Identifier: Apache-2.0

#include "lab/paper.h"
#include "sweep/report.h"

static const struct report_options judged = {.judge = 0};

TEST(the_page_stands_alone)
{
    struct sweep_options options = grid_options();
    paper_write(&options, &judged, report_html_write);
    CHECK_EQ(paper_count("<!doctype html>"), 1);
    CHECK_EQ(paper_count("</html>"), 1);
    static const char *const foreign[] = {"http", "<script", "<link", "<img", "@import", "url("};
    for (size_t i = 0; i < ARRAY_COUNT(foreign); i++) {
        CHECK_EQ(paper_count(foreign[i]), 0);
    }
}

TEST(names_are_text)
{
    struct sweep_options options = grid_options();
    paper_write(&options, &judged, report_html_write);
    CHECK_EQ(paper_count("hot<1>"), 0);
    CHECK(paper_count("hot&lt;1&gt;") > 0);
}

TEST(each_point_has_its_charts_and_each_fleet_its_curves)
{
    struct sweep_options options = grid_options();
    paper_write(&options, &judged, report_html_write);
    CHECK_EQ(paper_count("<svg"), 16 * 3 + 8 * 3);
    CHECK_EQ(paper_count("</svg>"), 16 * 3 + 8 * 3);
    CHECK_EQ(paper_count("<table>"), 16 + 1);
    CHECK_EQ(paper_count("Goodput against the load</text>"), 8);
    CHECK_EQ(paper_count("an infinite cache: 25.0%"), 8);
    CHECK_EQ(paper_count("an infinite cache: 50.0%"), 8);
}

TEST(one_load_makes_no_curve)
{
    struct sweep_options options = grid_options();
    options.level_count = 1;
    paper_write(&options, &judged, report_html_write);
    CHECK_EQ(paper_count("<svg"), 8 * 3);
}
