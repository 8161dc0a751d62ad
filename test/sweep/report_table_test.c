// SPDX-License-Identifier: Apache-2.0

#include "lab/paper.h"
#include "sweep/report.h"

static const struct report_options plain = {.judge = report_no_judge};

TEST(a_point_is_a_heading_and_a_row_for_each_policy)
{
    struct sweep_options options = grid_options();
    options.workload_count = options.profile_count = options.backends_count = 1;
    options.level_count = 1;
    paper_write(&options, &plain, report_table_write);
    CHECK_STR(
        paper,
        "rag, small, 4 backends, load 0.5 (0.5 requests/s); an infinite cache hits 25.0%\n"
        "policy                    TTFT ms       p99   TPOT ms    E2E ms       p99      hits  "
        " balance   goodput     req/s \n"
        "warm                         50.0*      150*     20.0       500*     1500*    25.0%  "
        "    1.05*    95.2%*     0.50 \n"
        "round_robin                   100       300      20.0      1000      3000     25.0%  "
        "    1.10     90.9%      0.50 \n"
        "random                        150       450      20.0      1500      4500     25.0%  "
        "    1.15     87.0%      0.50 \n");
}

TEST(each_change_has_a_table_of_its_own)
{
    struct sweep_options options = grid_options();
    options.workload_count = options.profile_count = options.backends_count = 1;
    options.level_count = options.policy_count = 1;
    options.changes = &grid_change;
    options.change_count = 1;
    paper_write(&options, &plain, report_table_write);
    CHECK(strstr(paper,
                 "\nafter join:2@60s        share 10s       30s       60s  TTFT p50       p99 \n"
                 "warm                            -      0.50      1.00      50.0       150 "
                 "\n") != NULL);
}

TEST(rows_are_sorted_when_asked_for)
{
    struct sweep_options options = grid_options();
    const struct contender turned[] = {{.name = "random", .policy = &policy_random},
                                       {.name = "warm", .policy = &policy_warm}};
    options.policies = turned;
    options.policy_count = 2;
    options.workload_count = 1;
    struct report_options sorted = {.sort = report_column_find("ttft"), .judge = report_no_judge};
    paper_write(&options, &plain, report_table_write);
    CHECK(strstr(paper, "random") < strstr(paper, "warm "));
    paper_write(&options, &sorted, report_table_write);
    CHECK(strstr(paper, "random") > strstr(paper, "warm "));
}

TEST(every_point_has_its_table)
{
    struct sweep_options options = grid_options();
    paper_write(&options, &plain, report_table_write);
    CHECK_EQ(paper_count("policy "), 16);
    CHECK_EQ(paper_count("hot<1>, large, 8 backends, load 0.9"), 1);
}
