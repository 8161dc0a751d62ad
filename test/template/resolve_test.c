// SPDX-License-Identifier: Apache-2.0
//
// Which variable a name means.

#include "template/template_fixture.h"

TEST(assignments_in_a_loop_end_with_it)
{
    static const struct claim claims[] = {
        {"{% set a = 1 %}{% for i in l %}{{ a }}{% set a = i %}{{ a }};{% endfor %}{{ a }}",
         "11;12;13;1"},
        {"{% for i in l %}{% set q = i %}{% endfor %}[{{ q }}]", "[]"},
        {"{% for x in l %}{{ x }}{% endfor %}{{ x }}", "1235"},
        {"{% for i in l %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "5152535"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(assignments_in_a_branch_stay)
{
    static const struct claim claims[] = {
        {"{% if t %}{% set a = 1 %}{% endif %}{{ a }}", "1"},
        {"{% if n %}{% set x = 1 %}{% endif %}{{ x }}", "5"},
        {"{% if n %}{% set a = 1 %}{% else %}{% set a = 2 %}{% endif %}{{ a }}", "2"},
        {"{% for i in l %}{% if i == 2 %}{% set x = 9 %}{% endif %}{{ x }}{% endfor %}{{ x }}",
         "5955"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(an_assignment_hides_the_variable_in_all_of_its_scope)
{
    static const struct claim claims[] = {
        {"{% macro m() %}[{{ x }}]{% endmacro %}{{ m() }}{% set x = 1 %}{{ m() }}", "[][1]"},
        {"{% for i in l %}[{{ x }}]{% endfor %}{% set x = 1 %}", "[][][]"},
        {"{{ x }}{% set x = 1 %}{{ x }}", "51"},
        {"{% set x = x + 1 %}{{ x }}", "6"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(macros_read_the_scope_they_are_written_in)
{
    static const struct claim claims[] = {
        {"{% macro m() %}{{ i }}{{ x }}{% endmacro %}{% for i in l %}{{ m() }}{% endfor %}", "555"},
        {"{% set a = 1 %}{% macro m() %}{{ a }}{% set a = 2 %}{{ a }}{% endmacro %}{{ m() }}{{ a "
         "}}{% set a = 3 %}{{ m() }}",
         "12132"},
        {"{% for i in l %}{% macro m() %}{{ i }}{{ loop.index0 }}{% endmacro %}{{ m() }}{% endfor "
         "%}",
         "102132"},
        {"{% macro a() %}{% macro b(k) %}{{ k }}{{ j }}{% endmacro %}{% set j = 7 %}{{ b(1) }}{% "
         "endmacro %}{{ a() }}",
         "17"},
        {"{% macro f(k) %}{% if k %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(4) }}",
         "4321"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(blocks_are_scopes)
{
    static const struct claim claims[] = {
        {"{% set a = 1 %}{% set b %}{% set a = 2 %}{{ a }}{% endset %}{{ a }}{{ b }}", "12"},
        {"{% set a = 1 %}{% filter upper %}{% set a = 2 %}{{ a }}{% endfilter %}{{ a }}", "21"},
        {"{% set a = 1 %}{% generation %}{% set a = 2 %}{{ a }}{% endgeneration %}{{ a }}", "21"},
        {"{% with x = x + 1, y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}", "655"},
        {"{% for i in e %}{% else %}{% set x = 1 %}{{ x }}{% endfor %}{{ x }}", "15"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(the_test_of_a_loop_has_its_own_variables)
{
    static const struct claim claims[] = {
        {"{% for x in l if x > 1 %}{{ x }}{% endfor %}{{ x }}", "235"},
        {"{% for i in l %}{% for j in l if loop.first %}{{ j }}{% endfor %};{% endfor %}",
         "123;;;"},
        {"{% set ns = namespace(k=0) %}{% for i in l if ns.k < 2 %}{% set ns.k = ns.k + 1 %}{{ i "
         "}}{% endfor %}",
         "12"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(parameters_hide_variables)
{
    static const struct claim claims[] = {
        {"{% macro m(x, loop=3) %}{{ x }}{{ loop }}{% endmacro %}{{ m(1) }}", "13"},
        {"{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}{{ m(1) }}", "1"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(errors_name_functions_that_only_jinja_has)
{
    static const struct claim claims[] = {
        {"{{ cycler(1) }}", "'cycler' is not implemented"},
        {"{{ joiner() }}", "'joiner'"},
        {"{{ lipsum() }}", "'lipsum'"},
        {"{{ self }}", "'self'"},
        {"{% macro m() %}{{ caller() }}{% endmacro %}", "'caller'"},
        {"{% for i in l %}{{ loop }}{% endfor %}", "'loop' without"},
        {"{% for i in l %}{{ loop.nothing }}{% endfor %}", "'nothing' of 'loop'"},
        {"{% for i in l %}{{ loop(l) }}{% endfor %}", "'loop'"},
    };
    check_fails(claims, ARRAY_COUNT(claims), false);
}
