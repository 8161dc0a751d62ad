// SPDX-License-Identifier: Apache-2.0
//
// member.h -- x.name and x[key]: a method, a key, an attribute that only Python has, or undefined.
#pragma once

#include "template/builtin/call.h"

enum { value_kind_count = VALUE_GENERATOR + 1 };

// The meaning of a name after a dot for values of each kind.  Made once for each place of a
// template, so that rendering compares no names.
struct member_name {
    struct slice name;
    const struct builtin *methods[value_kind_count];
    uint16_t refused; // a bit for each kind: Python has this attribute and we do not
    uint16_t hidden;  // the same: it changes its value, so the sandbox hides it
};

// Keeps `name`.
void member_init(struct member_name *member, struct slice name);

// The value where it already lies, or in `scratch`; undefined if it failed.
// x.name: the method, then the key.
const struct value *member_attribute(struct value_room *room, const struct value *subject,
                                     const struct member_name *member, struct value *scratch);
// x[key]: the key, then the method.
const struct value *member_item(struct value_room *room, const struct value *subject,
                                const struct value *key, struct value *scratch);
