// SPDX-License-Identifier: Apache-2.0

#include "sim/contender.h"

#include "base/base.h"

#include <string.h>

static const struct variant {
    const char *name;
    const char *policy;
    float prefill_scale;
} variants[] = {
    // In studies of others Dynamo's rule does best with much more weight on prefill than it ships
    // with.
    {"dynamo32", "dynamo", 32},
};

bool contender_at(uint32_t index, struct contender *out)
{
    uint32_t policy_count = 0;
    while (policy_at(policy_count) != NULL) {
        policy_count++;
    }
    if (index < policy_count) {
        const struct policy *policy = policy_at(index);
        *out = (struct contender){
            .name = policy->name, .policy = policy, .knobs = policy_knobs_default};
        return true;
    }
    if (index - policy_count >= ARRAY_COUNT(variants)) {
        return false;
    }
    const struct variant *variant = &variants[index - policy_count];
    *out = (struct contender){.name = variant->name,
                              .policy = policy_find(variant->policy),
                              .knobs = policy_knobs_default};
    out->knobs.prefill_scale = variant->prefill_scale;
    return true;
}

bool contender_find(const char *name, struct contender *out)
{
    for (uint32_t i = 0; contender_at(i, out); i++) {
        if (strcmp(out->name, name) == 0) {
            return true;
        }
    }
    return false;
}
