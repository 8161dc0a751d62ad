// SPDX-License-Identifier: Apache-2.0
//
// member.h -- what a name after a dot is to a value of each kind: a method, something that Python has and we
// do not, or nothing but a key.
#pragma once

#include "template/builtin/call.h"

enum { value_kind_count = VALUE_GENERATOR + 1 };

// Made once for each place of a template, so that nothing is compared when it runs.
struct member {
    struct slice name;
    const struct builtin *methods[value_kind_count];
    uint16_t refused; // by kind, a bit each: Python has such an attribute and we do not
    uint16_t hidden;  // the same: calling it would change its value, and the sandbox hides it
};

// Keeps `name`.
void member_init(struct member *member, struct slice name);
