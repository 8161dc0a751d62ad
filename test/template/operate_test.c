// SPDX-License-Identifier: Apache-2.0
//
// Operators, as Python has them.

#include "template/template_fixture.h"

TEST(numbers_are_added_and_multiplied_as_in_python)
{
    static const struct claim claims[] = {
        {"{{ 1 + 2 }} {{ 1 + 2.0 }} {{ true + 1 }} {{ 7 - 9 }} {{ 1.5 - 1 }} {{ 3 * 4 }} {{ 2 * "
         "1.5 }}",
         "3 3.0 2 -2 0.5 12 3.0"},
        {"{{ 1 + 2 - 3 + 4 }} {{ 10 - 2 - 3 }}", "4 5"},
        {"{{ -x }} {{ +x }} {{ -f }} {{ +t }} {{ - -3 }}", "-5 5 -1.5 1 3"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(division_gives_a_float_and_floor_division_floors)
{
    static const struct claim claims[] = {
        {"{{ 7 / 2 }} {{ 6 / 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ -7 // -2 }}",
         "3.5 2.0 3 -4 -4 3"},
        {"{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 1 // 0.3 }} {{ -0.0 // 1 }}", "3.0 -4.0 3.0 -0.0"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(the_remainder_has_the_sign_of_the_divisor)
{
    static const struct claim claims[] = {
        {"{{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7 % -3 }} {{ -6 % 3 }}", "1 2 -2 -1 0"},
        {"{{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ -4.0 % 2 }} {{ 5 % -1 }}",
         "1.5 0.5 -0.5 0.0 0"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(powers_are_whole_or_float_as_in_python)
{
    static const struct claim claims[] = {
        {"{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2.0 ** 3 }} {{ 0 ** 0 }} {{ (-2) ** 3 }} {{ 9 ** 0.5 }}",
         "1024 0.5 8.0 1 -8 3.0"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(strings_and_lists_are_joined_and_repeated)
{
    static const struct claim claims[] = {
        {"{{ 'a' + 'b' + s }}", "abh\303\251llo"},
        {"{{ [1] + l + [[2]] }} {{ (1,) + (2, 3) }}", "[1, 1, 2, 3, [2]] (1, 2, 3)"},
        {"{{ 'ab' * 3 }}|{{ 2 * 'ab' }}|{{ 'ab' * 0 }}|{{ 'ab' * -1 }}|{{ [1, 2] * 2 }}|{{ (1,) * "
         "2 }}|{{ 'x' * true }}",
         "ababab|abab|||[1, 2, 1, 2]|(1, 1)|x"},
        {"{% set y = 'a' + 'b' + 'c' %}{{ y }}{{ y + y }}", "abcabcabc"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(tildes_join_printed_values)
{
    static const struct claim claims[] = {
        {"{{ 1 ~ 2.0 ~ true ~ none ~ nothing ~ 'x' ~ [1, 'a'] }}", "12.0TrueNonex[1, 'a']"},
        {"{% set y = 1 ~ 'a' ~ 2 %}{{ y }}", "1a2"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(comparisons_chain)
{
    static const struct claim claims[] = {
        {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 >= 2 }} {{ 1 == 1.0 == true }} {{ 1 != 2 }}",
         "True False True True True"},
        {"{{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1, 2) >= (1,) }}", "True True True"},
        {"{{ none == nothing }} {{ nothing == other }} {{ none == none }} {{ [1] == [1] }} {{ [1] "
         "== (1,) }}",
         "False True True True False"},
        {"{{ {\"a\": 1} == {\"a\": 1.0} }}", "True"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(in_searches_strings_lists_and_keys)
{
    static const struct claim claims[] = {
        {"{{ 'll' in s }} {{ 'x' in s }} {{ 2 in l }} {{ '2' in l }} {{ 'a' in d }} {{ 1 in d }} "
         "{{ 'q' not in d }} {{ '' in s }} {{ 1 in nothing }}",
         "True False True False True False True True False"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(and_and_or_return_the_operand_that_decides)
{
    static const struct claim claims[] = {
        {"{{ 0 or 'a' }} {{ 1 and 'b' }} {{ '' and 1 }}| {{ none or [] }} {{ 1 or nothing.x }} {{ "
         "0 and nothing.x }} {{ 1 and 2 and 3 }} {{ not 0 }} {{ not l }}",
         "a b | [] 1 0 3 True False"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(slices_have_bounds_and_steps)
{
    static const struct claim claims[] = {
        {"{{ l[1:] }} {{ l[:1] }} {{ l[-1:] }} {{ l[:-1] }} {{ l[::2] }} {{ l[::-1] }} {{ "
         "l[2:0:-1] }} {{ l[5:] }} {{ l[-9:2] }} {{ l[:] }} {{ l[none:2] }}",
         "[2, 3] [1] [3] [1, 2] [1, 3] [3, 2, 1] [3, 2] [] [1, 2] [1, 2, 3] [1, 2]"},
        {"{{ s[1:3] }} {{ s[:-1] }} {{ s[::-1] }} {{ s[::2] }} {{ s[-2:] }} {{ s[3:1] }} {{ (1, 2, "
         "3)[1:] }} {{ s[4:1:-2] }} {{ l[-1:-4:-1] }} {{ l[::-5] }}",
         "\303\251l h\303\251ll oll\303\251h hlo lo  (2, 3) ol [3, 2, 1] [3]"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(percent_formats_strings)
{
    static const struct claim claims[] = {
        {"{{ '%s-%d' % ('a', 3) }} {{ '%s' % 'b' }}", "a-3 b"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(operands_that_python_refuses_fail)
{
    static const struct claim claims[] = {
        {"{{ 'a' + 1 }}", "'str' and 'int'"},
        {"{{ 1 + 'a' }}", "'int' and 'str'"},
        {"{{ nothing + 1 }}", "'nothing' is undefined"},
        {"{{ 'a' + nothing }}", "'nothing' is undefined"},
        {"{{ [1] + (1,) }}", "'list' and 'tuple'"},
        {"{{ 1 / 0 }}", "division by zero"},
        {"{{ 1 // 0 }}", "by zero"},
        {"{{ 1 % 0 }}", "by zero"},
        {"{{ 1.0 // 0 }}", "by zero"},
        {"{{ 1 < 'a' }}", "'<'"},
        {"{{ -s }}", "unary -"},
        {"{{ +s }}", "unary +"},
        {"{{ l['a':] }}", "slice indices"},
        {"{{ l[::0] }}", "step"},
        {"{{ d[1:] }}", "cannot be sliced"},
        {"{{ nothing[1:] }}", "undefined"},
        {"{{ 0 ** -1 }}", "negative power"},
        {"{{ 'a' * 'b' }}", "'str'"},
        {"{{ none + 1 }}", "NoneType"},
        {"{{ 1 in 5 }}", "int"},
    };
    check_fails(claims, ARRAY_COUNT(claims), true);
}

TEST(whole_numbers_beyond_64_bits_are_refused)
{
    static const struct claim claims[] = {
        {"{{ big + 1 }}", "64 bits"},
        {"{{ 9223372036854775807 + 1 }}", "64 bits"},
        {"{{ 2 ** 64 }}", "64 bits"},
        {"{{ -9223372036854775807 - 2 }}", "64 bits"},
        {"{{ 4611686018427387904 * 2 }}", "64 bits"},
        {"{{ 9007199254740993 / 3 }}", "64 bits"},
        {"{{ (-8) ** 0.5 }}", "complex"},
    };
    check_fails(claims, ARRAY_COUNT(claims), true);
}
