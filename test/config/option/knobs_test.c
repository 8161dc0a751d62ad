// SPDX-License-Identifier: Apache-2.0

#include "config/option/knobs.h"

#include "config/config.h"
#include "test.h"

static struct policy_knobs knobs_of(const char *yaml)
{
    struct config *config = NULL;
    struct config_error error;
    ASSERT(config_parse(slice_str(yaml), "f", NULL, &config, &error) == STATUS_OK);
    struct policy_knobs knobs = config_knobs(config);
    config_destroy(&config);
    return knobs;
}

TEST(the_defaults_are_those_of_the_routers_they_come_from)
{
    struct policy_knobs knobs = knobs_of("backends: [http://127.0.0.1:1]\n");
    CHECK_EQ(knobs.load_bound_percent, 125);
    CHECK(knobs.match_threshold == 0.3F);
    CHECK_EQ(knobs.balance_absolute, 64);
    CHECK(knobs.balance_relative == 1.5F);
    CHECK(knobs.prefill_scale == 1);
    CHECK(knobs.temperature == 0);
}

TEST(every_knob_can_be_set)
{
    struct policy_knobs knobs =
        knobs_of("backends: [http://127.0.0.1:1]\nload_bound_percent: 200\ntuning:\n"
                 "  match_percent: 50\n  balance_absolute: 32\n  balance_percent: 110\n"
                 "  prefill_scale: 32\n  temperature_percent: 25\n");
    CHECK_EQ(knobs.load_bound_percent, 200);
    CHECK(knobs.match_threshold == 0.5F);
    CHECK_EQ(knobs.balance_absolute, 32);
    CHECK(knobs.balance_relative == 1.1F);
    CHECK(knobs.prefill_scale == 32);
    CHECK(knobs.temperature == 0.25F);
}
