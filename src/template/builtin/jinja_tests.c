// SPDX-License-Identifier: Apache-2.0
//
// What stands after `is` in templates.

#include "base/base.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

#include <math.h>

// Tests that look at the kind of their value only.
#define IS_KIND(function, condition)                                                               \
    bool function(struct value_room *room, const struct value *subject,                            \
                  const struct call_arguments *arguments, struct value *out)                       \
    {                                                                                              \
        enum value_kind kind = subject->kind;                                                      \
        *out = value_bool(condition);                                                              \
        return builtin_bind_none(room, #function, arguments);                                      \
    }

IS_KIND(is_boolean, kind == VALUE_BOOL)
IS_KIND(is_defined, kind != VALUE_UNDEFINED)
IS_KIND(is_undefined, kind == VALUE_UNDEFINED)
IS_KIND(is_none, kind == VALUE_NONE)
IS_KIND(is_float, kind == VALUE_FLOAT)
IS_KIND(is_integer, kind == VALUE_INT || kind == VALUE_BIG_INT)
IS_KIND(is_number, kind >= VALUE_BOOL && kind <= VALUE_FLOAT)
IS_KIND(is_string, kind == VALUE_STRING)
IS_KIND(is_mapping, kind == VALUE_DICT)
IS_KIND(is_false, kind == VALUE_BOOL && !subject->boolean)
IS_KIND(is_true, kind == VALUE_BOOL && subject->boolean)
IS_KIND(is_escaped, kind == VALUE_STRING && subject->markup)
// What is undefined has a length, can be indexed as far as Python looks, and can be called.
IS_KIND(is_sequence, kind == VALUE_UNDEFINED || (kind >= VALUE_STRING && kind <= VALUE_DICT))
IS_KIND(is_iterable, kind == VALUE_UNDEFINED || (kind >= VALUE_STRING && kind <= VALUE_DICT) ||
                         kind == VALUE_VIEW || kind == VALUE_GENERATOR)
IS_KIND(is_callable, kind == VALUE_UNDEFINED || kind == VALUE_CALLABLE)

_Static_assert(VALUE_STRING + 3 == VALUE_DICT && VALUE_BOOL + 3 == VALUE_FLOAT,
               "kinds that belong together are neighbours");

static bool bind_one(struct value_room *room, const struct call_arguments *arguments,
                     const struct value **out)
{
    static const struct signature signature = {"the test", 1, 1, {""}};
    return builtin_bind(room, &signature, arguments, out);
}

bool is_equal(struct value_room *room, const struct value *subject,
              const struct call_arguments *arguments, struct value *out)
{
    const struct value *other = NULL;
    bool equal = false;
    if (!bind_one(room, arguments, &other) || !value_equals(room, subject, other, &equal)) {
        return false;
    }
    *out = value_bool(equal);
    return true;
}

bool is_not_equal(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    if (!is_equal(room, subject, arguments, out)) {
        return false;
    }
    out->boolean = !out->boolean;
    return true;
}

static bool order(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, int *out)
{
    const struct value *other = NULL;
    return bind_one(room, arguments, &other) && value_compare(room, subject, other, out);
}

#define IS_ORDERED(function, condition)                                                            \
    bool function(struct value_room *room, const struct value *subject,                            \
                  const struct call_arguments *arguments, struct value *out)                       \
    {                                                                                              \
        int ordered = 0;                                                                           \
        if (!order(room, subject, arguments, &ordered)) {                                          \
            return false;                                                                          \
        }                                                                                          \
        *out = value_bool(ordered condition 0);                                                    \
        return true;                                                                               \
    }

IS_ORDERED(is_less, <)
IS_ORDERED(is_less_or_equal, <=)
IS_ORDERED(is_greater, >)
IS_ORDERED(is_greater_or_equal, >=)

bool is_in(struct value_room *room, const struct value *subject,
           const struct call_arguments *arguments, struct value *out)
{
    const struct value *haystack = NULL;
    bool found = false;
    if (!bind_one(room, arguments, &haystack) || !value_contains(room, haystack, subject, &found)) {
        return false;
    }
    *out = value_bool(found);
    return true;
}

// The same object: true of what there is one of only; whether two equal numbers or strings are one object
// is up to Python's mood.
bool is_same_as(struct value_room *room, const struct value *subject,
                const struct call_arguments *arguments, struct value *out)
{
    const struct value *other = NULL;
    if (!bind_one(room, arguments, &other)) {
        return false;
    }
    bool same = subject->kind == other->kind;
    switch (subject->kind) {
    case VALUE_NONE:
        break;
    case VALUE_BOOL:
        same = same && subject->boolean == other->boolean;
        break;
    case VALUE_LIST:
    case VALUE_DICT:
    case VALUE_NAMESPACE:
    case VALUE_GENERATOR:
        // They are compared as what they point to, whichever that is.
        same = same && subject->list == other->list;
        break;
    default:
        if (same) {
            return value_fail(room, STATUS_MALFORMED, "sameas of two %s is not implemented",
                              value_type_name(subject));
        }
        break;
    }
    *out = value_bool(same);
    return true;
}

// value % divisor, as a float where one of them is.
static bool is_multiple(struct value_room *room, const struct value *value,
                        const struct value *divisor, int64_t rest, struct value *out)
{
    if (value->kind == VALUE_BIG_INT && divisor->kind == VALUE_INT && divisor->integer == 2) {
        uint8_t last = value->string.bytes[value->string.size - 1];
        *out = value_bool((last & 1) == rest);
        return true;
    }
    bool whole = (value->kind == VALUE_INT || value->kind == VALUE_BOOL) &&
                 (divisor->kind == VALUE_INT || divisor->kind == VALUE_BOOL);
    if (whole) {
        int64_t number = value->kind == VALUE_BOOL ? value->boolean : value->integer;
        int64_t by = divisor->kind == VALUE_BOOL ? divisor->boolean : divisor->integer;
        if (by == 0) {
            return value_fail(room, STATUS_MALFORMED, "integer modulo by zero");
        }
        // By -1 everything divides, and the one quotient that overflows is not computed.
        int64_t left = by == -1 ? 0 : number % by;
        left += left != 0 && (left < 0) != (by < 0) ? by : 0;
        *out = value_bool(left == rest);
        return true;
    }
    if (value->kind == VALUE_FLOAT && divisor->kind == VALUE_INT && divisor->integer != 0) {
        double by = (double)divisor->integer;
        double left = fmod(value->number, by);
        left += left != 0 && (left < 0) != (by < 0) ? by : 0;
        *out = value_bool(left == (double)rest);
        return true;
    }
    bool large = value->kind == VALUE_BIG_INT || divisor->kind == VALUE_BIG_INT;
    return value_fail(room, STATUS_MALFORMED,
                      large ? "%%: of an integer so large is not implemented: '%s' and '%s'"
                            : "unsupported operand type(s) for %%: '%s' and '%s'",
                      value_type_name(value), value_type_name(divisor));
}

bool is_odd(struct value_room *room, const struct value *subject,
            const struct call_arguments *arguments, struct value *out)
{
    struct value two = value_int(2);
    return builtin_bind_none(room, "odd", arguments) && is_multiple(room, subject, &two, 1, out);
}

bool is_even(struct value_room *room, const struct value *subject,
             const struct call_arguments *arguments, struct value *out)
{
    struct value two = value_int(2);
    return builtin_bind_none(room, "even", arguments) && is_multiple(room, subject, &two, 0, out);
}

bool is_divisible_by(struct value_room *room, const struct value *subject,
                     const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"divisibleby", 1, 1, {"num"}};
    const struct value *divisor = NULL;
    return builtin_bind(room, &signature, arguments, &divisor) &&
           is_multiple(room, subject, divisor, 0, out);
}

bool is_lower(struct value_room *room, const struct value *subject,
              const struct call_arguments *arguments, struct value *out)
{
    struct slice text;
    if (!builtin_bind_none(room, "lower", arguments) || !value_to_string(room, subject, &text)) {
        return false;
    }
    *out = value_bool(value_text_is_lower(text));
    return value_step(room, 1 + text.size / 16);
}

bool is_upper(struct value_room *room, const struct value *subject,
              const struct call_arguments *arguments, struct value *out)
{
    struct slice text;
    if (!builtin_bind_none(room, "upper", arguments) || !value_to_string(room, subject, &text)) {
        return false;
    }
    *out = value_bool(value_text_is_upper(text));
    return value_step(room, 1 + text.size / 16);
}

// Names are looked up in a dict, so what cannot be a key fails.
static bool check_name(struct value_room *room, const struct value *name)
{
    static const struct value_dict nothing;
    const struct value *found = NULL;
    return value_dict_find(room, &nothing, name, &found);
}

bool is_filter(struct value_room *room, const struct value *subject,
               const struct call_arguments *arguments, struct value *out)
{
    *out = value_bool(subject->kind == VALUE_STRING && builtin_is_filter_name(subject->string));
    return builtin_bind_none(room, "filter", arguments) && check_name(room, subject);
}

bool is_test(struct value_room *room, const struct value *subject,
             const struct call_arguments *arguments, struct value *out)
{
    *out = value_bool(subject->kind == VALUE_STRING && builtin_test(subject->string) != NULL);
    return builtin_bind_none(room, "test", arguments) && check_name(room, subject);
}
