// SPDX-License-Identifier: Apache-2.0
//
// The variable `loop`.

#include "template/template_fixture.h"

TEST(places_are_counted_from_both_ends)
{
    static const struct claim claims[] = {
        {"{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 "
         "}}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% "
         "endfor %}",
         "1032TrueFalse310;2121FalseFalse310;3210FalseTrue310;"},
        {"{% for c in s %}{{ loop['index'] }}/{{ loop.length }} {% endfor %}",
         "1/5 2/5 3/5 4/5 5/5 "},
        {"{% for k in d %}{{ loop.last }}{{ k }}{% endfor %}", "FalseaFalseitemsTruecontent"},
        {"{% for k, v in d.items() %}{{ loop.length }}{{ k }}{{ v }}{% endfor %}",
         "3a13items[1, 2]3contentc"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(previtem_and_nextitem_are_the_neighbours)
{
    static const struct claim claims[] = {
        {"{% for i in l %}[{{ loop.previtem }}{{ i }}{{ loop.nextitem }}]{{ loop.previtem is "
         "defined }}{{ loop.nextitem is defined }}{% endfor %}",
         "[12]FalseTrue[123]TrueTrue[23]TrueFalse"},
        {"{% for m in messages %}{{ m.role }}{% if loop.nextitem %}>{{ loop.nextitem.role }}{% "
         "endif %} {% endfor %}",
         "user>assistant assistant>user user "},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(a_filtered_loop_counts_items_that_pass)
{
    static const struct claim claims[] = {
        {"{% for i in [1, 2, 3, 4, 5] if i % 2 %}{{ loop.index }}/{{ loop.length }} {{ "
         "loop.revindex }}{{ loop.last }}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }};{% endfor "
         "%}",
         "1/3 3False<1>3;2/3 2False1<3>5;3/3 1True3<5>;"},
        {"{% for i in [1, 2, 3, 4, 5] if i % 2 %}{{ loop.nextitem }}{{ loop.last }}{{ loop.length "
         "}}{{ i }};{% endfor %}",
         "3False31;5False33;True35;"},
        {"{% for i in l if i > 5 %}x{% else %}none{% endfor %}", "none"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(a_test_sees_changes_of_the_body)
{
    static const struct claim claims[] = {
        {"{% set ns = namespace(stop=false) %}{% for i in l if not ns.stop %}{{ i }}{% if i == 2 "
         "%}{% set ns.stop = true %}{% endif %}{% endfor %}",
         "12"},
        {"{% set ns = namespace(stop=false) %}{% for i in l if not ns.stop %}{{ loop.last }}{{ i "
         "}}{% if i == 1 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
         "False1True2"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(loops_inside_loops_have_their_own)
{
    static const struct claim claims[] = {
        {"{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor "
         "%}",
         "1231;1232;1233;"},
        {"{% for i in l %}{% for j in e %}{% else %}{{ loop.index }}{% endfor %}{% endfor %}",
         "123"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(cycle_repeats_and_changed_compares)
{
    static const struct claim claims[] = {
        {"{% for i in [1, 1, 2, 2, 1] %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i) }}{{ "
         "loop.changed(1, 2) }}{% endfor %}",
         "aTrueTruebTrueTrueaTrueTruebTrueTrueaTrueTrue"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(a_cycle_needs_items)
{
    static const struct claim claims[] = {
        {"{% for i in l %}{{ loop.cycle() }}{% endfor %}", "cycling"},
    };
    check_fails(claims, ARRAY_COUNT(claims), true);
}

#define MACRO_IN_TEST(body)                                                                        \
    "{% for x in l if not ns.m or ns.m() %}{% macro m() %}" body "{% endmacro %}"                  \
    "{% set ns.m = m %}{{ x }}{% endfor %}"
#define SPACE "{% set ns = namespace() %}"

TEST(a_macro_of_the_body_that_the_test_calls_reads_the_loop)
{
    static const struct claim claims[] = {
        {SPACE MACRO_IN_TEST("{{ loop.cycle('a', 'b') }}"), "123"},
        {SPACE MACRO_IN_TEST("{{ loop.index }}"), "123"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(a_macro_that_the_test_calls_cannot_look_ahead)
{
    static const struct claim claims[] = {
        {SPACE MACRO_IN_TEST("{{ loop.length }}"), "generator already executing"},
        {SPACE MACRO_IN_TEST("{{ loop.last }}"), "generator already executing"},
        {SPACE MACRO_IN_TEST("{{ loop.nextitem }}"), "generator already executing"},
    };
    check_fails(claims, ARRAY_COUNT(claims), true);
}

TEST(a_macro_of_an_earlier_run_finds_no_loop_before_the_first_item)
{
    static const struct claim claims[] = {
        {SPACE "{% for i in l %}" MACRO_IN_TEST("{{ loop.cycle('a', 'b') }}") "{% endfor %}",
         "'loop' is undefined"},
        {SPACE "{% for i in l %}" MACRO_IN_TEST("{{ loop.index }}{{ loop.length }}") "{% endfor %}",
         "generator already executing"},
        {SPACE "{% for i in [1, 2] %}{% for x in [1] if not ns.m or ns.m() %}{% macro m() %}"
               "{{ loop.length }}{% endmacro %}{% set ns.m = m %}{% endfor %}{% endfor %}",
         "'loop' is undefined"},
    };
    check_fails(claims, ARRAY_COUNT(claims), true);
}
