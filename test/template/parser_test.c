// SPDX-License-Identifier: Apache-2.0
//
// The limits of the parser, and the lines of its errors.

#include "template/template_fixture.h"

static enum status compile(const char *source, struct template_error *error)
{
    struct template *template = NULL;
    enum status status = template_compile(slice_str(source), &template, error);
    template_destroy(&template);
    return status;
}

// `open` many times, then `middle`, then `close` as often.
static enum status compile_nested(const char *open, const char *middle, const char *close,
                                  unsigned depth)
{
    size_t capacity = (strlen(open) + strlen(close)) * depth + strlen(middle) + 20;
    char *source = malloc(capacity);
    ASSERT(source != NULL);
    struct text text = text_over(source, capacity - 1);
    for (unsigned i = 0; i < depth; i++) {
        text_add_str(&text, open);
    }
    text_add_str(&text, middle);
    for (unsigned i = 0; i < depth; i++) {
        text_add_str(&text, close);
    }
    source[text.size] = '\0';
    struct template_error error;
    enum status status = compile(source, &error);
    free(source);
    return status;
}

TEST(nesting_is_bounded)
{
    static const struct {
        const char *open;
        const char *middle;
        const char *close;
    } samples[] = {
        {"{% if x %}", "a", "{% endif %}"},
        {"{% for i in l %}", "a", "{% endfor %}"},
        {"{% macro m() %}", "a", "{% endmacro %}"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        const char *open = samples[i].open;
        CHECK_EQ(compile_nested(open, samples[i].middle, samples[i].close, 40), STATUS_OK);
        CHECK_EQ(compile_nested(open, samples[i].middle, samples[i].close, 5000), STATUS_TOO_LARGE);
    }
}

// {{ BEGIN, UNIT many times, END }}
static enum status compile_chain(const char *begin, const char *unit, const char *end,
                                 unsigned count)
{
    size_t capacity = strlen(begin) + strlen(unit) * count + strlen(end) + 1;
    char *source = malloc(capacity);
    ASSERT(source != NULL);
    struct text text = text_over(source, capacity - 1);
    text_add_str(&text, begin);
    for (unsigned i = 0; i < count; i++) {
        text_add_str(&text, unit);
    }
    text_add_str(&text, end);
    source[text.size] = '\0';
    struct template_error error;
    enum status status = compile(source, &error);
    free(source);
    return status;
}

TEST(chains_are_bounded_where_they_nest)
{
    static const char *const units[] = {" * 2", "|list", ".a",     "[0]",  "()",
                                        "- 1",  " ** 2", " if 1 ", "[1:]", " is defined ~ 1 if 1"};
    for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
        CHECK_EQ(compile_chain("{{ x", units[i], " }}", 5000), STATUS_TOO_LARGE);
    }
    CHECK_EQ(compile_chain("{{ ", "not ", "x }}", 5000), STATUS_TOO_LARGE);
    CHECK_EQ(compile_chain("{{ ", "- ", "x }}", 5000), STATUS_TOO_LARGE);
    CHECK_EQ(compile_chain("{{ x", " if x else x", " }}", 5000), STATUS_TOO_LARGE);
}

TEST(chains_that_do_not_nest_may_be_long)
{
    static const char *const units[] = {" + x", " ~ x", " and x", " or x",
                                        " < x", ", x",  " }}{{ x"};
    for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
        CHECK_EQ(compile_chain("{{ x", units[i], " }}", 5000), STATUS_OK);
    }
    CHECK_EQ(compile_chain("{% if x %}", "{% elif x %}", "{% endif %}", 5000), STATUS_OK);
    CHECK_EQ(compile_chain("{{ m(1", ", 1", ") }}", 63), STATUS_OK);
    CHECK_EQ(compile_chain("{{ m(1", ", 1", ") }}", 64), STATUS_TOO_LARGE);
}

TEST(names_are_bounded)
{
    char source[60000];
    struct text text = text_over(source, sizeof(source) - 1);
    for (unsigned i = 0; i < 5000; i++) {
        text_add_format(&text, "{{a%u}}", i);
    }
    source[text.size] = '\0';
    struct template_error error;
    CHECK_EQ(compile(source, &error), STATUS_TOO_LARGE);
    CHECK_STR(error.text, "too many names");
}

TEST(errors_name_their_line)
{
    static const struct {
        const char *source;
        uint32_t line;
    } samples[] = {
        {"{{ 1 + }}", 1},           {"a\nb\n{% nonsense %}", 3},
        {"{{\n\nx|nofilter }}", 3}, {"\n\n{{ 'a }}", 3},
        {"{% if x %}\n\n", 1},      {"\r\n\r\r{% include 'a' %}", 4},
        {"\n{{ cycler }}", 2},      {"\n{% for i in l %}\n{{ loop }}\n{% endfor %}", 3},
    };
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        struct template_error error;
        CHECK_EQ(compile(samples[i].source, &error), STATUS_MALFORMED);
        CHECK_EQ(error.line, samples[i].line);
    }
}
