// SPDX-License-Identifier: Apache-2.0
//
// Expressions, loosest binding first: a if b else c; or; and; not; comparisons; + and -; ~;
// * / // %; **; unary + and -; then members, calls, filters and tests.  This is Jinja's order, not
// Python's: -2 ** 2 is 4, and a filter after -x filters -x.

#include "base/base.h"
#include "template/literal.h"
#include "template/parser_internal.h"

struct expression *parse_make(struct parser *parser, enum expression_kind kind, uint32_t line)
{
    ASSERT(kind < expression_kind_count);
    struct expression *expression = parse_node(parser, sizeof(*expression));
    expression->kind = (uint8_t)kind;
    expression->line = line;
    expression->depth = 1;
    return expression;
}

// Notes that `child` is inside `expression`; fails when that is nested too deep.
static void hold_child(struct parser *parser, struct expression *expression,
                       const struct expression *child)
{
    if (child->depth >= expression->depth) {
        expression->depth = (uint8_t)(child->depth + 1);
    }
    if (parser->depth + expression->depth > parser->place.depth_max) {
        parser->place.depth_max = parser->depth + expression->depth;
    }
    if (expression->depth > template_nesting_max) {
        (void)parse_fail(parser, STATUS_TOO_LARGE, expression->line, "nested too deep");
    }
}

// Makes `child` the last operand.
static void append_operand(struct parser *parser, struct expression *expression,
                           struct expression *child)
{
    hold_child(parser, expression, child);
    if (parser->status != STATUS_OK) {
        return;
    }
    ASSERT(child->next == NULL && (expression->first == NULL) == (expression->count == 0));
    if (expression->first == NULL) {
        expression->first = child;
    } else {
        expression->last->next = child;
    }
    expression->last = child;
    expression->count++;
}

static struct expression *make_unary(struct parser *parser, enum expression_kind kind,
                                     uint32_t line, struct expression *operand)
{
    struct expression *expression = parse_make(parser, kind, line);
    append_operand(parser, expression, operand);
    return expression;
}

static struct expression *make_binary(struct parser *parser, enum operation operation,
                                      struct expression *left, struct expression *right)
{
    struct expression *expression = make_unary(parser, EXPRESSION_BINARY, left->line, left);
    append_operand(parser, expression, right);
    expression->operation = (uint8_t)operation;
    return expression;
}

static struct expression *make_constant(struct parser *parser, uint32_t line, struct value value)
{
    struct expression *expression = parse_make(parser, EXPRESSION_CONSTANT, line);
    expression->constant = value;
    return expression;
}

// A list or tuple of constants is one itself.
static struct expression *fold_list(struct parser *parser, struct expression *expression)
{
    if (parser->status != STATUS_OK) {
        return expression;
    }
    for (const struct expression *item = expression->first; item != NULL; item = item->next) {
        if (item->kind != EXPRESSION_CONSTANT) {
            return expression;
        }
    }
    struct value_list *list =
        parse_take(parser, sizeof(*list) + expression->count * sizeof(list->items[0]));
    if (list == NULL) {
        return expression;
    }
    for (const struct expression *item = expression->first; item != NULL; item = item->next) {
        list->items[list->count++] = item->constant;
    }
    return make_constant(parser, expression->line,
                         expression->kind == EXPRESSION_LIST ? value_of_list(list)
                                                             : value_of_tuple(list));
}

struct expression *parse_name(struct parser *parser, struct slice text, uint32_t line)
{
    struct expression *expression = parse_make(parser, EXPRESSION_NAME, line);
    expression->name = parse_intern(parser, text);
    parser->place.function->takes_rest |= slice_is(text, "varargs");
    parser->place.function->takes_named |= slice_is(text, "kwargs");
    return expression;
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
    for (size_t i = 0; i < ARRAY_COUNT(constants); i++) {
        if (slice_is(token.text, constants[i].text)) {
            return make_constant(parser, token.line, constants[i].value);
        }
    }
    return parse_name(parser, token.text, token.line);
}

// Strings that stand side by side are one.
static struct expression *parse_strings(struct parser *parser)
{
    ASSERT(parser->current.kind == TOKEN_STRING);
    uint32_t line = parser->current.line;
    struct slice joined = {0};

    while (parser->current.kind == TOKEN_STRING) {
        struct slice text = parser->current.text;
        uint8_t *bytes = parse_take(parser, joined.size + text.size + 1);
        struct slice part;
        if (bytes == NULL) {
            break;
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
    ASSERT(parser->current.kind == TOKEN_INTEGER || parser->current.kind == TOKEN_FLOAT);
    struct token token = parser->current;
    struct value value = value_none();
    bool good;

    parse_advance(parser);
    if (token.kind == TOKEN_FLOAT) {
        good = literal_float(token.text, &value);
    } else {
        uint8_t *bytes = parse_take(parser, token.text.size);
        good = bytes != NULL && literal_integer(token.text, 0, bytes, &value) == STATUS_OK;
    }
    if (!good) {
        return parse_fail(parser, STATUS_MALFORMED, token.line, "a number that is too long");
    }
    return make_constant(parser, token.line, value);
}

static struct expression *parse_expression_without_if(struct parser *parser);

static bool is_tuple_end(const struct parser *parser)
{
    enum token_kind kind = parser->current.kind;
    return kind == TOKEN_PRINT_END || kind == TOKEN_TAG_END || kind == TOKEN_RIGHT_PAREN;
}

// `first`, if any, and the items after commas.
static struct expression *parse_tuple_rest(struct parser *parser, struct expression *first,
                                           bool with_if)
{
    struct expression *tuple = parse_make(parser, EXPRESSION_TUPLE, parser->current.line);
    if (first != NULL) {
        append_operand(parser, tuple, first);
    }
    while (first != NULL && parse_skip(parser, TOKEN_COMMA) && !is_tuple_end(parser)) {
        append_operand(parser, tuple,
                       with_if ? parse_expression(parser) : parse_expression_without_if(parser));
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
    return parser->current.kind == TOKEN_COMMA ? parse_tuple_rest(parser, first, with_if) : first;
}

static struct expression *parse_parentheses(struct parser *parser)
{
    parse_advance(parser);
    struct expression *inside = parser->current.kind == TOKEN_RIGHT_PAREN
                                    ? parse_tuple_rest(parser, NULL, true)
                                    : parse_tuple(parser, true);
    (void)parse_expect(parser, TOKEN_RIGHT_PAREN);
    return inside;
}

// The comma between items, which may also follow the last; false: the list ends.
static bool parse_separator(struct parser *parser, bool is_first, enum token_kind end)
{
    if (!is_first) {
        (void)parse_expect(parser, TOKEN_COMMA);
    }
    return parse_goes_on(parser, end);
}

static struct expression *parse_list(struct parser *parser)
{
    ASSERT(parser->current.kind == TOKEN_LEFT_BRACKET);
    struct expression *list = parse_make(parser, EXPRESSION_LIST, parser->current.line);
    parse_advance(parser);
    while (parse_goes_on(parser, TOKEN_RIGHT_BRACKET) &&
           parse_separator(parser, list->count == 0, TOKEN_RIGHT_BRACKET)) {
        append_operand(parser, list, parse_expression(parser));
    }
    (void)parse_expect(parser, TOKEN_RIGHT_BRACKET);
    return fold_list(parser, list);
}

static struct expression *parse_dict(struct parser *parser)
{
    ASSERT(parser->current.kind == TOKEN_LEFT_BRACE);
    struct expression *dict = parse_make(parser, EXPRESSION_DICT, parser->current.line);
    parse_advance(parser);
    while (parse_goes_on(parser, TOKEN_RIGHT_BRACE) &&
           parse_separator(parser, dict->count == 0, TOKEN_RIGHT_BRACE)) {
        append_operand(parser, dict, parse_expression(parser));
        (void)parse_expect(parser, TOKEN_COLON);
        append_operand(parser, dict, parse_expression(parser));
    }
    (void)parse_expect(parser, TOKEN_RIGHT_BRACE);
    return dict;
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
    struct expression *expression = make_unary(parser, kind, parser->current.line, subject);
    struct member_name *member = parse_node(parser, sizeof(*member));
    if (parser->status == STATUS_OK) {
        member_init(member, name);
        expression->call.member = member;
    }
    return expression;
}

static struct expression *make_subscript(struct parser *parser, struct expression *subject,
                                         struct expression *key)
{
    if (key->kind == EXPRESSION_CONSTANT && key->constant.kind == VALUE_STRING) {
        return make_member(parser, EXPRESSION_ITEM, subject, key->constant.string);
    }
    struct expression *expression = make_unary(parser, EXPRESSION_SUBSCRIPT, key->line, subject);
    append_operand(parser, expression, key);
    return expression;
}

static struct expression *parse_attribute(struct parser *parser, struct expression *subject)
{
    ASSERT(parser->current.kind == TOKEN_DOT);
    parse_advance(parser);
    struct token token = parser->current;
    if (parse_skip(parser, TOKEN_NAME)) {
        return make_member(parser, EXPRESSION_ATTRIBUTE, subject, token.text);
    }
    return token.kind == TOKEN_INTEGER ? make_subscript(parser, subject, parse_number(parser))
                                       : parse_unexpected(parser, "a name or a number after '.'");
}

// [from:to:step], from the first colon on.  Missing bounds are none.
static struct expression *parse_slice(struct parser *parser, struct expression *subject,
                                      struct expression *from)
{
    uint32_t line = parser->current.line;
    struct expression *slice = make_unary(parser, EXPRESSION_SLICE, line, subject);
    struct expression *bounds[3] = {from, NULL, NULL};
    for (int i = 1; i < 3 && parse_skip(parser, TOKEN_COLON); i++) {
        if (parser->current.kind != TOKEN_COLON && parser->current.kind != TOKEN_RIGHT_BRACKET) {
            bounds[i] = parse_expression(parser);
        }
    }
    for (int i = 0; i < 3; i++) {
        append_operand(parser, slice,
                       bounds[i] != NULL ? bounds[i] : make_constant(parser, line, value_none()));
    }
    return slice;
}

static struct expression *parse_subscript(struct parser *parser, struct expression *subject)
{
    parse_advance(parser);
    struct expression *key = parser->current.kind != TOKEN_COLON ? parse_expression(parser) : NULL;
    struct expression *expression;
    if (parser->current.kind == TOKEN_COLON) {
        expression = parse_slice(parser, subject, key);
    } else {
        ASSERT(key != NULL); // only a colon comes without one
        key = parser->current.kind == TOKEN_COMMA ? parse_tuple_rest(parser, key, true) : key;
        expression = make_subscript(parser, subject, key);
    }
    (void)parse_expect(parser, TOKEN_RIGHT_BRACKET);
    return expression;
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

static void keep_names(struct parser *parser, struct expression *call, const struct slice *names)
{
    for (uint32_t i = 0; i < call->call.named_count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (slice_equal(names[i], names[k])) {
                (void)parse_fail(parser, STATUS_MALFORMED, parser->current.line,
                                 "an argument is given twice");
            }
        }
    }
    size_t size = call->call.named_count * sizeof(names[0]);
    struct slice *kept = size > 0 ? parse_take(parser, size) : NULL;
    if (kept != NULL) {
        memcpy(kept, names, size);
    }
    call->call.names = kept;
}

// From '(' to ')', behind the subject.
static void parse_arguments(struct parser *parser, struct expression *call)
{
    ASSERT(parser->status != STATUS_OK || parser->current.kind == TOKEN_LEFT_PAREN);
    struct slice names[template_argument_max] = {0};
    bool is_first = true;

    parse_advance(parser);
    while (parse_goes_on(parser, TOKEN_RIGHT_PAREN) &&
           parse_separator(parser, is_first, TOKEN_RIGHT_PAREN)) {
        is_first = false;
        if (call->count > template_argument_max) {
            (void)parse_fail(parser, STATUS_TOO_LARGE, call->line, "too many arguments");
            break;
        }
        if (parser->current.kind == TOKEN_MULTIPLY && call->kind == EXPRESSION_CALL &&
            call->call.spread == NULL && call->call.named_count == 0) {
            parse_advance(parser);
            call->call.spread = parse_expression(parser);
            hold_child(parser, call, call->call.spread);
            continue;
        }
        struct slice name;
        append_operand(parser, call, parse_argument(parser, &name));
        if (name.size > 0) {
            names[call->call.named_count++] = name;
        } else if (call->call.named_count > 0 || call->call.spread != NULL) {
            (void)parse_fail(parser, STATUS_MALFORMED, call->line,
                             "an argument without a name after one with a name");
        }
    }
    keep_names(parser, call, names);
    (void)parse_expect(parser, TOKEN_RIGHT_PAREN);
}

static struct expression *parse_call(struct parser *parser, struct expression *callee)
{
    bool is_method = callee->kind == EXPRESSION_ATTRIBUTE && parser->status == STATUS_OK;
    struct expression *call =
        make_unary(parser, is_method ? EXPRESSION_METHOD_CALL : EXPRESSION_CALL,
                   parser->current.line, is_method ? callee->first : callee);
    call->call.member = is_method ? callee->call.member : NULL;
    parse_arguments(parser, call);
    return call;
}

static struct expression *parse_postfix(struct parser *parser, struct expression *expression)
{
    for (;;) {
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
}

static struct expression *refuse_builtin(struct parser *parser, const char *what,
                                         const struct token *name)
{
    return parse_fail(parser, STATUS_MALFORMED, name->line, "%s '%.*s' is not implemented", what,
                      (int)(name->text.size < 60 ? name->text.size : 60), name->text.bytes);
}

static struct expression *parse_filter(struct parser *parser, struct expression *subject)
{
    struct token name = parser->current;
    struct expression *filter = make_unary(parser, EXPRESSION_FILTER, name.line, subject);
    if (!parse_expect(parser, TOKEN_NAME)) {
        return filter;
    }
    filter->call.builtin = builtin_filter(name.text);
    if (filter->call.builtin == NULL) {
        return refuse_builtin(parser, "filter", &name);
    }
    if (parser->current.kind == TOKEN_DOT) {
        return parse_fail(parser, STATUS_MALFORMED, name.line,
                          "a filter with a '.' in its name is not implemented");
    }
    if (parser->current.kind == TOKEN_LEFT_PAREN) {
        parse_arguments(parser, filter);
    }
    return filter;
}

struct expression *parse_filters(struct parser *parser, struct expression *subject, bool at_name)
{
    while (at_name || parse_skip(parser, TOKEN_PIPE)) {
        at_name = false;
        subject = parse_filter(parser, subject);
    }
    return subject;
}

// The argument of a test that stands without parentheses, as in "x is divisibleby 3".
static void parse_bare_argument(struct parser *parser, struct expression *test)
{
    switch (parser->current.kind) {
    case TOKEN_NAME:
        if (parse_is_name(parser, "else") || parse_is_name(parser, "or") ||
            parse_is_name(parser, "and")) {
            return;
        }
        if (parse_is_name(parser, "is")) {
            (void)parse_fail(parser, STATUS_MALFORMED, parser->current.line, "a test after a test");
        }
        break;
    case TOKEN_STRING:
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
    case TOKEN_LEFT_BRACKET:
    case TOKEN_LEFT_BRACE:
        break;
    default:
        return;
    }
    append_operand(parser, test, parse_postfix(parser, parse_primary(parser)));
}

static struct expression *parse_test(struct parser *parser, struct expression *subject)
{
    ASSERT(parse_is_name(parser, "is"));
    parse_advance(parser);
    bool is_negated = parse_skip_name(parser, "not");
    struct token name = parser->current;
    struct expression *test = make_unary(parser, EXPRESSION_TEST, name.line, subject);
    if (!parse_expect(parser, TOKEN_NAME)) {
        return test;
    }
    test->call.builtin = builtin_test(name.text);
    if (test->call.builtin == NULL) {
        return refuse_builtin(parser, "test", &name);
    }
    if (parser->current.kind == TOKEN_LEFT_PAREN) {
        parse_arguments(parser, test);
    } else {
        parse_bare_argument(parser, test);
    }
    bool is_defined = slice_is(name.text, "defined");
    if ((is_defined || slice_is(name.text, "undefined")) && test->count == 1) {
        test->kind = is_defined ? EXPRESSION_IS_DEFINED : EXPRESSION_IS_UNDEFINED;
    }
    return is_negated ? make_unary(parser, EXPRESSION_NOT, parser->current.line, test) : test;
}

static struct expression *parse_unary(struct parser *parser, bool with_filters);

static struct expression *parse_signed(struct parser *parser)
{
    bool is_minus = parser->current.kind == TOKEN_SUBTRACT;
    uint32_t line = parser->current.line;

    parse_descend(parser);
    parse_advance(parser);
    struct expression *operand = parse_unary(parser, false);
    parse_ascend(parser);
    if (is_minus && operand->kind == EXPRESSION_CONSTANT && operand->constant.kind == VALUE_INT) {
        operand->constant.integer = -operand->constant.integer;
        return operand;
    }
    return make_unary(parser, is_minus ? EXPRESSION_NEGATE : EXPRESSION_PLUS, line, operand);
}

static struct expression *parse_unary(struct parser *parser, bool with_filters)
{
    bool is_signed = parser->current.kind == TOKEN_SUBTRACT || parser->current.kind == TOKEN_ADD;
    struct expression *expression = is_signed ? parse_signed(parser) : parse_primary(parser);
    expression = parse_postfix(parser, expression);
    while (with_filters) {
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

static struct expression *parse_power(struct parser *parser)
{
    struct expression *left = parse_unary(parser, true);
    while (parse_skip(parser, TOKEN_POWER)) {
        left = make_binary(parser, OPERATOR_POWER, left, parse_unary(parser, true));
    }
    return left;
}

// OPERATOR_NONE for other tokens.
static enum operation token_operation(enum token_kind kind)
{
    static const uint8_t operations[token_kind_count] = {
        [TOKEN_SUBTRACT] = OPERATOR_SUBTRACT,
        [TOKEN_MULTIPLY] = OPERATOR_MULTIPLY,
        [TOKEN_DIVIDE] = OPERATOR_DIVIDE,
        [TOKEN_FLOOR_DIVIDE] = OPERATOR_FLOOR_DIVIDE,
        [TOKEN_MODULO] = OPERATOR_MODULO,
        [TOKEN_EQUAL] = OPERATOR_EQUAL,
        [TOKEN_NOT_EQUAL] = OPERATOR_NOT_EQUAL,
        [TOKEN_LESS] = OPERATOR_LESS,
        [TOKEN_LESS_EQUAL] = OPERATOR_LESS_EQUAL,
        [TOKEN_GREATER] = OPERATOR_GREATER,
        [TOKEN_GREATER_EQUAL] = OPERATOR_GREATER_EQUAL,
    };
    return (enum operation)operations[kind];
}

static struct expression *parse_product(struct parser *parser)
{
    struct expression *left = parse_power(parser);
    for (;;) {
        enum operation operation = token_operation(parser->current.kind);
        if (operation < OPERATOR_MULTIPLY || operation > OPERATOR_MODULO) {
            return left;
        }
        parse_advance(parser);
        left = make_binary(parser, operation, left, parse_power(parser));
    }
}

typedef struct expression *parse_fn(struct parser *parser);

// a OP b OP c as one list; `first` alone when no OP follows.
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
    if (!skip_operation(parser, series)) {
        return first;
    }
    struct expression *list = make_unary(parser, series->kind, first->line, first);
    do {
        append_operand(parser, list, series->operand(parser));
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
    while (parse_skip(parser, TOKEN_SUBTRACT)) {
        left = make_binary(parser, OPERATOR_SUBTRACT, left, parse_concat(parser));
        left = parse_series(parser, left, &sum);
    }
    return left;
}

// Passes the operator of a comparison; OPERATOR_NONE: another token is here.
static enum operation skip_comparison(struct parser *parser)
{
    enum operation operation = token_operation(parser->current.kind);
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
    enum operation operation = skip_comparison(parser);
    if (operation == OPERATOR_NONE) {
        return first;
    }
    struct expression *comparison = make_unary(parser, EXPRESSION_COMPARE, first->line, first);
    while (operation != OPERATOR_NONE) {
        struct expression *operand = parse_sum(parser);
        append_operand(parser, comparison, operand);
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
    parse_descend(parser);
    parse_advance(parser);
    struct expression *operand = parse_not(parser);
    struct expression *expression =
        make_unary(parser, EXPRESSION_NOT, parser->current.line, operand);
    parse_ascend(parser);
    return expression;
}

static struct expression *parse_and(struct parser *parser)
{
    static const struct series and_series = {EXPRESSION_AND, TOKEN_END, "and", parse_not};
    return parse_series(parser, parse_not(parser), &and_series);
}

static struct expression *parse_expression_without_if(struct parser *parser)
{
    static const struct series or_series = {EXPRESSION_OR, TOKEN_END, "or", parse_and};
    parse_descend(parser);
    struct expression *expression = parse_series(parser, parse_and(parser), &or_series);
    parse_ascend(parser);
    return expression;
}

struct expression *parse_expression(struct parser *parser)
{
    struct expression *yes = parse_expression_without_if(parser);
    while (parse_skip_name(parser, "if")) {
        struct expression *test = parse_expression_without_if(parser);
        struct expression *no;
        if (parse_skip_name(parser, "else")) {
            parse_descend(parser);
            no = parse_expression(parser);
            parse_ascend(parser);
        } else {
            no = make_constant(parser, yes->line, value_undefined(slice_str("if")));
        }
        struct expression *conditional =
            make_unary(parser, EXPRESSION_CONDITIONAL, yes->line, test);
        append_operand(parser, conditional, yes);
        append_operand(parser, conditional, no);
        yes = conditional;
    }
    return yes;
}
