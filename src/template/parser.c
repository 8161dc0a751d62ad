// SPDX-License-Identifier: Apache-2.0
//
// Shared by the parsers of expressions and of statements.

#include "base/base.h"
#include "base/hash.h"
#include "template/parser_internal.h"

#include <stdarg.h>
#include <stdio.h>

void *parse_fail(struct parser *parser, enum status status, uint32_t line, const char *format, ...)
{
    ASSERT(status != STATUS_OK);
    if (parser->status == STATUS_OK) {
        parser->status = status;
        parser->error->line = line;
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(parser->error->text, sizeof(parser->error->text), format, arguments);
        va_end(arguments);
    }
    parser->current.kind = TOKEN_FAILED;
    parser->ahead.kind = TOKEN_FAILED;
    parser->failed = (union parser_node){0};
    return &parser->failed;
}

void *parse_take(struct parser *parser, size_t size)
{
    void *taken = template_memory_take(parser->memory, size);
    if (taken == NULL) {
        (void)parse_fail(parser, STATUS_EXHAUSTED, parser->current.line, "memory is short");
    }
    return taken;
}

void *parse_node(struct parser *parser, size_t size)
{
    ASSERT(size <= sizeof(parser->failed));
    void *node = parse_take(parser, size);
    return node != NULL ? node : &parser->failed;
}

bool parse_goes_on(const struct parser *parser, enum token_kind end)
{
    return parser->status == STATUS_OK && parser->current.kind != end;
}

void parse_advance(struct parser *parser)
{
    parser->current = parser->ahead;
    if (parser->ahead.kind != TOKEN_END && parser->ahead.kind != TOKEN_FAILED) {
        parser->ahead = lexer_next(&parser->lexer);
    }
    if (parser->current.kind == TOKEN_FAILED && parser->status == STATUS_OK) {
        ASSERT(parser->lexer.error != NULL);
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

static const char *const token_texts[token_kind_count] = {[TOKEN_END] = "the end of the template",
                                                          [TOKEN_FAILED] = "an invalid token",
                                                          [TOKEN_DATA] = "text",
                                                          [TOKEN_PRINT_BEGIN] = "'{{'",
                                                          [TOKEN_PRINT_END] = "'}}'",
                                                          [TOKEN_TAG_BEGIN] = "'{%'",
                                                          [TOKEN_TAG_END] = "'%}'",
                                                          [TOKEN_NAME] = "a name",
                                                          [TOKEN_STRING] = "a string",
                                                          [TOKEN_INTEGER] = "a number",
                                                          [TOKEN_FLOAT] = "a number",
#define X(name, text) [TOKEN_##name] = "'" text "'",
                                                          TOKEN_OPERATOR_MAP(X)
#undef X
};

void *parse_unexpected(struct parser *parser, const char *what)
{
    ASSERT(parser->current.kind < token_kind_count);
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

void parse_descend(struct parser *parser)
{
    if (parser->depth >= template_nesting_max) {
        (void)parse_fail(parser, STATUS_TOO_LARGE, parser->current.line, "nested too deep");
    }
    parser->depth++;
    if (parser->depth > parser->place.depth_max) {
        parser->place.depth_max = parser->depth;
    }
}

void parse_ascend(struct parser *parser)
{
    ASSERT(parser->depth > 0);
    parser->depth--;
}

struct name *parse_intern(struct parser *parser, struct slice text)
{
    ASSERT(parser->name_count <= template_name_max);
    struct name **bucket = &parser->buckets[hash_bytes(text, 0) % name_bucket_count];
    for (struct name *name = *bucket; name != NULL; name = name->next) {
        if (slice_equal(name->text, text)) {
            return name;
        }
    }
    if (parser->name_count == template_name_max) {
        return parse_fail(parser, STATUS_TOO_LARGE, parser->current.line, "too many names");
    }
    struct name *name = parse_node(parser, sizeof(*name));
    if (parser->status == STATUS_OK) {
        name->text = text;
        name->next = *bucket;
        *bucket = name;
        parser->name_count++;
    }
    return name;
}
