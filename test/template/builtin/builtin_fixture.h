// SPDX-License-Identifier: Apache-2.0
//
// builtin_fixture.h -- calls of filters, tests and methods as rows of a table: values as JSON in,
// Python's repr or the text of an error out.
#pragma once

#include "template/builtin/builtins_internal.h"
#include "template/value/value_fixture.h"

struct builtin_row {
    const char *name;
    const char *subject;   // NULL: undefined
    const char *arguments; // a list; NULL: none
    const char *named;     // an object; NULL: none
    const char *expected;
};

// {"$": [...]} is a tuple.
static inline struct value with_tuples(struct value value)
{
    if (value.kind == VALUE_DICT && value.dict->count == 1 &&
        slice_is(value.dict->members[0].key.string, "$")) {
        return (struct value){.kind = VALUE_TUPLE, .list = value.dict->members[0].value.list};
    }
    return value;
}

// The result of a call, printed; a generator as its items.
static inline const char *call_row(const struct builtin *builtin, const struct builtin_row *row)
{
    struct value values[call_argument_max];
    struct slice names[call_argument_max];
    struct call_arguments arguments = {.values = values, .names = names};
    struct value subject = row->subject != NULL ? with_tuples(from_json(row->subject))
                                                : value_undefined(slice_str("x"));
    struct value placed = from_json(row->arguments != NULL ? row->arguments : "[]");
    struct value named = from_json(row->named != NULL ? row->named : "{}");
    for (uint32_t i = 0; i < placed.list->count; i++) {
        values[arguments.count++] = with_tuples(placed.list->items[i]);
    }
    for (uint32_t i = 0; i < named.dict->count; i++) {
        names[arguments.named_count++] = named.dict->members[i].key.string;
        values[arguments.count++] = with_tuples(named.dict->members[i].value);
    }
    struct value out = value_none();
    if (!builtin_run(builtin, &fixture_room, &subject, &arguments, &out)) {
        return fixture_room.error;
    }
    if (out.kind == VALUE_GENERATOR) {
        out = value_of_list(value_iterate(&fixture_room, &out));
    }
    return repr_of(&out);
}

static inline void check_row(const struct builtin *builtin, const struct builtin_row *row)
{
    const char *actual = builtin != NULL ? call_row(builtin, row) : "there is none";
    if (strcmp(actual, row->expected) != 0) {
        test_fail(__FILE__, __LINE__, "%s of %s (%s, %s) is <%s>, expected <%s>", row->name,
                  row->subject != NULL ? row->subject : "undefined",
                  row->arguments != NULL ? row->arguments : "",
                  row->named != NULL ? row->named : "", actual, row->expected);
    }
}

static inline void check_filters(const struct builtin_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fresh_room();
        check_row(builtin_filter(slice_str(rows[i].name)), &rows[i]);
    }
}

static inline void check_tests(const struct builtin_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fresh_room();
        check_row(builtin_test(slice_str(rows[i].name)), &rows[i]);
    }
}

// The kind is that of the subject.
static inline void check_methods(const struct builtin_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fresh_room();
        struct value subject = with_tuples(from_json(rows[i].subject));
        check_row(builtin_method(subject.kind, slice_str(rows[i].name)), &rows[i]);
    }
}
