// SPDX-License-Identifier: Apache-2.0

#include "sim/contender.h"

#include "test.h"

TEST(every_policy_takes_part_with_the_knobs_it_ships_with)
{
    struct contender contender;
    for (uint32_t i = 0; policy_at(i) != NULL; i++) {
        CHECK(contender_find(policy_at(i)->name, &contender));
        CHECK(contender.policy == policy_at(i));
        CHECK(contender.knobs.prefill_scale == policy_knobs_default.prefill_scale);
    }
}

TEST(a_variant_differs_from_its_policy_by_its_knob)
{
    struct contender contender;
    CHECK(contender_find("dynamo32", &contender));
    CHECK(contender.policy == policy_find("dynamo"));
    CHECK(contender.knobs.prefill_scale == 32);
    CHECK(contender.knobs.temperature == policy_knobs_default.temperature);
}

TEST(an_unknown_name_is_not_found)
{
    struct contender contender;
    CHECK(!contender_find("coin", &contender));
    CHECK(!contender_at(1000, &contender));
}
