// SPDX-License-Identifier: Apache-2.0
//
// lexer.h -- the tokens of a template.
//
// Text between tags is DATA, already stripped: trim_blocks and lstrip_blocks are on, `-` strips
// all white space on its side, `+` keeps it.  Comments vanish; the text between raw and endraw is
// DATA.  Brackets are matched here, since "}}" inside them does not end a tag.
//
// The source is UTF-8 and its lines end with LF.  Keeps it: tokens are slices of it.
#pragma once

#include "base/slice.h"
#include "base/status.h"

// Operators and brackets.  The lexer takes the first that fits, so the longer ones stand first.
#define TOKEN_OPERATOR_MAP(X)                                                                      \
    X(FLOOR_DIVIDE, "//")                                                                          \
    X(POWER, "**")                                                                                 \
    X(EQUAL, "==")                                                                                 \
    X(NOT_EQUAL, "!=")                                                                             \
    X(GREATER_EQUAL, ">=")                                                                         \
    X(LESS_EQUAL, "<=")                                                                            \
    X(ADD, "+")                                                                                    \
    X(SUBTRACT, "-")                                                                               \
    X(DIVIDE, "/")                                                                                 \
    X(MULTIPLY, "*")                                                                               \
    X(MODULO, "%")                                                                                 \
    X(TILDE, "~")                                                                                  \
    X(LEFT_BRACKET, "[")                                                                           \
    X(RIGHT_BRACKET, "]")                                                                          \
    X(LEFT_PAREN, "(")                                                                             \
    X(RIGHT_PAREN, ")")                                                                            \
    X(LEFT_BRACE, "{")                                                                             \
    X(RIGHT_BRACE, "}")                                                                            \
    X(GREATER, ">")                                                                                \
    X(LESS, "<")                                                                                   \
    X(ASSIGN, "=")                                                                                 \
    X(DOT, ".")                                                                                    \
    X(COLON, ":")                                                                                  \
    X(PIPE, "|")                                                                                   \
    X(COMMA, ",")                                                                                  \
    X(SEMICOLON, ";")

enum token_kind {
    TOKEN_END,
    TOKEN_FAILED, // the lexer's `error` says why
    TOKEN_DATA,
    TOKEN_PRINT_BEGIN,
    TOKEN_PRINT_END,
    TOKEN_TAG_BEGIN,
    TOKEN_TAG_END,
    TOKEN_NAME,
    TOKEN_STRING, // the text between the quotes, escapes as they stand
    TOKEN_INTEGER,
    TOKEN_FLOAT,
#define X(name, text) TOKEN_##name,
    TOKEN_OPERATOR_MAP(X)
#undef X
        token_kind_count
};

struct token {
    enum token_kind kind;
    uint32_t line;
    struct slice text;
};

enum { lexer_bracket_max = 128 };

enum lexer_state { LEXER_TEXT, LEXER_RAW, LEXER_TAG, LEXER_PRINT };

// Its fields are lexer.c's own, but for `status` and `error`.
struct lexer {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t line;
    enum lexer_state state;
    bool line_starting; // only stripped text stands before `at` on its line
    struct token begin; // the start of a tag, returned after the text before it
    uint32_t bracket_count;
    uint8_t brackets[lexer_bracket_max]; // the closing bytes of open brackets
    enum status status;                  // after TOKEN_FAILED: MALFORMED or TOO_LARGE
    const char *error;
};

struct lexer lexer_open(struct slice source);

// After END and FAILED the same again.
struct token lexer_next(struct lexer *lexer);
