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

struct value render_capture(struct render *render, size_t mark)
{
    ASSERT_SLOW(mark <= render->out->size);
    if (render->out->overflow) {
        (void)value_fail(&render->room, STATUS_TOO_LARGE, "the output is too long");
    }
    size_t size = render->out->size - mark;
    uint8_t *bytes = value_bytes_new(&render->room, size);
    if (bytes == NULL || !value_step(&render->room, size / 64 + 1)) {
        return value_none();
    }
    if (size > 0) {
        memcpy(bytes, render->out->bytes + mark, size);
    }
    render->out->size = mark;
    return value_string(slice_of(bytes, size));
}

static void enter_scope(struct render *render, const struct slot_load *loads)
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

// The namespace of a target with an attribute; NULL, with the failure noted, if it is another
// value.
static struct value_space *target_space(struct render *render, const struct target *target)
{
    ASSERT(target->kind == TARGET_ATTRIBUTE && target->attribute.size > 0);
    struct value scratch;
    const struct value *holder = evaluate(render, target->name, &scratch);
    if (holder->kind != VALUE_NAMESPACE) {
        (void)value_raise(&render->room, "cannot assign attribute on non-namespace object");
        return NULL;
    }
    return holder->space;
}

static void assign_attribute(struct render *render, const struct target *target,
                             const struct value *value)
{
    struct value_space *space = target_space(render, target);
    struct value name = value_string(target->attribute);
    if (space == NULL) {
        return;
    }
    if (name.string.bytes[0] == '_') {
        (void)value_raise(&render->room, "a namespace has no names with an underscore in front");
        return;
    }
    if (space->dict->count == space->capacity) {
        uint32_t capacity = space->capacity * 2 + 4;
        struct value_dict *grown = value_dict_new(&render->room, capacity);
        if (grown == NULL) {
            return;
        }
        grown->count = space->dict->count;
        memcpy(grown->members, space->dict->members, grown->count * sizeof(grown->members[0]));
        space->dict = grown;
        space->capacity = capacity;
    }
    value_dict_put(&render->room, space->dict, &name, value);
}

static void unpack(struct render *render, const struct target *target, const struct value *value)
{
    ASSERT(target->kind == TARGET_TUPLE);
    const struct value_list *items = value_iterate(&render->room, value);
    if (items->count != target->count) {
        (void)value_raise(&render->room,
                          items->count < target->count
                              ? "not enough values to unpack (expected %u, got %u)"
                              : "too many values to unpack (expected %u, got %u)",
                          target->count, items->count);
        return;
    }
    uint32_t i = 0;
    for (const struct target *item = target->first; item != NULL; item = item->next) {
        render_assign(render, item, &items->items[i++]);
    }
}

void render_assign(struct render *render, const struct target *target, const struct value *value)
{
    switch (target->kind) {
    case TARGET_NAME:
        render->frame->slots[target->name->slot] = *value;
        return;
    case TARGET_ATTRIBUTE:
        assign_attribute(render, target, value);
        return;
    default:
        unpack(render, target, value);
        return;
    }
}

static enum flow run_data(struct render *render, const struct statement *statement)
{
    text_add(render->out, statement->data);
    return FLOW_ON;
}

static enum flow run_print(struct render *render, const struct statement *statement)
{
    print(render, statement->print);
    return FLOW_ON;
}

static enum flow run_if(struct render *render, const struct statement *statement)
{
    struct value scratch;
    const struct branch *branch = statement->branches;
    while (branch != NULL && branch->test != NULL &&
           !value_is_true(evaluate(render, branch->test, &scratch))) {
        branch = branch->next;
    }
    return branch != NULL ? run_block(render, &branch->body) : FLOW_ON;
}

static enum flow run_turns(struct render *render, struct loop_state *loop)
{
    const struct statement *statement = loop->statement;
    while (value_step(&render->room, 1) && loop_next(render, loop)) {
        render_assign(render, statement->loop.target, &loop->current);
        enter_scope(render, statement->loop.body_loads);
        enum flow flow = run_block(render, &statement->loop.body);
        if (flow == FLOW_BREAK || flow == FLOW_FAILED) {
            return flow == FLOW_BREAK ? FLOW_ON : flow;
        }
        loop->has_whole_turn |= flow == FLOW_ON;
    }
    return FLOW_ON;
}

static enum flow run_for(struct render *render, const struct statement *statement)
{
    struct value scratch;
    const struct value *items = evaluate(render, statement->loop.items, &scratch);
    bool is_tested = statement->loop.test != NULL;
    struct loop_state loop = {
        .statement = statement,
        .items = value_iterate(&render->room, items),
        .index = -1,
        .is_tested = is_tested,
        .has_length = !is_tested,
    };
    loop.length = loop.items->count;
    enter_scope(render, statement->loop.test_loads);

    struct call_frame *frame = render->frame;
    ASSERT(frame->loops[statement->loop.loop] == NULL);
    frame->loops[statement->loop.loop] = &loop;
    enum flow flow = run_turns(render, &loop);
    frame->loops[statement->loop.loop] = NULL;

    // Jinja's `else` also runs when break and continue have cut every turn short.
    if (flow == FLOW_ON && !loop.has_whole_turn && statement->loop.otherwise.first != NULL) {
        enter_scope(render, statement->loop.otherwise_loads);
        return run_block(render, &statement->loop.otherwise);
    }
    return flow;
}

// Jinja tests for namespaces before it evaluates the right side.
static void check_namespaces(struct render *render, const struct target *target)
{
    if (target->kind == TARGET_ATTRIBUTE) {
        (void)target_space(render, target);
    }
    for (const struct target *item = target->first; item != NULL; item = item->next) {
        check_namespaces(render, item);
    }
}

static enum flow run_set(struct render *render, const struct statement *statement)
{
    struct value scratch;
    check_namespaces(render, statement->set.target);
    const struct value *value = evaluate(render, statement->set.value, &scratch);
    if (render->room.status == STATUS_OK) {
        render_assign(render, statement->set.target, value);
    }
    return FLOW_ON;
}

// Set blocks and filter blocks: the output of the body becomes a value, with its filters.
static enum flow run_captured(struct render *render, const struct statement *statement)
{
    size_t mark = render->out->size;
    enter_scope(render, statement->set.loads);
    enum flow flow = run_block(render, &statement->set.body);
    if (flow != FLOW_ON) {
        render->out->size = mark; // a break leaves it behind
        return flow;
    }
    struct value scratch;
    struct value content = render_capture(render, mark);
    const struct value *value = &content;
    if (statement->set.value != NULL) {
        const struct value *outer = render->content;
        render->content = &content;
        value = evaluate(render, statement->set.value, &scratch);
        render->content = outer;
    }
    if (statement->kind == STATEMENT_SET_BLOCK) {
        render_assign(render, statement->set.target, value);
    } else if (value->kind == VALUE_STRING) {
        print_value(render, value);
    } else {
        // Jinja joins the parts of its output, and only strings can be joined.
        (void)value_raise(&render->room, "a filter block gave '%s', not 'str'",
                          value_type_name(value));
    }
    return FLOW_ON;
}

static enum flow run_macro(struct render *render, const struct statement *statement)
{
    struct value_callable *macro = value_bytes_new(&render->room, sizeof(*macro));
    if (macro != NULL) {
        macro->kind = CALLABLE_MACRO;
        macro->macro.function = statement->macro.function;
        macro->macro.outer = render->frame;
        render->frame->slots[statement->macro.name->slot] =
            (struct value){.kind = VALUE_CALLABLE, .callable = macro};
    }
    return FLOW_ON;
}

static enum flow run_with(struct render *render, const struct statement *statement)
{
    const struct expression *expression = statement->with.values;
    enter_scope(render, statement->with.loads);
    for (const struct target *target = statement->with.targets; target != NULL;
         target = target->next) {
        struct value scratch;
        render_assign(render, target, evaluate(render, expression, &scratch));
        expression = expression->next;
    }
    return run_block(render, &statement->with.body);
}

static enum flow run_scope(struct render *render, const struct statement *statement)
{
    enter_scope(render, statement->set.loads);
    return run_block(render, &statement->set.body);
}

static enum flow run_jump(struct render *render, const struct statement *statement)
{
    (void)render;
    return statement->kind == STATEMENT_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
}

static run_fn *const runners[statement_kind_count] = {
    [STATEMENT_DATA] = run_data,   [STATEMENT_PRINT] = run_print,
    [STATEMENT_IF] = run_if,       [STATEMENT_FOR] = run_for,
    [STATEMENT_SET] = run_set,     [STATEMENT_SET_BLOCK] = run_captured,
    [STATEMENT_MACRO] = run_macro, [STATEMENT_FILTER_BLOCK] = run_captured,
    [STATEMENT_WITH] = run_with,   [STATEMENT_SCOPE] = run_scope,
    [STATEMENT_BREAK] = run_jump,  [STATEMENT_CONTINUE] = run_jump,
};

static enum flow run_block(struct render *render, const struct statement_block *block)
{
    if (render->room.status != STATUS_OK) {
        return FLOW_FAILED; // in the statement around
    }
    for (const struct statement *statement = block->first; statement != NULL;
         statement = statement->next) {
        enum flow flow = value_step(&render->room, 1) ? runners[statement->kind](render, statement)
                                                      : FLOW_FAILED;
        if (render->room.status != STATUS_OK) {
            render->line = render->line == 0 ? statement->line : render->line;
            return FLOW_FAILED;
        }
        if (flow != FLOW_ON) {
            return flow;
        }
    }
    return FLOW_ON;
}

// Frames are reused, unless a macro was defined in them that may still read them.
static struct call_frame *take_frame(struct render *render, const struct function *function,
                                     struct call_frame *outer)
{
    struct call_frame *frame = render->spare[function->number];
    if (frame != NULL) {
        render->spare[function->number] = frame->next_spare;
    } else {
        size_t slots_size = function->slot_count * sizeof(frame->slots[0]);
        size_t loops_size = function->loop_count * sizeof(struct loop_state *);
        frame = value_bytes_new(&render->room, sizeof(*frame) + slots_size);
        struct loop_state **loops = value_bytes_new(&render->room, loops_size);
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

// The arguments that no parameter took: for `varargs` and `kwargs`, or an error.
static void bind_rest(struct render *render, const struct function *function,
                      const struct call_arguments *arguments, uint64_t used)
{
    ASSERT(arguments->named_count <= arguments->count);
    struct value_room *room = &render->room;
    struct value *slots = render->frame->slots;
    uint32_t positional = arguments->count - arguments->named_count;
    uint32_t taken =
        positional < function->parameter_count ? positional : function->parameter_count;
    int size = (int)function->name.size;

    if (function->takes_named) {
        struct value_dict *dict = value_dict_new(room, arguments->named_count);
        if (dict == NULL) {
            return;
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
        slots[function->named_slot] = value_of_dict(dict);
    } else if ((unsigned)__builtin_popcountll(used) < arguments->named_count) {
        (void)value_raise(room, "macro '%.*s' has no parameter of that name", size,
                          function->name.bytes);
    }
    if (function->takes_rest) {
        slots[function->rest_slot] =
            value_of_tuple(value_list_copy(room, arguments->values + taken, positional - taken));
    } else if (positional > taken) {
        (void)value_raise(room, "macro '%.*s' takes not more than %u arguments", size,
                          function->name.bytes, function->parameter_count);
    }
}

static void macro_bind(struct render *render, const struct function *function,
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
    bind_rest(render, function, arguments, used);
    enter_scope(render, function->loads);
    place = 0;
    for (const struct parameter *parameter = function->parameters; parameter != NULL;
         parameter = parameter->next, place++) {
        if (parameter->fallback != NULL && (missing & 1ull << place) != 0) {
            struct value scratch;
            const struct value *value = evaluate(render, parameter->fallback, &scratch);
            render->frame->slots[parameter->slot] = *value;
        }
    }
}

void render_macro(struct render *render, const struct value_callable *macro,
                  const struct call_arguments *arguments)
{
    ASSERT(macro->kind == CALLABLE_MACRO);
    const struct function *function = macro->macro.function;
    if (render->nesting + function->nesting > template_running_max) {
        (void)value_fail(&render->room, STATUS_TOO_LARGE, "macros call each other too deep");
        return;
    }
    struct call_frame *frame = take_frame(render, function, macro->macro.outer);
    if (frame == NULL) {
        return;
    }
    struct call_frame *caller = render->frame;
    render->frame = frame;
    render->nesting += function->nesting;
    macro_bind(render, function, arguments);
    if (render->room.status == STATUS_OK) {
        (void)run_block(render, &function->body);
    }
    ASSERT(render->nesting >= function->nesting && render->frame == frame);
    render->nesting -= function->nesting;
    render->frame = caller;
    put_frame(render, function, frame);
}

// The variables that the template reads, each looked up once.
static bool find_externals(struct render *render)
{
    const struct template *template = render->template;
    struct value *values =
        value_bytes_new(&render->room, template->external_count * sizeof(values[0]));
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
    render->spare = value_bytes_new(&render->room, spare_size);
    if (render->spare == NULL || !find_externals(render)) {
        return false;
    }
    memset(render->spare, 0, spare_size);
    render->frame = take_frame(render, template->root, NULL);
    if (render->frame == NULL) {
        return false;
    }
    enter_scope(render, template->root->loads);
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
