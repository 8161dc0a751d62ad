// SPDX-License-Identifier: Apache-2.0
//
// contender.h -- who takes part in a comparison: every policy as it ships, and variants of some that differ
// by a knob which its makers let their users turn.
#pragma once

#include "policy/policy.h"

struct contender {
    const char *name;
    const struct policy *policy;
    struct policy_knobs knobs;
};

// False: nobody has that name.
bool contender_find(const char *name, struct contender *out);

// In the order of policies.def, variants last; false past the last.
bool contender_at(uint32_t index, struct contender *out);
