// SPDX-License-Identifier: Apache-2.0
//
// render_internal.h -- a template that is being rendered: a walk over its tree.
//
// Output is appended to one text.  Where a template wants output as a value (a macro's, a set block's), it is
// appended there too, then copied to the arena and taken off again; so nothing needs a buffer of its own.
#pragma once

#include "base/base.h"
#include "template/ast_internal.h"

// A loop that is running.  Items that a test lets through are found one by one, since the test may look at a
// namespace that the body changes; loop.last looks one ahead, loop.length looks at all.
struct loop_state {
    const struct statement *statement;
    const struct value_list *items;
    uint32_t next;  // of `items`
    bool is_tested; // what is left of `items` must pass the test
    int64_t index;
    struct value current;
    struct value before;
    bool has_after;
    struct value after;
    bool has_length;
    bool has_whole_turn; // that neither break nor continue has cut short
    int64_t length;
    struct value changed; // the arguments of loop.changed, as a tuple
};

// A function that is running.
struct call_frame {
    struct call_frame *outer; // of the function around it
    struct call_frame *next_spare;
    struct loop_state **loops; // by statement; NULL: it is not running
    struct value slots[];
};

struct render {
    struct value_room room;
    const struct template *template;
    const struct template_input *input;
    struct text *out;
    struct call_frame *frame;
    struct value *externals;
    struct call_frame **spare; // by function
    uint32_t nesting;
    uint32_t line; // where it failed
    bool used_time;
};

typedef bool function_fn(struct render *render, const struct call_arguments *arguments,
                         struct value *out);

enum callable_kind { CALLABLE_FUNCTION, CALLABLE_MACRO, CALLABLE_METHOD };

struct value_callable {
    enum callable_kind kind;
    union {
        struct {
            const char *name;
            function_fn *call;
        } function;
        struct {
            const struct function *function;
            struct call_frame *outer;
        } macro;
        struct {
            const struct builtin *builtin;
            struct value subject;
        } method;
    };
};

// The value of an expression: somewhere it already lies, or in `scratch`.  NULL: it failed.
const struct value *evaluate(struct render *render, const struct expression *expression,
                             struct value *scratch);

// Appends it to the output; and a value.
bool print(struct render *render, const struct expression *expression);
bool print_value(struct render *render, const struct value *value);

// Evaluates arguments into `few`, or into the arena when there are more.
bool evaluate_arguments(struct render *render, const struct argument_list *arguments,
                        struct value few[call_argument_max], struct call_arguments *out);

// The value with a filter of a block, whose innermost subject is `content`.
const struct value *evaluate_filter_on(struct render *render, const struct expression *filter,
                                       const struct value *content, struct value *scratch);

// Calls a macro; its output is appended.
bool render_macro(struct render *render, const struct value_callable *macro,
                  const struct call_arguments *arguments);

// What was appended since the output had `mark` bytes, as a value; it is taken off.
bool render_capture(struct render *render, size_t mark, struct value *out);

// Assigns to the names of a target.
bool render_assign(struct render *render, const struct target *target, const struct value *value);

void render_enter(struct render *render, const struct slot_load *loads);

// loop_variable.c
bool loop_next(struct render *render, struct loop_state *loop, bool *has_item);
bool loop_field(struct render *render, const struct expression *expression, struct value *out);

static inline struct call_frame *render_frame(const struct render *render, uint32_t levels)
{
    struct call_frame *frame = render->frame;
    while (levels-- > 0) {
        frame = frame->outer;
        ASSERT(frame != NULL);
    }
    return frame;
}
