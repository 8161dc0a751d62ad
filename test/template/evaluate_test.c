// SPDX-License-Identifier: Apache-2.0
//
// Members, calls, and what is undefined.

#include "template/template_fixture.h"

TEST(a_dot_prefers_the_method_and_brackets_the_key)
{
    static const struct claim claims[] = {
        {"{{ d['items'] }} {{ d.items()|length }} {{ d.content }} {{ d['content'] }} {{ d.a }} {{ "
         "d['a'] }}",
         "[1, 2] 3 c c 1 1"},
        {"{{ d.items is defined }} {{ d.keys()|list }} {{ d['keys']()|list }}",
         "True ['a', 'items', 'content'] ['a', 'items', 'content']"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(missing_names_keys_and_items_are_undefined)
{
    static const struct claim claims[] = {
        {"[{{ d.b }}{{ d['b'] }}{{ l[9] }}{{ l[-9] }}{{ s[9] }}{{ n.a }}{{ x.a }}{{ x['a'] }}{{ "
         "l.a }}{{ l['a'] }}{{ s.a }}{{ l[1.5] }}{{ d[l] }}{{ d[1] }}{{ x[0] }}{{ nothing }}]",
         "[]"},
        {"{{ nothing is defined }}{{ d.b is undefined }}{{ not nothing }}{{ nothing|length }}{% "
         "for i in nothing %}x{% endfor %}",
         "FalseTrueTrue0"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(the_sandbox_hides_methods_that_change_values)
{
    static const struct claim claims[] = {
        {"[{{ d.pop }}{{ l.append }}{{ d.update is defined }}]", "[False]"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(a_list_with_a_star_becomes_arguments)
{
    static const struct claim claims[] = {
        {"{% macro m(a, b=7, c=8) %}{{ a }},{{ b }},{{ c }}{% endmacro %}"
         "{{ m(*l) }} {{ m(0, *l[:1]) }} {{ m(*[]) }} {{ m(*l[:1], c=5) }} {{ m(*\"ab\") }}",
         "1,2,3 0,1,8 ,7,8 1,7,5 a,b,8"},
        {"{% macro m() %}{{ varargs }}{% endmacro %}{{ m(*l, ) }}{{ range(*[2])|list }}",
         "(1, 2, 3)[0, 1]"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(indices_count_code_points)
{
    static const struct claim claims[] = {
        {"{{ s[1] }}{{ s[-1] }}{{ s[true] }}{{ l[false] }}{{ l[x - 4] }}{{ \"abc\"[\"a\" ~ 1] }}",
         "\303\251o\303\25112"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(namespaces_can_be_changed)
{
    static const struct claim claims[] = {
        {"{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% set ns.q = i "
         "%}{% endfor %}{{ ns.a }}{{ ns['a'] }}{{ ns.q }}[{{ ns.z }}]",
         "773[]"},
        {"{% set ns = namespace(a=1) %}{% macro m() %}{% set ns.a = 2 %}{% endmacro %}{{ ns.a ~ "
         "m() ~ ns.a }}",
         "12"},
        {"{% set ns = namespace(a=1, b=2) %}{% set other = ns %}{% set other.a = 5 %}{{ ns.a }}",
         "5"},
        {"{% set ns = namespace({'k': 4}, j=5) %}{{ ns.k }}{{ ns.j }}", "45"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(macros_return_strings)
{
    static const struct claim claims[] = {
        {"{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(1) + m(2) }}{{ m(3)|length }}{% set y = "
         "m(m(4)) %}{{ y }}{{ m }}{{ 'a' if m(1) == '<1>' }}",
         "<1><2>3<<4>><Macro 'm'>a"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(sums_are_printed_as_they_are_made)
{
    static const struct claim claims[] = {
        {"{{ 'a' + 'b' + s + d.content }}{{ 1 + 2 + 3 }}{{ [1] + [2] }}{{ ('a' + 'b') ~ ('c' + "
         "'d') }}",
         "abh\303\251lloc6[1, 2]abcd"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(safe_strings_are_strings)
{
    static const struct claim claims[] = {
        {"{{ 'a<b'|safe }}{{ 'a'|safe + 'b' }}{{ 'a'|safe ~ '<' }}", "a<baba<"},
        {"{{ ('a'|safe) + '<&\\'\"' }} {{ '<' + ('>'|safe) }} {{ ('<'|safe) + ('>'|safe) + '>' }}",
         "a&lt;&amp;&#39;&#34; &lt;> <>&gt;"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(undefined_values_fail_where_they_are_used)
{
    static const struct claim claims[] = {
        {"{{ nothing.a }}", "'nothing' is undefined"},
        {"{{ nothing['a'] }}", "'nothing' is undefined"},
        {"{{ nothing() }}", "'nothing' is undefined"},
        {"{{ d.b.c }}", "'b' is undefined"},
        {"{{ d.nothing() }}", "undefined"},
        {"{{ x() }}", "not callable"},
        {"{{ 'a'() }}", "not callable"},
        {"{{ l.append(1) }}", "'append' is undefined"},
        {"{{ d.pop(\"a\") }}", "'pop' is undefined"},
        {"{% set x.a = 1 %}", "non-namespace"},
        {"{% set nothing.a = 1 %}", "non-namespace"},
        {"{% set ns = namespace() %}{% set ns._a = 1 %}", "underscore"},
        {"{{ {l: 1} }}", "list"},
        {"{% for i in x %}{% endfor %}", "int"},
        {"{% for i in n %}{% endfor %}", "NoneType"},
    };
    check_fails(claims, ARRAY_COUNT(claims), true);
}

TEST(errors_name_attributes_that_only_python_has)
{
    static const struct claim claims[] = {
        {"{{ s.translate }}", "'translate' of 'str'"},
        {"{{ x.real }}", "'real' of 'int'"},
    };
    check_fails(claims, ARRAY_COUNT(claims), true);
}

TEST(macros_check_their_arguments)
{
    static const struct claim claims[] = {
        {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "not more than 1"},
        {"{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "no parameter"},
        {"{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", "no parameter"},
        {"{% set a, b = l %}", "too many values"},
        {"{% set a, b = [1] %}", "not enough values"},
        {"{% for a, b in l %}{% endfor %}", "int"},
    };
    check_fails(claims, ARRAY_COUNT(claims), true);
}
