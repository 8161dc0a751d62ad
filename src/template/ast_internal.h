// SPDX-License-Identifier: Apache-2.0
//
// ast_internal.h -- a template as a tree, made by the parser, completed by resolve.c.
//
// Names become slots.  Each function (the template itself, and each macro) has a frame of slots
// when it runs.  A scope inside it (the body of a loop, a set block, ...) has slots of its own in
// the same frame; its `loads` fill them whenever it is entered.  Names that are never assigned are
// read from the template's variables, which have numbers too.
//
// All of it lies in the template's memory and does not change after compiling.
#pragma once

#include "template/member.h"
#include "template/template.h"
#include "template/template_memory.h"

enum {
    template_source_max = 1 << 20,
    // Nesting of a template, in levels of statements and expressions.  Real ones stay below 30.
    template_nesting_max = 100,
    // And of all that runs at once, through macros that call macros: bounds the C stack.
    template_running_max = 1000,
    template_name_max = 4096,
    template_argument_max = 64,
};

// First those whose value already lies somewhere, or may.
enum expression_kind {
    EXPRESSION_CONSTANT,
    EXPRESSION_NAME,     // until it is resolved; then SLOT, EXTERNAL or LOOP
    EXPRESSION_SLOT,     // of this function, or of one around it
    EXPRESSION_EXTERNAL, // a variable of the template
    EXPRESSION_CONTENT,  // the output of a block that is being filtered
    EXPRESSION_AND,
    EXPRESSION_OR,
    EXPRESSION_CONDITIONAL, // test, yes, no
    EXPRESSION_ATTRIBUTE,   // x.name
    EXPRESSION_ITEM,        // x['name']
    EXPRESSION_SUBSCRIPT,   // x[any]
    EXPRESSION_LOOP,        // the loop variable, followed by a member
    EXPRESSION_LIST,
    EXPRESSION_TUPLE,
    EXPRESSION_DICT, // keys and values in turn
    EXPRESSION_NOT,
    EXPRESSION_NEGATE,
    EXPRESSION_PLUS,
    EXPRESSION_SUM,    // a + b + c
    EXPRESSION_BINARY, // the other operators
    EXPRESSION_CONCAT, // a ~ b ~ c
    EXPRESSION_COMPARE,
    EXPRESSION_SLICE, // x, from, to, step
    EXPRESSION_FILTER,
    EXPRESSION_TEST,
    EXPRESSION_IS_DEFINED, // the two tests that nearly every template has
    EXPRESSION_IS_UNDEFINED,
    EXPRESSION_CALL,
    EXPRESSION_METHOD_CALL, // x.name(...)
    expression_kind_count,
};

enum operation {
    OPERATOR_NONE,
    OPERATOR_ADD,
    OPERATOR_SUBTRACT,
    OPERATOR_MULTIPLY,
    OPERATOR_DIVIDE,
    OPERATOR_FLOOR_DIVIDE,
    OPERATOR_MODULO,
    OPERATOR_POWER,
    OPERATOR_EQUAL,
    OPERATOR_NOT_EQUAL,
    OPERATOR_LESS,
    OPERATOR_LESS_EQUAL,
    OPERATOR_GREATER,
    OPERATOR_GREATER_EQUAL,
    OPERATOR_IN,
    OPERATOR_NOT_IN,
};

// The names that may follow "loop.".
#define LOOP_FIELD_MAP(X)                                                                          \
    X(INDEX, "index")                                                                              \
    X(INDEX0, "index0")                                                                            \
    X(REVINDEX, "revindex")                                                                        \
    X(REVINDEX0, "revindex0")                                                                      \
    X(FIRST, "first")                                                                              \
    X(LAST, "last")                                                                                \
    X(LENGTH, "length")                                                                            \
    X(DEPTH, "depth")                                                                              \
    X(DEPTH0, "depth0")                                                                            \
    X(PREVITEM, "previtem")                                                                        \
    X(NEXTITEM, "nextitem")                                                                        \
    X(CYCLE, "cycle")                                                                              \
    X(CHANGED, "changed")

enum loop_field {
#define X(field, text) LOOP_##field,
    LOOP_FIELD_MAP(X)
#undef X
        loop_field_count
};

struct scope_symbol;
struct name {
    struct slice text;
    struct scope_symbol *symbol; // its meaning in the scope that is being resolved
    uint32_t external;           // its number plus one, when it is read from outside
    bool is_of_messages;         // content_loop.c's
    bool is_message;
    struct name *next;
    struct name *next_external;
};

struct expression {
    uint8_t kind;
    uint8_t operation; // BINARY: enum operation; LOOP: enum loop_field
    uint8_t joint;     // the operation before it, when it is an operand of a COMPARE
    uint8_t depth;     // levels of expressions in it
    uint32_t line;
    uint32_t count;           // of its operands
    struct expression *first; // its operands, linked by `next`
    struct expression *last;
    struct expression *next;
    uint32_t levels; // SLOT and LOOP: functions to go out
    uint32_t slot;   // or the number of the EXTERNAL or the LOOP
    union {
        struct value constant;
        struct name *name; // NAME, and the kinds it is resolved to
        struct {
            const struct builtin *builtin;    // FILTER, TEST
            const struct member_name *member; // ATTRIBUTE, ITEM, METHOD_CALL
            const struct slice *names;        // of the last `named_count` arguments
            uint32_t named_count;
            bool is_iterated;          // its result is only used in ways that suit a list as well
            struct expression *spread; // f(a, *spread, b=1); or NULL
        } call;                        // the first operand is the subject, the others are arguments
    };
};

// On entering a scope, a slot gets its value.
enum load_kind { LOAD_UNDEFINED, LOAD_EXTERNAL, LOAD_SLOT };
struct slot_load {
    struct slot_load *next;
    enum load_kind kind;
    uint32_t slot;
    uint32_t source; // the external's number, or a slot
    uint32_t levels; // of that slot
    struct slice name;
};

// The left side of an assignment.
enum target_kind { TARGET_NAME, TARGET_ATTRIBUTE, TARGET_TUPLE };
struct target {
    enum target_kind kind;
    uint32_t line;
    struct target *next;
    struct expression *name; // NAME: a SLOT; ATTRIBUTE: the namespace
    struct slice attribute;
    struct target *first; // of a TUPLE
    uint32_t count;
};

enum statement_kind {
    STATEMENT_DATA,
    STATEMENT_PRINT,
    STATEMENT_IF,
    STATEMENT_FOR,
    STATEMENT_SET,
    STATEMENT_SET_BLOCK,
    STATEMENT_MACRO,
    STATEMENT_FILTER_BLOCK,
    STATEMENT_WITH,
    STATEMENT_SCOPE, // generation
    STATEMENT_BREAK,
    STATEMENT_CONTINUE,
    statement_kind_count,
};

struct statement_block {
    struct statement *first; // linked by `next`
};

struct branch {
    struct branch *next;
    struct expression *test; // NULL: else
    struct statement_block body;
};

struct parameter {
    struct parameter *next;
    struct name *name;
    uint32_t slot;
    struct expression *fallback; // NULL: undefined
};

// The template itself, or a macro.
struct function {
    struct slice name;
    struct parameter *parameters;
    uint32_t parameter_count;
    bool takes_rest;  // reads `varargs`
    bool takes_named; // reads `kwargs`
    uint32_t rest_slot;
    uint32_t named_slot;
    bool has_macros; // defined inside, which may outlive a call
    uint16_t nesting;
    uint32_t slot_count;
    uint32_t loop_count;
    uint32_t number; // among all functions
    struct slot_load *loads;
    struct statement_block body;
};

struct statement {
    enum statement_kind kind;
    uint32_t line;
    struct statement *next;
    struct statement *next_alike; // the next FOR or SET of the whole template
    union {
        struct slice data;
        struct expression *print;
        struct branch *branches;
        struct {
            struct target *target;
            struct expression *items;
            struct expression *test; // may be NULL
            struct target *test_target;
            struct statement_block body;
            struct statement_block otherwise;
            struct slot_load *body_loads;
            struct slot_load *test_loads;
            struct slot_load *otherwise_loads;
            uint32_t loop; // its number in the function
            bool uses_loop;
        } loop;
        struct {
            struct target *target;
            struct expression *value; // SET; SET_BLOCK: filters of its CONTENT, or NULL
            struct statement_block body;
            struct slot_load *loads;
        } set; // SET, SET_BLOCK, FILTER_BLOCK, WITH, SCOPE
        struct {
            struct function *function;
            struct expression *name; // a SLOT
        } macro;
        struct {
            struct target *targets;
            struct expression *values;
            struct statement_block body;
            struct slot_load *loads;
        } with;
    };
};

struct external {
    struct slice name;
    const struct value_callable *function; // its value without one from the request; may be NULL
};

struct template
{
    struct template_memory memory;
    struct slice source;
    struct function *root;
    uint32_t function_count;
    struct external *externals;
    uint32_t external_count;
    bool loops_over_content;
};

// resolve.c: gives every name its slot.  On failure `error` is filled.
struct special_names {
    struct name *loop;
    struct name *rest;  // varargs
    struct name *named; // kwargs
};
enum status template_resolve(struct template *template, const struct special_names *names,
                             struct template_error *error);

// content_loop.c: before the tree is resolved; `loops` and `assignments` are all FORs and SETs.
bool template_has_content_loop(struct name *messages, const struct statement *loops,
                               const struct statement *assignments);
