// SPDX-License-Identifier: Apache-2.0

#include "lab/paper.h"
#include "sweep/report.h"

static const struct report_options judged = {.judge = 0};

TEST(the_score_is_written_over_all_points_and_by_each_list)
{
    struct sweep_options options = grid_options();
    paper_write(&options, &judged, report_markdown_write);
    CHECK_EQ(paper_count("| all                          |     16 | 2.000 (2.000) |"), 1);
    CHECK_EQ(paper_count("| hot<1>                       |      8 |"), 1);
    CHECK_EQ(paper_count("| large                        |      8 |"), 1);
    CHECK_EQ(paper_count("| load 0.9                     |      8 |"), 1);
    CHECK_EQ(paper_count("| 4 backends                   |      8 |"), 1);
    CHECK_EQ(paper_count("| random                       |     16 | 3.000 (3.000) |"), 1);
    // Nobody is ahead of it anywhere.
    CHECK_EQ(paper_count("furthest ahead"), 0);
}

TEST(points_where_others_are_ahead_are_listed_worst_first)
{
    struct sweep_options options = grid_options();
    paper_write(&options, &(struct report_options){.judge = 2}, report_markdown_write);
    CHECK_EQ(paper_count("Score of `random`"), 1);
    CHECK_EQ(paper_count("\n| 0.333 | "), 12);
    CHECK_EQ(paper_count("| 0.333 | TTFT | warm | rag, small, 4 backends, load 0.5 (0.5"), 1);
}

TEST(every_point_has_a_table_with_the_best_in_bold)
{
    struct sweep_options options = grid_options();
    paper_write(&options, &judged, report_markdown_write);
    CHECK_EQ(paper_count("\n## rag\n"), 1);
    CHECK_EQ(paper_count("\n### "), 16);
    CHECK_EQ(paper_count("| policy | TTFT ms | p99 |"), 16);
    CHECK_EQ(paper_count("| warm | **50.0** | **150** | 20.0 | **500** |"), 2);
}

TEST(each_change_has_a_table_behind_that_of_its_point)
{
    struct sweep_options options = grid_options();
    options.changes = &grid_change;
    options.change_count = 1;
    paper_write(&options, &judged, report_markdown_write);
    CHECK_EQ(paper_count("\n| after join:2@60s | share 10s | 30s | 60s | TTFT p50 | p99 |"), 16);
    CHECK_EQ(paper_count("\n| warm | - | 0.50 | 1.00 | 50.0 | 150 |"), 2);
}

TEST(a_policy_alone_has_no_score)
{
    struct sweep_options options = grid_options();
    options.policy_count = 1;
    paper_write(&options, &judged, report_markdown_write);
    CHECK_EQ(paper_count("Score"), 0);
}
