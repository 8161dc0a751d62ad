// SPDX-License-Identifier: Apache-2.0
//
// The names are those of Python 3.11 and later.  A key of a dict that is also one of them can be
// reached with brackets only, whether we have the method or not.

#include "template/member.h"

#include "base/base.h"
#include "template/render_internal.h"

#define WHOLE_NUMBER                                                                               \
    " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer "     \
    "numerator real to_bytes "
#define STRING                                                                                     \
    " capitalize casefold center count encode endswith expandtabs find format format_map index "   \
    "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable "        \
    "isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix "            \
    "removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines "           \
    "startswith strip swapcase title translate upper zfill "

// By kind: every name between blanks.
static const struct {
    const char *visible;
    const char *hidden;
} attributes[value_kind_count] = {
    [VALUE_BOOL] = {WHOLE_NUMBER, ""},
    [VALUE_INT] = {WHOLE_NUMBER, ""},
    [VALUE_BIG_INT] = {WHOLE_NUMBER, ""},
    [VALUE_FLOAT] = {" as_integer_ratio conjugate fromhex hex imag is_integer real ", ""},
    [VALUE_STRING] = {STRING, ""},
    [VALUE_LIST] = {" copy count index ", " append clear extend insert pop remove reverse sort "},
    [VALUE_TUPLE] = {" count index ", ""},
    [VALUE_DICT] = {" copy fromkeys get items keys values ",
                    " clear pop popitem setdefault update "},
    [VALUE_CALLABLE] =
        {" arguments caller catch_kwargs catch_varargs explicit_caller fromkeys name ", ""},
    [VALUE_VIEW] = {" isdisjoint mapping ", ""},
    [VALUE_GENERATOR] = {" close gi_code gi_frame gi_running gi_suspended gi_yieldfrom send throw ",
                         ""},
};

static bool lists_name(const char *names, struct slice name)
{
    for (const char *at = names; at != NULL && at[0] != '\0' && at[1] != '\0';
         at = strchr(at + 1, ' ')) {
        if (strncmp(at + 1, (const char *)name.bytes, name.size) == 0 && at[1 + name.size] == ' ') {
            return true;
        }
    }
    return false;
}

static void member_init_kind(struct member_name *member, enum value_kind kind)
{
    ASSERT((int)kind < value_kind_count);
    struct slice name = member->name;
    unsigned bit = 1u << kind;
    member->methods[kind] = builtin_method(kind, name);
    // Names with a blank or a NUL are not Python's; the lists cannot tell them from their own.
    bool is_visible = member->methods[kind] == NULL && lists_name(attributes[kind].visible, name);
    bool is_hidden = lists_name(attributes[kind].hidden, name);
    if ((is_visible || is_hidden) && name.size > 0 && memchr(name.bytes, ' ', name.size) == NULL &&
        memchr(name.bytes, '\0', name.size) == NULL) {
        member->refused |= (uint16_t)(is_visible ? bit : 0);
        member->hidden |= (uint16_t)(is_hidden ? bit : 0);
    }
}

void member_init(struct member_name *member, struct slice name)
{
    *member = (struct member_name){.name = name};
    for (int kind = 0; kind < value_kind_count; kind++) {
        member_init_kind(member, (enum value_kind)kind);
    }
}

static const struct value *undefined_member(struct slice name, struct value *scratch)
{
    *scratch = value_undefined(name);
    return scratch;
}

static const struct value *bound_method(struct value_room *room, const struct builtin *builtin,
                                        const struct value *subject, struct value *scratch)
{
    struct value_callable *callable = value_bytes_new(room, sizeof(*callable));
    if (callable == NULL) {
        return undefined_member(builtin->name, scratch);
    }
    callable->kind = CALLABLE_METHOD;
    callable->method.builtin = builtin;
    callable->method.subject = *subject;
    *scratch = (struct value){.kind = VALUE_CALLABLE, .callable = callable};
    return scratch;
}

const struct value *member_attribute(struct value_room *room, const struct value *subject,
                                     const struct member_name *member, struct value *scratch)
{
    unsigned bit = 1u << subject->kind;
    if ((member->hidden & bit) != 0) {
        return undefined_member(member->name, scratch);
    }
    if (member->methods[subject->kind] != NULL) {
        return bound_method(room, member->methods[subject->kind], subject, scratch);
    }
    const struct value *found = NULL;
    if (subject->kind == VALUE_UNDEFINED || (member->refused & bit) != 0) {
        (void)value_refuse(room, subject, "'%.*s' of '%s' objects is not implemented",
                           (int)member->name.size, member->name.bytes, value_type_name(subject));
    } else if (subject->kind == VALUE_DICT) {
        found = value_dict_get(subject->dict, member->name);
    } else if (subject->kind == VALUE_NAMESPACE) {
        found = value_dict_get(subject->space->dict, member->name);
        if (found != NULL) {
            *scratch = *found; // members of namespaces change
            return scratch;
        }
    }
    return found != NULL ? found : undefined_member(member->name, scratch);
}

static const struct value *element_at(struct value_room *room, const struct value *subject,
                                      int64_t at, struct value *scratch)
{
    uint32_t length = value_length(room, subject);
    at += at < 0 ? length : 0;
    if (at < 0 || at >= length) {
        return undefined_member(slice_str("element"), scratch);
    }
    if (subject->kind != VALUE_STRING) {
        return &subject->list->items[at];
    }
    struct value character = *subject;
    character.string = value_string_part(subject->string, (size_t)at, (size_t)at + 1);
    *scratch = character;
    return scratch;
}

const struct value *member_item(struct value_room *room, const struct value *subject,
                                const struct value *key, struct value *scratch)
{
    const struct value *found = NULL;
    switch (subject->kind) {
    case VALUE_UNDEFINED:
        (void)value_refuse(room, subject, "undefined");
        break;
    case VALUE_DICT:
        if (key->kind == VALUE_STRING) {
            found = value_dict_get(subject->dict, key->string);
        } else {
            struct value_room trial = *room; // an unhashable key does not fail here
            found = value_dict_find(&trial, subject->dict, key);
        }
        break;
    case VALUE_STRING:
    case VALUE_LIST:
    case VALUE_TUPLE:
        if (value_is_whole(key)) {
            return element_at(room, subject, value_whole(key), scratch);
        }
        break;
    default:
        break;
    }
    if (found != NULL || key->kind != VALUE_STRING) {
        return found != NULL ? found : undefined_member(slice_str("element"), scratch);
    }
    struct member_name member = {.name = key->string};
    member_init_kind(&member, subject->kind);
    return member_attribute(room, subject, &member, scratch);
}
