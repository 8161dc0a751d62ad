// SPDX-License-Identifier: Apache-2.0
//
// call.h -- filters, tests and methods, which templates call by name.
//
// Each is a row of a table (builtins.def).  The parser looks filters and tests up, so a template
// with an unknown one is refused before it runs, as in Jinja.  Methods are looked up by name while
// parsing, and chosen by the kind of their value while rendering.
#pragma once

#include "template/value/value.h"

enum {
    call_argument_max = 8,  // arguments that need no memory of the arena
    call_parameter_max = 4, // of any builtin
};

// Arguments as the template gives them, without the subject of a filter or test.
struct call_arguments {
    const struct value *values;
    uint32_t count;
    const struct slice *names; // of the last `named_count` of them: keyword arguments
    uint32_t named_count;
};

// One call of a builtin, its arguments bound to the parameters.
struct builtin_call {
    struct value_room *room;
    const struct builtin *builtin;
    const struct value *subject;
    const struct value *given[call_parameter_max]; // by parameter; NULL: not given
    const struct call_arguments *arguments;        // for builtins that TAKE_ANY arguments
    struct value *out;
};

// False: it failed, and the room says why.
typedef bool builtin_fn(const struct builtin_call *call);

enum builtin_trait {
    // Jinja's Markup, made by |safe, would escape the arguments: not implemented.
    REFUSES_MARKUP = 1,
    TAKES_RANGE = 2, // treats a range() like the list of its numbers
    TAKES_ANY = 4,   // arguments are not bound
};

struct builtin {
    struct slice name;
    builtin_fn *run;
    uint32_t variant;                           // tells builtins that share `run` apart
    uint8_t traits;                             // enum builtin_trait, added up
    uint8_t required;                           // the number of parameters that must be given
    const char *parameters[call_parameter_max]; // up to NULL; "" can be given by its place only
};

// NULL: the name is unknown.  A test returns a VALUE_BOOL.
const struct builtin *builtin_filter(struct slice name);
const struct builtin *builtin_test(struct slice name);

// The method of that name that values of this kind have, or NULL.
const struct builtin *builtin_method(enum value_kind kind, struct slice name);

// Binds the arguments and runs the builtin.  `out` is neither the subject nor an argument.
bool builtin_run(const struct builtin *builtin, struct value_room *room,
                 const struct value *subject, const struct call_arguments *arguments,
                 struct value *out);

// "format" % operand: a tuple holds the arguments, a dict those of %(name)s, anything else is the
// one argument.  The caller refuses a format that is marked as safe.
struct value value_format_percent(struct value_room *room, struct slice format,
                                  const struct value *operand);
