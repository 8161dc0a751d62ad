// SPDX-License-Identifier: Apache-2.0
//
// The expected values were computed by Jinja 3.1.6 with Python 3.11.

#include "template/builtin/builtin_fixture.h"

TEST(tests_of_kinds_agree_with_jinja)
{
    static const struct builtin_row rows[] = {
        {"number", "true", NULL, NULL, "True"},
        {"integer", "true", NULL, NULL, "False"},
        {"integer", "1", NULL, NULL, "True"},
        {"integer", "100000000000000000000", NULL, NULL, "True"},
        {"float", "1.0", NULL, NULL, "True"},
        {"number", "\"1\"", NULL, NULL, "False"},
        {"string", "\"1\"", NULL, NULL, "True"},
        {"mapping", "{}", NULL, NULL, "True"},
        {"mapping", "[]", NULL, NULL, "False"},
        {"boolean", "false", NULL, NULL, "True"},
        {"boolean", "0", NULL, NULL, "False"},
        {"true", "true", NULL, NULL, "True"},
        {"true", "1", NULL, NULL, "False"},
        {"false", "false", NULL, NULL, "True"},
        {"false", "0", NULL, NULL, "False"},
        {"none", "null", NULL, NULL, "True"},
        {"none", NULL, NULL, NULL, "False"},
        {"defined", "null", NULL, NULL, "True"},
        {"defined", NULL, NULL, NULL, "False"},
        {"undefined", NULL, NULL, NULL, "True"},
    };
    check_tests(rows, ARRAY_COUNT(rows));
}

TEST(undefined_passes_most_tests_of_kinds)
{
    static const struct builtin_row rows[] = {
        {"sequence", NULL, NULL, NULL, "True"},    {"iterable", NULL, NULL, NULL, "True"},
        {"callable", NULL, NULL, NULL, "True"},    {"sequence", "{}", NULL, NULL, "True"},
        {"sequence", "\"a\"", NULL, NULL, "True"}, {"sequence", "1", NULL, NULL, "False"},
        {"iterable", "\"a\"", NULL, NULL, "True"}, {"iterable", "{}", NULL, NULL, "True"},
        {"iterable", "null", NULL, NULL, "False"}, {"callable", "1", NULL, NULL, "False"},
        {"escaped", "\"a\"", NULL, NULL, "False"},
    };
    check_tests(rows, ARRAY_COUNT(rows));
}

TEST(tests_compare_values)
{
    static const struct builtin_row rows[] = {
        {"eq", "1", "[1.0]", NULL, "True"},
        {"==", "\"a\"", "[\"a\"]", NULL, "True"},
        {"equalto", "null", "[null]", NULL, "True"},
        {"ne", "[1]", "[[1, 2]]", NULL, "True"},
        {"!=", "{\"a\": 1, \"b\": 2}", "[{\"b\": 2, \"a\": 1}]", NULL, "False"},
        {"lt", "1", "[2.5]", NULL, "True"},
        {"<=", "\"a\"", "[\"a\"]", NULL, "True"},
        {"gt", "\"b\"", "[\"a\"]", NULL, "True"},
        {">=", "1", "[2]", NULL, "False"},
        {"greaterthan", "2", "[1]", NULL, "True"},
        {"lessthan", "[1]", "[[1, 0]]", NULL, "True"},
        {"lt", "\"a\"", "[1]", NULL, "'<' not supported between instances of 'str' and 'int'"},
        {"eq", NULL, "[null]", NULL, "False"},
    };
    check_tests(rows, ARRAY_COUNT(rows));
}

TEST(tests_check_membership_and_division)
{
    static const struct builtin_row rows[] = {
        {"in", "\"a\"", "[\"abc\"]", NULL, "True"},
        {"in", "1", "[[1.0]]", NULL, "True"},
        {"in", "\"k\"", "[{\"k\": 1}]", NULL, "True"},
        {"in", "1", "[\"a\"]", NULL, "'in <string>' requires string as left operand, not int"},
        {"odd", "3", NULL, NULL, "True"},
        {"odd", "-3", NULL, NULL, "True"},
        {"even", "2.0", NULL, NULL, "True"},
        {"even", "100000000000000000000", NULL, NULL, "True"},
        {"divisibleby", "9", "[3]", NULL, "True"},
        {"divisibleby", "-9", "[2]", NULL, "False"},
        {"divisibleby", "9", "[0]", NULL, "integer division or modulo by zero"},
        {"odd", "\"a\"", NULL, NULL, "not all arguments converted during string formatting"},
    };
    check_tests(rows, ARRAY_COUNT(rows));
}

TEST(tests_check_case_and_names_of_builtins)
{
    static const struct builtin_row rows[] = {
        {"lower", "\"a\\u00e9\"", NULL, NULL, "True"},
        {"lower", "\"aB\"", NULL, NULL, "False"},
        {"upper", "\"A1\"", NULL, NULL, "True"},
        {"upper", "null", NULL, NULL, "False"},
        {"filter", "\"upper\"", NULL, NULL, "True"},
        {"filter", "\"escape\"", NULL, NULL, "True"},
        {"filter", "\"nothing\"", NULL, NULL, "False"},
        {"test", "\"==\"", NULL, NULL, "True"},
        {"test", "\"nothing\"", NULL, NULL, "False"},
        {"filter", "[1]", NULL, NULL, "unhashable type: 'list'"},
    };
    check_tests(rows, ARRAY_COUNT(rows));
}

TEST(sameas_compares_objects_that_are_unique)
{
    static const struct builtin_row rows[] = {
        {"sameas", "false", "[false]", NULL, "True"},
        {"sameas", "0", "[false]", NULL, "False"},
        {"sameas", "null", "[null]", NULL, "True"},
        {"sameas", "true", "[false]", NULL, "False"},
        {"sameas", "[1]", "[[1]]", NULL, "False"},
        {"sameas", "1", "[\"a\"]", NULL, "False"},
        {"sameas", "5", "[5]", NULL, "sameas of two int is not implemented"},
    };
    check_tests(rows, ARRAY_COUNT(rows));
}
