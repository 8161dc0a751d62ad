// SPDX-License-Identifier: Apache-2.0

#include "sim/lab_change.h"

#include "base/base.h"
#include "test.h"

#include <math.h>

static const struct lab_change join = {.name = "j", .kind = LAB_JOIN, .number = 2, .at_s = 60};
static const struct lab_change leave = {.name = "l", .kind = LAB_LEAVE, .number = 9, .at_s = 90};
static const struct lab_change slow = {
    .name = "s", .kind = LAB_SLOW, .number = 1, .factor = 5, .at_s = 30, .until_s = 36};

static struct lab_changes changes_of(const struct lab_change *items, uint32_t count)
{
    return (struct lab_changes){.items = items, .count = count, .backend_count = 8};
}

TEST(changes_happen_by_their_times_whatever_their_order)
{
    const struct lab_change items[] = {leave, join, slow};
    struct lab_changes changes = changes_of(items, 3);
    char error[lab_change_error_size] = "";
    CHECK(lab_changes_check(&changes, error));
    CHECK_EQ(lab_changes_total(&changes), 10);
    CHECK(lab_changes_next(&changes, 0) == 60);
    CHECK(lab_changes_next(&changes, 60) == 60);
    CHECK(lab_changes_next(&changes, 60.5) == 90);
    CHECK(isinf(lab_changes_next(&changes, 91)));
}

TEST(a_backend_is_slow_within_its_time_only)
{
    const struct lab_change items[] = {slow, slow, join};
    struct lab_changes once = changes_of(items, 1);
    CHECK(lab_changes_slowness(&once, 1, 29.9) == 1);
    CHECK(lab_changes_slowness(&once, 1, 30) == 5);
    CHECK(lab_changes_slowness(&once, 2, 30) == 1);
    CHECK(lab_changes_slowness(&once, 1, 36) == 1);
    struct lab_changes twice = changes_of(items, 3);
    CHECK(lab_changes_slowness(&twice, 1, 33) == 25);
}

TEST(a_change_of_a_backend_that_is_not_there_is_refused)
{
    struct lab_change early = leave;
    early.at_s = 59;
    const struct {
        struct lab_change items[2];
        const char *says;
    } cases[] = {
        {{join, early}, "l: there are backends 1 to 8 then"},
        {{leave, leave}, "l: there are backends 1 to 8 then"},
        {{{.name = "s", .kind = LAB_SLOW, .number = 9, .factor = 2}, join},
         "s: there are backends 1 to 8 then"},
        {{{.name = "a", .kind = LAB_LEAVE, .number = 3, .at_s = 5},
          {.name = "b", .kind = LAB_LEAVE, .number = 3, .at_s = 5}},
         "b: that backend has left before"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct lab_changes changes = changes_of(cases[i].items, 2);
        char error[lab_change_error_size] = "";
        CHECK(!lab_changes_check(&changes, error));
        CHECK_STR(error, cases[i].says);
    }
}

TEST(the_last_backend_cannot_leave)
{
    struct lab_change items[] = {{.name = "a", .kind = LAB_LEAVE, .number = 1, .at_s = 5},
                                 {.name = "b", .kind = LAB_LEAVE, .number = 2, .at_s = 6}};
    struct lab_changes changes = {.items = items, .count = 2, .backend_count = 2};
    char error[lab_change_error_size] = "";
    CHECK(!lab_changes_check(&changes, error));
    CHECK_STR(error, "b: no backend is left then");
}

TEST(shares_are_relative_to_an_equal_one)
{
    const struct lab_change items[] = {join};
    struct lab_changes changes = {.items = items, .count = 1, .backend_count = 2};
    struct figure_sample samples[200];
    // Ten seconds before the join and a hundred after it; then half goes to backends 3 and 4 of 4.
    for (uint32_t i = 0; i < 200; i++) {
        double due_s = 50 + i * 0.55;
        samples[i] = (struct figure_sample){
            .due_ms = due_s * 1000, .first_ms = i, .backend = due_s < 60 ? i % 2 : i % 4};
    }
    struct lab_change_figures figures;
    lab_changes_sum(&changes, 0, samples, 200, &figures);
    for (int w = 0; w < lab_change_windows; w++) {
        CHECK(fabs(figures.share[w] - 1) < 0.15);
    }
    CHECK(figures.ttft_p50 > 60 && figures.ttft_p50 < 90);
    CHECK(figures.ttft_p99 > figures.ttft_p50);
}

TEST(a_window_without_requests_and_a_join_of_none_have_no_share)
{
    struct lab_change items[] = {join, join};
    items[1].number = 0;
    struct lab_changes changes = changes_of(items, 2);
    struct figure_sample sample = {.due_ms = 60000, .first_ms = 7};
    struct lab_change_figures figures;
    lab_changes_sum(&changes, 0, &sample, 0, &figures);
    CHECK(figures.share[0] < 0 && figures.ttft_p50 < 0);
    lab_changes_sum(&changes, 1, &sample, 1, &figures);
    CHECK(figures.share[0] < 0 && figures.ttft_p50 == 7);
}

TEST(the_time_after_a_slow_one_begins_when_it_is_well)
{
    const struct lab_change items[] = {slow};
    struct lab_changes changes = changes_of(items, 1);
    struct figure_sample samples[] = {{.due_ms = 33000, .first_ms = 900, .backend = 0},
                                      {.due_ms = 37000, .first_ms = 100, .backend = 0}};
    struct lab_change_figures figures;
    lab_changes_sum(&changes, 0, samples, 2, &figures);
    CHECK(figures.ttft_p99 == 100);
    CHECK(figures.share[0] == 8);
}
