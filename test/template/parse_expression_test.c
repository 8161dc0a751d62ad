// SPDX-License-Identifier: Apache-2.0
//
// How expressions are read.  The order of binding is Jinja's, which is not always Python's.

#include "template/template_fixture.h"

TEST(operators_bind_as_in_jinja)
{
    static const struct claim claims[] = {
        {"{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ 1 ~ 2 + 3 ~ 4 if "
         "false else 0 }} {{ not 1 == 2 }} {{ 1 + 1 ~ 2 if 0 else \"k\" }}",
         "7 9 4 64 0 True k"},
        {"{{ 1 or 0 and 0 }} {{ not 0 and 1 }} {{ 2 - 1 - 1 }} {{ 8 / 2 / 2 }} {{ 7 // 2 * 2 }} {{ "
         "1 if 0 else 2 if 0 else 3 }}",
         "1 1 0 2.0 6 3"},
        {"{{ l|length * 2 }}", "6"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(an_if_without_else_is_undefined)
{
    static const struct claim claims[] = {
        {"[{{ 'a' if false }}] {{ ('a' if false) is defined }} {{ 'a' if true }}", "[] False a"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(literals_are_those_of_python)
{
    static const struct claim claims[] = {
        {"{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1.5e3 }} {{ 1e5 }} {{ 1_0.2_5 }} {{ "
         "123456789012345678901234567890 }} {{ 0 }} {{ 00 }}",
         "1000 31 5 15 1500.0 100000.0 10.25 123456789012345678901234567890 0 0"},
        {"{{ 'a' \"b\" 'c' }} {{ true }} {{ True }} {{ false }} {{ None }} {{ none }}",
         "abc True True False None None"},
        {"{{ 'a\\nb\\x41\\u00e9\\101\\q\\\\\\'' }}", "a\nbA\303\251A\\q\\'"},
        {"{{ [] }} {{ [1, 2,] }} {{ () }} {{ (1,) }} {{ 1, 2 }} {{ {} }} {{ {'a': 1, 'b': [2], 3: "
         "none,} }} {{ {'a': 1, 'a': 2} }}",
         "[] [1, 2] () (1,) (1, 2) {} {'a': 1, 'b': [2], 3: None} {'a': 2}"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(tests_take_bare_arguments)
{
    static const struct claim claims[] = {
        {"{{ 4 is divisibleby 2 }} {{ 4 is divisibleby(3) }} {{ x is not none }} {{ x is defined "
         "and x is number }} {{ 2 is in [1, 2] }} {{ s is string or 1 }} {{ nothing is not defined "
         "}} {{ x is equalto 5 }}",
         "True False True True True True True True"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(filters_follow_everything_before_them)
{
    static const struct claim claims[] = {
        {"{{ 'a,b'.split(',')|length }} {{ [3, 1]|sort|first }} {{ 'x'|upper ~ 'y'|upper }} {{ (1, "
         "2)|length }} {{ 'abc'|replace('b', 'd') }} {{ nothing|default('q') }} {{ -3|abs }}",
         "2 1 XY 2 adc q 3"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(dots_take_numbers)
{
    static const struct claim claims[] = {
        {"{{ l.0 }} {{ l.2 }} {{ [[1, 2]].0.1 }}", "1 3 2"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(broken_expressions_are_refused)
{
    static const struct claim claims[] = {
        {"{{ }}", "expected an expression"},
        {"{{ 1 + }}", "expected an expression"},
        {"{{ (1 }}", "match"},
        {"{{ [1, }}", "match"},
        {"{{ a b }}", "not 'b'"},
        {"{{ {1 2} }}", "':'"},
        {"{{ f(a=1, 2) }}", "after one with a name"},
        {"{{ f(a=1, a=2) }}", "twice"},
        {"{{ f(**a) }}", "not implemented"},
        {"{{ x is }}", "expected a name"},
        {"{{ x is defined is defined }}", "after a test"},
        {"{{ x | }}", "expected a name"},
        {"{{ 'a\\ud800' }}", "escape"},
        {"{{ 'abc }}", "no end"},
        {"{{ x ? y }}", "an unexpected character"},
        {"{{ x. }}", "after"},
        {"{{ 1 if }}", "expected"},
        {"{{ 0x11111111111111111111 }}", "too long"},
    };
    check_fails(claims, ARRAY_COUNT(claims), false);
}

TEST(errors_name_expressions_that_are_not_implemented)
{
    static const struct claim claims[] = {
        {"{{ x|nofilter }}", "filter 'nofilter' is not implemented"},
        {"{{ x is notest }}", "test 'notest' is not implemented"},
    };
    check_fails(claims, ARRAY_COUNT(claims), false);
}
