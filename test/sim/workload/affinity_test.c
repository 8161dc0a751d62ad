// SPDX-License-Identifier: Apache-2.0

#include "sim/workload/affinity.h"

#include "test.h"

enum { one_prompt = 7, other_prompt = 9 };

TEST(without_visits_the_rate_is_zero)
{
    struct affinity affinity = {0};
    CHECK(affinity_rate(&affinity, 0) == 0);
    affinity_fini(&affinity);
}

TEST(only_the_last_visit_with_the_same_prefix_counts)
{
    struct affinity affinity = {0};
    affinity_note(&affinity, one_prompt, 0, 1);
    affinity_note(&affinity, other_prompt, 1, 2);
    affinity_note(&affinity, one_prompt, 2, 1);   // as before
    affinity_note(&affinity, other_prompt, 3, 1); // moves
    affinity_note(&affinity, other_prompt, 4, 2); // moves back
    CHECK(affinity_rate(&affinity, 0) == 1.0 / 5);
    affinity_fini(&affinity);
}

TEST(visits_of_the_warm_up_are_those_before_and_do_not_count_themselves)
{
    struct affinity affinity = {0};
    affinity_note(&affinity, one_prompt, 0, 1);
    affinity_note(&affinity, one_prompt, 5, 1);
    affinity_note(&affinity, one_prompt, 10, 1);
    affinity_note(&affinity, other_prompt, 11, 1);
    CHECK(affinity_rate(&affinity, 10) == 1.0 / 2);
    affinity_fini(&affinity);
}

TEST(order_is_that_of_noting_even_where_requests_were_due_earlier)
{
    struct affinity affinity = {0};
    affinity_note(&affinity, one_prompt, 10, 1);
    affinity_note(&affinity, one_prompt, 5, 2);
    affinity_note(&affinity, one_prompt, 7, 2);
    CHECK(affinity_rate(&affinity, 0) == 1.0 / 3);
    affinity_fini(&affinity);
}

TEST(thousands_of_visits_are_kept)
{
    struct affinity affinity = {0};
    for (uint32_t i = 0; i < 8000; i++) {
        affinity_note(&affinity, i % 10, i, i / 10 % 2);
    }
    CHECK(affinity_rate(&affinity, 0) == 0);
    affinity_fini(&affinity);
}
