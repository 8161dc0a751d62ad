// SPDX-License-Identifier: Apache-2.0
//
// Statements: text, {{ }} and tags.  A tag is a row of `tags`: those with a function are parsed,
// the others are refused by name.

#include "base/base.h"
#include "template/parser_internal.h"

static struct statement *make_statement(struct parser *parser, enum statement_kind kind,
                                        uint32_t line)
{
    ASSERT(kind < statement_kind_count);
    struct statement *statement = parse_node(parser, sizeof(*statement));
    statement->kind = kind;
    statement->line = line;
    return statement;
}

typedef struct statement *parse_tag_fn(struct parser *parser, uint32_t line);

// Statements up to one of `ends`, for the tag of that line; without `ends`, up to the template's
// end.
static void parse_block(struct parser *parser, const char *const *ends, uint32_t line,
                        struct statement_block *out);

// The body of a tag, from the end of that tag to the name of one of `ends`, which is then current.
static void parse_body(struct parser *parser, const char *const *ends, struct statement_block *out)
{
    uint32_t line = parser->current.line;
    (void)parse_skip(parser, TOKEN_COLON);
    (void)parse_expect(parser, TOKEN_TAG_END);
    parse_descend(parser);
    parse_block(parser, ends, line, out);
    parse_ascend(parser);
}

// The same for a body with one possible end, which is passed.
static void parse_whole_body(struct parser *parser, const char *end, struct statement_block *out)
{
    const char *const ends[] = {end, NULL};
    parse_body(parser, ends, out);
    parse_advance(parser);
}

static struct target *make_target(struct parser *parser, enum target_kind kind)
{
    struct target *target = parse_node(parser, sizeof(*target));
    target->kind = kind;
    target->line = parser->current.line;
    return target;
}

static struct target *parse_target_name(struct parser *parser, bool with_attribute)
{
    static const char *const reserved[] = {"true", "false", "none", "True", "False", "None"};
    struct token token = parser->current;
    bool is_free = token.kind == TOKEN_NAME;
    for (size_t i = 0; i < ARRAY_COUNT(reserved); i++) {
        is_free = is_free && !slice_is(token.text, reserved[i]);
    }
    if (!is_free) {
        return parse_unexpected(parser, "a name to assign to");
    }
    struct target *target = make_target(parser, TARGET_NAME);
    parse_advance(parser);
    target->name = parse_name(parser, token.text, token.line);
    if (with_attribute && parse_skip(parser, TOKEN_DOT)) {
        target->kind = TARGET_ATTRIBUTE;
        target->attribute = parser->current.text;
        (void)parse_expect(parser, TOKEN_NAME);
    } else if (parser->for_depth > 0 && slice_is(token.text, "loop")) {
        return parse_fail(parser, STATUS_MALFORMED, token.line, "'loop' is assigned to in a loop");
    }
    return target;
}

static struct target *parse_target(struct parser *parser, bool with_attribute);

static struct target *parse_target_item(struct parser *parser, bool with_attribute)
{
    if (!parse_skip(parser, TOKEN_LEFT_PAREN)) {
        return parse_target_name(parser, with_attribute);
    }
    parse_descend(parser);
    struct target *target = parse_target(parser, with_attribute);
    parse_ascend(parser);
    (void)parse_expect(parser, TOKEN_RIGHT_PAREN);
    return target;
}

static bool ends_target(const struct parser *parser)
{
    return parser->current.kind == TOKEN_ASSIGN || parser->current.kind == TOKEN_TAG_END ||
           parser->current.kind == TOKEN_RIGHT_PAREN || parse_is_name(parser, "in");
}

// a, or a, b, (c, d)
static struct target *parse_target(struct parser *parser, bool with_attribute)
{
    struct target *first = parse_target_item(parser, with_attribute);
    if (parser->current.kind != TOKEN_COMMA) {
        return first;
    }
    struct target *tuple = make_target(parser, TARGET_TUPLE);
    tuple->first = first;
    tuple->count = 1;
    struct target **end = &first->next;
    while (parse_skip(parser, TOKEN_COMMA) && !ends_target(parser)) {
        *end = parse_target_item(parser, with_attribute);
        end = &(*end)->next;
        tuple->count++;
    }
    return tuple;
}

// The test of a loop has variables of its own.
static struct target *copy_target(struct parser *parser, const struct target *target)
{
    struct target *copy = make_target(parser, target->kind);
    if (parser->status != STATUS_OK) {
        return copy;
    }
    copy->line = target->line;
    copy->count = target->count;
    if (target->kind == TARGET_NAME) {
        copy->name = parse_name(parser, target->name->name->text, target->line);
        return copy;
    }
    struct target **end = &copy->first;
    for (const struct target *item = target->first; item != NULL; item = item->next) {
        *end = copy_target(parser, item);
        end = &(*end)->next;
    }
    return copy;
}

static struct statement *parse_if(struct parser *parser, uint32_t line)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct statement *statement = make_statement(parser, STATEMENT_IF, line);
    struct branch **end = &statement->branches;
    do {
        struct branch *branch = parse_node(parser, sizeof(*branch));
        *end = branch;
        end = &branch->next;
        branch->test = parse_tuple(parser, false);
        parse_body(parser, ends, &branch->body);
    } while (parse_skip_name(parser, "elif"));
    if (parse_skip_name(parser, "else")) {
        *end = parse_node(parser, sizeof(**end));
        parse_whole_body(parser, "endif", &(*end)->body);
    } else {
        parse_advance(parser);
    }
    return statement;
}

// "for TARGET in ITEMS if TEST", up to the end of the tag.
static void parse_for_head(struct parser *parser, struct statement *statement)
{
    parser->for_depth++;
    statement->loop.target = parse_target(parser, false);
    parser->for_depth--;
    if (!parse_skip_name(parser, "in")) {
        (void)parse_unexpected(parser, "'in'");
    }
    statement->loop.items = parse_tuple(parser, false);
    if (parse_skip_name(parser, "if")) {
        statement->loop.test = parse_expression(parser);
        statement->loop.test_target = copy_target(parser, statement->loop.target);
    }
    if (parse_is_name(parser, "recursive")) {
        (void)parse_fail(parser, STATUS_MALFORMED, statement->line,
                         "'recursive' loops are not implemented");
    }
}

static struct statement *parse_for(struct parser *parser, uint32_t line)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    struct statement *statement = make_statement(parser, STATEMENT_FOR, line);
    *parser->loops_end = statement;
    parser->loops_end = &statement->next_alike;
    statement->loop.loop = parser->place.function->loop_count++;
    parse_for_head(parser, statement);
    parser->for_depth++;
    parser->place.loop_depth++;
    parse_body(parser, ends, &statement->loop.body);
    parser->place.loop_depth--;
    if (parse_skip_name(parser, "else")) {
        parse_whole_body(parser, "endfor", &statement->loop.otherwise);
    } else {
        parse_advance(parser);
    }
    parser->for_depth--;
    return statement;
}

static struct statement *parse_set(struct parser *parser, uint32_t line)
{
    struct statement *statement = make_statement(parser, STATEMENT_SET, line);
    statement->set.target = parse_target(parser, true);
    if (parse_skip(parser, TOKEN_ASSIGN)) {
        *parser->assignments_end = statement;
        parser->assignments_end = &statement->next_alike;
        statement->set.value = parse_tuple(parser, true);
        return statement;
    }
    statement->kind = STATEMENT_SET_BLOCK;
    if (parser->current.kind == TOKEN_PIPE) {
        struct expression *content = parse_make(parser, EXPRESSION_CONTENT, line);
        statement->set.value = parse_filters(parser, content, false);
    }
    parse_whole_body(parser, "endset", &statement->set.body);
    return statement;
}

static void parse_parameters(struct parser *parser, struct function *function)
{
    struct parameter **end = &function->parameters;
    bool has_fallback = false;

    (void)parse_expect(parser, TOKEN_LEFT_PAREN);
    while (parse_goes_on(parser, TOKEN_RIGHT_PAREN)) {
        if (function->parameter_count > 0) {
            (void)parse_expect(parser, TOKEN_COMMA);
        }
        struct parameter *parameter = parse_node(parser, sizeof(*parameter));
        struct slice name = parser->current.text;
        if (!parse_expect(parser, TOKEN_NAME)) {
            return;
        }
        parameter->name = parse_intern(parser, name);
        if (parse_skip(parser, TOKEN_ASSIGN)) {
            has_fallback = true;
            parameter->fallback = parse_expression(parser);
        } else if (has_fallback) {
            (void)parse_unexpected(parser, "a parameter with a default");
        }
        if (++function->parameter_count > template_argument_max) {
            (void)parse_fail(parser, STATUS_TOO_LARGE, parser->current.line, "too many parameters");
        }
        *end = parameter;
        end = &parameter->next;
    }
    (void)parse_expect(parser, TOKEN_RIGHT_PAREN);
}

static struct statement *parse_macro(struct parser *parser, uint32_t line)
{
    struct statement *statement = make_statement(parser, STATEMENT_MACRO, line);
    struct function *function = parse_node(parser, sizeof(*function));
    struct token name = parser->current;
    if (!parse_expect(parser, TOKEN_NAME)) {
        return statement;
    }
    parser->place.function->has_macros = true;
    statement->macro.function = function;
    statement->macro.name = parse_name(parser, name.text, name.line);
    function->name = name.text;
    function->number = parser->function_count++;

    struct parser_place outside = parser->place;
    uint32_t depth = parser->depth;
    parser->place = (struct parser_place){.function = function, .depth_max = depth};
    parse_parameters(parser, function);
    parse_whole_body(parser, "endmacro", &function->body);
    ASSERT(parser->depth == depth && parser->place.depth_max >= depth);
    function->nesting = (uint16_t)(parser->place.depth_max - depth + 1);
    outside.function->takes_rest |= function->takes_rest;
    outside.function->takes_named |= function->takes_named;
    if (parser->place.depth_max > outside.depth_max) {
        outside.depth_max = parser->place.depth_max;
    }
    parser->place = outside;
    return statement;
}

static struct statement *parse_filter_block(struct parser *parser, uint32_t line)
{
    struct statement *statement = make_statement(parser, STATEMENT_FILTER_BLOCK, line);
    struct expression *content = parse_make(parser, EXPRESSION_CONTENT, line);
    statement->set.value = parse_filters(parser, content, true);
    parse_whole_body(parser, "endfilter", &statement->set.body);
    return statement;
}

static struct statement *parse_with(struct parser *parser, uint32_t line)
{
    struct statement *statement = make_statement(parser, STATEMENT_WITH, line);
    struct target **target_end = &statement->with.targets;
    struct expression **value_end = &statement->with.values;
    while (parse_goes_on(parser, TOKEN_TAG_END)) {
        if (statement->with.targets != NULL) {
            (void)parse_expect(parser, TOKEN_COMMA);
        }
        struct target *target = parse_target(parser, false);
        (void)parse_expect(parser, TOKEN_ASSIGN);
        struct expression *value = parse_expression(parser);
        ASSERT(target != NULL && value != NULL); // a parser that failed hands out parser->failed
        *target_end = target;
        *value_end = value;
        target_end = &target->next;
        value_end = &value->next;
    }
    parse_whole_body(parser, "endwith", &statement->with.body);
    return statement;
}

// It marks the model's own text; its body is a scope, and a break does not lead out of it.
static struct statement *parse_generation(struct parser *parser, uint32_t line)
{
    struct statement *statement = make_statement(parser, STATEMENT_SCOPE, line);
    uint32_t loop_depth = parser->place.loop_depth;
    parser->place.loop_depth = 0;
    parse_whole_body(parser, "endgeneration", &statement->set.body);
    parser->place.loop_depth = loop_depth;
    return statement;
}

static struct statement *parse_jump(struct parser *parser, enum statement_kind kind, uint32_t line)
{
    if (parser->place.loop_depth == 0) {
        return parse_fail(parser, STATUS_MALFORMED, line, "break or continue outside of a loop");
    }
    return make_statement(parser, kind, line);
}

static struct statement *parse_break(struct parser *parser, uint32_t line)
{
    return parse_jump(parser, STATEMENT_BREAK, line);
}

static struct statement *parse_continue(struct parser *parser, uint32_t line)
{
    return parse_jump(parser, STATEMENT_CONTINUE, line);
}

static const struct {
    const char *name;
    parse_tag_fn *parse; // NULL: not implemented
} tags[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"macro", parse_macro},
    {"filter", parse_filter_block},
    {"with", parse_with},
    {"generation", parse_generation},
    {"break", parse_break},
    {"continue", parse_continue},
    {"autoescape", NULL},
    {"block", NULL},
    {"call", NULL},
    {"extends", NULL},
    {"from", NULL},
    {"import", NULL},
    {"include", NULL},
    {"print", NULL},
};

static struct statement *parse_tag(struct parser *parser)
{
    struct token name = parser->current;
    int size = (int)(name.text.size < 60 ? name.text.size : 60);

    (void)parse_expect(parser, TOKEN_NAME);
    for (size_t i = 0; i < ARRAY_COUNT(tags); i++) {
        if (!slice_is(name.text, tags[i].name)) {
            continue;
        }
        if (tags[i].parse == NULL) {
            return parse_fail(parser, STATUS_MALFORMED, name.line, "tag '%.*s' is not implemented",
                              size, name.text.bytes);
        }
        struct statement *statement = tags[i].parse(parser, name.line);
        (void)parse_expect(parser, TOKEN_TAG_END);
        return statement;
    }
    return parse_fail(parser, STATUS_MALFORMED, name.line, "tag '%.*s' is not known here", size,
                      name.text.bytes);
}

static struct statement *parse_print(struct parser *parser)
{
    ASSERT(parser->current.kind == TOKEN_PRINT_BEGIN);
    struct statement *statement = make_statement(parser, STATEMENT_PRINT, parser->current.line);
    parse_advance(parser);
    statement->print = parse_tuple(parser, true);
    (void)parse_expect(parser, TOKEN_PRINT_END);
    return statement;
}

static bool is_end(const struct parser *parser, const char *const *ends)
{
    for (size_t i = 0; ends != NULL && ends[i] != NULL; i++) {
        if (parse_is_name(parser, ends[i])) {
            return true;
        }
    }
    return false;
}

static struct statement *parse_data(struct parser *parser)
{
    ASSERT(parser->current.kind == TOKEN_DATA);
    struct statement *statement = make_statement(parser, STATEMENT_DATA, parser->current.line);
    statement->data = parser->current.text;
    parse_advance(parser);
    return statement;
}

static void parse_block(struct parser *parser, const char *const *ends, uint32_t line,
                        struct statement_block *out)
{
    struct statement **end = &out->first;

    while (parse_goes_on(parser, TOKEN_END)) {
        if (parser->current.kind == TOKEN_DATA) {
            *end = parse_data(parser);
        } else if (parser->current.kind == TOKEN_PRINT_BEGIN) {
            *end = parse_print(parser);
        } else {
            (void)parse_expect(parser, TOKEN_TAG_BEGIN);
            if (is_end(parser, ends)) {
                return;
            }
            *end = parse_tag(parser);
        }
        end = &(*end)->next;
    }
    if (ends != NULL) {
        (void)parse_fail(parser, STATUS_MALFORMED, line, "no '%s' up to the end of the template",
                         ends[0]);
    }
}

bool parse_template(struct parser *parser, struct statement_block *out)
{
    ASSERT(parser->place.function != NULL && parser->memory != NULL && parser->error != NULL);
    parser->loops_end = &parser->loops;
    parser->assignments_end = &parser->assignments;
    parser->ahead = lexer_next(&parser->lexer);
    parse_advance(parser);
    parse_block(parser, NULL, 1, out);
    return parser->status == STATUS_OK;
}
