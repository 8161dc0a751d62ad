// SPDX-License-Identifier: Apache-2.0
//
// Expressions.  Values that already lie somewhere are passed by pointer; only computed ones are
// written to the caller's scratch.  That is safe because such values do not change while an
// expression is evaluated, except for members of namespaces, which are therefore copied.

#include "base/base.h"
#include "template/operate.h"
#include "template/render_internal.h"

typedef const struct value *evaluate_fn(struct render *render, const struct expression *expression,
                                        struct value *scratch);

void print_value(struct render *render, const struct value *value)
{
    if (value->kind == VALUE_STRING) {
        text_add(render->out, value->string);
        return;
    }
    if (value->kind == VALUE_CALLABLE && value->callable->kind == CALLABLE_MACRO) {
        struct value name = value_string(value->callable->macro.function->name);
        text_add_str(render->out, "<Macro ");
        value_print_repr(&name, render->out);
        text_add_str(render->out, ">");
        return;
    }
    bool was_full = render->out->overflow;
    value_print(value, render->out);
    if (render->out->overflow && !was_full && value->kind >= VALUE_CALLABLE) {
        (void)value_raise(&render->room, "'%s' object cannot be printed as Python does",
                          value_type_name(value));
    }
}

static struct value evaluate_list(struct render *render, const struct expression *expression)
{
    struct value scratch;
    struct value_list *list = value_list_new(&render->room, expression->count);
    const struct expression *item = expression->first;
    for (uint32_t i = 0; list != NULL && item != NULL; item = item->next) {
        list->items[i++] = *evaluate(render, item, &scratch);
    }
    return expression->kind == EXPRESSION_LIST ? value_of_list(list) : value_of_tuple(list);
}

// Its operands are keys and values in turn.
static struct value evaluate_dict(struct render *render, const struct expression *expression)
{
    struct value_dict *dict = value_dict_new(&render->room, expression->count / 2);
    if (dict == NULL) {
        return value_none();
    }
    dict->count = 0;
    for (const struct expression *key = expression->first; key != NULL; key = key->next->next) {
        struct value scratches[2];
        const struct value *name = evaluate(render, key, &scratches[0]);
        const struct value *value = evaluate(render, key->next, &scratches[1]);
        value_dict_put(&render->room, dict, name, value);
    }
    return value_of_dict(dict);
}

// a + b + c.  Strings are appended to the output as they are found.  Returns whether all were
// strings: then they stay there, and {{ a + b + c }} makes no string.  Otherwise `*out` is the sum,
// and the output is as before.
static bool add_up(struct render *render, const struct expression *expression, struct value *out)
{
    ASSERT_SLOW(expression->kind == EXPRESSION_SUM && expression->count > 1);
    size_t mark = render->out->size;
    bool is_printed = true;
    *out = value_none();
    for (const struct expression *operand = expression->first; operand != NULL;
         operand = operand->next) {
        struct value scratch;
        const struct value *value = evaluate(render, operand, &scratch);
        bool is_first = operand == expression->first;
        if (is_printed && value->kind == VALUE_STRING && !value->markup) {
            text_add(render->out, value->string);
            continue;
        }
        if (is_printed && !is_first) {
            *out = render_capture(render, mark);
        }
        is_printed = false;
        struct value sum = is_first ? *value : operate(&render->room, OPERATOR_ADD, out, value);
        *out = sum;
    }
    return is_printed;
}

static struct value evaluate_sum(struct render *render, const struct expression *expression)
{
    size_t mark = render->out->size;
    struct value sum;
    return add_up(render, expression, &sum) ? render_capture(render, mark) : sum;
}

static struct value evaluate_binary(struct render *render, const struct expression *expression)
{
    struct value scratches[2];
    const struct value *left = evaluate(render, expression->first, &scratches[0]);
    const struct value *right = evaluate(render, expression->first->next, &scratches[1]);
    return operate(&render->room, (enum operation)expression->operation, left, right);
}

static struct value evaluate_concat(struct render *render, const struct expression *expression)
{
    size_t mark = render->out->size;
    for (const struct expression *operand = expression->first; operand != NULL;
         operand = operand->next) {
        struct value scratch;
        print_value(render, evaluate(render, operand, &scratch));
    }
    return render_capture(render, mark);
}

static struct value evaluate_compare(struct render *render, const struct expression *expression)
{
    struct value scratches[2];
    unsigned turn = 0;
    const struct expression *operand = expression->first;
    const struct value *left = evaluate(render, operand, &scratches[turn]);
    bool holds = true;
    while (holds && (operand = operand->next) != NULL) {
        turn ^= 1;
        const struct value *right = evaluate(render, operand, &scratches[turn]);
        holds = operate_compare(&render->room, (enum operation)operand->joint, left, right);
        left = right;
    }
    return value_bool(holds);
}

static struct value evaluate_slice(struct render *render, const struct expression *expression)
{
    struct value scratches[4];
    const struct value *operands[4];
    const struct expression *operand = expression->first;
    ASSERT_SLOW(expression->count == ARRAY_COUNT(operands));
    for (int i = 0; i < 4; i++, operand = operand->next) {
        operands[i] = evaluate(render, operand, &scratches[i]);
    }
    return operate_slice(&render->room, operands[0], operands + 1);
}

// f(a, *list, b=1): the items of the list stand before the named arguments.
static struct call_arguments spread_arguments(struct render *render,
                                              const struct expression *spread,
                                              struct call_arguments given)
{
    struct value_room *room = &render->room;
    struct value scratch;
    const struct value_list *more = value_iterate(room, evaluate(render, spread, &scratch));
    uint32_t positional = given.count - given.named_count;
    if (more->count > template_argument_max - given.count) {
        (void)value_fail(room, STATUS_TOO_LARGE, "too many arguments");
        return given;
    }
    struct value_list *all = value_list_new(room, given.count + more->count);
    if (all != NULL) {
        memcpy(all->items, given.values, positional * sizeof(all->items[0]));
        memcpy(all->items + positional, more->items, more->count * sizeof(all->items[0]));
        memcpy(all->items + positional + more->count, given.values + positional,
               given.named_count * sizeof(all->items[0]));
        given.values = all->items;
        given.count += more->count;
    }
    return given;
}

struct call_arguments evaluate_arguments(struct render *render, const struct expression *call,
                                         struct value few[call_argument_max])
{
    uint32_t count = call->count - 1;
    struct value *values = few;
    if (count > call_argument_max) {
        struct value_list *list = value_list_new(&render->room, count);
        if (list == NULL) {
            return (struct call_arguments){0};
        }
        values = list->items;
    }
    uint32_t i = 0;
    for (const struct expression *argument = call->first->next; argument != NULL;
         argument = argument->next) {
        struct value scratch;
        values[i++] = *evaluate(render, argument, &scratch);
    }
    struct call_arguments given = {
        .values = values,
        .count = count,
        .names = call->call.names,
        .named_count = call->call.named_count,
    };
    return call->call.spread != NULL ? spread_arguments(render, call->call.spread, given) : given;
}

// A filter, a test or a method.
static struct value call_builtin(struct render *render, const struct builtin *builtin,
                                 const struct value *subject, const struct expression *call)
{
    ASSERT_SLOW(builtin != NULL);
    struct value few[call_argument_max];
    struct call_arguments given = evaluate_arguments(render, call, few);
    struct value result = value_none();
    if (value_step(&render->room, 1)) {
        (void)builtin_run(builtin, &render->room, subject, &given, &result);
    }
    return result;
}

static struct value evaluate_filter(struct render *render, const struct expression *expression)
{
    struct value scratch;
    const struct value *subject = evaluate(render, expression->first, &scratch);
    return call_builtin(render, expression->call.builtin, subject, expression);
}

// Calls a value.  Macros append their output; other results are returned.
static struct value call_value(struct render *render, const struct value *callee,
                               const struct expression *expression, bool *is_printed)
{
    struct value few[call_argument_max];
    *is_printed = false;
    if (callee->kind != VALUE_CALLABLE) {
        (void)value_refuse(&render->room, callee, "'%s' object is not callable",
                           value_type_name(callee));
        return value_none();
    }
    const struct value_callable *callable = callee->callable;
    struct call_arguments arguments = evaluate_arguments(render, expression, few);
    struct value result = value_none();
    if (!value_step(&render->room, 1)) {
        return result;
    }
    switch (callable->kind) {
    case CALLABLE_FUNCTION:
        return callable->function.call(render, &arguments);
    case CALLABLE_METHOD:
        (void)builtin_run(callable->method.builtin, &render->room, &callable->method.subject,
                          &arguments, &result);
        return result;
    default:
        *is_printed = true;
        render_macro(render, callable, &arguments);
        return result;
    }
}

// The same; the output of a macro becomes a string.
static struct value call_captured(struct render *render, const struct value *callee,
                                  const struct expression *expression)
{
    bool is_printed;
    size_t mark = render->out->size;
    struct value result = call_value(render, callee, expression, &is_printed);
    return is_printed ? render_capture(render, mark) : result;
}

static struct value evaluate_method_call(struct render *render, const struct expression *expression)
{
    struct value scratch;
    const struct member_name *member = expression->call.member;
    const struct value *subject = evaluate(render, expression->first, &scratch);
    const struct builtin *method = member->methods[subject->kind];
    if (method != NULL && (member->hidden & 1u << subject->kind) == 0) {
        return call_builtin(render, method, subject, expression);
    }
    const struct value *callee = member_attribute(&render->room, subject, member, &scratch);
    return call_captured(render, callee, expression);
}

// Expressions whose value does not lie anywhere yet.
static struct value compute_expression(struct render *render, const struct expression *expression)
{
    struct value scratch;
    const struct value *operand;
    switch ((enum expression_kind)expression->kind) {
    case EXPRESSION_LOOP:
        return loop_field(render, expression);
    case EXPRESSION_LIST:
    case EXPRESSION_TUPLE:
        return evaluate_list(render, expression);
    case EXPRESSION_DICT:
        return evaluate_dict(render, expression);
    case EXPRESSION_NOT:
        return value_bool(!value_is_true(evaluate(render, expression->first, &scratch)));
    case EXPRESSION_IS_DEFINED:
    case EXPRESSION_IS_UNDEFINED:
        operand = evaluate(render, expression->first, &scratch);
        return value_bool((operand->kind == VALUE_UNDEFINED) ==
                          (expression->kind == EXPRESSION_IS_UNDEFINED));
    case EXPRESSION_NEGATE:
    case EXPRESSION_PLUS:
        operand = evaluate(render, expression->first, &scratch);
        return operate_sign(&render->room, operand, expression->kind == EXPRESSION_NEGATE);
    case EXPRESSION_SUM:
        return evaluate_sum(render, expression);
    case EXPRESSION_BINARY:
        return evaluate_binary(render, expression);
    case EXPRESSION_CONCAT:
        return evaluate_concat(render, expression);
    case EXPRESSION_COMPARE:
        return evaluate_compare(render, expression);
    case EXPRESSION_SLICE:
        return evaluate_slice(render, expression);
    case EXPRESSION_FILTER:
    case EXPRESSION_TEST:
        return evaluate_filter(render, expression);
    case EXPRESSION_CALL:
        operand = evaluate(render, expression->first, &scratch);
        return call_captured(render, operand, expression);
    default:
        ASSERT(expression->kind == EXPRESSION_METHOD_CALL);
        return evaluate_method_call(render, expression);
    }
}

static const struct value *
evaluate_computed(struct render *render, const struct expression *expression, struct value *scratch)
{
    *scratch = compute_expression(render, expression);
    if (render->room.status != STATUS_OK) {
        *scratch = value_none(); // it may point to memory that could not be taken
    }
    return scratch;
}

// `and` and `or` give the operand that decided.
static const struct value *
evaluate_logic(struct render *render, const struct expression *expression, struct value *scratch)
{
    bool stops_at = expression->kind == EXPRESSION_OR;
    const struct expression *operand = expression->first;
    const struct value *value = evaluate(render, operand, scratch);
    while (value_is_true(value) != stops_at && (operand = operand->next) != NULL) {
        value = evaluate(render, operand, scratch);
    }
    return value;
}

// The branch of a CONDITIONAL that counts.
static const struct expression *choose_branch(struct render *render,
                                              const struct expression *expression)
{
    struct value scratch;
    const struct expression *test = expression->first;
    return value_is_true(evaluate(render, test, &scratch)) ? test->next : test->next->next;
}

static const struct value *evaluate_conditional(struct render *render,
                                                const struct expression *expression,
                                                struct value *scratch)
{
    return evaluate(render, choose_branch(render, expression), scratch);
}

static const struct value *
evaluate_constant(struct render *render, const struct expression *expression, struct value *scratch)
{
    (void)render;
    (void)scratch;
    return &expression->constant;
}

static const struct value *evaluate_slot(struct render *render, const struct expression *expression,
                                         struct value *scratch)
{
    (void)scratch;
    return &render_frame(render, expression->levels)->slots[expression->slot];
}

static const struct value *
evaluate_external(struct render *render, const struct expression *expression, struct value *scratch)
{
    (void)scratch;
    return &render->externals[expression->slot];
}

static const struct value *
evaluate_content(struct render *render, const struct expression *expression, struct value *scratch)
{
    (void)expression;
    (void)scratch;
    return render->content;
}

static const struct value *evaluate_attribute(struct render *render,
                                              const struct expression *expression,
                                              struct value *scratch)
{
    const struct value *subject = evaluate(render, expression->first, scratch);
    return member_attribute(&render->room, subject, expression->call.member, scratch);
}

static const struct value *evaluate_item(struct render *render, const struct expression *expression,
                                         struct value *scratch)
{
    const struct value *subject = evaluate(render, expression->first, scratch);
    const struct member_name *member = expression->call.member;
    const struct value *found =
        subject->kind == VALUE_DICT ? value_dict_get(subject->dict, member->name) : NULL;
    return found != NULL ? found : member_attribute(&render->room, subject, member, scratch);
}

static const struct value *evaluate_subscript(struct render *render,
                                              const struct expression *expression,
                                              struct value *scratch)
{
    struct value scratches[2];
    const struct value *subject = evaluate(render, expression->first, &scratches[0]);
    const struct value *key = evaluate(render, expression->first->next, &scratches[1]);
    return member_item(&render->room, subject, key, scratch);
}

// A table, not a switch: most operands already lie somewhere, and need no stack frame.
static evaluate_fn *const evaluators[expression_kind_count] = {
    [EXPRESSION_CONSTANT] = evaluate_constant,
    [EXPRESSION_SLOT] = evaluate_slot,
    [EXPRESSION_EXTERNAL] = evaluate_external,
    [EXPRESSION_CONTENT] = evaluate_content,
    [EXPRESSION_AND] = evaluate_logic,
    [EXPRESSION_OR] = evaluate_logic,
    [EXPRESSION_CONDITIONAL] = evaluate_conditional,
    [EXPRESSION_ATTRIBUTE] = evaluate_attribute,
    [EXPRESSION_ITEM] = evaluate_item,
    [EXPRESSION_SUBSCRIPT] = evaluate_subscript,
    [EXPRESSION_LOOP... EXPRESSION_METHOD_CALL] = evaluate_computed,
};

const struct value *evaluate(struct render *render, const struct expression *expression,
                             struct value *scratch)
{
    ASSERT_SLOW(evaluators[expression->kind] != NULL);
    return evaluators[expression->kind](render, expression, scratch);
}

void print(struct render *render, const struct expression *expression)
{
    struct value scratch;
    bool is_printed;
    switch (expression->kind) {
    case EXPRESSION_SUM:
        is_printed = add_up(render, expression, &scratch);
        break;
    case EXPRESSION_CALL:;
        const struct value *callee = evaluate(render, expression->first, &scratch);
        scratch = call_value(render, callee, expression, &is_printed);
        break;
    case EXPRESSION_CONCAT:
        for (const struct expression *part = expression->first; part != NULL; part = part->next) {
            print(render, part);
        }
        return;
    case EXPRESSION_CONDITIONAL:
        print(render, choose_branch(render, expression));
        return;
    default:
        print_value(render, evaluate(render, expression, &scratch));
        return;
    }
    if (!is_printed && render->room.status == STATUS_OK) {
        print_value(render, &scratch);
    }
}
