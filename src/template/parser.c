// SPDX-License-Identifier: Apache-2.0
//
// What the parsers of expressions and of statements share.

#include "base/hash.h"
#include "template/parser_internal.h"

#include <stdarg.h>
#include <stdio.h>

void *parse_fail(struct parser *parser, enum status status, uint32_t line, const char *format, ...)
{
    if (parser->status == STATUS_OK) {
        parser->status = status;
        parser->error->line = line;
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(parser->error->text, sizeof(parser->error->text), format, arguments);
        va_end(arguments);
    }
    return NULL;
}

void *parse_take(struct parser *parser, size_t size)
{
    void *taken = template_memory_take(parser->memory, size);
    if (taken == NULL) {
        return parse_fail(parser, STATUS_EXHAUSTED, parser->current.line, "memory is short");
    }
    return taken;
}

void parse_advance(struct parser *parser)
{
    parser->current = parser->ahead;
    if (parser->ahead.kind != TOKEN_END && parser->ahead.kind != TOKEN_FAILED) {
        parser->ahead = lexer_next(&parser->lexer);
    }
    if (parser->current.kind == TOKEN_FAILED) {
        (void)parse_fail(parser, parser->lexer.status, parser->current.line, "%s",
                         parser->lexer.error);
    }
}

bool parse_is_name(const struct parser *parser, const char *name)
{
    return parser->current.kind == TOKEN_NAME && slice_is(parser->current.text, name);
}

bool parse_skip(struct parser *parser, enum token_kind kind)
{
    if (parser->current.kind != kind) {
        return false;
    }
    parse_advance(parser);
    return true;
}

bool parse_skip_name(struct parser *parser, const char *name)
{
    if (!parse_is_name(parser, name)) {
        return false;
    }
    parse_advance(parser);
    return true;
}

static const char *const token_texts[] = {
    [TOKEN_END] = "the end of the template",
    [TOKEN_FAILED] = "what cannot be read",
    [TOKEN_DATA] = "text",
    [TOKEN_PRINT_BEGIN] = "'{{'",
    [TOKEN_PRINT_END] = "'}}'",
    [TOKEN_TAG_BEGIN] = "'{%'",
    [TOKEN_TAG_END] = "'%}'",
    [TOKEN_NAME] = "a name",
    [TOKEN_STRING] = "a string",
    [TOKEN_INTEGER] = "a number",
    [TOKEN_FLOAT] = "a number",
    [TOKEN_ADD] = "'+'",
    [TOKEN_SUBTRACT] = "'-'",
    [TOKEN_MULTIPLY] = "'*'",
    [TOKEN_DIVIDE] = "'/'",
    [TOKEN_FLOOR_DIVIDE] = "'//'",
    [TOKEN_MODULO] = "'%'",
    [TOKEN_POWER] = "'**'",
    [TOKEN_TILDE] = "'~'",
    [TOKEN_EQUAL] = "'=='",
    [TOKEN_NOT_EQUAL] = "'!='",
    [TOKEN_LESS] = "'<'",
    [TOKEN_LESS_EQUAL] = "'<='",
    [TOKEN_GREATER] = "'>'",
    [TOKEN_GREATER_EQUAL] = "'>='",
    [TOKEN_ASSIGN] = "'='",
    [TOKEN_DOT] = "'.'",
    [TOKEN_COLON] = "':'",
    [TOKEN_PIPE] = "'|'",
    [TOKEN_COMMA] = "','",
    [TOKEN_SEMICOLON] = "';'",
    [TOKEN_LEFT_PAREN] = "'('",
    [TOKEN_RIGHT_PAREN] = "')'",
    [TOKEN_LEFT_BRACKET] = "'['",
    [TOKEN_RIGHT_BRACKET] = "']'",
    [TOKEN_LEFT_BRACE] = "'{'",
    [TOKEN_RIGHT_BRACE] = "'}'",
};

void *parse_unexpected(struct parser *parser, const char *what)
{
    const struct token *token = &parser->current;
    if (token->kind == TOKEN_NAME) {
        return parse_fail(parser, STATUS_MALFORMED, token->line, "expected %s, not '%.*s'", what,
                          (int)(token->text.size < 40 ? token->text.size : 40), token->text.bytes);
    }
    return parse_fail(parser, STATUS_MALFORMED, token->line, "expected %s, not %s", what,
                      token_texts[token->kind]);
}

bool parse_expect(struct parser *parser, enum token_kind kind)
{
    if (parse_skip(parser, kind)) {
        return true;
    }
    (void)parse_unexpected(parser, token_texts[kind]);
    return false;
}

bool parse_descend(struct parser *parser)
{
    if (parser->depth >= template_nesting_max) {
        (void)parse_fail(parser, STATUS_TOO_LARGE, parser->current.line, "nested too deep");
        return false;
    }
    parser->depth++;
    if (parser->depth > parser->depth_max) {
        parser->depth_max = parser->depth;
    }
    return true;
}

void parse_ascend(struct parser *parser)
{
    parser->depth--;
}

struct name *parse_intern(struct parser *parser, struct slice text)
{
    struct name **bucket = &parser->buckets[hash_bytes(text, 0) % name_bucket_count];
    for (struct name *name = *bucket; name != NULL; name = name->next) {
        if (slice_equal(name->text, text)) {
            return name;
        }
    }
    if (parser->name_count == template_name_max) {
        return parse_fail(parser, STATUS_TOO_LARGE, parser->current.line, "too many names");
    }
    struct name *name = parse_take(parser, sizeof(*name));
    if (name != NULL) {
        name->text = text;
        name->next = *bucket;
        *bucket = name;
        parser->name_count++;
    }
    return name;
}
