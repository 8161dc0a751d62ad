// SPDX-License-Identifier: Apache-2.0
//
// The functions that templates have.

#include "template/template_fixture.h"

TEST(ranges_count_up_and_down)
{
    static const struct claim claims[] = {
        {"{% for i in range(3) %}{{ i }}{% endfor %}{% for i in range(1, 10, 4) %}{{ i }}{% endfor "
         "%}{% for i in range(3, 0, -1) %}{{ i }}{% endfor %}{{ range(5)|length }}{{ range(0)|list "
         "}}{{ range(5, 2)|list }}{{ 2 in range(3) }}{{ range(9)[2] }}",
         "0121593215[][]True2"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(dict_takes_pairs_and_names)
{
    static const struct claim claims[] = {
        {"{{ dict(a=1, b=2) }}{{ dict([('a', 1), ('b', 2), ('a', 3)]) }}{{ dict({'q': 1}, z=2) "
         "}}{{ dict() }}",
         "{'a': 1, 'b': 2}{'a': 3, 'b': 2}{'q': 1, 'z': 2}{}"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(dates_are_formatted_as_in_python)
{
    static const struct claim claims[] = {
        {"{{ strftime_now('%d %b %Y %H:%M:%S') }}|{{ strftime_now('%A %a %B %j %-d %e %y %I %p %m "
         "%F %T %D %R %% %-m %h') }}|{{ strftime_now('') }}",
         "02 Jan 2026 03:04:05|Friday Fri January 002 2  2 26 03 AM 01 2026-01-02 03:04:05 "
         "01/02/26 03:04 % 1 Jan|"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(variables_hide_functions)
{
    static const struct claim claims[] = {
        {"{% set range = 1 %}{{ range }}", "1"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(functions_check_their_arguments)
{
    static const struct claim claims[] = {
        {"{{ range()|list }}", "1 to 3"},
        {"{{ range('a')|list }}", "whole numbers"},
        {"{{ range(1, 2, 0)|list }}", "zero"},
        {"{{ range(100001)|length }}", "too big"},
        {"{{ range(9223372036854775807, -9223372036854775807, -1)|list }}", "too big"},
        {"{{ dict(1) }}", "int"},
        {"{{ dict([1]) }}", "int"},
        {"{{ dict(['abc']) }}", "pairs"},
        {"{{ dict(l, l) }}", "one argument"},
        {"{{ namespace(_a=1) }}", "underscore"},
        {"{{ raise_exception('no ' ~ x) }}", "no 5"},
        {"{{ raise_exception() }}", "one argument"},
        {"{{ strftime_now('%Q') }}", "not implemented"},
        {"{{ strftime_now('%') }}", "not implemented"},
        {"{{ strftime_now(1) }}", "one string"},
    };
    check_fails(claims, ARRAY_COUNT(claims), true);
}

TEST(ranges_that_could_be_told_from_lists_are_refused)
{
    static const struct claim claims[] = {
        {"{{ range(3) }}", "'range' that is printed"},
        {"{% set y = range(3) %}", "'range' that is printed"},
        {"{{ range(3)|string }}", "'range' that is printed"},
        {"{{ range(3) == [0, 1, 2] }}", "'range' that is printed"},
        {"{{ range(3)[1:] }}", "'range' that is printed"},
        {"{{ [range(3)] }}", "'range' that is printed"},
    };
    check_fails(claims, ARRAY_COUNT(claims), false);
}
