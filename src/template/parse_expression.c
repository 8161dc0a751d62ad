// SPDX-License-Identifier: Apache-2.0
//
// Expressions, loosest binding first: a if b else c; or; and; not; comparisons; + and -; ~; * / // %; **;
// unary + and -; then members, calls, filters and tests.  It is Jinja's order, not Python's: -2 ** 2 is 4, and
// a filter after -x filters -x.

#include "template/literal.h"
#include "template/parser_internal.h"

static struct expression *make(struct parser *parser, enum expression_kind kind, uint32_t line)
{
    struct expression *expression = parse_take(parser, sizeof(*expression));
    if (expression != NULL) {
        expression->kind = (uint8_t)kind;
        expression->line = line;
        expression->depth = 1;
    }
    return expression;
}

// Notes that `child` is inside `expression`.  False when either is missing or it is nested too deep.
static bool holds(struct parser *parser, struct expression *expression,
                  const struct expression *child)
{
    if (expression == NULL || child == NULL) {
        return false;
    }
    if (child->depth >= expression->depth) {
        expression->depth = (uint8_t)(child->depth + 1);
    }
    if (parser->depth + expression->depth > parser->depth_max) {
        parser->depth_max = parser->depth + expression->depth;
    }
    if (expression->depth > template_nesting_max) {
        (void)parse_fail(parser, STATUS_TOO_LARGE, expression->line, "nested too deep");
        return false;
    }
    return true;
}

// Appends to the list of `expression`; `*end` is where the last one is linked.
static bool append(struct parser *parser, struct expression *expression,
                   struct expression_list *list, struct expression ***end, struct expression *child)
{
    if (!holds(parser, expression, child)) {
        return false;
    }
    **end = child;
    *end = &child->next;
    list->count++;
    return true;
}

static struct expression *make_constant(struct parser *parser, uint32_t line, struct value value)
{
    struct expression *expression = make(parser, EXPRESSION_CONSTANT, line);
    if (expression != NULL) {
        expression->constant = value;
    }
    return expression;
}

// A list or tuple of constants is one itself.
static struct expression *fold_list(struct parser *parser, struct expression *expression)
{
    const struct expression_list *items = &expression->list;
    for (const struct expression *item = items->first; item != NULL; item = item->next) {
        if (item->kind != EXPRESSION_CONSTANT) {
            return expression;
        }
    }
    struct value_list *list =
        parse_take(parser, sizeof(*list) + items->count * sizeof(list->items[0]));
    if (list == NULL) {
        return NULL;
    }
    for (const struct expression *item = items->first; item != NULL; item = item->next) {
        list->items[list->count++] = item->constant;
    }
    enum value_kind kind = expression->kind == EXPRESSION_LIST ? VALUE_LIST : VALUE_TUPLE;
    expression->kind = EXPRESSION_CONSTANT;
    expression->depth = 1;
    expression->constant = (struct value){.kind = kind, .list = list};
    return expression;
}

struct expression *parse_name(struct parser *parser, struct slice text, uint32_t line)
{
    struct expression *expression = make(parser, EXPRESSION_NAME, line);
    if (expression == NULL) {
        return NULL;
    }
    expression->name.name = parse_intern(parser, text);
    parser->reads_rest |= slice_is(text, "varargs");
    parser->reads_named |= slice_is(text, "kwargs");
    return expression->name.name != NULL ? expression : NULL;
}

static struct expression *parse_word(struct parser *parser)
{
    static const struct {
        const char *text;
        struct value value;
    } constants[] = {
        {"true", {.kind = VALUE_BOOL, .boolean = true}},
        {"True", {.kind = VALUE_BOOL, .boolean = true}},
        {"false", {.kind = VALUE_BOOL}},
        {"False", {.kind = VALUE_BOOL}},
        {"none", {.kind = VALUE_NONE}},
        {"None", {.kind = VALUE_NONE}},
    };
    struct token token = parser->current;

    parse_advance(parser);
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        if (slice_is(token.text, constants[i].text)) {
            return make_constant(parser, token.line, constants[i].value);
        }
    }
    return parse_name(parser, token.text, token.line);
}

// Strings that stand side by side are one.
static struct expression *parse_strings(struct parser *parser)
{
    uint32_t line = parser->current.line;
    struct slice joined = {0};

    while (parser->current.kind == TOKEN_STRING) {
        struct slice text = parser->current.text;
        uint8_t *bytes = parse_take(parser, joined.size + text.size + 1);
        struct slice part;
        if (bytes == NULL) {
            return NULL;
        }
        if (!literal_string(text, bytes + joined.size, &part)) {
            return parse_fail(parser, STATUS_MALFORMED, parser->current.line,
                              "an escape in a string that is not implemented");
        }
        if (joined.size > 0) {
            memcpy(bytes, joined.bytes, joined.size);
        }
        joined = slice_of(bytes, joined.size + part.size);
        parse_advance(parser);
    }
    return make_constant(parser, line, value_string(joined));
}

static struct expression *parse_number(struct parser *parser)
{
    struct token token = parser->current;
    struct value value;
    bool good;

    parse_advance(parser);
    if (token.kind == TOKEN_FLOAT) {
        good = literal_float(token.text, &value);
    } else {
        uint8_t *bytes = parse_take(parser, token.text.size);
        if (bytes == NULL) {
            return NULL;
        }
        good = literal_integer(token.text, bytes, &value);
    }
    if (!good) {
        return parse_fail(parser, STATUS_MALFORMED, token.line, "a number that is too long");
    }
    return make_constant(parser, token.line, value);
}

static bool is_tuple_end(const struct parser *parser)
{
    enum token_kind kind = parser->current.kind;
    return kind == TOKEN_PRINT_END || kind == TOKEN_TAG_END || kind == TOKEN_RIGHT_PAREN;
}

// `first`, if any, and what follows it after commas.
static struct expression *parse_tuple_rest(struct parser *parser, struct expression *first,
                                           bool with_if)
{
    struct expression *tuple = make(parser, EXPRESSION_TUPLE, parser->current.line);
    if (tuple == NULL) {
        return NULL;
    }
    struct expression **end = &tuple->list.first;
    if (first != NULL && !append(parser, tuple, &tuple->list, &end, first)) {
        return NULL;
    }
    while (first != NULL && parse_skip(parser, TOKEN_COMMA) && !is_tuple_end(parser)) {
        struct expression *item =
            with_if ? parse_expression(parser) : parse_expression_without_if(parser);
        if (!append(parser, tuple, &tuple->list, &end, item)) {
            return NULL;
        }
    }
    return fold_list(parser, tuple);
}

struct expression *parse_tuple(struct parser *parser, bool with_if)
{
    if (is_tuple_end(parser)) {
        return parse_unexpected(parser, "an expression");
    }
    struct expression *first =
        with_if ? parse_expression(parser) : parse_expression_without_if(parser);
    if (first == NULL || parser->current.kind != TOKEN_COMMA) {
        return first;
    }
    return parse_tuple_rest(parser, first, with_if);
}

static struct expression *parse_parentheses(struct parser *parser)
{
    parse_advance(parser);
    struct expression *inside = parser->current.kind == TOKEN_RIGHT_PAREN
                                    ? parse_tuple_rest(parser, NULL, true)
                                    : parse_tuple(parser, true);
    return inside != NULL && parse_expect(parser, TOKEN_RIGHT_PAREN) ? inside : NULL;
}

static struct expression *parse_list(struct parser *parser)
{
    struct expression *list = make(parser, EXPRESSION_LIST, parser->current.line);
    if (list == NULL) {
        return NULL;
    }
    struct expression **end = &list->list.first;
    parse_advance(parser);
    while (parser->current.kind != TOKEN_RIGHT_BRACKET) {
        if (list->list.count > 0 && !parse_expect(parser, TOKEN_COMMA)) {
            return NULL;
        }
        if (parser->current.kind == TOKEN_RIGHT_BRACKET) {
            break;
        }
        if (!append(parser, list, &list->list, &end, parse_expression(parser))) {
            return NULL;
        }
    }
    return parse_expect(parser, TOKEN_RIGHT_BRACKET) ? fold_list(parser, list) : NULL;
}

static struct expression *parse_dict(struct parser *parser)
{
    struct expression *dict = make(parser, EXPRESSION_DICT, parser->current.line);
    if (dict == NULL) {
        return NULL;
    }
    struct expression **end = &dict->list.first;
    parse_advance(parser);
    while (parser->current.kind != TOKEN_RIGHT_BRACE) {
        if (dict->list.count > 0 && !parse_expect(parser, TOKEN_COMMA)) {
            return NULL;
        }
        if (parser->current.kind == TOKEN_RIGHT_BRACE) {
            break;
        }
        if (!append(parser, dict, &dict->list, &end, parse_expression(parser)) ||
            !parse_expect(parser, TOKEN_COLON) ||
            !append(parser, dict, &dict->list, &end, parse_expression(parser))) {
            return NULL;
        }
    }
    return parse_expect(parser, TOKEN_RIGHT_BRACE) ? dict : NULL;
}

static struct expression *parse_primary(struct parser *parser)
{
    switch (parser->current.kind) {
    case TOKEN_NAME:
        return parse_word(parser);
    case TOKEN_STRING:
        return parse_strings(parser);
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
        return parse_number(parser);
    case TOKEN_LEFT_PAREN:
        return parse_parentheses(parser);
    case TOKEN_LEFT_BRACKET:
        return parse_list(parser);
    case TOKEN_LEFT_BRACE:
        return parse_dict(parser);
    default:
        return parse_unexpected(parser, "an expression");
    }
}

static struct expression *make_member(struct parser *parser, enum expression_kind kind,
                                      struct expression *subject, struct slice name)
{
    struct expression *expression = make(parser, kind, parser->current.line);
    struct member *member = parse_take(parser, sizeof(*member));
    if (!holds(parser, expression, subject) || member == NULL) {
        return NULL;
    }
    member_init(member, name);
    expression->member.subject = subject;
    expression->member.member = member;
    return expression;
}

static struct expression *make_subscript(struct parser *parser, struct expression *subject,
                                         struct expression *key)
{
    if (key->kind == EXPRESSION_CONSTANT && key->constant.kind == VALUE_STRING) {
        return make_member(parser, EXPRESSION_ITEM, subject, key->constant.string);
    }
    struct expression *expression = make(parser, EXPRESSION_SUBSCRIPT, key->line);
    if (!holds(parser, expression, subject) || !holds(parser, expression, key)) {
        return NULL;
    }
    expression->subscript.subject = subject;
    expression->subscript.key = key;
    return expression;
}

static struct expression *parse_attribute(struct parser *parser, struct expression *subject)
{
    parse_advance(parser);
    struct token token = parser->current;
    if (token.kind == TOKEN_NAME) {
        parse_advance(parser);
        return make_member(parser, EXPRESSION_ATTRIBUTE, subject, token.text);
    }
    if (token.kind != TOKEN_INTEGER) {
        return parse_unexpected(parser, "a name or a number after '.'");
    }
    struct expression *key = parse_number(parser);
    return key != NULL ? make_subscript(parser, subject, key) : NULL;
}

// [from:to:step], from the first colon on.
static struct expression *parse_slice(struct parser *parser, struct expression *subject,
                                      struct expression *from)
{
    struct expression *slice = make(parser, EXPRESSION_SLICE, parser->current.line);
    if (!holds(parser, slice, subject) || (from != NULL && !holds(parser, slice, from))) {
        return NULL;
    }
    slice->slice.subject = subject;
    slice->slice.bounds[0] = from;
    for (int i = 1; i < 3 && parse_skip(parser, TOKEN_COLON); i++) {
        if (parser->current.kind == TOKEN_COLON || parser->current.kind == TOKEN_RIGHT_BRACKET) {
            continue;
        }
        slice->slice.bounds[i] = parse_expression(parser);
        if (!holds(parser, slice, slice->slice.bounds[i])) {
            return NULL;
        }
    }
    return slice;
}

static struct expression *parse_subscript(struct parser *parser, struct expression *subject)
{
    parse_advance(parser);
    struct expression *key = NULL;
    struct expression *expression;

    if (parser->current.kind != TOKEN_COLON) {
        key = parse_expression(parser);
        if (key == NULL) {
            return NULL;
        }
    }
    if (parser->current.kind == TOKEN_COLON) {
        expression = parse_slice(parser, subject, key);
    } else {
        if (parser->current.kind == TOKEN_COMMA) {
            key = parse_tuple_rest(parser, key, true);
        }
        if (key == NULL) {
            return NULL;
        }
        expression = make_subscript(parser, subject, key);
    }
    return expression != NULL && parse_expect(parser, TOKEN_RIGHT_BRACKET) ? expression : NULL;
}

// One argument; `name` is empty when it has none.
static struct expression *parse_argument(struct parser *parser, struct slice *name)
{
    enum token_kind kind = parser->current.kind;
    *name = (struct slice){0};
    if (kind == TOKEN_MULTIPLY || kind == TOKEN_POWER) {
        return parse_fail(parser, STATUS_MALFORMED, parser->current.line,
                          "arguments with '**', and '*' here, are not implemented");
    }
    if (kind == TOKEN_NAME && parser->ahead.kind == TOKEN_ASSIGN) {
        *name = parser->current.text;
        parse_advance(parser);
        parse_advance(parser);
    }
    return parse_expression(parser);
}

static bool keep_names(struct parser *parser, struct argument_list *out, const struct slice *names)
{
    if (out->named_count == 0) {
        return true;
    }
    struct slice *kept = parse_take(parser, out->named_count * sizeof(names[0]));
    if (kept == NULL) {
        return false;
    }
    memcpy(kept, names, out->named_count * sizeof(names[0]));
    out->names = kept;
    for (uint32_t i = 0; i < out->named_count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (slice_equal(names[i], names[k])) {
                (void)parse_fail(parser, STATUS_MALFORMED, parser->current.line,
                                 "an argument is given twice");
                return false;
            }
        }
    }
    return true;
}

// The list behind a '*'.
static bool parse_spread(struct parser *parser, struct expression *call, struct argument_list *out)
{
    parse_advance(parser);
    out->spread = parse_expression(parser);
    return holds(parser, call, out->spread);
}

// From '(' to ')'.
static bool parse_arguments(struct parser *parser, struct expression *call,
                            struct argument_list *out)
{
    struct slice names[template_argument_max] = {0};
    struct expression **end = &out->values.first;
    bool is_first = true;

    parse_advance(parser);
    while (parser->current.kind != TOKEN_RIGHT_PAREN) {
        if (!is_first && !parse_expect(parser, TOKEN_COMMA)) {
            return false;
        }
        if (parser->current.kind == TOKEN_RIGHT_PAREN) {
            break;
        }
        if (out->values.count == template_argument_max) {
            (void)parse_fail(parser, STATUS_TOO_LARGE, call->line, "too many arguments");
            return false;
        }
        if (parser->current.kind == TOKEN_MULTIPLY && call->kind == EXPRESSION_CALL &&
            out->spread == NULL && out->named_count == 0) {
            if (!parse_spread(parser, call, out)) {
                return false;
            }
            is_first = false;
            continue;
        }
        struct slice name;
        if (!append(parser, call, &out->values, &end, parse_argument(parser, &name))) {
            return false;
        }
        if (name.size > 0) {
            names[out->named_count++] = name;
        } else if (out->named_count > 0 || out->spread != NULL) {
            (void)parse_fail(parser, STATUS_MALFORMED, call->line,
                             "an argument without a name after one with a name");
            return false;
        }
        is_first = false;
    }
    return keep_names(parser, out, names) && parse_expect(parser, TOKEN_RIGHT_PAREN);
}

static struct expression *parse_call(struct parser *parser, struct expression *callee)
{
    bool is_method = callee->kind == EXPRESSION_ATTRIBUTE;
    struct expression *call =
        make(parser, is_method ? EXPRESSION_METHOD_CALL : EXPRESSION_CALL, parser->current.line);
    if (!holds(parser, call, callee)) {
        return NULL;
    }
    call->call.subject = is_method ? callee->member.subject : callee;
    call->call.member = is_method ? callee->member.member : NULL;
    return parse_arguments(parser, call, &call->call.arguments) ? call : NULL;
}

static struct expression *parse_postfix(struct parser *parser, struct expression *expression)
{
    while (expression != NULL) {
        switch (parser->current.kind) {
        case TOKEN_DOT:
            expression = parse_attribute(parser, expression);
            break;
        case TOKEN_LEFT_BRACKET:
            expression = parse_subscript(parser, expression);
            break;
        case TOKEN_LEFT_PAREN:
            expression = parse_call(parser, expression);
            break;
        default:
            return expression;
        }
    }
    return NULL;
}

static struct expression *unknown(struct parser *parser, const char *what, const struct token *name)
{
    return parse_fail(parser, STATUS_MALFORMED, name->line, "%s '%.*s' is not implemented", what,
                      (int)(name->text.size < 60 ? name->text.size : 60), name->text.bytes);
}

static struct expression *parse_filter(struct parser *parser, struct expression *subject)
{
    struct token name = parser->current;
    if (!parse_expect(parser, TOKEN_NAME)) {
        return NULL;
    }
    struct expression *filter = make(parser, EXPRESSION_FILTER, name.line);
    if (filter == NULL || (subject != NULL && !holds(parser, filter, subject))) {
        return NULL;
    }
    filter->call.subject = subject;
    filter->call.builtin = builtin_filter(name.text);
    if (filter->call.builtin == NULL) {
        return unknown(parser, "filter", &name);
    }
    if (parser->current.kind == TOKEN_DOT) {
        return parse_fail(parser, STATUS_MALFORMED, name.line,
                          "a filter with a '.' in its name is not implemented");
    }
    if (parser->current.kind == TOKEN_LEFT_PAREN &&
        !parse_arguments(parser, filter, &filter->call.arguments)) {
        return NULL;
    }
    return filter;
}

struct expression *parse_filters(struct parser *parser, struct expression *subject, bool at_name)
{
    while (at_name || parse_skip(parser, TOKEN_PIPE)) {
        at_name = false;
        subject = parse_filter(parser, subject);
        if (subject == NULL) {
            return NULL;
        }
    }
    return subject;
}

// The argument of a test that stands without parentheses, as in "x is divisibleby 3".
static bool parse_bare_argument(struct parser *parser, struct expression *test)
{
    switch (parser->current.kind) {
    case TOKEN_NAME:
        if (parse_is_name(parser, "else") || parse_is_name(parser, "or") ||
            parse_is_name(parser, "and")) {
            return true;
        }
        if (parse_is_name(parser, "is")) {
            (void)parse_fail(parser, STATUS_MALFORMED, parser->current.line, "a test after a test");
            return false;
        }
        break;
    case TOKEN_STRING:
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
    case TOKEN_LEFT_BRACKET:
    case TOKEN_LEFT_BRACE:
        break;
    default:
        return true;
    }
    struct expression **end = &test->call.arguments.values.first;
    struct expression *argument = parse_postfix(parser, parse_primary(parser));
    return append(parser, test, &test->call.arguments.values, &end, argument);
}

static struct expression *negated(struct parser *parser, struct expression *expression)
{
    struct expression *opposite = make(parser, EXPRESSION_NOT, parser->current.line);
    if (!holds(parser, opposite, expression)) {
        return NULL;
    }
    opposite->binary.left = expression;
    return opposite;
}

static struct expression *parse_test(struct parser *parser, struct expression *subject)
{
    parse_advance(parser);
    bool is_negated = parse_skip_name(parser, "not");
    struct token name = parser->current;
    if (!parse_expect(parser, TOKEN_NAME)) {
        return NULL;
    }
    struct expression *test = make(parser, EXPRESSION_TEST, name.line);
    if (!holds(parser, test, subject)) {
        return NULL;
    }
    test->call.subject = subject;
    test->call.builtin = builtin_test(name.text);
    if (test->call.builtin == NULL) {
        return unknown(parser, "test", &name);
    }
    bool good = parser->current.kind == TOKEN_LEFT_PAREN
                    ? parse_arguments(parser, test, &test->call.arguments)
                    : parse_bare_argument(parser, test);
    if (!good) {
        return NULL;
    }
    bool is_defined = slice_is(name.text, "defined");
    if ((is_defined || slice_is(name.text, "undefined")) &&
        test->call.arguments.values.count == 0) {
        test->kind = is_defined ? EXPRESSION_IS_DEFINED : EXPRESSION_IS_UNDEFINED;
        test->binary.left = subject;
    }
    return is_negated ? negated(parser, test) : test;
}

static struct expression *parse_unary(struct parser *parser, bool with_filters);

static struct expression *parse_signed(struct parser *parser)
{
    bool is_minus = parser->current.kind == TOKEN_SUBTRACT;
    uint32_t line = parser->current.line;

    if (!parse_descend(parser)) {
        return NULL;
    }
    parse_advance(parser);
    struct expression *operand = parse_unary(parser, false);
    parse_ascend(parser);
    if (operand != NULL && is_minus && operand->kind == EXPRESSION_CONSTANT &&
        operand->constant.kind == VALUE_INT) {
        operand->constant.integer = -operand->constant.integer;
        return operand;
    }
    struct expression *expression =
        make(parser, is_minus ? EXPRESSION_NEGATE : EXPRESSION_PLUS, line);
    if (!holds(parser, expression, operand)) {
        return NULL;
    }
    expression->binary.left = operand;
    return expression;
}

static struct expression *parse_unary(struct parser *parser, bool with_filters)
{
    bool is_signed = parser->current.kind == TOKEN_SUBTRACT || parser->current.kind == TOKEN_ADD;
    struct expression *expression = is_signed ? parse_signed(parser) : parse_primary(parser);
    expression = parse_postfix(parser, expression);
    while (expression != NULL && with_filters) {
        if (parser->current.kind == TOKEN_PIPE) {
            expression = parse_filters(parser, expression, false);
        } else if (parse_is_name(parser, "is")) {
            expression = parse_test(parser, expression);
        } else if (parser->current.kind == TOKEN_LEFT_PAREN) {
            expression = parse_call(parser, expression);
        } else {
            break;
        }
    }
    return expression;
}

static struct expression *make_binary(struct parser *parser, enum operation operation,
                                      struct expression *left, struct expression *right)
{
    struct expression *expression = make(parser, EXPRESSION_BINARY, parser->current.line);
    if (!holds(parser, expression, left) || !holds(parser, expression, right)) {
        return NULL;
    }
    expression->operation = (uint8_t)operation;
    expression->line = left->line;
    expression->binary.left = left;
    expression->binary.right = right;
    return expression;
}

static struct expression *parse_power(struct parser *parser)
{
    struct expression *left = parse_unary(parser, true);
    while (left != NULL && parse_skip(parser, TOKEN_POWER)) {
        left = make_binary(parser, OPERATOR_POWER, left, parse_unary(parser, true));
    }
    return left;
}

static enum operation operation_of(enum token_kind kind)
{
    switch (kind) {
    case TOKEN_SUBTRACT:
        return OPERATOR_SUBTRACT;
    case TOKEN_MULTIPLY:
        return OPERATOR_MULTIPLY;
    case TOKEN_DIVIDE:
        return OPERATOR_DIVIDE;
    case TOKEN_FLOOR_DIVIDE:
        return OPERATOR_FLOOR_DIVIDE;
    case TOKEN_MODULO:
        return OPERATOR_MODULO;
    case TOKEN_EQUAL:
        return OPERATOR_EQUAL;
    case TOKEN_NOT_EQUAL:
        return OPERATOR_NOT_EQUAL;
    case TOKEN_LESS:
        return OPERATOR_LESS;
    case TOKEN_LESS_EQUAL:
        return OPERATOR_LESS_EQUAL;
    case TOKEN_GREATER:
        return OPERATOR_GREATER;
    case TOKEN_GREATER_EQUAL:
        return OPERATOR_GREATER_EQUAL;
    default:
        return OPERATOR_NONE;
    }
}

static struct expression *parse_product(struct parser *parser)
{
    struct expression *left = parse_power(parser);
    while (left != NULL) {
        enum token_kind kind = parser->current.kind;
        if (kind != TOKEN_MULTIPLY && kind != TOKEN_DIVIDE && kind != TOKEN_FLOOR_DIVIDE &&
            kind != TOKEN_MODULO) {
            break;
        }
        parse_advance(parser);
        left = make_binary(parser, operation_of(kind), left, parse_power(parser));
    }
    return left;
}

typedef struct expression *parse_fn(struct parser *parser);

// a OP b OP c as one list; `first` alone when there is no OP.
struct series {
    enum expression_kind kind;
    enum token_kind token;
    const char *word; // when the operation is a word
    parse_fn *operand;
};

static bool skip_operation(struct parser *parser, const struct series *series)
{
    return series->word != NULL ? parse_skip_name(parser, series->word)
                                : parse_skip(parser, series->token);
}

static struct expression *parse_series(struct parser *parser, struct expression *first,
                                       const struct series *series)
{
    if (first == NULL || !skip_operation(parser, series)) {
        return first;
    }
    struct expression *list = make(parser, series->kind, first->line);
    if (list == NULL) {
        return NULL;
    }
    struct expression **end = &list->list.first;
    if (!append(parser, list, &list->list, &end, first)) {
        return NULL;
    }
    do {
        if (!append(parser, list, &list->list, &end, series->operand(parser))) {
            return NULL;
        }
    } while (skip_operation(parser, series));
    return list;
}

static struct expression *parse_concat(struct parser *parser)
{
    static const struct series concat = {EXPRESSION_CONCAT, TOKEN_TILDE, NULL, parse_product};
    return parse_series(parser, parse_product(parser), &concat);
}

static struct expression *parse_sum(struct parser *parser)
{
    static const struct series sum = {EXPRESSION_SUM, TOKEN_ADD, NULL, parse_concat};
    struct expression *left = parse_series(parser, parse_concat(parser), &sum);
    while (left != NULL && parse_skip(parser, TOKEN_SUBTRACT)) {
        left = make_binary(parser, OPERATOR_SUBTRACT, left, parse_concat(parser));
        left = parse_series(parser, left, &sum);
    }
    return left;
}

// Passes the operation of a comparison; OPERATOR_NONE when there is none.
static enum operation skip_comparison(struct parser *parser)
{
    enum operation operation = operation_of(parser->current.kind);
    if (operation >= OPERATOR_EQUAL) {
        parse_advance(parser);
        return operation;
    }
    if (parse_skip_name(parser, "in")) {
        return OPERATOR_IN;
    }
    if (parse_is_name(parser, "not") && parser->ahead.kind == TOKEN_NAME &&
        slice_is(parser->ahead.text, "in")) {
        parse_advance(parser);
        parse_advance(parser);
        return OPERATOR_NOT_IN;
    }
    return OPERATOR_NONE;
}

static struct expression *parse_comparison(struct parser *parser)
{
    struct expression *first = parse_sum(parser);
    enum operation operation = first != NULL ? skip_comparison(parser) : OPERATOR_NONE;
    if (operation == OPERATOR_NONE) {
        return first;
    }
    struct expression *comparison = make(parser, EXPRESSION_COMPARE, first->line);
    if (comparison == NULL) {
        return NULL;
    }
    struct expression **end = &comparison->list.first;
    if (!append(parser, comparison, &comparison->list, &end, first)) {
        return NULL;
    }
    while (operation != OPERATOR_NONE) {
        struct expression *operand = parse_sum(parser);
        if (!append(parser, comparison, &comparison->list, &end, operand)) {
            return NULL;
        }
        operand->joint = (uint8_t)operation;
        operation = skip_comparison(parser);
    }
    return comparison;
}

static struct expression *parse_not(struct parser *parser)
{
    if (!parse_is_name(parser, "not")) {
        return parse_comparison(parser);
    }
    if (!parse_descend(parser)) {
        return NULL;
    }
    parse_advance(parser);
    struct expression *expression = negated(parser, parse_not(parser));
    parse_ascend(parser);
    return expression;
}

static struct expression *parse_and(struct parser *parser)
{
    static const struct series and_series = {EXPRESSION_AND, TOKEN_END, "and", parse_not};
    return parse_series(parser, parse_not(parser), &and_series);
}

struct expression *parse_expression_without_if(struct parser *parser)
{
    static const struct series or_series = {EXPRESSION_OR, TOKEN_END, "or", parse_and};
    if (!parse_descend(parser)) {
        return NULL;
    }
    struct expression *expression = parse_series(parser, parse_and(parser), &or_series);
    parse_ascend(parser);
    return expression;
}

struct expression *parse_expression(struct parser *parser)
{
    struct expression *yes = parse_expression_without_if(parser);
    while (yes != NULL && parse_skip_name(parser, "if")) {
        struct expression *conditional = make(parser, EXPRESSION_CONDITIONAL, yes->line);
        struct expression *test = parse_expression_without_if(parser);
        if (!holds(parser, conditional, yes) || !holds(parser, conditional, test)) {
            return NULL;
        }
        conditional->conditional.yes = yes;
        conditional->conditional.test = test;
        if (parse_skip_name(parser, "else")) {
            conditional->conditional.no = parse_descend(parser) ? parse_expression(parser) : NULL;
            parse_ascend(parser);
            if (!holds(parser, conditional, conditional->conditional.no)) {
                return NULL;
            }
        }
        yes = conditional;
    }
    return yes;
}
