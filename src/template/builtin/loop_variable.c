// SPDX-License-Identifier: Apache-2.0
//
// What a template sees of a loop: loop.index and its like.

#include "base/base.h"
#include "template/render_internal.h"

// The next item that passes the test.
static bool loop_find_item(struct render *render, struct loop_state *loop, bool *found,
                           struct value *out)
{
    while (loop->next < loop->items->count) {
        *out = loop->items->items[loop->next++];
        if (!loop->is_tested) {
            *found = true;
            return true;
        }
        struct value scratch;
        if (!value_step(&render->room, 1) ||
            !render_assign(render, loop->statement->loop.test_target, out)) {
            return false;
        }
        const struct value *passes = evaluate(render, loop->statement->loop.test, &scratch);
        if (passes == NULL) {
            return false;
        }
        if (value_is_true(passes)) {
            *found = true;
            return true;
        }
    }
    *found = false;
    return true;
}

bool loop_next(struct render *render, struct loop_state *loop, bool *has_item)
{
    ASSERT_SLOW(loop->next <= loop->items->count);
    struct value item;
    if (loop->has_after) {
        item = loop->after;
        loop->has_after = false;
        *has_item = true;
    } else if (!loop_find_item(render, loop, has_item, &item)) {
        return false;
    }
    if (*has_item) {
        loop->index++;
        loop->before = loop->current;
        loop->current = item;
    }
    return true;
}

// Looks one item ahead.
static bool loop_peek(struct render *render, struct loop_state *loop, bool *found)
{
    *found = loop->has_after;
    if (!loop->has_after) {
        if (!loop_find_item(render, loop, found, &loop->after)) {
            return false;
        }
        loop->has_after = *found;
    }
    return true;
}

// Tests all that is left, and keeps what passes.
static bool loop_count_rest(struct render *render, struct loop_state *loop)
{
    if (loop->has_length) {
        return true;
    }
    struct value_list *rest = value_list_new(&render->room, loop->items->count - loop->next);
    if (rest == NULL) {
        return false;
    }
    rest->count = 0;
    bool found;
    struct value item;
    do {
        if (!loop_find_item(render, loop, &found, &item)) {
            return false;
        }
        if (found) {
            rest->items[rest->count++] = item;
        }
    } while (found);
    loop->length = (int64_t)rest->count + loop->index + 1 + loop->has_after;
    loop->has_length = true;
    loop->items = rest;
    loop->next = 0;
    loop->is_tested = false;
    return true;
}

static bool loop_cycle(struct render *render, const struct loop_state *loop,
                       const struct argument_list *arguments, struct value *out)
{
    ASSERT(loop->index >= 0);
    struct value few[call_argument_max];
    struct call_arguments given;
    if (!evaluate_arguments(render, arguments, few, &given)) {
        return false;
    }
    if (given.count == 0) {
        return value_raise(&render->room, "no items for cycling given");
    }
    *out = given.values[loop->index % given.count];
    return true;
}

static bool loop_changed(struct render *render, struct loop_state *loop,
                         const struct argument_list *arguments, struct value *out)
{
    struct value few[call_argument_max];
    struct call_arguments given;
    bool equal;
    if (!evaluate_arguments(render, arguments, few, &given)) {
        return false;
    }
    struct value_list *kept = value_list_new(&render->room, given.count);
    if (kept == NULL) {
        return false;
    }
    memcpy(kept->items, given.values, given.count * sizeof(kept->items[0]));
    struct value now = {.kind = VALUE_TUPLE, .list = kept};
    if (!value_equals(&render->room, &loop->changed, &now, &equal)) {
        return false;
    }
    loop->changed = now;
    *out = value_bool(!equal);
    return true;
}

// Those that need what comes next, or arguments.
static bool loop_field_ahead(struct render *render, const struct expression *expression,
                             struct loop_state *loop, struct value *out)
{
    bool found;
    switch (expression->loop.field) {
    case LOOP_LAST:
    case LOOP_NEXTITEM:
        if (!loop_peek(render, loop, &found)) {
            return false;
        }
        *out = expression->loop.field == LOOP_LAST ? value_bool(!found)
               : found                             ? loop->after
                                                   : value_undefined(slice_str("loop.nextitem"));
        return true;
    case LOOP_CYCLE:
        return loop_cycle(render, loop, &expression->loop.arguments, out);
    case LOOP_CHANGED:
        return loop_changed(render, loop, &expression->loop.arguments, out);
    default:
        if (!loop_count_rest(render, loop)) {
            return false;
        }
        *out =
            value_int(expression->loop.field == LOOP_LENGTH     ? loop->length
                      : expression->loop.field == LOOP_REVINDEX ? loop->length - loop->index
                                                                : loop->length - loop->index - 1);
        return true;
    }
}

bool loop_field(struct render *render, const struct expression *expression, struct value *out)
{
    struct loop_state *loop =
        render_frame(render, expression->loop.levels)->loops[expression->loop.slot];
    if (loop == NULL) {
        return value_raise(&render->room, "'loop' is undefined");
    }
    switch (expression->loop.field) {
    case LOOP_INDEX:
        *out = value_int(loop->index + 1);
        return true;
    case LOOP_INDEX0:
        *out = value_int(loop->index);
        return true;
    case LOOP_FIRST:
        *out = value_bool(loop->index == 0);
        return true;
    case LOOP_DEPTH:
        *out = value_int(1);
        return true;
    case LOOP_DEPTH0:
        *out = value_int(0);
        return true;
    case LOOP_PREVITEM:
        *out = loop->index > 0 ? loop->before : value_undefined(slice_str("loop.previtem"));
        return true;
    default:
        return loop_field_ahead(render, expression, loop, out);
    }
}
