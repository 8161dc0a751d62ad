// SPDX-License-Identifier: Apache-2.0
//
// The expected values were computed by Jinja 3.1.6 with Python 3.11.

#include "template/builtin/builtin_fixture.h"

TEST(sorting_ignores_case_unless_told)
{
    static const struct builtin_row rows[] = {
        {"sort", "[\"b\", \"A\", \"a\", \"B\"]", NULL, NULL, "['A', 'a', 'b', 'B']"},
        {"sort", "[\"b\", \"A\", \"a\", \"B\"]", NULL, "{\"case_sensitive\": true}",
         "['A', 'B', 'a', 'b']"},
        {"sort", "[\"b\", \"A\", \"c\"]", NULL, "{\"reverse\": true}", "['c', 'b', 'A']"},
        {"sort", "[3, 1.5, true, 2]", NULL, NULL, "[True, 1.5, 2, 3]"},
        {"sort",
         "[{\"name\": \"bob\", \"age\": 30, \"a\": {\"b\": 2}}, {\"name\": \"Alice\", \"age\": 25, "
         "\"a\": {\"b\": 1}}, {\"name\": \"carol\", \"age\": 30, \"a\": {\"b\": 3}}]",
         NULL, "{\"attribute\": \"age\"}",
         "[{'name': 'Alice', 'age': 25, 'a': {'b': 1}}, {'name': 'bob', 'age': 30, 'a': {'b': 2}}, "
         "{'name': 'carol', 'age': 30, 'a': {'b': 3}}]"},
        {"sort",
         "[{\"name\": \"bob\", \"age\": 30, \"a\": {\"b\": 2}}, {\"name\": \"Alice\", \"age\": 25, "
         "\"a\": {\"b\": 1}}, {\"name\": \"carol\", \"age\": 30, \"a\": {\"b\": 3}}]",
         NULL, "{\"attribute\": \"age\", \"reverse\": true}",
         "[{'name': 'bob', 'age': 30, 'a': {'b': 2}}, {'name': 'carol', 'age': 30, 'a': {'b': 3}}, "
         "{'name': 'Alice', 'age': 25, 'a': {'b': 1}}]"},
        {"sort",
         "[{\"name\": \"bob\", \"age\": 30, \"a\": {\"b\": 2}}, {\"name\": \"Alice\", \"age\": 25, "
         "\"a\": {\"b\": 1}}, {\"name\": \"carol\", \"age\": 30, \"a\": {\"b\": 3}}]",
         NULL, "{\"attribute\": \"age,name\"}",
         "[{'name': 'Alice', 'age': 25, 'a': {'b': 1}}, {'name': 'bob', 'age': 30, 'a': {'b': 2}}, "
         "{'name': 'carol', 'age': 30, 'a': {'b': 3}}]"},
        {"sort",
         "[{\"name\": \"bob\", \"age\": 30, \"a\": {\"b\": 2}}, {\"name\": \"Alice\", \"age\": 25, "
         "\"a\": {\"b\": 1}}, {\"name\": \"carol\", \"age\": 30, \"a\": {\"b\": 3}}]",
         NULL, "{\"attribute\": \"a.b\"}",
         "[{'name': 'Alice', 'age': 25, 'a': {'b': 1}}, {'name': 'bob', 'age': 30, 'a': {'b': 2}}, "
         "{'name': 'carol', 'age': 30, 'a': {'b': 3}}]"},
        {"sort", "[null, null]", NULL, NULL, "[None, None]"},
        {"sort", "[1, \"a\"]", NULL, NULL,
         "'<' not supported between instances of 'str' and 'int'"},
        {"sort", NULL, NULL, NULL, "[]"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(dictsort_returns_pairs_by_key_or_value)
{
    static const struct builtin_row rows[] = {
        {"dictsort", "{\"b\": 1, \"A\": 3, \"c\": 2}", NULL, NULL,
         "[('A', 3), ('b', 1), ('c', 2)]"},
        {"dictsort", "{\"b\": 1, \"A\": 3, \"c\": 2}", "[true]", NULL,
         "[('A', 3), ('b', 1), ('c', 2)]"},
        {"dictsort", "{\"b\": 1, \"A\": 3, \"c\": 2}", "[false, \"value\"]", NULL,
         "[('b', 1), ('c', 2), ('A', 3)]"},
        {"dictsort", "{\"b\": \"x\", \"A\": \"Y\"}", NULL, "{\"by\": \"value\", \"reverse\": true}",
         "[('A', 'Y'), ('b', 'x')]"},
        {"dictsort", "{}", NULL, NULL, "[]"},
        {"dictsort", "{\"a\": 1}", NULL, "{\"by\": \"both\"}",
         "You can only sort by either \"key\" or \"value\""},
        {"dictsort", NULL, NULL, NULL, "'Undefined' object has no attribute 'items'"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(unique_keeps_the_first_of_each)
{
    static const struct builtin_row rows[] = {
        {"unique", "[\"a\", \"A\", \"b\", 1, true, 1.0, \"B\"]", NULL, NULL, "['a', 'b', 1]"},
        {"unique", "[\"a\", \"A\"]", NULL, "{\"case_sensitive\": true}", "['a', 'A']"},
        {"unique",
         "[{\"name\": \"bob\", \"age\": 30, \"a\": {\"b\": 2}}, {\"name\": \"Alice\", \"age\": 25, "
         "\"a\": {\"b\": 1}}, {\"name\": \"carol\", \"age\": 30, \"a\": {\"b\": 3}}]",
         NULL, "{\"attribute\": \"age\"}",
         "[{'name': 'bob', 'age': 30, 'a': {'b': 2}}, {'name': 'Alice', 'age': 25, 'a': {'b': "
         "1}}]"},
        {"unique", "[[1]]", NULL, NULL, "unhashable type: 'list'"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(min_and_max_take_the_first_of_equals)
{
    static const struct builtin_row rows[] = {
        {"min", "[\"b\", \"A\", \"a\"]", NULL, NULL, "'A'"},
        {"max", "[\"b\", \"B\", \"a\"]", NULL, NULL, "'b'"},
        {"max",
         "[{\"name\": \"bob\", \"age\": 30, \"a\": {\"b\": 2}}, {\"name\": \"Alice\", \"age\": 25, "
         "\"a\": {\"b\": 1}}, {\"name\": \"carol\", \"age\": 30, \"a\": {\"b\": 3}}]",
         NULL, "{\"attribute\": \"age\"}", "{'name': 'bob', 'age': 30, 'a': {'b': 2}}"},
        {"min", "[]", NULL, NULL, "Undefined"},
        {"min", "[2, 1.0, 1]", NULL, NULL, "1.0"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(first_and_last_of_empty_values_are_undefined)
{
    static const struct builtin_row rows[] = {
        {"first", "[1, 2]", NULL, NULL, "1"},
        {"last", "[1, 2]", NULL, NULL, "2"},
        {"first", "[]", NULL, NULL, "Undefined"},
        {"last", "\"\"", NULL, NULL, "Undefined"},
        {"first", "\"\\u00e9\\u65e5\"", NULL, NULL, "'\xc3\xa9'"},
        {"last", "\"\\u00e9\\u65e5\"", NULL, NULL, "'\xe6\x97\xa5'"},
        {"first", "{\"k\": 1}", NULL, NULL, "'k'"},
        {"last", "{\"k\": 1, \"l\": 2}", NULL, NULL, "'l'"},
        {"first", NULL, NULL, NULL, "Undefined"},
        {"last", NULL, NULL, NULL, "Undefined"},
        {"first", "5", NULL, NULL, "'int' object is not iterable"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(join_prints_its_items)
{
    static const struct builtin_row rows[] = {
        {"join", "[1, \"a\", null, 2.0, [\"x\"]]", NULL, NULL, "\"1aNone2.0['x']\""},
        {"join", "[1, 2]", "[\", \"]", NULL, "'1, 2'"},
        {"join",
         "[{\"name\": \"bob\", \"age\": 30, \"a\": {\"b\": 2}}, {\"name\": \"Alice\", \"age\": 25, "
         "\"a\": {\"b\": 1}}, {\"name\": \"carol\", \"age\": 30, \"a\": {\"b\": 3}}]",
         "[\"; \"]", "{\"attribute\": \"name\"}", "'bob; Alice; carol'"},
        {"join",
         "[{\"name\": \"bob\", \"age\": 30, \"a\": {\"b\": 2}}, {\"name\": \"Alice\", \"age\": 25, "
         "\"a\": {\"b\": 1}}, {\"name\": \"carol\", \"age\": 30, \"a\": {\"b\": 3}}]",
         NULL, "{\"attribute\": \"a.b\"}", "'213'"},
        {"join", "\"abc\"", "[\"-\"]", NULL, "'a-b-c'"},
        {"join", NULL, NULL, NULL, "''"},
        {"join", "[{\"a\": 1}]", NULL, "{\"attribute\": \"zz\"}", "''"},
        {"join", "[{\"a\": 1}]", NULL, "{\"attribute\": \"zz.b\"}", "'zz' is undefined"},
        {"join", "5", NULL, NULL, "'int' object is not iterable"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(map_takes_attributes_or_applies_filters)
{
    static const struct builtin_row rows[] = {
        {"map",
         "[{\"name\": \"bob\", \"age\": 30, \"a\": {\"b\": 2}}, {\"name\": \"Alice\", \"age\": 25, "
         "\"a\": {\"b\": 1}}, {\"name\": \"carol\", \"age\": 30, \"a\": {\"b\": 3}}]",
         NULL, "{\"attribute\": \"name\"}", "['bob', 'Alice', 'carol']"},
        {"map", "[{\"a\": 1}, {}]", NULL, "{\"attribute\": \"a\", \"default\": 0}", "[1, 0]"},
        {"map", "[{\"a\": 1}, {}]", NULL, "{\"attribute\": \"a\"}", "[1, Undefined]"},
        {"map", "[\"a\", \"b\"]", "[\"upper\"]", NULL, "['A', 'B']"},
        {"map", "[\"a,b\"]", "[\"replace\", \",\", \";\"]", NULL, "['a;b']"},
        {"map", "[[\"b\", \"a\"]]", "[\"sort\"]", "{\"reverse\": true}", "[['b', 'a']]"},
        {"map", "[1]", "[\"nothing\"]", NULL, "No filter named 'nothing'."},
        {"map", "[]", "[\"nothing\"]", NULL, "[]"},
        {"map", "[1]", NULL, NULL, "map requires a filter argument"},
        {"map", "[[1, 2], \"xy\"]", NULL, "{\"attribute\": 1}", "[2, 'y']"},
        {"map", "[{\"b\": 1}]", NULL, "{\"attribute\": \"items\"}",
         "attribute 'items' of 'dict' is not implemented"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(select_and_reject_apply_tests_by_name)
{
    static const struct builtin_row rows[] = {
        {"select", "[0, 1, \"\", null, \"x\"]", NULL, NULL, "[1, 'x']"},
        {"reject", "[0, 1, \"\", null, \"x\"]", NULL, NULL, "[0, '', None]"},
        {"select", "[1, 2, 3, 4]", "[\"odd\"]", NULL, "[1, 3]"},
        {"select", "[1, 2, 3, 4]", "[\"gt\", 2]", NULL, "[3, 4]"},
        {"reject", "[\"a\", \"b\"]", "[\"equalto\", \"a\"]", NULL, "['b']"},
        {"select", "[1, null, 2]", "[\"none\"]", NULL, "[None]"},
        {"select", "[1]", "[\"nothing\"]", NULL, "No test named 'nothing'."},
        {"select", NULL, "[\"odd\"]", NULL, "[]"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(selectattr_and_rejectattr_test_an_attribute)
{
    static const struct builtin_row rows[] = {
        {"selectattr",
         "[{\"name\": \"bob\", \"age\": 30, \"a\": {\"b\": 2}}, {\"name\": \"Alice\", \"age\": 25, "
         "\"a\": {\"b\": 1}}, {\"name\": \"carol\", \"age\": 30, \"a\": {\"b\": 3}}]",
         "[\"age\", \"equalto\", 30]", NULL,
         "[{'name': 'bob', 'age': 30, 'a': {'b': 2}}, {'name': 'carol', 'age': 30, 'a': {'b': "
         "3}}]"},
        {"rejectattr",
         "[{\"name\": \"bob\", \"age\": 30, \"a\": {\"b\": 2}}, {\"name\": \"Alice\", \"age\": 25, "
         "\"a\": {\"b\": 1}}, {\"name\": \"carol\", \"age\": 30, \"a\": {\"b\": 3}}]",
         "[\"age\", \"equalto\", 30]", NULL, "[{'name': 'Alice', 'age': 25, 'a': {'b': 1}}]"},
        {"selectattr", "[{\"a\": 1}, {\"a\": 0}, {}]", "[\"a\"]", NULL, "[{'a': 1}]"},
        {"selectattr", "[{\"a\": 1}, {}]", "[\"a\", \"defined\"]", NULL, "[{'a': 1}]"},
        {"rejectattr", "[{\"r\": \"system\"}, {\"r\": \"user\"}]", "[\"r\", \"in\", [\"system\"]]",
         NULL, "[{'r': 'user'}]"},
        {"selectattr", "[1]", NULL, NULL, "Missing parameter for attribute name"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(default_replaces_undefined_and_on_request_false_values)
{
    static const struct builtin_row rows[] = {
        {"default", NULL, "[\"x\"]", NULL, "'x'"},
        {"default", "\"\"", "[\"x\"]", NULL, "''"},
        {"default", "\"\"", "[\"x\", true]", NULL, "'x'"},
        {"default", "null", "[\"x\"]", NULL, "None"},
        {"default", "false", "[\"x\"]", "{\"boolean\": true}", "'x'"},
        {"d", NULL, NULL, NULL, "''"},
        {"default", "0", NULL, "{\"default_value\": 1, \"boolean\": true}", "1"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(length_counts_characters_and_items)
{
    static const struct builtin_row rows[] = {
        {"length", "\"\\u00e9\\u65e5\\ud83d\\ude00\"", NULL, NULL, "3"},
        {"count", "[1, 2]", NULL, NULL, "2"},
        {"length", "{\"a\": 1}", NULL, NULL, "1"},
        {"length", NULL, NULL, NULL, "0"},
        {"length", "5", NULL, NULL, "object of type 'int' has no len()"},
        {"length", "null", NULL, NULL, "object of type 'NoneType' has no len()"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(list_returns_characters_and_keys)
{
    static const struct builtin_row rows[] = {
        {"list", "\"ab\"", NULL, NULL, "['a', 'b']"},
        {"list", "{\"a\": 1}", NULL, NULL, "['a']"},
        {"list", NULL, NULL, NULL, "[]"},
        {"items", "{\"a\": 1, \"b\": [2]}", NULL, NULL, "[('a', 1), ('b', [2])]"},
        {"items", NULL, NULL, NULL, "[]"},
        {"items", "[1]", NULL, NULL, "Can only get item pairs from a mapping."},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(reverse_reverses_strings_and_lists)
{
    static const struct builtin_row rows[] = {
        {"reverse", "\"a\\u00e9\\u65e5\"", NULL, NULL,
         "'\xe6\x97\xa5\xc3\xa9"
         "a'"},
        {"reverse", "[1, 2, 3]", NULL, NULL, "[3, 2, 1]"},
        {"reverse", "{\"a\": 1, \"b\": 2}", NULL, NULL, "['b', 'a']"},
        {"reverse", NULL, NULL, NULL, "[]"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(batch_and_slice_cut_lists)
{
    static const struct builtin_row rows[] = {
        {"batch", "[1, 2, 3, 4, 5]", "[2]", NULL, "[[1, 2], [3, 4], [5]]"},
        {"batch", "[1, 2, 3, 4, 5]", "[2, 0]", NULL, "[[1, 2], [3, 4], [5, 0]]"},
        {"slice", "[1, 2, 3, 4, 5]", "[3]", NULL, "[[1, 2], [3, 4], [5]]"},
        {"slice", "[1, 2, 3, 4, 5]", "[3, \"x\"]", NULL, "[[1, 2], [3, 4], [5, 'x']]"},
        {"slice", "[1]", "[3]", NULL, "[[1], [], []]"},
        {"batch", "[]", "[2]", NULL, "[]"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(arguments_that_do_not_fit_are_named)
{
    static const struct builtin_row rows[] = {
        {"sort", "[1]", NULL, "{\"nope\": 1}", "sort() got an unexpected keyword argument 'nope'"},
        {"join", "[1]", "[\"a\", \"b\", \"c\"]", NULL,
         "join() takes at most 2 arguments (3 given)"},
        {"default", "1", "[2]", "{\"default_value\": 3}",
         "default() got multiple values for argument 'default_value'"},
        {"length", "\"a\"", "[1]", NULL, "length() takes no arguments (1 given)"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(a_mapped_generator_is_iterated_once_and_always_true)
{
    fresh_room();
    struct value subject = from_json("[]");
    struct value name = str("upper");
    struct call_arguments arguments = {.values = &name, .count = 1};
    struct value mapped;
    struct call_arguments none = {0};
    struct value first;
    CHECK(builtin_run(builtin_filter(slice_str("map")), &fixture_room, &subject, &arguments,
                      &mapped));
    CHECK(value_is_true(&mapped));
    subject = from_json("[\"a\", \"b\", \"c\"]");
    CHECK(builtin_run(builtin_filter(slice_str("map")), &fixture_room, &subject, &arguments,
                      &mapped));
    CHECK(builtin_run(builtin_filter(slice_str("first")), &fixture_room, &mapped, &none, &first));
    CHECK_STR(repr_of(&first), "'A'");
    struct value list;
    CHECK(builtin_run(builtin_filter(slice_str("list")), &fixture_room, &mapped, &none, &list));
    CHECK_STR(repr_of(&list), "['B', 'C']");
    CHECK(builtin_run(builtin_filter(slice_str("list")), &fixture_room, &mapped, &none, &list));
    CHECK_STR(repr_of(&list), "[]");
}
