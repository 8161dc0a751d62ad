// SPDX-License-Identifier: Apache-2.0
//
// The limits of rendering, and the rules of statements.

#include "template/template_fixture.h"

static enum status run(const char *source, uint64_t step_max, struct template_error *error)
{
    struct fixture_result *result = malloc(sizeof(*result));
    ASSERT(result != NULL);
    enum status status = fixture_run(result, source, step_max);
    *error = result->error;
    free(result);
    return status;
}

TEST(a_template_cannot_run_for_ever)
{
    static const char *const samples[] = {
        "{% for i in range(1000) %}{% for j in range(1000) %}{% for k in range(1000) %}"
        "{% endfor %}{% endfor %}{% endfor %}",
        "{% macro m(n) %}{% for i in range(9) %}{{ m(n) if n < 4 }}{% endfor %}{% endmacro %}"
        "{% for i in range(99999) %}{{ m(3) }}{% endfor %}",
        "{% for i in range(99999) %}{% set y = 'a' * 10000 %}{% endfor %}",
        "{% set y = 'a' * 10000 %}{% for i in range(9999) %}{{ '' if y == y }}{% endfor %}",
        "{% for i in range(9999) %}{{ (5.0 | tojson)[:0] }}{% endfor %}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        struct template_error error;
        CHECK_EQ(run(samples[i], 300000, &error), STATUS_TOO_LARGE);
    }
}

TEST(macros_cannot_call_themselves_for_ever)
{
    struct template_error error;
    CHECK_EQ(run("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", 1000000, &error),
             STATUS_TOO_LARGE);
    CHECK_STR(error.text, "macros call each other too deep");
    CHECK_EQ(run("{% macro m(a) %}{{ 'x' ~ m(m(a)) }}{% endmacro %}{{ m(1) }}", 1000000, &error),
             STATUS_TOO_LARGE);
    CHECK_EQ(run("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(50) }}",
                 1000000, &error),
             STATUS_OK);
}

TEST(memory_and_output_are_bounded)
{
    struct template_error error;
    CHECK_EQ(run("{% set y = 'abcdefgh' * 1000000 %}", UINT64_MAX, &error), STATUS_TOO_LARGE);
    CHECK_EQ(run("{% set y = 'a' * 9223372036854775807 %}", UINT64_MAX, &error), STATUS_TOO_LARGE);
    CHECK_EQ(run("{% set y = [1] * 4000000000 %}", UINT64_MAX, &error), STATUS_TOO_LARGE);
    CHECK_EQ(run("{% for i in range(100000) %}0123456789abcdef{% endfor %}", UINT64_MAX, &error),
             STATUS_TOO_LARGE);
    CHECK_STR(error.text, "the output is too long");
    CHECK_EQ(run("{% set y %}{% for i in range(100000) %}0123456789abcdef{% endfor %}{% endset %}",
                 UINT64_MAX, &error),
             STATUS_TOO_LARGE);
}

TEST(calls_do_not_use_up_memory)
{
    struct template_error error;
    // 90,000 calls in 4 MiB: their frames are used again.
    CHECK_EQ(run("{% macro m(a, b, c, d) %}{% set e = a %}{% endmacro %}"
                 "{% for i in range(300) %}{% for j in range(300) %}{{ m(1, 2, 3, 4) }}"
                 "{% endfor %}{% endfor %}",
                 UINT64_MAX, &error),
             STATUS_OK);
}

TEST(errors_name_the_line_that_failed)
{
    static const struct {
        const char *source;
        uint32_t line;
    } samples[] = {
        {"a\n{{ nothing.a }}", 2},
        {"{% macro m() %}\n{{ nothing.a }}\n{% endmacro %}\n\n{{ m() }}", 2},
        {"{% if t %}\n\n{% set x = 1 + 'a' %}{% endif %}", 3},
        {"{% for i in l %}\n{% endfor %}\n{% for i in x %}{% endfor %}", 3},
        {"\n\n{{ raise_exception('no') }}", 3},
    };
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        struct template_error error;
        CHECK_EQ(run(samples[i].source, 1000, &error), STATUS_MALFORMED);
        CHECK_EQ(error.line, samples[i].line);
    }
}

TEST(a_break_leaves_captured_output_behind)
{
    static const struct claim claims[] = {
        {"{% for i in l %}{{ i }}{% set y %}lost{% break %}{% endset %}{% endfor %}!", "1!"},
        {"{% for i in l %}{% filter upper %}a{% continue %}{% endfilter %}{% endfor %}!", "!"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(an_else_runs_when_no_iteration_was_whole)
{
    static const struct claim claims[] = {
        {"{% for i in e %}a{% else %}x{% endfor %}", "x"},
        {"{% for i in l %}a{% else %}x{% endfor %}", "aaa"},
        {"{% for i in l %}{% break %}{% else %}x{% endfor %}", "x"},
        {"{% for i in l %}{% continue %}{% else %}x{% endfor %}", "x"},
        {"{% for i in l %}{% if i == 2 %}{% break %}{% endif %}{% else %}x{% endfor %}", ""},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(a_filter_block_returns_a_string)
{
    static const struct claim claims[] = {{"{% filter length %}a{% endfilter %}", "not 'str'"}};
    check_fails(claims, ARRAY_COUNT(claims), true);
}

TEST(macros_outlive_the_loops_they_were_made_in)
{
    struct template_error error;
    CHECK_EQ(run("{% set ns = namespace() %}{% for i in l %}{% macro m() %}{{ loop.index }}"
                 "{% endmacro %}{% set ns.m = m %}{% endfor %}{{ ns.m() }}",
                 1000, &error),
             STATUS_MALFORMED);
    static const struct claim claims[] = {
        {"{% set ns = namespace() %}{% macro a(k) %}{% macro b() %}{{ k }}{% endmacro %}"
         "{% set ns.f = b %}{% endmacro %}{{ a(1) }}{% set f = ns.f %}{{ a(2) }}{{ f() }}"
         "{{ ns.f() }}",
         "12"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}
