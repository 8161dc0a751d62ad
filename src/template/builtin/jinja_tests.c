// SPDX-License-Identifier: Apache-2.0
//
// Tests: the words after `is` in templates.

#include "base/base.h"
#include "template/builtin/builtins_internal.h"
#include "template/operate.h"
#include "template/value/value_text.h"

// The variant has a bit for each kind that passes.  Jinja's Undefined has the methods of sequences
// and callables, so it passes as both.
bool is_kind(const struct builtin_call *call)
{
    return call_gives(call, value_bool((call->builtin->variant >> call->subject->kind & 1) != 0));
}

bool is_truth(const struct builtin_call *call)
{
    const struct value *subject = call->subject;
    bool wanted = call->builtin->variant != 0;
    return call_gives(call, value_bool(subject->kind == VALUE_BOOL && subject->boolean == wanted));
}

bool is_escaped(const struct builtin_call *call)
{
    return call_gives(call,
                      value_bool(call->subject->kind == VALUE_STRING && call->subject->markup));
}

bool is_compared(const struct builtin_call *call)
{
    enum operation operation = (enum operation)call->builtin->variant;
    return call_gives(
        call, value_bool(operate_compare(call->room, operation, call->subject, call->given[0])));
}

// Whether both are the same object.  Python may or may not make one object of two equal numbers or
// strings, so these are refused.
bool is_same_as(const struct builtin_call *call)
{
    const struct value *subject = call->subject;
    const struct value *other = call->given[0];
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
        // All pointers of the union lie in the same place.
        same = same && subject->list == other->list;
        break;
    default:
        if (same) {
            return value_raise(call->room, "sameas of two %s is not implemented",
                               value_type_name(subject));
        }
        break;
    }
    return call_gives(call, value_bool(same));
}

// odd, even and divisibleby: subject % divisor == rest.
bool is_multiple(const struct builtin_call *call)
{
    const struct value *subject = call->subject;
    struct value divisor = value_int(2);
    struct value rest = value_int(call->builtin->variant == IS_ODD);
    if (call->builtin->variant == IS_MULTIPLE) {
        divisor = *call->given[0];
    } else if (subject->kind == VALUE_BIG_INT) {
        uint8_t last_digit = subject->string.bytes[subject->string.size - 1];
        return call_gives(call, value_bool((last_digit & 1) == rest.integer));
    }
    struct value left = operate(call->room, OPERATOR_MODULO, subject, &divisor);
    return call_gives(call, value_bool(value_equal(&left, &rest)));
}

bool text_has_case(const struct builtin_call *call)
{
    struct slice text = call_text(call);
    (void)value_step(call->room, 1 + text.size / 16);
    return call_gives(call, value_bool(call->builtin->variant != 0 ? value_text_is_upper(text)
                                                                   : value_text_is_lower(text)));
}

// Whether the subject names a filter, or a test.  Jinja looks names up in a dict, so a value that
// cannot be a key fails.
bool is_builtin_name(const struct builtin_call *call)
{
    bool is_name = call->subject->kind == VALUE_STRING &&
                   (call->builtin->variant == 0 ? builtin_is_filter_name(call->subject->string)
                                                : builtin_test(call->subject->string) != NULL);
    (void)value_dict_find(call->room, &value_no_members, call->subject);
    return call_gives(call, value_bool(is_name));
}
