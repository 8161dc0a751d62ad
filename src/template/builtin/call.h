// SPDX-License-Identifier: Apache-2.0
//
// call.h -- what templates can call by name: filters, tests and methods.
//
// Each is a row of a table (builtins.def).  Names are looked up while a template is compiled, so a template
// that uses an unknown filter or test is refused before it ever runs, as Jinja does; methods are looked up by
// name at compile time too and by the kind of their value when they run.
#pragma once

#include "template/value/value.h"

enum { call_argument_max = 8 };

struct call_arguments {
    const struct value
        *values; // the positional ones; of a filter or test without what it is applied to
    uint32_t count;
    const struct slice *names; // of the last `named_count` of them: keyword arguments
    uint32_t named_count;
};

typedef bool call_fn(struct value_room *room, const struct value *subject,
                     const struct call_arguments *arguments, struct value *out);

struct builtin {
    struct slice name;
    call_fn *call;
};

// NULL when there is none of that name.  A test gives a VALUE_BOOL.
const struct builtin *builtin_filter(struct slice name);
const struct builtin *builtin_test(struct slice name);

// The method of that name that values of this kind have, or NULL.
const struct builtin *builtin_method(enum value_kind kind, struct slice name);

// "format" % operand, as Python has it: a tuple holds the arguments, a dict those of %(name)s, anything else
// is the one argument.  The other operators live with the interpreter, and so does the refusal of a format
// that is marked as safe.
bool value_format_percent(struct value_room *room, struct slice format, const struct value *operand,
                          struct value *out);
