// SPDX-License-Identifier: Apache-2.0
//
// builtins_internal.h -- what filters, tests and methods share: their names, and how arguments find their
// parameters.
#pragma once

#include "template/builtin/call.h"
#include "template/value/value_internal.h"

#define FILTER(name, function) call_fn function;
#define IS(name, function) call_fn function;
#define METHOD(kind, name, function) call_fn function;
#define NO_FILTER(name)
#include "template/builtin/builtins.def"
#undef FILTER
#undef IS
#undef METHOD
#undef NO_FILTER

// Whether Jinja has a filter of that name, ours or not.
bool builtin_is_filter_name(struct slice name);

// What a callable takes: names in order, the first `required` of which must be given.  A parameter that has
// no name ("") is given by its place only.
struct signature {
    const char *name;
    uint32_t required;
    uint32_t count;
    const char *parameters[5];
};

// Sets out[i] to the argument of parameter i, or to NULL when it is not given.
bool builtin_bind(struct value_room *room, const struct signature *signature,
                  const struct call_arguments *arguments, const struct value **out);

// For those that take nothing.
bool builtin_bind_none(struct value_room *room, const char *name,
                       const struct call_arguments *arguments);

// What an argument is, with Python's default for one that is not given.  False with the failure noted when
// it is something else.
bool argument_integer(struct value_room *room, const struct value *argument, int64_t otherwise,
                      int64_t *out);
bool argument_string(struct value_room *room, const struct value *argument, struct slice *out);
bool argument_is_true(const struct value *argument);
bool argument_is_given(const struct value *argument); // and is not none

// Strings after |safe are Markup in Jinja, whose operations escape what they are given: refused.
bool builtin_refuse_markup(struct value_room *room, const struct value *value);

// Places in strings; `none` when there is none.
#define PLACE_NONE SIZE_MAX
size_t place_of(struct slice string, struct slice part);
size_t last_place_of(struct slice string, struct slice part);

// The string with `from` replaced by `to`, at most `count` times; below 0: everywhere.
bool string_replace(struct value_room *room, struct slice string, const struct slice pair[2],
                    int64_t count, struct slice *out);

// Without the characters of `chars`, or white space when that has no bytes (NULL), on the sides asked for.
enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };
struct slice string_strip(struct slice string, struct slice chars, unsigned sides);

// In the middle (center), at the left or at the right of `width` characters.
enum pad_side { PAD_BOTH, PAD_AFTER, PAD_BEFORE };
bool string_pad(struct value_room *room, struct slice string, int64_t width, enum pad_side side,
                struct slice *out);

// The next line of `rest` as splitlines() cuts it, with and without what ends it; false when there is none.
struct string_line {
    struct slice line;
    struct slice whole;
};
bool string_next_line(struct slice *rest, struct string_line *out);

// str.format.
bool value_format_braces(struct value_room *room, struct slice format,
                         const struct call_arguments *arguments, struct value *out);

// What is found on the way "a.b.0" from an item; `attribute` may also be a number, or none for the item.
bool builtin_attribute(struct value_room *room, const struct value *item,
                       const struct value *attribute, const struct value *otherwise,
                       struct value *out);
