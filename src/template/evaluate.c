// SPDX-License-Identifier: Apache-2.0
//
// Expressions.  Values that already lie somewhere are handed on by pointer; only what is computed is written to the
// scratch of whoever asks.  That is safe because nothing that lies somewhere changes while an expression is
// evaluated, but for members of namespaces, which are therefore copied.

#include "base/base.h"
#include "template/operate.h"
#include "template/render_internal.h"

typedef const struct value *evaluate_fn(struct render *render, const struct expression *expression,
                                        struct value *scratch);

bool print_value(struct render *render, const struct value *value)
{
    if (value->kind == VALUE_STRING) {
        text_add(render->out, value->string);
        return true;
    }
    if (value->kind == VALUE_CALLABLE && value->callable->kind == CALLABLE_MACRO) {
        struct value name = value_string(value->callable->macro.function->name);
        text_add_str(render->out, "<Macro ");
        value_print_repr(&name, render->out);
        text_add_str(render->out, ">");
        return true;
    }
    bool was_full = render->out->overflow;
    value_print(value, render->out);
    if (render->out->overflow && !was_full && value->kind >= VALUE_CALLABLE) {
        return value_raise(&render->room, "'%s' object cannot be printed as Python does",
                           value_type_name(value));
    }
    return true;
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
    return &render->frame->slots[expression->name.slot];
}

static const struct value *
evaluate_outer(struct render *render, const struct expression *expression, struct value *scratch)
{
    (void)scratch;
    return &render_frame(render, expression->name.levels)->slots[expression->name.slot];
}

static const struct value *
evaluate_external(struct render *render, const struct expression *expression, struct value *scratch)
{
    (void)scratch;
    return &render->externals[expression->name.slot];
}

static const struct value *evaluate_loop(struct render *render, const struct expression *expression,
                                         struct value *scratch)
{
    return loop_field(render, expression, scratch) ? scratch : NULL;
}

static const struct value *evaluate_list(struct render *render, const struct expression *expression,
                                         struct value *scratch)
{
    struct value_list *list = value_list_new(&render->room, expression->list.count);
    if (list == NULL) {
        return NULL;
    }
    uint32_t i = 0;
    for (const struct expression *item = expression->list.first; item != NULL; item = item->next) {
        const struct value *value = evaluate(render, item, scratch);
        if (value == NULL) {
            return NULL;
        }
        list->items[i++] = *value;
    }
    bool is_list = expression->kind == EXPRESSION_LIST;
    *scratch = (struct value){.kind = is_list ? VALUE_LIST : VALUE_TUPLE, .list = list};
    return scratch;
}

static const struct value *evaluate_dict(struct render *render, const struct expression *expression,
                                         struct value *scratch)
{
    struct value_dict *dict = value_dict_new(&render->room, expression->list.count / 2);
    if (dict == NULL) {
        return NULL;
    }
    dict->count = 0;
    for (const struct expression *key = expression->list.first; key != NULL;
         key = key->next->next) {
        struct value key_scratch;
        const struct value *name = evaluate(render, key, &key_scratch);
        const struct value *value = name != NULL ? evaluate(render, key->next, scratch) : NULL;
        if (value == NULL || !value_dict_put(&render->room, dict, name, value)) {
            return NULL;
        }
    }
    *scratch = (struct value){.kind = VALUE_DICT, .dict = dict};
    return scratch;
}

// `and` and `or` give the operand that decided.
static const struct value *
evaluate_logic(struct render *render, const struct expression *expression, struct value *scratch)
{
    bool stops_at = expression->kind == EXPRESSION_OR;
    const struct value *value = NULL;
    for (const struct expression *operand = expression->list.first; operand != NULL;
         operand = operand->next) {
        value = evaluate(render, operand, scratch);
        if (value == NULL || value_is_true(value) == stops_at) {
            return value;
        }
    }
    return value;
}

static const struct value *evaluate_not(struct render *render, const struct expression *expression,
                                        struct value *scratch)
{
    const struct value *value = evaluate(render, expression->binary.left, scratch);
    if (value == NULL) {
        return NULL;
    }
    *scratch = value_bool(!value_is_true(value));
    return scratch;
}

static const struct value *evaluate_sign(struct render *render, const struct expression *expression,
                                         struct value *scratch)
{
    bool is_minus = expression->kind == EXPRESSION_NEGATE;
    const struct value *value = evaluate(render, expression->binary.left, scratch);
    return value != NULL && operate_sign(&render->room, value, is_minus, scratch) ? scratch : NULL;
}

// a + b + c.  Strings go behind the output as they are found, and stay there if nothing else comes: then no string
// is made for {{ a + b + c }}.  Otherwise `*out` is the sum, and the output is as before.
static bool add_up(struct render *render, const struct expression *expression, bool *is_printed,
                   struct value *out)
{
    ASSERT_SLOW(expression->kind == EXPRESSION_SUM && expression->list.count > 1);
    size_t mark = render->out->size;
    const struct expression *operand = expression->list.first;
    struct value scratch;
    struct value sum = value_string((struct slice){0});

    *is_printed = true;
    for (; operand != NULL; operand = operand->next) {
        const struct value *value = evaluate(render, operand, &scratch);
        if (value == NULL) {
            return false;
        }
        if (*is_printed && value->kind == VALUE_STRING && !value->markup) {
            text_add(render->out, value->string);
            continue;
        }
        struct value result;
        if (operand == expression->list.first) {
            sum = *value;
            *is_printed = false;
            continue;
        }
        if (*is_printed && !render_capture(render, mark, &sum)) {
            return false;
        }
        *is_printed = false;
        if (!operate_add(&render->room, &sum, value, &result)) {
            return false;
        }
        sum = result;
    }
    *out = sum;
    return true;
}

static const struct value *evaluate_sum(struct render *render, const struct expression *expression,
                                        struct value *scratch)
{
    size_t mark = render->out->size;
    bool is_printed;
    bool good = add_up(render, expression, &is_printed, scratch) &&
                (!is_printed || render_capture(render, mark, scratch));
    return good ? scratch : NULL;
}

static const struct value *
evaluate_binary(struct render *render, const struct expression *expression, struct value *scratch)
{
    struct value right_scratch;
    const struct value *left = evaluate(render, expression->binary.left, scratch);
    if (left == NULL) {
        return NULL;
    }
    const struct value *right = evaluate(render, expression->binary.right, &right_scratch);
    struct value result;
    if (right == NULL ||
        !operate(&render->room, (enum operation)expression->operation, left, right, &result)) {
        return NULL;
    }
    *scratch = result;
    return scratch;
}

static const struct value *
evaluate_concat(struct render *render, const struct expression *expression, struct value *scratch)
{
    size_t mark = render->out->size;
    for (const struct expression *operand = expression->list.first; operand != NULL;
         operand = operand->next) {
        const struct value *value = evaluate(render, operand, scratch);
        if (value == NULL || !print_value(render, value)) {
            return NULL;
        }
    }
    return render_capture(render, mark, scratch) ? scratch : NULL;
}

static const struct value *
evaluate_compare(struct render *render, const struct expression *expression, struct value *scratch)
{
    struct value scratches[2];
    unsigned turn = 0;
    const struct expression *operand = expression->list.first;
    const struct value *left = evaluate(render, operand, &scratches[turn]);
    bool holds = true;

    while (left != NULL && holds && (operand = operand->next) != NULL) {
        turn ^= 1;
        const struct value *right = evaluate(render, operand, &scratches[turn]);
        if (right == NULL ||
            !operate_compare(&render->room, (enum operation)operand->joint, left, right, &holds)) {
            return NULL;
        }
        left = right;
    }
    if (left == NULL) {
        return NULL;
    }
    *scratch = value_bool(holds);
    return scratch;
}

// What an `if` without `else` gives.
static const struct value nothing = {.kind = VALUE_UNDEFINED, .name = {(const uint8_t *)"if", 2}};

// The branch that counts, NULL when it fails; `nothing` has no branch.
static bool choose_branch(struct render *render, const struct expression *expression,
                          struct value *scratch, const struct expression **out)
{
    const struct value *test = evaluate(render, expression->conditional.test, scratch);
    if (test == NULL) {
        return false;
    }
    *out = value_is_true(test) ? expression->conditional.yes : expression->conditional.no;
    return true;
}

static const struct value *evaluate_conditional(struct render *render,
                                                const struct expression *expression,
                                                struct value *scratch)
{
    const struct expression *chosen;
    if (!choose_branch(render, expression, scratch, &chosen)) {
        return NULL;
    }
    return chosen != NULL ? evaluate(render, chosen, scratch) : &nothing;
}

static const struct value *evaluate_attribute(struct render *render,
                                              const struct expression *expression,
                                              struct value *scratch)
{
    const struct value *subject = evaluate(render, expression->member.subject, scratch);
    if (subject == NULL) {
        return NULL;
    }
    return member_attribute(&render->room, subject, expression->member.member, scratch);
}

static const struct value *evaluate_item(struct render *render, const struct expression *expression,
                                         struct value *scratch)
{
    const struct value *subject = evaluate(render, expression->member.subject, scratch);
    if (subject == NULL) {
        return NULL;
    }
    const struct member *member = expression->member.member;
    const struct value *found =
        subject->kind == VALUE_DICT ? value_dict_get(subject->dict, member->name) : NULL;
    return found != NULL ? found : member_attribute(&render->room, subject, member, scratch);
}

static const struct value *evaluate_subscript(struct render *render,
                                              const struct expression *expression,
                                              struct value *scratch)
{
    struct value subject_scratch;
    struct value key_scratch;
    const struct value *subject = evaluate(render, expression->subscript.subject, &subject_scratch);
    if (subject == NULL) {
        return NULL;
    }
    const struct value *key = evaluate(render, expression->subscript.key, &key_scratch);
    return key != NULL ? member_item(&render->room, subject, key, scratch) : NULL;
}

static const struct value *
evaluate_slice(struct render *render, const struct expression *expression, struct value *scratch)
{
    struct value scratches[3];
    const struct value *bounds[3] = {0};
    struct value subject_scratch;
    const struct value *subject = evaluate(render, expression->slice.subject, &subject_scratch);
    if (subject == NULL) {
        return NULL;
    }
    for (int i = 0; i < 3; i++) {
        if (expression->slice.bounds[i] == NULL) {
            continue;
        }
        bounds[i] = evaluate(render, expression->slice.bounds[i], &scratches[i]);
        if (bounds[i] == NULL) {
            return NULL;
        }
    }
    return operate_slice(&render->room, subject, bounds, scratch) ? scratch : NULL;
}

// f(a, *list, b=1): the items of the list stand before what has a name.
static bool spread_arguments(struct render *render, const struct argument_list *arguments,
                             struct call_arguments *out)
{
    ASSERT(arguments->spread != NULL && out->named_count <= out->count);
    struct value_room *room = &render->room;
    struct value scratch;
    const struct value_list *more = NULL;
    const struct value *value = evaluate(render, arguments->spread, &scratch);

    if (value == NULL || !value_iterate(room, value, &more)) {
        return false;
    }
    if (more->count > template_argument_max - out->count) {
        return value_fail(room, STATUS_TOO_LARGE, "too many arguments");
    }
    struct value_list *all = value_list_new(room, out->count + more->count);
    if (all == NULL) {
        return false;
    }
    uint32_t positional = out->count - out->named_count;
    memcpy(all->items, out->values, positional * sizeof(all->items[0]));
    memcpy(all->items + positional, more->items, more->count * sizeof(all->items[0]));
    memcpy(all->items + positional + more->count, out->values + positional,
           out->named_count * sizeof(all->items[0]));
    out->values = all->items;
    out->count += more->count;
    return true;
}

bool evaluate_arguments(struct render *render, const struct argument_list *arguments,
                        struct value few[call_argument_max], struct call_arguments *out)
{
    uint32_t count = arguments->values.count;
    struct value *values = few;
    if (count > call_argument_max) {
        struct value_list *list = value_list_new(&render->room, count);
        if (list == NULL) {
            return false;
        }
        values = list->items;
    }
    uint32_t i = 0;
    for (const struct expression *argument = arguments->values.first; argument != NULL;
         argument = argument->next) {
        struct value scratch;
        const struct value *value = evaluate(render, argument, &scratch);
        if (value == NULL) {
            return false;
        }
        values[i++] = *value;
    }
    *out = (struct call_arguments){
        .values = values,
        .count = count,
        .names = arguments->names,
        .named_count = arguments->named_count,
    };
    return arguments->spread == NULL || spread_arguments(render, arguments, out);
}

// A filter, a test or a method.
static const struct value *call_builtin(struct render *render, const struct builtin *builtin,
                                        const struct value *subject,
                                        const struct argument_list *arguments,
                                        struct value *scratch)
{
    ASSERT_SLOW(builtin != NULL);
    struct value few[call_argument_max];
    struct call_arguments given;
    struct value result;
    if (!value_step(&render->room, 1) || !evaluate_arguments(render, arguments, few, &given) ||
        !builtin_run(builtin, &render->room, subject, &given, &result)) {
        return NULL;
    }
    *scratch = result;
    return scratch;
}

static const struct value *
evaluate_filter(struct render *render, const struct expression *expression, struct value *scratch)
{
    struct value subject_scratch;
    const struct value *subject = evaluate(render, expression->call.subject, &subject_scratch);
    if (subject == NULL) {
        return NULL;
    }
    return call_builtin(render, expression->call.builtin, subject, &expression->call.arguments,
                        scratch);
}

const struct value *evaluate_filter_on(struct render *render, const struct expression *filter,
                                       const struct value *content, struct value *scratch)
{
    struct value subject_scratch;
    const struct value *subject = content;
    if (filter->call.subject != NULL) {
        subject = evaluate_filter_on(render, filter->call.subject, content, &subject_scratch);
        if (subject == NULL) {
            return NULL;
        }
    }
    return call_builtin(render, filter->call.builtin, subject, &filter->call.arguments, scratch);
}

static const struct value *
evaluate_defined(struct render *render, const struct expression *expression, struct value *scratch)
{
    const struct value *value = evaluate(render, expression->binary.left, scratch);
    if (value == NULL) {
        return NULL;
    }
    bool is_undefined = value->kind == VALUE_UNDEFINED;
    *scratch = value_bool(is_undefined == (expression->kind == EXPRESSION_IS_UNDEFINED));
    return scratch;
}

// What a call calls, and with what.
struct call {
    const struct value_callable *callable;
    struct call_arguments arguments;
    struct value few[call_argument_max];
};

static bool prepare_call(struct render *render, const struct value *callee,
                         const struct expression *expression, struct call *call)
{
    if (callee->kind != VALUE_CALLABLE) {
        (void)(callee->kind == VALUE_UNDEFINED
                   ? value_raise_undefined(&render->room, callee)
                   : value_raise(&render->room, "'%s' object is not callable",
                                 value_type_name(callee)));
        return false;
    }
    call->callable = callee->callable;
    return value_step(&render->room, 1) &&
           evaluate_arguments(render, &expression->call.arguments, call->few, &call->arguments);
}

static bool finish_call(struct render *render, const struct call *call, struct value *out)
{
    ASSERT_SLOW(call->callable != NULL);
    size_t mark = render->out->size;
    switch (call->callable->kind) {
    case CALLABLE_FUNCTION:
        return call->callable->function.call(render, &call->arguments, out);
    case CALLABLE_METHOD:
        return builtin_run(call->callable->method.builtin, &render->room,
                           &call->callable->method.subject, &call->arguments, out);
    default:
        return render_macro(render, call->callable, &call->arguments) &&
               render_capture(render, mark, out);
    }
}

static const struct value *evaluate_call(struct render *render, const struct expression *expression,
                                         struct value *scratch)
{
    struct call call;
    const struct value *callee = evaluate(render, expression->call.subject, scratch);
    bool good = callee != NULL && prepare_call(render, callee, expression, &call) &&
                finish_call(render, &call, scratch);
    return good ? scratch : NULL;
}

static const struct value *evaluate_method_call(struct render *render,
                                                const struct expression *expression,
                                                struct value *scratch)
{
    struct value subject_scratch;
    const struct member *member = expression->call.member;
    const struct value *subject = evaluate(render, expression->call.subject, &subject_scratch);
    if (subject == NULL) {
        return NULL;
    }
    const struct builtin *method = member->methods[subject->kind];
    if (method != NULL && (member->hidden & 1u << subject->kind) == 0) {
        return call_builtin(render, method, subject, &expression->call.arguments, scratch);
    }
    struct call call;
    const struct value *callee = member_attribute(&render->room, subject, member, scratch);
    bool good = callee != NULL && prepare_call(render, callee, expression, &call) &&
                finish_call(render, &call, scratch);
    return good ? scratch : NULL;
}

static evaluate_fn *const evaluators[expression_kind_count] = {
    [EXPRESSION_CONSTANT] = evaluate_constant,
    [EXPRESSION_SLOT] = evaluate_slot,
    [EXPRESSION_OUTER] = evaluate_outer,
    [EXPRESSION_EXTERNAL] = evaluate_external,
    [EXPRESSION_LOOP] = evaluate_loop,
    [EXPRESSION_LIST] = evaluate_list,
    [EXPRESSION_TUPLE] = evaluate_list,
    [EXPRESSION_DICT] = evaluate_dict,
    [EXPRESSION_AND] = evaluate_logic,
    [EXPRESSION_OR] = evaluate_logic,
    [EXPRESSION_NOT] = evaluate_not,
    [EXPRESSION_NEGATE] = evaluate_sign,
    [EXPRESSION_PLUS] = evaluate_sign,
    [EXPRESSION_SUM] = evaluate_sum,
    [EXPRESSION_BINARY] = evaluate_binary,
    [EXPRESSION_CONCAT] = evaluate_concat,
    [EXPRESSION_COMPARE] = evaluate_compare,
    [EXPRESSION_CONDITIONAL] = evaluate_conditional,
    [EXPRESSION_ATTRIBUTE] = evaluate_attribute,
    [EXPRESSION_ITEM] = evaluate_item,
    [EXPRESSION_SUBSCRIPT] = evaluate_subscript,
    [EXPRESSION_SLICE] = evaluate_slice,
    [EXPRESSION_FILTER] = evaluate_filter,
    [EXPRESSION_TEST] = evaluate_filter,
    [EXPRESSION_IS_DEFINED] = evaluate_defined,
    [EXPRESSION_IS_UNDEFINED] = evaluate_defined,
    [EXPRESSION_CALL] = evaluate_call,
    [EXPRESSION_METHOD_CALL] = evaluate_method_call,
};

const struct value *evaluate(struct render *render, const struct expression *expression,
                             struct value *scratch)
{
    ASSERT_SLOW(expression->kind < expression_kind_count);
    return evaluators[expression->kind](render, expression, scratch);
}

static bool print_sum(struct render *render, const struct expression *expression)
{
    bool is_printed;
    struct value sum;
    return add_up(render, expression, &is_printed, &sum) &&
           (is_printed || print_value(render, &sum));
}

static bool print_call(struct render *render, const struct expression *expression)
{
    struct call call;
    struct value scratch;
    const struct value *callee = evaluate(render, expression->call.subject, &scratch);
    if (callee == NULL || !prepare_call(render, callee, expression, &call)) {
        return false;
    }
    if (call.callable->kind == CALLABLE_MACRO) {
        return render_macro(render, call.callable, &call.arguments);
    }
    return finish_call(render, &call, &scratch) && print_value(render, &scratch);
}

bool print(struct render *render, const struct expression *expression)
{
    struct value scratch;
    const struct expression *chosen;

    switch (expression->kind) {
    case EXPRESSION_SUM:
        return print_sum(render, expression);
    case EXPRESSION_CONCAT:
        for (const struct expression *part = expression->list.first; part != NULL;
             part = part->next) {
            if (!print(render, part)) {
                return false;
            }
        }
        return true;
    case EXPRESSION_CONDITIONAL:
        return choose_branch(render, expression, &scratch, &chosen) &&
               (chosen == NULL || print(render, chosen));
    case EXPRESSION_CALL:
        return print_call(render, expression);
    default:;
        const struct value *value = evaluate(render, expression, &scratch);
        return value != NULL && print_value(render, value);
    }
}
