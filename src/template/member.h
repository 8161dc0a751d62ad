// SPDX-License-Identifier: Apache-2.0
//
// member.h -- x.name and x[key]: a method, a key, something that Python has and we do not, or undefined.
#pragma once

#include "template/builtin/call.h"

enum { value_kind_count = VALUE_GENERATOR + 1 };

// What a name after a dot is to a value of each kind.  Made once for each place of a template, so that no
// names are compared while rendering.
struct member {
    struct slice name;
    const struct builtin *methods[value_kind_count];
    uint16_t refused; // by kind, a bit each: Python has such an attribute and we do not
    uint16_t hidden;  // the same: calling it would change its value, and the sandbox hides it
};

// Keeps `name`.
void member_init(struct member *member, struct slice name);

// Where the value already lies, or in `scratch`.  NULL: it failed, and the failure is noted.
// x.name: the method, then the key.
const struct value *member_attribute(struct value_room *room, const struct value *subject,
                                     const struct member *member, struct value *scratch);
// x[key]: the key, then the method.
const struct value *member_item(struct value_room *room, const struct value *subject,
                                const struct value *key, struct value *scratch);
