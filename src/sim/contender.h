// SPDX-License-Identifier: Apache-2.0
//
// contender.h -- the policies of a comparison: each as it ships, and variants of some by a knob
// that their makers offer.
#pragma once

#include "policy/policy.h"

struct contender {
    const char *name;
    const struct policy *policy;
    struct policy_knobs knobs;
};

// False: unknown name.
bool contender_find(const char *name, struct contender *out);

// In the order of policies.def, variants last; false past the last.
bool contender_at(uint32_t index, struct contender *out);
