// SPDX-License-Identifier: Apache-2.0
//
// The variable that a name means, by Jinja's rules.
//
// A scope is visited twice.  The first visit makes a symbol of every name that is read or assigned
// in it; the first mention decides how the symbol begins:
// - read first, and unknown in the scopes around: an external variable;
// - assigned first: its value in the scope around, or else undefined;
// - assigned under an `if`: the external variable, since the assignment may not happen.
// The second visit binds names to symbols and enters inner scopes, whose symbols may now refer to
// complete ones.  The order can be observed: an assignment anywhere in a scope hides the external
// variable in all of it.
//
// Symbols that are never assigned have no slot: reading them reads the external variable.

#include "base/base.h"
#include "template/ast_internal.h"
#include "template/builtin/function.h"

#include <stdio.h>

enum symbol_kind { SYMBOL_EXTERNAL, SYMBOL_UNDEFINED, SYMBOL_ALIAS, SYMBOL_GIVEN, SYMBOL_LOOP };

struct scope_symbol {
    struct scope_symbol *next;     // in its scope
    struct scope_symbol *shadowed; // of the same name, in a scope around
    struct name *name;
    const struct scope *scope;
    enum symbol_kind kind;
    bool is_assigned;
    uint32_t slot; // or the number of the loop
};

struct scope {
    struct scope *parent;
    struct function *function;
    uint32_t level; // of the function
    uint32_t branch_depth;
    struct scope_symbol *symbols;
    struct statement *loop; // if it is the body of one
};

struct resolver {
    struct template *template;
    struct template_error *error;
    enum status status;
    const struct special_names *names;
    struct scope *scope;
    struct name *externals;
    bool binds; // the second time through
};

static void resolve_fail(struct resolver *resolver, enum status status, uint32_t line,
                         const char *what, struct slice name)
{
    ASSERT(status != STATUS_OK);
    if (resolver->status == STATUS_OK) {
        resolver->status = status;
        resolver->error->line = line;
        (void)snprintf(resolver->error->text, sizeof(resolver->error->text), "'%.*s' %s",
                       (int)(name.size < 60 ? name.size : 60),
                       name.bytes != NULL ? (const char *)name.bytes : "", what);
    }
}

static void *resolve_take(struct resolver *resolver, size_t size)
{
    void *taken = template_memory_take(&resolver->template->memory, size);
    if (taken == NULL) {
        resolve_fail(resolver, STATUS_EXHAUSTED, 0, "is short", slice_str("memory"));
    }
    return taken;
}

static struct scope_symbol *symbol_here(const struct resolver *resolver, const struct name *name)
{
    struct scope_symbol *symbol = name->symbol;
    return symbol != NULL && symbol->scope == resolver->scope ? symbol : NULL;
}

static struct scope_symbol *add_symbol(struct resolver *resolver, struct name *name,
                                       enum symbol_kind kind)
{
    ASSERT(name->symbol == NULL || name->symbol->scope != resolver->scope);
    struct scope_symbol *symbol = resolve_take(resolver, sizeof(*symbol));
    if (symbol == NULL) {
        return NULL;
    }
    *symbol = (struct scope_symbol){
        .next = resolver->scope->symbols,
        .shadowed = name->symbol,
        .name = name,
        .scope = resolver->scope,
        .kind = kind,
    };
    resolver->scope->symbols = symbol;
    name->symbol = symbol;
    return symbol;
}

// Jinja has these without being given them, and we do not.
static const char *const missing_functions[] = {"cycler", "joiner", "lipsum", "self", "caller"};

static void note_external(struct resolver *resolver, struct name *name, uint32_t line)
{
    for (size_t i = 0; i < sizeof(missing_functions) / sizeof(missing_functions[0]); i++) {
        if (slice_is(name->text, missing_functions[i])) {
            resolve_fail(resolver, STATUS_MALFORMED, line, "is not implemented", name->text);
        }
    }
    if (name->external == 0) {
        name->external = ++resolver->template->external_count;
        name->next_external = resolver->externals;
        resolver->externals = name;
    }
}

static void note_read(struct resolver *resolver, struct name *name, uint32_t line)
{
    if (name->symbol == NULL) {
        note_external(resolver, name, line);
        (void)add_symbol(resolver, name, SYMBOL_EXTERNAL);
    }
}

static void note_assigned(struct resolver *resolver, struct name *name, uint32_t line)
{
    struct scope_symbol *symbol = symbol_here(resolver, name);
    if (symbol == NULL) {
        enum symbol_kind kind = name->symbol != NULL                 ? SYMBOL_ALIAS
                                : resolver->scope->branch_depth == 0 ? SYMBOL_UNDEFINED
                                                                     : SYMBOL_EXTERNAL;
        if (kind == SYMBOL_EXTERNAL) {
            note_external(resolver, name, line);
        }
        symbol = add_symbol(resolver, name, kind);
    }
    if (symbol != NULL) {
        symbol->is_assigned = true;
    }
}

// A name that is assigned on entering the scope.
static struct scope_symbol *add_given_symbol(struct resolver *resolver, struct name *name)
{
    struct scope_symbol *symbol = symbol_here(resolver, name);
    if (symbol == NULL) {
        symbol = add_symbol(resolver, name, SYMBOL_GIVEN);
    }
    if (symbol != NULL) {
        symbol->kind = SYMBOL_GIVEN;
        symbol->is_assigned = true;
    }
    return symbol;
}

static void bind(struct resolver *resolver, struct expression *expression)
{
    const struct name *name = expression->name;
    const struct scope_symbol *symbol = name->symbol;
    ASSERT(symbol != NULL && symbol->scope->level <= resolver->scope->level);
    if (symbol->kind == SYMBOL_EXTERNAL && !symbol->is_assigned) {
        expression->kind = EXPRESSION_EXTERNAL;
        expression->slot = name->external - 1;
        return;
    }
    expression->levels = resolver->scope->level - symbol->scope->level;
    expression->slot = symbol->slot;
    expression->kind = EXPRESSION_SLOT;
    if (symbol->kind == SYMBOL_LOOP) {
        expression->kind = EXPRESSION_LOOP;
        symbol->scope->loop->loop.uses_loop = true;
    }
}

static void visit(struct resolver *resolver, struct expression *expression);

// Our ranges are lists.  They are refused where a template could see that.
static void allow_range(struct expression *expression)
{
    if (expression->kind == EXPRESSION_CALL) {
        expression->call.is_iterated = true;
    }
}

static void visit_list(struct resolver *resolver, struct expression *first)
{
    for (struct expression *item = first; item != NULL; item = item->next) {
        if (item->joint == OPERATOR_IN || item->joint == OPERATOR_NOT_IN) {
            allow_range(item);
        }
        visit(resolver, item);
    }
}

// loop.index and loop.cycle(...) become one node each.
static void bind_loop_field(struct resolver *resolver, struct expression *expression)
{
    static const char *const fields[] = {
#define X(name, text) text,
        LOOP_FIELD_MAP(X)
#undef X
    };
    bool is_call = expression->kind == EXPRESSION_METHOD_CALL;
    struct slice field = expression->call.member->name;
    for (unsigned i = 0; i < loop_field_count && expression->call.named_count == 0; i++) {
        bool wants_call = i == LOOP_CYCLE || i == LOOP_CHANGED;
        if (slice_is(field, fields[i]) && wants_call == is_call) {
            expression->kind = EXPRESSION_LOOP;
            expression->operation = (uint8_t)i;
            expression->levels = expression->first->levels;
            expression->slot = expression->first->slot;
            return;
        }
    }
    resolve_fail(resolver, STATUS_MALFORMED, expression->line, "of 'loop' is not implemented",
                 field);
}

static void visit_name(struct resolver *resolver, struct expression *expression)
{
    if (!resolver->binds) {
        note_read(resolver, expression->name, expression->line);
        return;
    }
    bind(resolver, expression);
    if (expression->kind == EXPRESSION_LOOP) {
        resolve_fail(resolver, STATUS_MALFORMED, expression->line,
                     "without a member is not implemented", expression->name->text);
    }
}

// x.name, x['name'] and x.name(...), where x may be a loop.
static void visit_member(struct resolver *resolver, struct expression *expression)
{
    struct expression *subject = expression->first;
    visit_list(resolver, subject->next);
    if (!resolver->binds || subject->kind != EXPRESSION_NAME) {
        visit(resolver, subject);
        return;
    }
    bind(resolver, subject);
    if (subject->kind == EXPRESSION_LOOP) {
        bind_loop_field(resolver, expression);
    }
}

static void visit_call(struct resolver *resolver, struct expression *call)
{
    const struct expression *callee = call->first;
    visit_list(resolver, call->first);
    visit_list(resolver, call->call.spread);
    if (callee->kind == EXPRESSION_EXTERNAL && slice_is(callee->name->text, "range") &&
        !call->call.is_iterated) {
        resolve_fail(resolver, STATUS_MALFORMED, call->line,
                     "that is printed or kept is not implemented", callee->name->text);
    }
}

static void visit(struct resolver *resolver, struct expression *expression)
{
    switch ((enum expression_kind)expression->kind) {
    case EXPRESSION_NAME:
        visit_name(resolver, expression);
        return;
    case EXPRESSION_ATTRIBUTE:
    case EXPRESSION_ITEM:
    case EXPRESSION_METHOD_CALL:
        visit_member(resolver, expression);
        return;
    case EXPRESSION_CALL:
        visit_call(resolver, expression);
        return;
    case EXPRESSION_FILTER:
        if ((expression->call.builtin->traits & TAKES_RANGE) == 0) {
            break;
        }
        allow_range(expression->first);
        break;
    case EXPRESSION_SUBSCRIPT:
        allow_range(expression->first);
        break;
    default:
        break;
    }
    visit_list(resolver, expression->first);
}

// The names of a target: assigned by statements of the scope, or given on entering it.
static void visit_target(struct resolver *resolver, struct target *target, bool is_given)
{
    if (target->kind == TARGET_TUPLE) {
        for (struct target *item = target->first; item != NULL; item = item->next) {
            visit_target(resolver, item, is_given);
        }
    } else if (resolver->binds) {
        bind(resolver, target->name);
    } else if (target->kind == TARGET_ATTRIBUTE) {
        note_read(resolver, target->name->name, target->line);
    } else if (is_given) {
        (void)add_given_symbol(resolver, target->name->name);
    } else {
        note_assigned(resolver, target->name->name, target->line);
    }
}

static void open_scope(struct resolver *resolver, struct scope *scope)
{
    struct scope *parent = resolver->scope;
    scope->parent = parent;
    if (scope->function == NULL) {
        ASSERT(parent != NULL); // the outermost scope is a function's
        scope->function = parent->function;
        scope->level = parent->level;
    } else {
        scope->level = parent != NULL ? parent->level + 1 : 0;
    }
    resolver->scope = scope;
    resolver->binds = false;
}

// All names are known: symbols that need one get a slot, and the scope the loads that fill it.
static struct slot_load *settle_scope(struct resolver *resolver)
{
    ASSERT(!resolver->binds && resolver->scope->branch_depth == 0);
    struct slot_load *loads = NULL;
    struct scope *scope = resolver->scope;

    for (struct scope_symbol *symbol = scope->symbols; symbol != NULL; symbol = symbol->next) {
        if (symbol->kind == SYMBOL_LOOP ||
            (symbol->kind == SYMBOL_EXTERNAL && !symbol->is_assigned)) {
            continue;
        }
        symbol->slot = scope->function->slot_count++;
        struct slot_load *load =
            symbol->kind == SYMBOL_GIVEN ? NULL : resolve_take(resolver, sizeof(*load));
        if (load == NULL) {
            continue;
        }
        *load = (struct slot_load){.next = loads, .slot = symbol->slot, .name = symbol->name->text};
        loads = load;
        const struct scope_symbol *outer = symbol->shadowed;
        bool is_external =
            symbol->kind == SYMBOL_EXTERNAL ||
            (symbol->kind == SYMBOL_ALIAS && outer->kind == SYMBOL_EXTERNAL && !outer->is_assigned);
        if (is_external) {
            load->kind = LOAD_EXTERNAL;
            load->source = symbol->name->external - 1;
        } else if (symbol->kind == SYMBOL_ALIAS && outer->kind != SYMBOL_LOOP) {
            load->kind = LOAD_SLOT;
            load->source = outer->slot;
            load->levels = scope->level - outer->scope->level;
        }
    }
    resolver->binds = true;
    return loads;
}

static void close_scope(struct resolver *resolver)
{
    ASSERT(resolver->scope != NULL);
    for (struct scope_symbol *symbol = resolver->scope->symbols; symbol != NULL;
         symbol = symbol->next) {
        symbol->name->symbol = symbol->shadowed;
    }
    resolver->scope = resolver->scope->parent;
    resolver->binds = true;
}

// Visits the inside of a scope.  Called twice: to note names, and to bind them.
typedef void visit_scope_fn(struct resolver *resolver, struct statement *statement);

// Returns the loads that fill its slots.  `scope` may name a function of its own or a loop.
static struct slot_load *visit_scope(struct resolver *resolver, struct scope scope,
                                     visit_scope_fn *visit_inside, struct statement *statement)
{
    open_scope(resolver, &scope);
    visit_inside(resolver, statement);
    struct slot_load *loads = settle_scope(resolver);
    if (resolver->status == STATUS_OK) {
        visit_inside(resolver, statement);
    }
    close_scope(resolver);
    return loads;
}

static void visit_block(struct resolver *resolver, const struct statement_block *block);

static void visit_targets(struct resolver *resolver, struct target *first)
{
    for (struct target *target = first; target != NULL; target = target->next) {
        visit_target(resolver, target, true);
    }
}

static void visit_loop_body(struct resolver *resolver, struct statement *statement)
{
    if (!resolver->binds) {
        struct scope_symbol *loop = add_symbol(resolver, resolver->names->loop, SYMBOL_LOOP);
        if (loop != NULL) {
            loop->slot = statement->loop.loop;
        }
    }
    visit_target(resolver, statement->loop.target, true);
    visit_block(resolver, &statement->loop.body);
}

static void visit_loop_test(struct resolver *resolver, struct statement *statement)
{
    visit_target(resolver, statement->loop.test_target, true);
    visit(resolver, statement->loop.test);
}

static void visit_loop_otherwise(struct resolver *resolver, struct statement *statement)
{
    visit_block(resolver, &statement->loop.otherwise);
}

static void visit_for(struct resolver *resolver, struct statement *statement)
{
    allow_range(statement->loop.items);
    visit(resolver, statement->loop.items);
    if (!resolver->binds) {
        return;
    }
    statement->loop.body_loads =
        visit_scope(resolver, (struct scope){.loop = statement}, visit_loop_body, statement);
    if (statement->loop.test != NULL) {
        statement->loop.test_loads =
            visit_scope(resolver, (struct scope){0}, visit_loop_test, statement);
    }
    statement->loop.otherwise_loads =
        visit_scope(resolver, (struct scope){0}, visit_loop_otherwise, statement);
}

// Of set blocks, filter blocks and generation.
static void visit_captured(struct resolver *resolver, struct statement *statement)
{
    visit_block(resolver, &statement->set.body);
    if (statement->set.value != NULL) {
        visit(resolver, statement->set.value);
    }
}

static void visit_set(struct resolver *resolver, struct statement *statement)
{
    bool is_scope = statement->kind != STATEMENT_SET;
    // Names that a filter block's filter reads count as read around it as well.
    bool reads_value = !is_scope || (statement->kind == STATEMENT_FILTER_BLOCK && !resolver->binds);
    if (reads_value) {
        visit(resolver, statement->set.value);
    } else if (resolver->binds) {
        statement->set.loads = visit_scope(resolver, (struct scope){0}, visit_captured, statement);
    }
    if (statement->set.target != NULL) {
        visit_target(resolver, statement->set.target, false);
    }
}

static void visit_with_body(struct resolver *resolver, struct statement *statement)
{
    visit_targets(resolver, statement->with.targets);
    visit_block(resolver, &statement->with.body);
}

static void visit_with(struct resolver *resolver, struct statement *statement)
{
    visit_list(resolver, statement->with.values);
    if (resolver->binds) {
        statement->with.loads =
            visit_scope(resolver, (struct scope){0}, visit_with_body, statement);
    }
}

// The slot of a name that the caller of a macro gives.
static uint32_t visit_given(struct resolver *resolver, struct name *name)
{
    if (!resolver->binds) {
        (void)add_given_symbol(resolver, name);
        return 0;
    }
    return name->symbol->slot;
}

static void visit_macro_body(struct resolver *resolver, struct statement *statement)
{
    struct function *function = statement->macro.function;
    for (struct parameter *parameter = function->parameters; parameter != NULL;
         parameter = parameter->next) {
        function->takes_rest &= parameter->name != resolver->names->rest;
        function->takes_named &= parameter->name != resolver->names->named;
        parameter->slot = visit_given(resolver, parameter->name);
    }
    if (function->takes_rest) {
        function->rest_slot = visit_given(resolver, resolver->names->rest);
    }
    if (function->takes_named) {
        function->named_slot = visit_given(resolver, resolver->names->named);
    }
    for (struct parameter *parameter = function->parameters; parameter != NULL;
         parameter = parameter->next) {
        if (parameter->fallback != NULL) {
            visit(resolver, parameter->fallback);
        }
    }
    visit_block(resolver, &function->body);
}

static void visit_macro(struct resolver *resolver, struct statement *statement)
{
    ASSERT(statement->kind == STATEMENT_MACRO);
    struct expression *name = statement->macro.name;
    if (!resolver->binds) {
        note_assigned(resolver, name->name, name->line);
        return;
    }
    bind(resolver, name);
    struct function *function = statement->macro.function;
    function->loads =
        visit_scope(resolver, (struct scope){.function = function}, visit_macro_body, statement);
}

static void visit_if(struct resolver *resolver, const struct statement *statement)
{
    ASSERT(statement->kind == STATEMENT_IF);
    for (struct branch *branch = statement->branches; branch != NULL; branch = branch->next) {
        if (branch->test != NULL) {
            visit(resolver, branch->test);
        }
        resolver->scope->branch_depth++;
        visit_block(resolver, &branch->body);
        resolver->scope->branch_depth--;
    }
}

static void visit_block(struct resolver *resolver, const struct statement_block *block)
{
    for (struct statement *statement = block->first; statement != NULL;
         statement = statement->next) {
        switch (statement->kind) {
        case STATEMENT_PRINT:
            visit(resolver, statement->print);
            break;
        case STATEMENT_IF:
            visit_if(resolver, statement);
            break;
        case STATEMENT_FOR:
            visit_for(resolver, statement);
            break;
        case STATEMENT_SET:
        case STATEMENT_SET_BLOCK:
        case STATEMENT_FILTER_BLOCK:
        case STATEMENT_SCOPE:
            visit_set(resolver, statement);
            break;
        case STATEMENT_WITH:
            visit_with(resolver, statement);
            break;
        case STATEMENT_MACRO:
            visit_macro(resolver, statement);
            break;
        default:
            break;
        }
    }
}

static void visit_root(struct resolver *resolver, struct statement *statement)
{
    (void)statement;
    visit_block(resolver, &resolver->template->root->body);
}

// Numbers were given while resolving; now they have a table.
static void list_externals(struct resolver *resolver)
{
    struct template *template = resolver->template;
    template->externals =
        resolve_take(resolver, template->external_count * sizeof(template->externals[0]));
    if (template->externals == NULL) {
        return;
    }
    for (struct name *name = resolver->externals; name != NULL; name = name->next_external) {
        template->externals[name->external - 1] = (struct external){
            .name = name->text,
            .function = function_find(name->text),
        };
    }
}

enum status template_resolve(struct template *template, const struct special_names *names,
                             struct template_error *error)
{
    struct resolver resolver = {.template = template, .names = names, .error = error};
    struct scope scope = {.function = template->root};
    template->root->loads = visit_scope(&resolver, scope, visit_root, NULL);
    list_externals(&resolver);
    return resolver.status;
}
