// SPDX-License-Identifier: Apache-2.0

#include "template/lexer.h"

#include "test.h"

// All text of a source, tags as <>, each token in a tag followed by a blank.
static const char *tokens_of(const char *source)
{
    static char out[1000];
    struct lexer lexer = lexer_open(slice_str(source));
    struct token token;
    size_t size = 0;

    do {
        token = lexer_next(&lexer);
        const char *after = token.kind == TOKEN_DATA ? "" : " ";
        struct slice text = token.text;
        if (token.kind == TOKEN_PRINT_BEGIN || token.kind == TOKEN_TAG_BEGIN) {
            text = slice_str("<");
        } else if (token.kind == TOKEN_PRINT_END || token.kind == TOKEN_TAG_END) {
            text = slice_str(">");
            after = "";
        } else if (token.kind == TOKEN_FAILED) {
            return lexer.error;
        }
        size += (size_t)snprintf(out + size, sizeof(out) - size, "%.*s%s", (int)text.size,
                                 text.bytes, after);
    } while (token.kind != TOKEN_END);
    out[size - 1] = '\0'; // the blank of the end
    return out;
}

TEST(text_and_tags_alternate)
{
    CHECK_STR(tokens_of(""), "");
    CHECK_STR(tokens_of("a { b } c"), "a { b } c");
    CHECK_STR(tokens_of("a{{ x }}b{% if y %}c"), "a< x >b< if y >c");
    CHECK_STR(tokens_of("{{x}}{{y}}"), "< x >< y >");
    CHECK_STR(tokens_of("{"), "{");
    CHECK_STR(tokens_of("a{#b#}c{# {{ #}"), "ac");
}

TEST(the_newline_after_a_block_is_removed)
{
    CHECK_STR(tokens_of("{% a %}\nb"), "< a >b");
    CHECK_STR(tokens_of("{% a %}\n\nb"), "< a >\nb");
    CHECK_STR(tokens_of("{# a #}\nb"), "b");
    CHECK_STR(tokens_of("{{ a }}\nb"), "< a >\nb");
    CHECK_STR(tokens_of("{% a +%}\nb"), "< a >\nb");
    CHECK_STR(tokens_of("{# a +#}\nb"), "\nb");
}

TEST(blanks_before_a_block_that_starts_a_line_are_removed)
{
    CHECK_STR(tokens_of("  {% a %}"), "< a >");
    CHECK_STR(tokens_of("x\n \t{% a %}"), "x\n< a >");
    CHECK_STR(tokens_of("x {% a %}"), "x < a >");
    CHECK_STR(tokens_of("{% a %}\n  {% b %}"), "< a >< b >");
    CHECK_STR(tokens_of("{% a %}  {% b %}"), "< a >  < b >");
    CHECK_STR(tokens_of("{{ a }}\n  {% b %}"), "< a >\n< b >");
    CHECK_STR(tokens_of("  {# a #}b"), "b");
    CHECK_STR(tokens_of("  {{ a }}"), "  < a >");
    CHECK_STR(tokens_of("  {%+ a %}"), "  < a >");
    CHECK_STR(tokens_of("\xe3\x80\x80{% a %}"), "< a >");
}

TEST(a_minus_strips_all_white_space)
{
    CHECK_STR(tokens_of("a \n {%- b -%} \n c"), "a< b >c");
    CHECK_STR(tokens_of("a \n {{- b -}} \n c"), "a< b >c");
    CHECK_STR(tokens_of("a \n {#- b -#} \n c"), "ac");
    CHECK_STR(tokens_of("a \xe2\x80\x83\xc2\xa0{{- b -}}\xc2\x85\x1f c"), "a< b >c");
    CHECK_STR(tokens_of("a \xe2\x80\x8b{{- b }}"), "a \xe2\x80\x8b< b >");
    CHECK_STR(tokens_of("{{-1}} {{+1}}"), "< 1 > < 1 >");
}

TEST(raw_text_is_text)
{
    CHECK_STR(tokens_of("{% raw %} {{ x }} {% endraw %}"), " {{ x }} ");
    CHECK_STR(tokens_of("a {%- raw -%} \n{% if %}{%- endraw -%} b"), "a{% if %}b");
    CHECK_STR(tokens_of("{% raw %}\na\n  {% endraw %}\nb"), "\na\nb");
    CHECK_STR(tokens_of("{% raw %}{% endraw %}"), "");
    CHECK_STR(tokens_of("{% raw %}x"), "raw has no endraw");
    CHECK_STR(tokens_of("{% rawx %}"), "< rawx >");
}

TEST(brackets_hide_the_ends_of_tags)
{
    CHECK_STR(tokens_of("{{ {'a': {}} }}"), "< { a : { } } >");
    CHECK_STR(tokens_of("{{ x[{}] }}"), "< x [ { } ] >");
    CHECK_STR(tokens_of("{{ (} }}"), "a closing bracket does not match");
    CHECK_STR(tokens_of("{{ ] }}"), "a closing bracket does not match");
}

TEST(tags_consist_of_tokens)
{
    CHECK_STR(tokens_of("{{ a**b//c<=d!=e==f>=g }}"), "< a ** b // c <= d != e == f >= g >");
    CHECK_STR(tokens_of("{{ 1.5 1.x 1e5 1.e 0x1g 1_0 01 }}"),
              "< 1.5 1 . x 1e5 1 . e 0x1 g 1_0 0 1 >");
    CHECK_STR(tokens_of("{{ 'a\\'b' \"c'd\" }}"), "< a\\'b c'd >");
    CHECK_STR(tokens_of("{% a-%}b"), "< a >b");
    CHECK_STR(tokens_of("{{ a-b }}"), "< a - b >");
}

TEST(errors_name_the_reason)
{
    CHECK_STR(tokens_of("{{ 'a }}"), "a string has no end");
    CHECK_STR(tokens_of("{# a"), "a comment has no end");
    CHECK_STR(tokens_of("{{ a ? }}"), "an unexpected character inside a tag");
    CHECK_STR(tokens_of("{{ \xc3\xa9 }}"), "an unexpected character inside a tag");
    char deep[200] = "{{";
    memset(deep + 2, '(', 150);
    CHECK_STR(tokens_of(deep), "brackets are nested too deep");
}

TEST(a_comment_or_tag_that_starts_at_the_end_may_be_open)
{
    CHECK_STR(tokens_of("a{#"), "a");
    CHECK_STR(tokens_of("a {#-"), "a");
    CHECK_STR(tokens_of("a{% raw %}"), "a");
}

TEST(lines_are_counted)
{
    struct lexer lexer = lexer_open(slice_str("a\n{# \n #}\n{{ x\n }}\n\n{%- y %}"));
    static const uint32_t lines[] = {1, 4, 4, 5, 7, 7, 7};
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        CHECK_EQ(lexer_next(&lexer).line, lines[i]);
    }
    CHECK_EQ(lexer_next(&lexer).kind, TOKEN_END);
    CHECK_EQ(lexer_next(&lexer).kind, TOKEN_END);
}
