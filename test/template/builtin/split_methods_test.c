// SPDX-License-Identifier: Apache-2.0
//
// The expected values were computed by Jinja 3.1.6 with Python 3.11.

#include "template/builtin/builtin_fixture.h"

TEST(split_without_a_separator_drops_empty_fields)
{
    static const struct builtin_row rows[] = {
        {"split", "\"  a b\\u001cc\\u3000\\nd  \"", NULL, NULL, "['a', 'b', 'c', 'd']"},
        {"split", "\"\"", NULL, NULL, "[]"},
        {"split", "\"   \"", NULL, NULL, "[]"},
        {"split", "\" a b  c \"", "[null, 1]", NULL, "['a', 'b  c ']"},
        {"split", "\" a b  c \"", NULL, "{\"maxsplit\": 2}", "['a', 'b', 'c ']"},
        {"rsplit", "\" a b  c \"", "[null, 1]", NULL, "[' a b', 'c']"},
        {"rsplit", "\" a b  c \"", NULL, NULL, "['a', 'b', 'c']"},
        {"split", "\"abc\"", "[null, 0]", NULL, "['abc']"},
        {"rsplit", "\" abc \"", "[null, 0]", NULL, "[' abc']"},
    };
    check_methods(rows, ARRAY_COUNT(rows));
}

TEST(split_at_a_separator_keeps_empty_fields)
{
    static const struct builtin_row rows[] = {
        {"split", "\"a,b,,c\"", "[\",\"]", NULL, "['a', 'b', '', 'c']"},
        {"split", "\"\"", "[\",\"]", NULL, "['']"},
        {"split", "\"aXXbXXc\"", "[\"XX\", 1]", NULL, "['a', 'bXXc']"},
        {"rsplit", "\"aXXbXXc\"", "[\"XX\", 1]", NULL, "['aXXb', 'c']"},
        {"rsplit", "\"XXXa\"", "[\"XX\"]", NULL, "['X', 'a']"},
        {"split", "\"XXXa\"", "[\"XX\"]", NULL, "['', 'Xa']"},
        {"split", "\"\\u65e5\\u00e9\\u65e5\"", "[\"\\u65e5\"]", NULL, "['', '\xc3\xa9', '']"},
        {"split", "\"a,b,,c\"", NULL, "{\"sep\": \",\", \"maxsplit\": 1}", "['a', 'b,,c']"},
        {"split", "\"ab\"", "[\"ab\"]", NULL, "['', '']"},
        {"split", "\"a,b,,c\"", "[\"\"]", NULL, "empty separator"},
        {"split", "\"a,b,,c\"", "[1]", NULL, "must be str, not int"},
        {"split", "\"</think>x</think>y\"", "[\"</think>\"]", NULL, "['', 'x', 'y']"},
    };
    check_methods(rows, ARRAY_COUNT(rows));
}

TEST(splitlines_cuts_at_all_ends_of_lines)
{
    static const struct builtin_row rows[] = {
        {"splitlines",
         "\"a\\nb\\r\\nc\\rd\\u000be\\ff\\u001cg\\u001dh\\u001ei\\u0085j\\u2028k\\u2029l\\u001fm\"",
         NULL, NULL, "['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l\\x1fm']"},
        {"splitlines", "\"a\\n\\nb\\r\\n\"", "[true]", NULL, "['a\\n', '\\n', 'b\\r\\n']"},
        {"splitlines", "\"\"", NULL, NULL, "[]"},
        {"splitlines", "\"\\n\"", NULL, NULL, "['']"},
        {"splitlines", "\"a\"", NULL, "{\"keepends\": true}", "['a']"},
    };
    check_methods(rows, ARRAY_COUNT(rows));
}

TEST(partition_cuts_once)
{
    static const struct builtin_row rows[] = {
        {"partition", "\"a=b=c\"", "[\"=\"]", NULL, "('a', '=', 'b=c')"},
        {"rpartition", "\"a=b=c\"", "[\"=\"]", NULL, "('a=b', '=', 'c')"},
        {"partition", "\"abc\"", "[\"=\"]", NULL, "('abc', '', '')"},
        {"rpartition", "\"abc\"", "[\"=\"]", NULL, "('', '', 'abc')"},
        {"partition", "\"\"", "[\"x\"]", NULL, "('', '', '')"},
        {"partition", "\"=\"", "[\"=\"]", NULL, "('', '=', '')"},
        {"partition", "\"a\"", "[\"\"]", NULL, "empty separator"},
    };
    check_methods(rows, ARRAY_COUNT(rows));
}
