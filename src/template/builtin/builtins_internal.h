// SPDX-License-Identifier: Apache-2.0
//
// builtins_internal.h -- what filters, tests and methods share.
#pragma once

#include "base/base.h"
#include "template/builtin/call.h"
#include "template/value/value_internal.h"

#define FILTER(name, function, ...) builtin_fn function;
#define IS(name, function, ...) builtin_fn function;
#define METHOD(kind, name, function, ...) builtin_fn function;
#include "template/builtin/builtins.def"

// Variants of builtins that share a function.
enum { FROM_START, FROM_END };
enum { STRIP_LEFT = 1, STRIP_RIGHT = 2, STRIP_BOTH = STRIP_LEFT | STRIP_RIGHT };
enum { FIND_FIRST = 0, FIND_LAST = 1, FIND_OR_FAIL = 2 };
enum { SELECT_KEEPS = 1, SELECT_BY_ATTRIBUTE = 2 };
enum { IS_EVEN, IS_ODD, IS_MULTIPLE };
enum { TEXT_ALPHANUMERIC, TEXT_ALPHABETIC, TEXT_DIGITS, TEXT_SPACES };
enum pad_side { PAD_BOTH, PAD_AFTER, PAD_BEFORE };

// Whether Jinja has a filter of that name, ours or not.
bool builtin_is_filter_name(struct slice name);

static inline bool call_gives(const struct builtin_call *call, struct value value)
{
    *call->out = value;
    return true;
}

// A string that is marked as safe when the subject is.
static inline bool call_gives_text(const struct builtin_call *call, struct slice text)
{
    *call->out = value_string(text);
    call->out->markup = call->subject->kind == VALUE_STRING && call->subject->markup;
    return true;
}

static inline bool call_takes_steps(const struct builtin_call *call, uint64_t cost)
{
    return value_step(call->room, cost);
}

// The subject as what it prints.
static inline bool call_text(const struct builtin_call *call, struct slice *out)
{
    return value_to_string(call->room, call->subject, out);
}

// What the argument of a parameter is.  Integers have a default for when it is not given; strings are left
// as they are then.  False with the failure noted when it is something else.
bool call_integer(const struct builtin_call *call, uint32_t parameter, int64_t otherwise,
                  int64_t *out);
bool call_string(const struct builtin_call *call, uint32_t parameter, struct slice *out);
bool call_is_true(const struct builtin_call *call, uint32_t parameter);
bool call_has(const struct builtin_call *call, uint32_t parameter); // given, and not none

bool argument_string(struct value_room *room, const struct value *argument, struct slice *out);

static inline uint32_t positional_count(const struct call_arguments *arguments)
{
    ASSERT(arguments->named_count <= arguments->count);
    return arguments->count - arguments->named_count;
}

// The byte at which `part` begins in `string`, first or last; PLACE_NONE: it does not occur.
#define PLACE_NONE SIZE_MAX
size_t place_of(struct slice string, struct slice part);
size_t last_place_of(struct slice string, struct slice part);

// The string without its first `size` bytes.
static inline struct slice string_after(struct slice string, size_t size)
{
    ASSERT(size <= string.size);
    return slice_of(size > 0 ? string.bytes + size : string.bytes, string.size - size);
}

// The string with pair[0] replaced by pair[1], at most `count` times; below 0: everywhere.
bool string_replace(struct value_room *room, struct slice string, const struct slice pair[2],
                    int64_t count, struct slice *out);

// Without the characters of `chars`, or white space when that has no bytes (NULL), on the sides asked for.
struct slice string_strip(struct slice string, struct slice chars, unsigned sides);

// In the middle (center), at the left or at the right of `width` characters.
bool string_pad(struct value_room *room, struct slice string, int64_t width, enum pad_side side,
                struct slice *out);

void string_add_repeated(struct text *out, const char *part, uint64_t count);

// The next line of `rest` as splitlines() cuts it, with and without what ends it; false at the end.
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
