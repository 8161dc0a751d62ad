// SPDX-License-Identifier: Apache-2.0
//
// How tags are read.

#include "template/template_fixture.h"

TEST(the_first_true_branch_is_rendered)
{
    static const struct claim claims[] = {
        {"{% if x == 1 %}a{% elif x == 5 %}b{% else %}c{% endif %}", "b"},
        {"{% if n %}a{% elif e %}b{% else %}c{% endif %}", "c"},
        {"{% if x: %}a{% endif %}", "a"},
        {"{% if n %}a{% endif %}", ""},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(loops_unpack_and_filter)
{
    static const struct claim claims[] = {
        {"{% for a, b in [(1, 2), [3, 4], \"xy\"] %}{{ a }}{{ b }};{% endfor %}", "12;34;xy;"},
        {"{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "123"},
        {"{% for i in l if i != 2 %}{{ i }}{% endfor %}", "13"},
        {"{% for i in e %}x{% else %}none{% endfor %}", "none"},
        {"{% for i in 1, 2 %}{{ i }}{% endfor %}", "12"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(set_assigns_values_tuples_blocks_and_attributes)
{
    static const struct claim claims[] = {
        {"{% set a = 1 %}{{ a }}", "1"},
        {"{% set a, b = 1, 2 %}{{ b }}{{ a }}", "21"},
        {"{% set a = 1, 2 %}{{ a }}", "(1, 2)"},
        {"{% set a %}x{{ x }}{% endset %}{{ a }}", "x5"},
        {"{% set a | upper %}x{{ s }}{% endset %}{{ a }}", "XH\303\211LLO"},
        {"{% set ns = namespace() %}{% set ns.a, b = 1, 2 %}{{ ns.a }}{{ b }}", "12"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(macros_have_defaults_and_names)
{
    static const struct claim claims[] = {
        {"{% macro m(a, b=2, c='z') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) "
         "}}{{ m(c=4, a=5) }}{{ m() }}",
         "[12z][13z][524][2z]"},
        {"{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(7) }}", "7"},
        {"{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, a=3) }}",
         "(1, 2){'a': 3}"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(with_filter_and_generation_blocks_are_rendered)
{
    static const struct claim claims[] = {
        {"{% filter upper %}a{{ s }}{% endfilter %}", "AH\303\211LLO"},
        {"{% filter upper | replace(\"A\", \"b\") %}aa{% endfilter %}", "bb"},
        {"{% with a = 1, b = x %}{{ a }}{{ b }}{% endwith %}{{ a }}", "15"},
        {"{% generation %}a{{ x }}{% endgeneration %}", "a5"},
        {"{% for i in l %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "13"},
        {"{% for i in l %}{{ i }}{% break %}{% endfor %}", "1"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(broken_tags_are_refused)
{
    static const struct claim claims[] = {
        {"{% if x %}a", "no 'elif'"},
        {"{% endif %}", "tag 'endif'"},
        {"{% for x %}{% endfor %}", "'in'"},
        {"{% set 1 = 2 %}", "a name to assign to"},
        {"{% set true = 2 %}", "a name to assign to"},
        {"{% nonsense %}", "tag 'nonsense' is not known"},
        {"{% %}", "expected a name"},
        {"{% if x %}{% endfor %}", "tag 'endfor'"},
        {"{% break %}", "outside of a loop"},
        {"{% for i in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "outside"},
        {"{% for i in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", "outside"},
        {"{% for loop in l %}{% endfor %}", "'loop'"},
        {"{% for i in l %}{% set loop = 1 %}{% endfor %}", "'loop'"},
        {"{% macro m(a=1, b) %}{% endmacro %}", "default"},
        {"{% if x y %}{% endif %}", "'%}'"},
    };
    check_fails(claims, ARRAY_COUNT(claims), false);
}

TEST(errors_name_tags_that_are_not_implemented)
{
    static const struct claim claims[] = {
        {"{% include 'a' %}", "tag 'include' is not implemented"},
        {"{% import 'a' as b %}", "tag 'import' is not implemented"},
        {"{% from 'a' import b %}", "tag 'from' is not implemented"},
        {"{% extends 'a' %}", "tag 'extends' is not implemented"},
        {"{% block a %}", "tag 'block' is not implemented"},
        {"{% call m() %}", "tag 'call' is not implemented"},
        {"{% autoescape true %}", "tag 'autoescape' is not implemented"},
        {"{% print 1 %}", "tag 'print' is not implemented"},
        {"{% for i in l recursive %}{% endfor %}", "'recursive'"},
    };
    check_fails(claims, ARRAY_COUNT(claims), false);
}
