// SPDX-License-Identifier: Apache-2.0

#include "policy/policy.h"

#include "test.h"

TEST(finds_a_policy_by_name_or_not_at_all)
{
    CHECK(policy_find("round_robin") == &policy_round_robin);
    CHECK(policy_find("no_such_policy") == NULL);
}
