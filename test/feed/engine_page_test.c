// SPDX-License-Identifier: Apache-2.0
//
// Pages of real engines are read in engine_metrics_test.c and engine_counters_test.c.

#include "feed/engine_page.h"

#include "base/base.h"
#include "test.h"

static const struct engine_row rows[] = {
    {.name = "running"},
    {.name = "kinds", .label = "kind", .word = "one"},
    {.name = "kinds", .label = "kind", .word = "two"},
    {.name = "special", .is_special = true},
};

struct seen {
    uint32_t row;
    uint32_t count;
    double value;
};

static void see_special(void *owner, uint32_t row, const struct exposition_sample *sample)
{
    struct seen *seen = owner;
    seen->row = row;
    seen->count++;
    seen->value = sample->value;
}

static struct seen read_page(const char *page, uint32_t rank, bool skips_priorities,
                             struct engine_tally *tallies)
{
    struct seen seen = {0};
    memset(tallies, 0, ARRAY_COUNT(rows) * sizeof(*tallies));
    engine_page_read(slice_str(page),
                     &(struct engine_page_options){.rows = rows,
                                                   .row_count = ARRAY_COUNT(rows),
                                                   .rank = rank,
                                                   .skips_priorities = skips_priorities,
                                                   .special = see_special,
                                                   .owner = &seen},
                     tallies);
    return seen;
}

TEST(series_of_a_name_are_added_up_and_other_names_are_skipped)
{
    struct engine_tally tallies[ARRAY_COUNT(rows)];
    read_page("running 0\nrunning{a=\"b\"} 3\nrunning 4\nother 9\n", exposition_all_ranks, false,
              tallies);
    CHECK(tallies[0].sum == 7 && tallies[0].first == 3 && tallies[0].count == 3);
    CHECK_EQ(tallies[1].count, 0);
}

TEST(rows_of_one_name_are_told_apart_by_a_label)
{
    struct engine_tally tallies[ARRAY_COUNT(rows)];
    read_page("kinds{kind=\"one\"} 1\nkinds{kind=\"two\"} 2\nkinds 4\n", exposition_all_ranks,
              false, tallies);
    CHECK(tallies[1].sum == 1 && tallies[2].sum == 2);
}

TEST(special_rows_go_to_the_callback)
{
    struct engine_tally tallies[ARRAY_COUNT(rows)];
    struct seen seen = read_page("special 5\n", exposition_all_ranks, false, tallies);
    CHECK(seen.row == 3 && seen.count == 1 && seen.value == 5);
    CHECK_EQ(tallies[3].count, 0);
}

TEST(series_of_other_ranks_and_of_single_priorities_are_skipped)
{
    static const char page[] = "running{engine=\"0\"} 1\nrunning{dp_rank=\"1\"} 2\nrunning 4\n"
                               "running{priority=\"7\"} 8\n";
    struct engine_tally tallies[ARRAY_COUNT(rows)];
    read_page(page, 1, true, tallies);
    CHECK(tallies[0].sum == 6);
    read_page(page, exposition_all_ranks, false, tallies);
    CHECK(tallies[0].sum == 15);
}

TEST(members_of_json_are_read_by_the_same_names)
{
    struct engine_tally tallies[ARRAY_COUNT(rows)];
    struct seen seen = read_page("{\"running\":3,\"special\":1,\"kinds\":2}", exposition_all_ranks,
                                 false, tallies);
    CHECK(tallies[0].sum == 3);
    CHECK_EQ(seen.count + tallies[1].count + tallies[2].count, 0);
}
