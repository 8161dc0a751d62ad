// SPDX-License-Identifier: Apache-2.0
//
// builtins_internal.h -- shared by filters, tests and methods.
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

// The last statement of a builtin: its result, and whether all went well.
static inline bool call_gives(const struct builtin_call *call, struct value value)
{
    *call->out = value;
    return call->room->status == STATUS_OK;
}

// A string that is marked as safe when the subject is.
static inline bool call_gives_text(const struct builtin_call *call, struct slice text)
{
    struct value value = value_string(text);
    value.markup = call->subject->kind == VALUE_STRING && call->subject->markup;
    return call_gives(call, value);
}

// The subject as str().
static inline struct slice call_text(const struct builtin_call *call)
{
    return value_to_string(call->room, call->subject);
}

// The argument of a parameter, or `otherwise` if it is not given.  Fails when it is of another
// kind.
int64_t call_integer(const struct builtin_call *call, uint32_t parameter, int64_t otherwise);
struct slice call_string(const struct builtin_call *call, uint32_t parameter,
                         const char *otherwise);
bool call_is_true(const struct builtin_call *call, uint32_t parameter);
bool call_has(const struct builtin_call *call, uint32_t parameter); // given, and not none

// The bytes of a string; fails on other kinds.
struct slice argument_string(struct value_room *room, const struct value *argument);

static inline uint32_t positional_count(const struct call_arguments *arguments)
{
    ASSERT(arguments->named_count <= arguments->count);
    return arguments->count - arguments->named_count;
}

// The keyword argument of that name, or NULL.
const struct value *call_named(const struct call_arguments *arguments, struct slice name);

// The byte at which `part` begins in `string`, first or last; PLACE_NONE: it does not occur.
#define PLACE_NONE SIZE_MAX
size_t place_of(struct slice string, struct slice part, bool last);

// The string without its first `size` bytes.
static inline struct slice string_after(struct slice string, size_t size)
{
    ASSERT(size <= string.size);
    return slice_of(size > 0 ? string.bytes + size : string.bytes, string.size - size);
}

// The string with pair[0] replaced by pair[1], at most `count` times; below 0: everywhere.
struct slice string_replace(struct value_room *room, struct slice string,
                            const struct slice pair[2], int64_t count);

// Strips the characters of `chars`, or white space if that is NULL, on these sides.
struct slice string_strip(struct slice string, struct slice chars, unsigned sides);

// In the middle (center), at the left or at the right of `width` characters.
struct slice string_pad(struct value_room *room, struct slice string, int64_t width,
                        enum pad_side side);

void string_add_repeated(struct text *out, struct slice part, uint64_t count);

// The next line of `rest` as splitlines() cuts it, with and without its end; false at the end.
struct string_line {
    struct slice line;
    struct slice whole;
};
bool string_next_line(struct slice *rest, struct string_line *out);

// str.format.
struct value value_format_braces(struct value_room *room, struct slice format,
                                 const struct call_arguments *arguments);

// The value at the end of a path "a.b.0" from an item.  `attribute` may also be a number, or none
// for the item itself; `otherwise` replaces undefined values.
struct value builtin_attribute(struct value_room *room, const struct value *item,
                               const struct value *attribute, const struct value *otherwise);
