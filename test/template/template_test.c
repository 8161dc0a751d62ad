// SPDX-License-Identifier: Apache-2.0

#include "template/template.h"

#include "template/template_fixture.h"

static struct template *compiled(const char *source)
{
    struct template *template = NULL;
    struct template_error error;
    enum status status = template_compile(slice_str(source), &template, &error);
    ASSERT(status == STATUS_OK);
    return template;
}

TEST(one_newline_at_the_end_is_removed_and_others_become_line_feeds)
{
    static const struct claim claims[] = {
        {"", ""},           {"\n", ""},
        {"a\n", "a"},       {"a\n\n", "a\n"},
        {"a\r\n", "a"},     {"a\r\nb\rc\n\r", "a\nb\nc\n"},
        {"a\r\r\n", "a\n"}, {"{{ 'a\r\nb' }}", "a\nb"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(a_chat_is_rendered)
{
    static const struct claim claims[] = {
        {"{%- for message in messages %}\n"
         "    {{- '<' + message.role + '>' + message['content'] | trim + '\\n' }}\n"
         "{%- endfor %}\n"
         "{%- if add_generation_prompt is not defined %}\n"
         "    {{- '<assistant>' }}\n"
         "{%- endif %}\n",
         "<user>hi\n<assistant>yo\n<user><b>\n<assistant>"},
    };
    check_renders(claims, ARRAY_COUNT(claims));
}

TEST(only_utf8_is_a_template)
{
    static const char *const samples[] = {
        "\xff",         "a\xc3",           "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80",
        "\xe0\x80\x80", "\xf0\x80\x80\x80"};
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        struct template *template = NULL;
        struct template_error error;
        CHECK_EQ(template_compile(slice_str(samples[i]), &template, &error), STATUS_MALFORMED);
        CHECK(template == NULL);
    }
}

TEST(long_templates_are_refused)
{
    size_t size = (1 << 20) + 1;
    char *source = malloc(size);
    ASSERT(source != NULL);
    memset(source, 'a', size);
    struct template *template = NULL;
    struct template_error error;
    CHECK_EQ(template_compile(slice_of(source, size), &template, &error), STATUS_TOO_LARGE);
    CHECK_EQ(template_compile(slice_of(source, size - 1), &template, &error), STATUS_OK);
    template_destroy(&template);
    CHECK(template == NULL);
    free(source);
}

TEST(a_template_knows_the_variables_it_reads)
{
    struct template *template = compiled(
        "{% set a = b %}{{ a }}{% if c %}{% set d = 1 %}{% endif %}{% for e in f %}{{ e }}{{ g }}"
        "{% endfor %}{% macro m(h) %}{{ h }}{{ i }}{% endmacro %}{{ m(range(1)|list) }}{{ j.k['l'] "
        "}}"
        "{% set x = 1 %}{{ strftime_now('') }}");
    static const char *const read[] = {"b", "c", "d", "f", "g", "i", "j"};
    static const char *const not_read[] = {"a", "e",     "h", "k",    "l",           "m",
                                           "x", "range", "",  "loop", "strftime_now"};
    for (size_t i = 0; i < ARRAY_COUNT(read); i++) {
        CHECK(template_reads(template, slice_str(read[i])));
    }
    for (size_t i = 0; i < ARRAY_COUNT(not_read); i++) {
        CHECK(!template_reads(template, slice_str(not_read[i])));
    }
    template_destroy(&template);
}

TEST(reading_the_clock_is_reported)
{
    struct fixture_result *result = malloc(sizeof(*result));
    ASSERT(result != NULL);
    CHECK_EQ(fixture_run(result, "{{ strftime_now('%Y') }}", 1000), STATUS_OK);
    CHECK(result->used_time);
    CHECK_EQ(fixture_run(result, "{{ strftime_now('%Y') if n }}", 1000), STATUS_OK);
    CHECK(!result->used_time);
    free(result);
}

TEST(a_template_can_be_rendered_again)
{
    struct template *template = compiled("{% set ns = namespace(k=0) %}{% for i in [1, 2] %}"
                                         "{% set ns.k = ns.k + i %}{% endfor %}{{ ns.k }}");
    uint8_t memory[8192] __attribute__((aligned(16)));
    struct value_dict none = {0};
    struct template_input input = {.variables = &none, .step_max = 1000};
    for (int i = 0; i < 3; i++) {
        struct arena arena = arena_over(memory, sizeof(memory));
        uint8_t bytes[16];
        struct text text = text_over(bytes, sizeof(bytes));
        struct template_output output = {.text = &text};
        struct template_error error;
        CHECK_EQ(template_render(template, &input, &arena, &output, &error), STATUS_OK);
        CHECK(slice_is(text_slice(&text), "3"));
    }
    template_destroy(&template);
}

TEST(a_failed_rendering_leaves_the_text_as_long_as_it_was)
{
    struct template *template = compiled("some text {{ nothing.a }}");
    uint8_t memory[4096] __attribute__((aligned(16)));
    struct arena arena = arena_over(memory, sizeof(memory));
    struct value_dict none = {0};
    struct template_input input = {.variables = &none, .step_max = 1000};
    uint8_t bytes[64];
    struct text text = text_over(bytes, sizeof(bytes));
    text_add_str(&text, "before");
    struct template_output output = {.text = &text};
    struct template_error error;
    CHECK_EQ(template_render(template, &input, &arena, &output, &error), STATUS_MALFORMED);
    CHECK(slice_is(text_slice(&text), "before"));
    template_destroy(&template);
}
