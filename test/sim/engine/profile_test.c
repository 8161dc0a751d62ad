// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/profile.h"

#include "test.h"

#include <string.h>

TEST(every_shipped_profile_is_found_by_its_name_and_is_complete)
{
    uint32_t count = 0;
    for (const char *name; (name = profile_name(count)) != NULL; count++) {
        struct profile profile;
        CHECK(profile_find(name, &profile));
        CHECK(strcmp(profile.name, name) == 0);
        CHECK(profile.kv_tokens > profile.step_tokens);
        CHECK(profile.step.floor_ms > 0);
        CHECK(profile.step.token_ms > 0);
        CHECK(profile.step.sharpness >= 1);
    }
    CHECK(count >= 3);
}

TEST(an_unknown_name_is_not_found)
{
    struct profile profile;
    CHECK(!profile_find("gpt-0", &profile));
}
