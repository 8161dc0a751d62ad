// SPDX-License-Identifier: Apache-2.0
//
// The expected values were computed by Jinja 3.1.6 with Python 3.11.

#include "template/builtin/builtin_fixture.h"

TEST(strip_removes_white_space_or_given_characters)
{
    static const struct builtin_row rows[] = {
        {"strip", "\" \\n\\u0085a \\u200b\\u3000\"", NULL, NULL, "'a \\u200b'"},
        {"lstrip", "\"  a \"", NULL, NULL, "'a '"},
        {"rstrip", "\"  a \"", NULL, NULL, "'  a'"},
        {"strip", "\"xyaxy\"", "[\"yx\"]", NULL, "'a'"},
        {"rstrip", "\"\\u65e5\\u00e9\\u65e5\"", "[\"\\u65e5\"]", NULL, "'\xe6\x97\xa5\xc3\xa9'"},
        {"lstrip", "\"aab\"", "[\"a\"]", NULL, "'b'"},
        {"strip", "\"a\"", "[null]", NULL, "'a'"},
        {"strip", "\"\"", NULL, NULL, "''"},
        {"strip", "\"  \"", NULL, NULL, "''"},
        {"rstrip", "\"a\\n\\n\"", "[\"\\n\"]", NULL, "'a'"},
        {"strip", "\"a\"", "[1]", NULL, "must be str, not int"},
    };
    check_methods(rows, ARRAY_COUNT(rows));
}

TEST(startswith_and_endswith_take_tuples_and_windows)
{
    static const struct builtin_row rows[] = {
        {"startswith", "\"abc\"", "[\"ab\"]", NULL, "True"},
        {"endswith", "\"abc\"", "[\"bc\"]", NULL, "True"},
        {"startswith", "\"abc\"", "[{\"$\": [\"x\", \"a\"]}]", NULL, "True"},
        {"endswith", "\"abc\"", "[{\"$\": []}]", NULL, "False"},
        {"startswith", "\"\\u00e9\\u65e5x\"", "[\"\\u65e5\", 1]", NULL, "True"},
        {"endswith", "\"\\u00e9\\u65e5x\"", "[\"\\u65e5\", 0, 2]", NULL, "True"},
        {"startswith", "\"abc\"", "[\"\", 4]", NULL, "False"},
        {"startswith", "\"abc\"", "[\"\", 3]", NULL, "True"},
        {"endswith", "\"abc\"", "[\"c\", -1]", NULL, "True"},
        {"startswith", "\"ab\"", "[\"abc\"]", NULL, "False"},
        {"startswith", "\"a\"", "[[\"a\"]]", NULL, "must be str, not list"},
    };
    check_methods(rows, ARRAY_COUNT(rows));
}

TEST(find_and_index_count_characters)
{
    static const struct builtin_row rows[] = {
        {"find", "\"\\u00e9\\u65e5\\u65e5x\"", "[\"\\u65e5\"]", NULL, "1"},
        {"rfind", "\"\\u00e9\\u65e5\\u65e5x\"", "[\"\\u65e5\"]", NULL, "2"},
        {"find", "\"abc\"", "[\"z\"]", NULL, "-1"},
        {"find", "\"abc\"", "[\"\"]", NULL, "0"},
        {"rfind", "\"abc\"", "[\"\"]", NULL, "3"},
        {"find", "\"abcabc\"", "[\"a\", 1]", NULL, "3"},
        {"rfind", "\"abcabc\"", "[\"a\", 0, 3]", NULL, "0"},
        {"find", "\"abc\"", "[\"\", 4]", NULL, "-1"},
        {"index", "\"abc\"", "[\"c\"]", NULL, "2"},
        {"index", "\"abc\"", "[\"z\"]", NULL, "substring not found"},
        {"rindex", "\"aXa\"", "[\"a\"]", NULL, "2"},
        {"count", "\"aaaa\"", "[\"aa\"]", NULL, "2"},
        {"count", "\"abc\"", "[\"\"]", NULL, "4"},
        {"count", "\"abab\"", "[\"ab\", 1]", NULL, "1"},
        {"rfind", "\"aab\"", "[\"ab\"]", NULL, "1"},
        {"rfind", "\"xaab\"", "[\"aab\"]", NULL, "1"},
    };
    check_methods(rows, ARRAY_COUNT(rows));
}

TEST(strings_have_cases_and_classes_as_in_python)
{
    static const struct builtin_row rows[] = {
        {"upper", "\"\\u00df\"", NULL, NULL, "'SS'"},
        {"lower", "\"\\u0130\"", NULL, NULL, "'i\xcc\x87'"},
        {"title", "\"they're 3rd\"", NULL, NULL, "\"They'Re 3Rd\""},
        {"capitalize", "\"\\u01c6AB\"", NULL, NULL,
         "'\xc7\x85"
         "ab'"},
        {"isalnum", "\"a1\\u00e9\\u00bd\"", NULL, NULL, "True"},
        {"isalnum", "\"\"", NULL, NULL, "False"},
        {"isalpha", "\"\\u65e5a\"", NULL, NULL, "True"},
        {"isalpha", "\"a1\"", NULL, NULL, "False"},
        {"isdigit", "\"12\\u00b2\"", NULL, NULL, "True"},
        {"isdigit", "\"\\u00bd\"", NULL, NULL, "False"},
        {"isspace", "\" \\u001c\\u0085\"", NULL, NULL, "True"},
        {"isspace", "\"\\u200b\"", NULL, NULL, "False"},
        {"islower", "\"a1\"", NULL, NULL, "True"},
        {"isupper", "\"A1\"", NULL, NULL, "True"},
        {"isupper", "\"1\"", NULL, NULL, "False"},
    };
    check_methods(rows, ARRAY_COUNT(rows));
}

TEST(join_refuses_items_that_are_not_strings)
{
    static const struct builtin_row rows[] = {
        {"join", "\", \"", "[[\"a\", \"b\"]]", NULL, "'a, b'"},
        {"join", "\"-\"", "[\"abc\"]", NULL, "'a-b-c'"},
        {"join", "\"-\"", "[{\"a\": 1, \"b\": 2}]", NULL, "'a-b'"},
        {"join", "\"\"", "[[]]", NULL, "''"},
        {"join", "\"\"", "[[\"a\", 1]]", NULL, "sequence item 1: expected str instance, int found"},
        {"join", "\"\"", "[5]", NULL, "'int' object is not iterable"},
    };
    check_methods(rows, ARRAY_COUNT(rows));
}

TEST(replace_and_remove_change_matching_parts_only)
{
    static const struct builtin_row rows[] = {
        {"replace", "\"aXbX\"", "[\"X\", \"--\"]", NULL, "'a--b--'"},
        {"replace", "\"aXbX\"", "[\"X\", \"\", 1]", NULL, "'abX'"},
        {"replace", "\"ab\"", "[\"\", \".\"]", NULL, "'.a.b.'"},
        {"replace", "\"a\"", "[\"a\", 1]", NULL, "must be str, not int"},
        {"removeprefix", "\"abab\"", "[\"ab\"]", NULL, "'ab'"},
        {"removesuffix", "\"abab\"", "[\"ab\"]", NULL, "'ab'"},
        {"removesuffix", "\"abab\"", "[\"\"]", NULL, "'abab'"},
        {"removeprefix", "\"ab\"", "[\"abc\"]", NULL, "'ab'"},
    };
    check_methods(rows, ARRAY_COUNT(rows));
}

TEST(padding_counts_characters)
{
    static const struct builtin_row rows[] = {
        {"zfill", "\"-5\"", "[4]", NULL, "'-005'"},
        {"zfill", "\"\\u00e9\"", "[3]", NULL, "'00\xc3\xa9'"},
        {"zfill", "\"+\"", "[3]", NULL, "'+00'"},
        {"ljust", "\"\\u00e9\"", "[3]", NULL, "'\xc3\xa9  '"},
        {"rjust", "\"\\u00e9\"", "[3]", NULL, "'  \xc3\xa9'"},
        {"center", "\"ab\"", "[5]", NULL, "'  ab '"},
        {"center", "\"a\"", "[4]", NULL, "' a  '"},
        {"ljust", "\"abc\"", "[2]", NULL, "'abc'"},
        {"ljust", "\"a\"", "[3, \"-\"]", NULL, "a fill character is not implemented"},
    };
    check_methods(rows, ARRAY_COUNT(rows));
}

TEST(methods_of_dicts_are_those_of_python)
{
    static const struct builtin_row rows[] = {
        {"get", "{\"a\": 1}", "[\"a\"]", NULL, "1"},
        {"get", "{\"a\": 1}", "[\"b\"]", NULL, "None"},
        {"get", "{\"a\": 1}", "[\"b\", 0]", NULL, "0"},
        {"get", "{\"a\": 1}", "[1]", NULL, "None"},
        {"get", "{\"a\": 1}", "[[\"a\"]]", NULL, "unhashable type: 'list'"},
        {"items", "{\"a\": 1, \"b\": []}", NULL, NULL, "dict_items([('a', 1), ('b', [])])"},
        {"keys", "{\"a\": 1}", NULL, NULL, "dict_keys(['a'])"},
        {"values", "{\"a\": 1}", NULL, NULL, "dict_values([1])"},
        {"copy", "{\"a\": 1}", NULL, NULL, "{'a': 1}"},
        {"items", "{}", NULL, NULL, "dict_items([])"},
        {"get", "{}", NULL, NULL, "get() misses an argument"},
        {"items", "{}", "[1]", NULL, "items() takes no arguments (1 given)"},
    };
    check_methods(rows, ARRAY_COUNT(rows));
}

TEST(lists_find_their_items)
{
    static const struct builtin_row rows[] = {
        {"index", "[1, 2, 1]", "[1, 1]", NULL, "2"},
        {"index", "[\"a\", 1.0]", "[true]", NULL, "1"},
        {"count", "[1, true, 1.0, \"1\"]", "[1]", NULL, "3"},
        {"index", "[1]", "[2]", NULL, "the value is not in the list"},
        {"index", "[1, 2, 3]", "[3, -1]", NULL, "2"},
        {"index", "[1, 2, 3]", "[1, 0, -3]", NULL, "the value is not in the list"},
        {"count", "{\"$\": [1, 1]}", "[1]", NULL, "2"},
    };
    check_methods(rows, ARRAY_COUNT(rows));
}

TEST(lists_and_dicts_have_no_methods_that_change_them)
{
    static const char *const names[] = {"append",  "clear",      "extend", "insert",
                                        "pop",     "remove",     "sort",   "update",
                                        "popitem", "setdefault", "reverse"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        CHECK(builtin_method(VALUE_LIST, slice_str(names[i])) == NULL);
        CHECK(builtin_method(VALUE_DICT, slice_str(names[i])) == NULL);
    }
}

TEST(methods_that_would_escape_are_refused_for_safe_strings)
{
    struct value safe = {.kind = VALUE_STRING, .markup = true, .string = slice_str(" a ")};
    struct value pair[2] = {str("a"), str("<")};
    struct call_arguments none = {0};
    struct call_arguments two = {.values = pair, .count = 2};
    struct value out;
    fresh_room();
    CHECK(builtin_run(builtin_method(VALUE_STRING, slice_str("strip")), &fixture_room, &safe, &none,
                      &out));
    CHECK_STR(repr_of(&out), "Markup('a')");
    CHECK(!builtin_run(builtin_method(VALUE_STRING, slice_str("replace")), &fixture_room, &safe,
                       &two, &out));
    CHECK_STR(fixture_room.error,
              "replace() of a string marked as safe would escape its arguments; not implemented");
}

TEST(searching_takes_steps_by_the_bytes_read)
{
    static uint8_t bytes[64000];
    memset(bytes, 'a', sizeof(bytes));
    struct value subject = value_string(slice_of(bytes, sizeof(bytes)));
    struct value wanted = str("b");
    struct call_arguments arguments = {.values = &wanted, .count = 1};
    struct value out;
    fresh_room();
    fixture_room.steps_left = 900;
    CHECK(!builtin_run(builtin_method(VALUE_STRING, slice_str("find")), &fixture_room, &subject,
                       &arguments, &out));
    CHECK_EQ(fixture_room.status, STATUS_TOO_LARGE);
}
