// SPDX-License-Identifier: Apache-2.0

#include "sim/workload/work_kind.h"

#include "test.h"

TEST(every_session_has_a_kind_of_prompt)
{
    const struct work_kind *kind = work_kind_at(0);
    CHECK(kind != NULL);
    for (uint32_t i = 0; (kind = work_kind_at(i)) != NULL; i++) {
        uint32_t percent = 0;
        for (int k = 0; k < work_prompt_max; k++) {
            percent += kind->prompts[k].percent;
        }
        CHECK_EQ(percent, 100);
        CHECK(kind->turns_min >= 1 && kind->turns_min <= kind->turns_max);
    }
}

TEST(kinds_are_found_by_name)
{
    const struct work_kind *kind = NULL;
    for (uint32_t i = 0; (kind = work_kind_at(i)) != NULL; i++) {
        CHECK(work_kind_find(kind->name) == kind);
        CHECK(kind->summary[0] != '\0');
    }
    CHECK(work_kind_find("b2") == NULL);
    CHECK(work_kind_find("") == NULL);
}

TEST(turns_are_as_many_as_their_bounds_in_the_mean)
{
    CHECK(work_kind_mean_turns(work_kind_find("b2b")) == 1);
    CHECK(work_kind_mean_turns(work_kind_find("agent")) == 25);
}
