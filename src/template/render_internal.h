// SPDX-License-Identifier: Apache-2.0
//
// render_internal.h -- a template that is being rendered: a walk over its tree.
//
// Output is appended to one text.  Where a template wants output as a value (a macro's, a set
// block's), it is appended there too, then copied to the arena and taken off again: no other
// buffers are needed.
//
// Failures stick to the room (value.h).  Values are undefined or none after one, and the walk ends
// with the statement.
#pragma once

#include "base/base.h"
#include "template/ast_internal.h"

// A loop that is running.  If it has a test, its items are tested one by one, since the test may
// read a namespace that the body changes.  loop.last looks one ahead, loop.length at all.
struct loop_state {
    const struct statement *statement;
    const struct value_list *items;
    uint32_t next;  // of `items`
    bool is_tested; // the rest of `items` must pass the test
    bool is_testing;
    int64_t index;
    struct value current;
    struct value before;
    bool has_after;
    struct value after;
    bool has_length;
    bool has_whole_turn; // which neither break nor continue has cut short
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
    struct call_frame **spare;   // by function
    const struct value *content; // of the block that is being filtered
    uint32_t nesting;
    uint32_t line; // where it failed
    bool used_time;
};

typedef struct value function_fn(struct render *render, const struct call_arguments *arguments);

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

// The value of an expression: where it already lies, or in `scratch`.
const struct value *evaluate(struct render *render, const struct expression *expression,
                             struct value *scratch);

// Appends an expression to the output; or a value.
void print(struct render *render, const struct expression *expression);
void print_value(struct render *render, const struct value *value);

// The arguments of a call: in `few`, or in the arena when there are more.
struct call_arguments evaluate_arguments(struct render *render, const struct expression *call,
                                         struct value few[call_argument_max]);

// Calls a macro; its output is appended.
void render_macro(struct render *render, const struct value_callable *macro,
                  const struct call_arguments *arguments);

// Takes off the output beyond the first `mark` bytes, as a string.
struct value render_capture(struct render *render, size_t mark);

// Assigns to the names of a target.
void render_assign(struct render *render, const struct target *target, const struct value *value);

// loop_variable.c.  Moves on to the next item; false: there is none, or it failed.
bool loop_next(struct render *render, struct loop_state *loop);
struct value loop_field(struct render *render, const struct expression *expression);

static inline struct call_frame *render_frame(const struct render *render, uint32_t levels)
{
    struct call_frame *frame = render->frame;
    while (levels-- > 0) {
        frame = frame->outer;
        ASSERT(frame != NULL);
    }
    return frame;
}
