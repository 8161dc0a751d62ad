// SPDX-License-Identifier: Apache-2.0

#include "policy/policy.h"

#include "base/base.h"

#include <string.h>

static const struct policy *const policies[] = {
#define POLICY(name) &policy_##name,
#include "policy/policies.def"
#undef POLICY
};

const struct policy_knobs policy_knobs_default = {
    .load_bound_percent = 125,
    .match_threshold = 0.3F,
    .balance_absolute = 64,
    .balance_relative = 1.5F,
    .prefill_scale = 1,
    .temperature = 0,
};

const struct policy *policy_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(policies); i++) {
        if (strcmp(policies[i]->name, name) == 0) {
            return policies[i];
        }
    }
    return NULL;
}

const struct policy *policy_at(uint32_t index)
{
    return index < ARRAY_COUNT(policies) ? policies[index] : NULL;
}

uint32_t policy_pick(const struct policy *policy, void *state, const struct policy_input *in,
                     struct rng *rng)
{
    ASSERT(in->target_count > 0);

    uint32_t choice = policy->pick(state, in, rng);

    ASSERT(choice < in->target_count);
    return choice;
}
