// SPDX-License-Identifier: Apache-2.0
//
// parser_internal.h -- from tokens to the tree, by recursive descent.
//
// A parser that has failed sees only TOKEN_FAILED, so every function comes to its end by itself,
// and only loops and links check for failures.  Nodes are never NULL: parser->failed stands for
// those that could not be made.  Nothing is cleaned up, since the template's memory is freed as a
// whole.
#pragma once

#include "template/ast_internal.h"
#include "template/lexer.h"

enum { name_bucket_count = 1024 };

union parser_node {
    struct expression expression;
    struct statement statement;
    struct target target;
    struct function function;
    struct branch branch;
    struct parameter parameter;
    struct member_name member;
    struct name name;
};

// The function that is being read.
struct parser_place {
    struct function *function;
    uint32_t depth_max;  // the largest depth in this function
    uint32_t loop_depth; // loops of this function around here: where break may stand
};

struct parser {
    struct lexer lexer;
    struct token current;
    struct token ahead;
    struct template_memory *memory;
    enum status status;
    struct template_error *error;
    union parser_node failed; // stands for every node that could not be made
    uint32_t depth;           // of statements and expressions that are being read
    uint32_t for_depth;       // loops of any function around here: where `loop` may not be assigned
    struct parser_place place;
    uint32_t function_count;
    uint32_t name_count;
    struct name *buckets[name_bucket_count]; // linked by `next`
    struct statement *loops;                 // all FORs of the template, in order; and all SETs
    struct statement **loops_end;
    struct statement *assignments;
    struct statement **assignments_end;
};

// Notes the failure unless there is one; returns parser->failed, zeroed.
void *parse_fail(struct parser *parser, enum status status, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Zeroed.  A node is never NULL; parse_take returns NULL, with the failure noted, if memory is
// short.
void *parse_node(struct parser *parser, size_t size);
void *parse_take(struct parser *parser, size_t size);

// Whether it has not failed and this token has not come.
bool parse_goes_on(const struct parser *parser, enum token_kind end);

void parse_advance(struct parser *parser);
bool parse_is_name(const struct parser *parser, const char *name);
// Whether it was there, and passed.
bool parse_skip(struct parser *parser, enum token_kind kind);
bool parse_skip_name(struct parser *parser, const char *name);
// The same, and it fails when it is not there.
bool parse_expect(struct parser *parser, enum token_kind kind);
// Fails with "expected X, not ..." at the current token.
void *parse_unexpected(struct parser *parser, const char *what);

// One level deeper; fails when that is too deep.  Each is followed by parse_ascend.
void parse_descend(struct parser *parser);
void parse_ascend(struct parser *parser);

struct name *parse_intern(struct parser *parser, struct slice text);

// An expression; with commas a tuple.
struct expression *parse_expression(struct parser *parser);
struct expression *parse_tuple(struct parser *parser, bool with_if);
// x | f | g(1) from the first bar on, or from a first name.
struct expression *parse_filters(struct parser *parser, struct expression *subject, bool at_name);

// An expression without operands.
struct expression *parse_make(struct parser *parser, enum expression_kind kind, uint32_t line);
struct expression *parse_name(struct parser *parser, struct slice text, uint32_t line);

// Statements up to the end of the template.
bool parse_template(struct parser *parser, struct statement_block *out);
