// SPDX-License-Identifier: Apache-2.0
//
// Statements.

#include "base/base.h"
#include "template/builtin/function.h"
#include "template/render_internal.h"

#include <stdio.h>

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAILED };

typedef enum flow run_fn(struct render *render, const struct statement *statement);

static enum flow run_block(struct render *render, const struct statement_block *block);

bool render_capture(struct render *render, size_t mark, struct value *out)
{
    ASSERT_SLOW(mark <= render->out->size);
    if (render->out->overflow) {
        return value_fail(&render->room, STATUS_TOO_LARGE, "the output is too long");
    }
    size_t size = render->out->size - mark;
    uint8_t *bytes = value_bytes_new(&render->room, size);
    if (bytes == NULL || !value_step(&render->room, size / 64 + 1)) {
        return false;
    }
    if (size > 0) {
        memcpy(bytes, render->out->bytes + mark, size);
    }
    render->out->size = mark;
    *out = value_string(slice_of(bytes, size));
    return true;
}

void render_enter(struct render *render, const struct slot_load *loads)
{
    for (const struct slot_load *load = loads; load != NULL; load = load->next) {
        struct value *slot = &render->frame->slots[load->slot];
        switch (load->kind) {
        case LOAD_EXTERNAL:
            *slot = render->externals[load->source];
            break;
        case LOAD_SLOT:
            *slot = render_frame(render, load->levels)->slots[load->source];
            break;
        default:
            *slot = value_undefined(load->name);
            break;
        }
    }
}

static bool assign_attribute(struct render *render, const struct target *target,
                             const struct value *value)
{
    ASSERT(target->kind == TARGET_ATTRIBUTE && target->attribute.size > 0);
    struct value scratch;
    const struct value *holder = evaluate(render, target->name, &scratch);
    struct slice name = target->attribute;

    if (holder == NULL || holder->kind != VALUE_NAMESPACE) {
        return value_raise(&render->room, "cannot assign attribute on non-namespace object");
    }
    if (name.bytes[0] == '_') {
        return value_raise(&render->room, "a namespace has no names with an underscore in front");
    }
    struct value_space *space = holder->space;
    struct value *member = value_space_find(space, name);
    if (member != NULL) {
        *member = *value;
        return true;
    }
    if (space->count == space->capacity) {
        uint32_t capacity = space->capacity * 2 + 4;
        struct value_dict *grown = value_dict_new(&render->room, capacity);
        if (grown == NULL) {
            return false;
        }
        if (space->count > 0) {
            memcpy(grown->members, space->members, space->count * sizeof(grown->members[0]));
        }
        space->members = grown->members;
        space->capacity = capacity;
    }
    space->members[space->count++] =
        (struct value_member){.key = value_string(name), .value = *value};
    return true;
}

static bool unpack(struct render *render, const struct target *target, const struct value *value)
{
    ASSERT(target->kind == TARGET_TUPLE);
    const struct value_list *items;
    if (value->kind == VALUE_TUPLE || value->kind == VALUE_LIST) {
        items = value->list;
    } else if (!value_iterate(&render->room, value, &items)) {
        return false;
    }
    if (items->count != target->count) {
        return value_raise(&render->room,
                           items->count < target->count
                               ? "not enough values to unpack (expected %u, got %u)"
                               : "too many values to unpack (expected %u, got %u)",
                           target->count, items->count);
    }
    uint32_t i = 0;
    for (const struct target *item = target->first; item != NULL; item = item->next) {
        if (!render_assign(render, item, &items->items[i++])) {
            return false;
        }
    }
    return true;
}

bool render_assign(struct render *render, const struct target *target, const struct value *value)
{
    switch (target->kind) {
    case TARGET_NAME:
        render->frame->slots[target->name->name.slot] = *value;
        return true;
    case TARGET_ATTRIBUTE:
        return assign_attribute(render, target, value);
    default:
        return unpack(render, target, value);
    }
}

static enum flow run_data(struct render *render, const struct statement *statement)
{
    text_add(render->out, statement->data);
    return FLOW_ON;
}

static enum flow run_print(struct render *render, const struct statement *statement)
{
    return print(render, statement->print) ? FLOW_ON : FLOW_FAILED;
}

static enum flow run_if(struct render *render, const struct statement *statement)
{
    for (const struct branch *branch = statement->branches; branch != NULL; branch = branch->next) {
        if (branch->test != NULL) {
            struct value scratch;
            const struct value *test = evaluate(render, branch->test, &scratch);
            if (test == NULL) {
                return FLOW_FAILED;
            }
            if (!value_is_true(test)) {
                continue;
            }
        }
        return run_block(render, &branch->body);
    }
    return FLOW_ON;
}

static enum flow run_turns(struct render *render, struct loop_state *loop)
{
    const struct statement *statement = loop->statement;
    for (;;) {
        bool has_item;
        if (!value_step(&render->room, 1) || !loop_next(render, loop, &has_item)) {
            return FLOW_FAILED;
        }
        if (!has_item) {
            return FLOW_ON;
        }
        if (!render_assign(render, statement->loop.target, &loop->current)) {
            return FLOW_FAILED;
        }
        render_enter(render, statement->loop.body_loads);
        enum flow flow = run_block(render, &statement->loop.body);
        if (flow == FLOW_FAILED) {
            return flow;
        }
        if (flow == FLOW_BREAK) {
            return FLOW_ON;
        }
        loop->has_whole_turn |= flow == FLOW_ON;
    }
}

static enum flow run_for(struct render *render, const struct statement *statement)
{
    struct value scratch;
    const struct value *items = evaluate(render, statement->loop.items, &scratch);
    struct loop_state loop = {
        .statement = statement, .index = -1, .is_tested = statement->loop.test != NULL};

    if (items == NULL) {
        return FLOW_FAILED;
    }
    if (items->kind == VALUE_LIST || items->kind == VALUE_TUPLE) {
        loop.items = items->list;
    } else if (!value_iterate(&render->room, items, &loop.items)) {
        return FLOW_FAILED;
    }
    loop.has_length = !loop.is_tested;
    loop.length = loop.items->count;
    render_enter(render, statement->loop.test_loads);

    struct call_frame *frame = render->frame;
    ASSERT(frame->loops[statement->loop.loop] == NULL);
    frame->loops[statement->loop.loop] = &loop;
    enum flow flow = run_turns(render, &loop);
    frame->loops[statement->loop.loop] = NULL;

    // Jinja's `else` also runs when break and continue have cut every turn short.
    if (flow == FLOW_ON && !loop.has_whole_turn && statement->loop.otherwise.first != NULL) {
        render_enter(render, statement->loop.otherwise_loads);
        return run_block(render, &statement->loop.otherwise);
    }
    return flow;
}

// Python looks whether they are namespaces before it evaluates what is assigned.
static bool check_namespaces(struct render *render, const struct target *target)
{
    struct value scratch;
    if (target->kind == TARGET_ATTRIBUTE) {
        const struct value *holder = evaluate(render, target->name, &scratch);
        return (holder != NULL && holder->kind == VALUE_NAMESPACE) ||
               value_raise(&render->room, "cannot assign attribute on non-namespace object");
    }
    for (const struct target *item = target->first; item != NULL; item = item->next) {
        if (!check_namespaces(render, item)) {
            return false;
        }
    }
    return true;
}

static enum flow run_set(struct render *render, const struct statement *statement)
{
    struct value scratch;
    if (statement->set.target->kind != TARGET_NAME &&
        !check_namespaces(render, statement->set.target)) {
        return FLOW_FAILED;
    }
    const struct value *value = evaluate(render, statement->set.value, &scratch);
    bool good = value != NULL && render_assign(render, statement->set.target, value);
    return good ? FLOW_ON : FLOW_FAILED;
}

// A body whose output becomes a value, with its filters.
static enum flow capture_body(struct render *render, const struct statement *statement,
                              struct value *out)
{
    size_t mark = render->out->size;
    render_enter(render, statement->set.loads);
    enum flow flow = run_block(render, &statement->set.body);
    if (flow != FLOW_ON) {
        render->out->size = mark; // a break leaves it behind
        return flow;
    }
    struct value content;
    if (!render_capture(render, mark, &content)) {
        return FLOW_FAILED;
    }
    const struct value *value = &content;
    struct value scratch;
    if (statement->set.value != NULL) {
        value = evaluate_filter_on(render, statement->set.value, &content, &scratch);
    }
    if (value == NULL) {
        return FLOW_FAILED;
    }
    *out = *value;
    return FLOW_ON;
}

static enum flow run_set_block(struct render *render, const struct statement *statement)
{
    struct value value;
    enum flow flow = capture_body(render, statement, &value);
    if (flow != FLOW_ON) {
        return flow;
    }
    return render_assign(render, statement->set.target, &value) ? FLOW_ON : FLOW_FAILED;
}

static enum flow run_filter_block(struct render *render, const struct statement *statement)
{
    struct value value;
    enum flow flow = capture_body(render, statement, &value);
    if (flow != FLOW_ON) {
        return flow;
    }
    // Jinja joins what a template gives, and only strings can be joined.
    bool good =
        value.kind == VALUE_STRING ||
        value_raise(&render->room, "a filter block gave '%s', not 'str'", value_type_name(&value));
    return good && print_value(render, &value) ? FLOW_ON : FLOW_FAILED;
}

static enum flow run_macro(struct render *render, const struct statement *statement)
{
    struct value_callable *macro = (void *)value_bytes_new(&render->room, sizeof(*macro));
    if (macro == NULL) {
        return FLOW_FAILED;
    }
    macro->kind = CALLABLE_MACRO;
    macro->macro.function = statement->macro.function;
    macro->macro.outer = render->frame;
    render->frame->slots[statement->macro.name->name.slot] =
        (struct value){.kind = VALUE_CALLABLE, .callable = macro};
    return FLOW_ON;
}

static enum flow run_with(struct render *render, const struct statement *statement)
{
    const struct expression *expression = statement->with.values;
    render_enter(render, statement->with.loads);
    for (const struct target *target = statement->with.targets; target != NULL;
         target = target->next) {
        struct value scratch;
        const struct value *value = evaluate(render, expression, &scratch);
        if (value == NULL || !render_assign(render, target, value)) {
            return FLOW_FAILED;
        }
        expression = expression->next;
    }
    return run_block(render, &statement->with.body);
}

static enum flow run_scope(struct render *render, const struct statement *statement)
{
    render_enter(render, statement->set.loads);
    return run_block(render, &statement->set.body);
}

static enum flow run_break(struct render *render, const struct statement *statement)
{
    (void)render;
    (void)statement;
    return FLOW_BREAK;
}

static enum flow run_continue(struct render *render, const struct statement *statement)
{
    (void)render;
    (void)statement;
    return FLOW_CONTINUE;
}

static run_fn *const runners[statement_kind_count] = {
    [STATEMENT_DATA] = run_data,   [STATEMENT_PRINT] = run_print,
    [STATEMENT_IF] = run_if,       [STATEMENT_FOR] = run_for,
    [STATEMENT_SET] = run_set,     [STATEMENT_SET_BLOCK] = run_set_block,
    [STATEMENT_MACRO] = run_macro, [STATEMENT_FILTER_BLOCK] = run_filter_block,
    [STATEMENT_WITH] = run_with,   [STATEMENT_SCOPE] = run_scope,
    [STATEMENT_BREAK] = run_break, [STATEMENT_CONTINUE] = run_continue,
};

static enum flow run_block(struct render *render, const struct statement_block *block)
{
    for (const struct statement *statement = block->first; statement != NULL;
         statement = statement->next) {
        enum flow flow = value_step(&render->room, 1) ? runners[statement->kind](render, statement)
                                                      : FLOW_FAILED;
        if (flow != FLOW_ON) {
            if (flow == FLOW_FAILED && render->line == 0) {
                render->line = statement->line;
            }
            return flow;
        }
    }
    return FLOW_ON;
}

static void *render_take(struct render *render, size_t size)
{
    return value_bytes_new(&render->room, size);
}

// Frames are used again when no macro that was defined in them can still look at them.
static struct call_frame *take_frame(struct render *render, const struct function *function,
                                     struct call_frame *outer)
{
    struct call_frame *frame = render->spare[function->number];
    if (frame != NULL) {
        render->spare[function->number] = frame->next_spare;
    } else {
        size_t slots_size = function->slot_count * sizeof(frame->slots[0]);
        size_t loops_size = function->loop_count * sizeof(struct loop_state *);
        frame = render_take(render, sizeof(*frame) + slots_size);
        struct loop_state **loops = render_take(render, loops_size);
        if (frame == NULL || loops == NULL) {
            return NULL;
        }
        frame->loops = loops;
        memset(loops, 0, loops_size);
    }
    frame->outer = outer;
    for (uint32_t i = 0; i < function->slot_count; i++) {
        frame->slots[i] = (struct value){.kind = VALUE_UNDEFINED};
    }
    return frame;
}

static void put_frame(struct render *render, const struct function *function,
                      struct call_frame *frame)
{
    ASSERT(render->frame != frame);
    if (!function->has_macros) {
        frame->next_spare = render->spare[function->number];
        render->spare[function->number] = frame;
    }
}

// The argument for a parameter, by its place or by its name; false when it is not given.
static bool macro_argument(const struct call_arguments *arguments, uint32_t place,
                           struct slice name, uint64_t *used, struct value *out)
{
    uint32_t positional = arguments->count - arguments->named_count;
    if (place < positional) {
        *out = arguments->values[place];
        return true;
    }
    for (uint32_t i = 0; i < arguments->named_count; i++) {
        if (slice_equal(arguments->names[i], name) && (*used & 1ull << i) == 0) {
            *used |= 1ull << i;
            *out = arguments->values[positional + i];
            return true;
        }
    }
    return false;
}

// What no parameter took: for `varargs` and `kwargs`, or an error.
static bool bind_rest(struct render *render, const struct function *function,
                      const struct call_arguments *arguments, uint64_t used)
{
    ASSERT(arguments->named_count <= arguments->count);
    struct value_room *room = &render->room;
    uint32_t positional = arguments->count - arguments->named_count;
    uint32_t taken =
        positional < function->parameter_count ? positional : function->parameter_count;
    int size = (int)function->name.size;

    if (function->takes_named) {
        struct value_dict *dict = value_dict_new(room, arguments->named_count);
        if (dict == NULL) {
            return false;
        }
        dict->count = 0;
        for (uint32_t i = 0; i < arguments->named_count; i++) {
            if ((used & 1ull << i) == 0) {
                dict->members[dict->count++] = (struct value_member){
                    .key = value_string(arguments->names[i]),
                    .value = arguments->values[positional + i],
                };
            }
        }
        render->frame->slots[function->named_slot] =
            (struct value){.kind = VALUE_DICT, .dict = dict};
    } else if ((unsigned)__builtin_popcountll(used) < arguments->named_count) {
        return value_raise(room, "macro '%.*s' has no parameter of that name", size,
                           function->name.bytes);
    }
    if (function->takes_rest) {
        struct value_list *list = value_list_new(room, positional - taken);
        if (list == NULL) {
            return false;
        }
        for (uint32_t i = taken; i < positional; i++) {
            list->items[i - taken] = arguments->values[i];
        }
        render->frame->slots[function->rest_slot] =
            (struct value){.kind = VALUE_TUPLE, .list = list};
    } else if (positional > taken) {
        return value_raise(room, "macro '%.*s' takes not more than %u arguments", size,
                           function->name.bytes, function->parameter_count);
    }
    return true;
}

static bool macro_bind(struct render *render, const struct function *function,
                       const struct call_arguments *arguments)
{
    ASSERT(function->parameter_count <= template_argument_max);
    uint64_t used = 0;
    uint64_t missing = 0;
    uint32_t place = 0;

    for (const struct parameter *parameter = function->parameters; parameter != NULL;
         parameter = parameter->next, place++) {
        struct value value = value_undefined(parameter->name->text);
        bool given = macro_argument(arguments, place, parameter->name->text, &used, &value);
        missing |= (uint64_t)!given << place;
        render->frame->slots[parameter->slot] = value;
    }
    if (!bind_rest(render, function, arguments, used)) {
        return false;
    }
    render_enter(render, function->loads);
    place = 0;
    for (const struct parameter *parameter = function->parameters; parameter != NULL;
         parameter = parameter->next, place++) {
        if (parameter->fallback == NULL || (missing & 1ull << place) == 0) {
            continue;
        }
        struct value scratch;
        const struct value *value = evaluate(render, parameter->fallback, &scratch);
        if (value == NULL) {
            return false;
        }
        render->frame->slots[parameter->slot] = *value;
    }
    return true;
}

bool render_macro(struct render *render, const struct value_callable *macro,
                  const struct call_arguments *arguments)
{
    ASSERT(macro->kind == CALLABLE_MACRO);
    const struct function *function = macro->macro.function;
    if (render->nesting + function->nesting > template_running_max) {
        return value_fail(&render->room, STATUS_TOO_LARGE, "macros call each other too deep");
    }
    struct call_frame *frame = take_frame(render, function, macro->macro.outer);
    if (frame == NULL) {
        return false;
    }
    struct call_frame *caller = render->frame;
    render->frame = frame;
    render->nesting += function->nesting;
    bool good =
        macro_bind(render, function, arguments) && run_block(render, &function->body) == FLOW_ON;
    ASSERT(render->nesting >= function->nesting && render->frame == frame);
    render->nesting -= function->nesting;
    render->frame = caller;
    put_frame(render, function, frame);
    return good;
}

// The variables from outside that the template reads, each looked up once.
static bool find_externals(struct render *render)
{
    const struct template *template = render->template;
    struct value *values = render_take(render, template->external_count * sizeof(values[0]));
    if (values == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < template->external_count; i++) {
        const struct external *external = &template->externals[i];
        const struct value *value = value_dict_get(render->input->variables, external->name);
        if (value != NULL) {
            values[i] = *value;
        } else if (external->function != NULL) {
            values[i] = (struct value){.kind = VALUE_CALLABLE, .callable = external->function};
        } else {
            values[i] = value_undefined(external->name);
        }
    }
    render->externals = values;
    return true;
}

static bool run_template(struct render *render)
{
    const struct template *template = render->template;
    size_t spare_size = template->function_count * sizeof(struct call_frame *);
    render->spare = render_take(render, spare_size);
    if (render->spare == NULL || !find_externals(render)) {
        return false;
    }
    memset(render->spare, 0, spare_size);
    render->frame = take_frame(render, template->root, NULL);
    if (render->frame == NULL) {
        return false;
    }
    render_enter(render, template->root->loads);
    return run_block(render, &template->root->body) == FLOW_ON;
}

enum status template_render(const struct template *template, const struct template_input *input,
                            struct arena *arena, struct template_output *out,
                            struct template_error *error)
{
    ASSERT(input->variables != NULL && out->text != NULL);
    struct render render = {
        .room = {.arena = arena, .steps_left = input->step_max},
        .template = template,
        .input = input,
        .out = out->text,
        .nesting = template->root->nesting,
    };
    size_t size_before = out->text->size;
    bool good = run_template(&render);
    out->used_time = render.used_time;
    if (good && out->text->overflow) {
        good = value_fail(&render.room, STATUS_TOO_LARGE, "the output is too long");
    }
    if (good) {
        return STATUS_OK;
    }
    ASSERT(render.room.status != STATUS_OK);
    out->text->size = size_before;
    error->line = render.line;
    (void)snprintf(error->text, sizeof(error->text), "%s", render.room.error);
    return render.room.status;
}
