// SPDX-License-Identifier: Apache-2.0
//
// The names are those of Python 3.11 and later.  A key of a dict that is also one of them can be reached with
// brackets only, whether we have the method or not.

#include "template/member.h"

#define WHOLE_NUMBER                                                                               \
    " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer "     \
    "numerator real to_bytes "
#define STRING                                                                                     \
    " capitalize casefold center count encode endswith expandtabs find format format_map index "   \
    "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable "        \
    "isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix "            \
    "removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines "           \
    "startswith strip swapcase title translate upper zfill "

static const struct {
    enum value_kind kind;
    const char *visible; // every name between blanks
    const char *hidden;
} attributes[] = {
    {VALUE_BOOL, WHOLE_NUMBER, ""},
    {VALUE_INT, WHOLE_NUMBER, ""},
    {VALUE_BIG_INT, WHOLE_NUMBER, ""},
    {VALUE_FLOAT, " as_integer_ratio conjugate fromhex hex imag is_integer real ", ""},
    {VALUE_STRING, STRING, ""},
    {VALUE_LIST, " copy count index ", " append clear extend insert pop remove reverse sort "},
    {VALUE_TUPLE, " count index ", ""},
    {VALUE_DICT, " copy fromkeys get items keys values ", " clear pop popitem setdefault update "},
    {VALUE_CALLABLE, " arguments caller catch_kwargs catch_varargs explicit_caller fromkeys name ",
     ""},
    {VALUE_VIEW, " isdisjoint mapping ", ""},
    {VALUE_GENERATOR, " close gi_code gi_frame gi_running gi_suspended gi_yieldfrom send throw ",
     ""},
};

static bool lists(const char *names, struct slice name)
{
    for (const char *at = strchr(names, ' '); at != NULL && at[1] != '\0';
         at = strchr(at + 1, ' ')) {
        if (strncmp(at + 1, (const char *)name.bytes, name.size) == 0 && at[1 + name.size] == ' ') {
            return true;
        }
    }
    return false;
}

void member_init(struct member *member, struct slice name)
{
    *member = (struct member){.name = name};
    for (int kind = 0; kind < value_kind_count; kind++) {
        member->methods[kind] = builtin_method((enum value_kind)kind, name);
    }
    // A name is never empty, and what has a blank or a NUL in it is in no list.
    if (name.size == 0 || memchr(name.bytes, '\0', name.size) != NULL ||
        memchr(name.bytes, ' ', name.size) != NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
        uint16_t bit = (uint16_t)(1u << attributes[i].kind);
        if (member->methods[attributes[i].kind] == NULL && lists(attributes[i].visible, name)) {
            member->refused |= bit;
        }
        if (lists(attributes[i].hidden, name)) {
            member->hidden |= bit;
        }
    }
}
