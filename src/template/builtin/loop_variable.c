// SPDX-License-Identifier: Apache-2.0
//
// The loop variable: loop.index and its like.

#include "base/base.h"
#include "template/render_internal.h"

// A test may call a macro that was defined in the body, and this macro may ask for loop.length.
// That would test the items from within a test; Python refuses it in the same words.
static bool loop_passes_test(struct render *render, struct loop_state *loop,
                             const struct value *item)
{
    if (loop->is_testing) {
        (void)value_raise(&render->room, "generator already executing");
        return false;
    }
    struct value scratch;
    loop->is_testing = true;
    render_assign(render, loop->statement->loop.test_target, item);
    bool passes = value_is_true(evaluate(render, loop->statement->loop.test, &scratch));
    loop->is_testing = false;
    return passes;
}

// The next item that passes the test; false: there is none, or it failed.
static bool loop_find_item(struct render *render, struct loop_state *loop, struct value *out)
{
    while (loop->next < loop->items->count) {
        *out = loop->items->items[loop->next++];
        if (!loop->is_tested) {
            return true;
        }
        if (!value_step(&render->room, 1)) {
            return false;
        }
        if (loop_passes_test(render, loop, out)) {
            return true;
        }
    }
    return false;
}

bool loop_next(struct render *render, struct loop_state *loop)
{
    ASSERT_SLOW(loop->next <= loop->items->count);
    struct value item = loop->after;
    if (!loop->has_after && !loop_find_item(render, loop, &item)) {
        return false;
    }
    loop->has_after = false;
    loop->index++;
    loop->before = loop->current;
    loop->current = item;
    return render->room.status == STATUS_OK;
}

// Tests the rest, and keeps the items that pass.
static void loop_count_rest(struct render *render, struct loop_state *loop)
{
    struct value_list *rest =
        loop->has_length ? NULL : value_list_new(&render->room, loop->items->count - loop->next);
    if (rest == NULL) {
        return;
    }
    rest->count = 0;
    struct value item;
    while (loop_find_item(render, loop, &item)) {
        rest->items[rest->count++] = item;
    }
    loop->length = (int64_t)rest->count + loop->index + 1 + loop->has_after;
    loop->has_length = true;
    loop->items = rest;
    loop->next = 0;
    loop->is_tested = false;
}

static struct value loop_cycle(struct render *render, const struct loop_state *loop,
                               const struct expression *expression)
{
    ASSERT(loop->index >= 0);
    struct value few[call_argument_max];
    struct call_arguments given = evaluate_arguments(render, expression, few);
    if (given.count == 0) {
        (void)value_raise(&render->room, "no items for cycling given");
        return value_none();
    }
    return given.values[loop->index % given.count];
}

static struct value loop_changed(struct render *render, struct loop_state *loop,
                                 const struct expression *expression)
{
    struct value few[call_argument_max];
    struct call_arguments given = evaluate_arguments(render, expression, few);
    struct value now = value_of_tuple(value_list_copy(&render->room, given.values, given.count));
    bool is_equal = value_equals(&render->room, &loop->changed, &now);
    loop->changed = now;
    return value_bool(!is_equal);
}

struct value loop_field(struct render *render, const struct expression *expression)
{
    struct loop_state *loop = render_frame(render, expression->levels)->loops[expression->slot];
    // Without an item: the test of its first item calls a macro that an earlier run has defined.
    if (loop == NULL || loop->index < 0) {
        (void)value_raise(&render->room, "'loop' is undefined");
        return value_none();
    }
    switch ((enum loop_field)expression->operation) {
    case LOOP_INDEX:
        return value_int(loop->index + 1);
    case LOOP_INDEX0:
        return value_int(loop->index);
    case LOOP_FIRST:
        return value_bool(loop->index == 0);
    case LOOP_DEPTH:
        return value_int(1);
    case LOOP_DEPTH0:
        return value_int(0);
    case LOOP_PREVITEM:
        return loop->index > 0 ? loop->before : value_undefined(slice_str("loop.previtem"));
    case LOOP_LAST:
    case LOOP_NEXTITEM:
        loop->has_after = loop->has_after || loop_find_item(render, loop, &loop->after);
        if (expression->operation == LOOP_LAST) {
            return value_bool(!loop->has_after);
        }
        return loop->has_after ? loop->after : value_undefined(slice_str("loop.nextitem"));
    case LOOP_CYCLE:
        return loop_cycle(render, loop, expression);
    case LOOP_CHANGED:
        return loop_changed(render, loop, expression);
    default:
        loop_count_rest(render, loop);
        return value_int(expression->operation == LOOP_LENGTH     ? loop->length
                         : expression->operation == LOOP_REVINDEX ? loop->length - loop->index
                                                                  : loop->length - loop->index - 1);
    }
}
