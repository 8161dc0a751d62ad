// SPDX-License-Identifier: Apache-2.0

#include "template/operate.h"

#include "base/base.h"
#include "template/value/value_internal.h"

#include <math.h>

// A number of any kind that operators take.
struct number {
    bool is_float;
    int64_t integer;
    double real; // always set
};

static bool operand_number(const struct value *value, struct number *out)
{
    if (value_is_whole(value)) {
        *out = (struct number){.integer = value_whole(value), .real = (double)value_whole(value)};
        return true;
    }
    *out = (struct number){.is_float = true};
    if (value->kind == VALUE_FLOAT) {
        out->real = value->number;
    }
    return value->kind == VALUE_FLOAT;
}

static const char *operation_text(enum operation operation)
{
    static const char *const texts[] = {
        [OPERATOR_ADD] = "+",           [OPERATOR_SUBTRACT] = "-", [OPERATOR_MULTIPLY] = "*",
        [OPERATOR_DIVIDE] = "/",        [OPERATOR_MODULO] = "%",   [OPERATOR_POWER] = "**",
        [OPERATOR_FLOOR_DIVIDE] = "//",
    };
    ASSERT(operation < ARRAY_COUNT(texts) && texts[operation] != NULL);
    return texts[operation];
}

static struct value fail_operands(struct value_room *room, enum operation operation,
                                  const struct value *left, const struct value *right)
{
    const struct value *first = left->kind == VALUE_UNDEFINED ? left : right;
    if (left->kind == VALUE_BIG_INT || right->kind == VALUE_BIG_INT) {
        (void)value_refuse(room, first,
                           "arithmetic on whole numbers beyond 64 bits is not implemented");
    }
    (void)value_refuse(room, first, "unsupported operand type(s) for %s: '%s' and '%s'",
                       operation_text(operation), value_type_name(left), value_type_name(right));
    return value_none();
}

static struct value fail_operation(struct value_room *room, const char *why)
{
    (void)value_raise(room, "%s", why);
    return value_none();
}

static struct value fail_overflow(struct value_room *room)
{
    return fail_operation(room, "a result beyond 64 bits, which is not implemented");
}

// The escape of a byte beside a safe string; NULL: it stays.
static const char *escaped(uint8_t byte)
{
    static const char *const texts[128] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['\''] = "&#39;", ['"'] = "&#34;",
    };
    return byte < ARRAY_COUNT(texts) ? texts[byte] : NULL;
}

static void add_operand_string(struct slice string, bool is_escaped, struct text *out)
{
    if (!is_escaped) {
        text_add(out, string);
        return;
    }
    for (size_t i = 0; i < string.size; i++) {
        const char *text = escaped(string.bytes[i]);
        text_add(out, text != NULL ? slice_str(text) : slice_of(&string.bytes[i], 1));
    }
}

// A safe string and another: the other is escaped, and the sum is safe.
static struct value add_strings(struct value_room *room, const struct value *left,
                                const struct value *right)
{
    struct text text = value_text_open(room);
    add_operand_string(left->string, right->markup && !left->markup, &text);
    add_operand_string(right->string, left->markup && !right->markup, &text);
    struct value sum = value_text_end(room, &text);
    sum.markup = left->markup || right->markup;
    return sum;
}

static struct value add_lists(struct value_room *room, const struct value *left,
                              const struct value *right)
{
    ASSERT(left->kind == right->kind);
    uint64_t count = (uint64_t)left->list->count + right->list->count;
    struct value_list *sum = value_step(room, count + 1) && count <= UINT32_MAX
                                 ? value_list_new(room, (uint32_t)count)
                                 : NULL;
    if (sum != NULL) {
        memcpy(sum->items, left->list->items, left->list->count * sizeof(sum->items[0]));
        memcpy(sum->items + left->list->count, right->list->items,
               right->list->count * sizeof(sum->items[0]));
    }
    return left->kind == VALUE_LIST ? value_of_list(sum) : value_of_tuple(sum);
}

// "ab" * 3, [1] * 2, and the other way round.
static struct value repeat(struct value_room *room, const struct value *value, int64_t times)
{
    bool is_string = value->kind == VALUE_STRING;
    const void *from = is_string ? (const void *)value->string.bytes : value->list->items;
    uint64_t size = is_string ? value->string.size : value->list->count;
    uint64_t total;
    uint64_t count = times > 0 ? (uint64_t)times : 0;
    if (__builtin_mul_overflow(size, count, &total) || total > UINT32_MAX) {
        (void)value_fail(room, STATUS_TOO_LARGE, "the template takes too much memory");
        return value_none();
    }
    if (!value_step(room, total / (is_string ? 16 : 1) + 1)) {
        return value_none();
    }
    struct value_list *list = is_string ? NULL : value_list_new(room, (uint32_t)total);
    uint8_t *to = is_string      ? value_bytes_new(room, total)
                  : list != NULL ? (void *)list->items
                                 : NULL;
    size_t part = is_string ? size : size * sizeof(list->items[0]);
    for (uint64_t i = 0; to != NULL && part > 0 && i < count; i++) {
        memcpy(to + i * part, from, part);
    }
    struct value repeated = *value;
    if (is_string) {
        repeated.string = slice_of(to, to != NULL ? total : 0);
        return repeated;
    }
    return value->kind == VALUE_LIST ? value_of_list(list) : value_of_tuple(list);
}

static bool can_repeat(const struct value *value, const struct value *times)
{
    return (value->kind == VALUE_STRING || value_is_sequence(value)) && value_is_whole(times);
}

static struct value divide(struct value_room *room, const struct number *a, const struct number *b)
{
    // Python rounds the exact quotient; two roundings may differ from that.
    const int64_t exact = 1LL << 53;
    if (b->real == 0) {
        return fail_operation(room, "division by zero");
    }
    bool is_exact =
        a->integer <= exact && a->integer >= -exact && b->integer <= exact && b->integer >= -exact;
    return is_exact ? value_float(a->real / b->real) : fail_overflow(room);
}

static struct value float_mod(struct value_room *room, double a, double b, bool wants_quotient)
{
    if (b == 0) {
        return fail_operation(room, "division by zero");
    }
    double rest = fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest == 0) {
        rest = copysign(0.0, b);
    } else if ((b < 0) != (rest < 0)) {
        rest += b;
        quotient -= 1;
    }
    if (!wants_quotient) {
        return value_float(rest);
    }
    double whole = floor(quotient);
    if (quotient - whole > 0.5) {
        whole += 1;
    }
    return value_float(quotient != 0 ? whole : copysign(0.0, a / b));
}

static struct value floor_divide(struct value_room *room, const struct number *a,
                                 const struct number *b, bool wants_quotient)
{
    if (a->is_float || b->is_float) {
        return float_mod(room, a->real, b->real, wants_quotient);
    }
    if (b->integer == 0) {
        return fail_operation(room, "integer division or modulo by zero");
    }
    if (b->integer == -1) { // the one quotient that can overflow
        if (wants_quotient && a->integer == INT64_MIN) {
            return fail_overflow(room);
        }
        return value_int(wants_quotient ? -a->integer : 0);
    }
    int64_t quotient = a->integer / b->integer;
    int64_t rest = a->integer % b->integer;
    if (rest != 0 && (rest < 0) != (b->integer < 0)) {
        rest += b->integer;
        quotient -= 1;
    }
    return value_int(wants_quotient ? quotient : rest);
}

static struct value integer_power(struct value_room *room, int64_t base, int64_t exponent)
{
    ASSERT(exponent >= 0);
    int64_t result = 1;
    bool overflow = false;
    while (exponent > 0 && !overflow) {
        if ((exponent & 1) != 0) {
            overflow = __builtin_mul_overflow(result, base, &result);
        }
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
            overflow = true;
        }
    }
    return overflow ? fail_overflow(room) : value_int(result);
}

static struct value power(struct value_room *room, const struct number *a, const struct number *b)
{
    if (!a->is_float && !b->is_float && b->integer >= 0) {
        return integer_power(room, a->integer, b->integer);
    }
    if (a->real == 0 && b->real < 0) {
        return fail_operation(room, "0.0 cannot be raised to a negative power");
    }
    if (a->real < 0 && isfinite(b->real) && floor(b->real) != b->real) {
        return fail_operation(room, "complex numbers are not implemented");
    }
    double result = pow(a->real, b->real);
    return isinf(result) && isfinite(a->real) && isfinite(b->real)
               ? fail_operation(room, "a result out of range")
               : value_float(result);
}

static struct value operate_numbers(struct value_room *room, enum operation operation,
                                    const struct number *a, const struct number *b)
{
    ASSERT(operation > OPERATOR_NONE && operation < OPERATOR_EQUAL);
    int64_t whole = 0;
    double real = 0;
    bool overflow = false;
    switch (operation) {
    case OPERATOR_ADD:
        overflow = __builtin_add_overflow(a->integer, b->integer, &whole);
        real = a->real + b->real;
        break;
    case OPERATOR_SUBTRACT:
        overflow = __builtin_sub_overflow(a->integer, b->integer, &whole);
        real = a->real - b->real;
        break;
    case OPERATOR_MULTIPLY:
        overflow = __builtin_mul_overflow(a->integer, b->integer, &whole);
        real = a->real * b->real;
        break;
    case OPERATOR_DIVIDE:
        return divide(room, a, b);
    case OPERATOR_FLOOR_DIVIDE:
    case OPERATOR_MODULO:
        return floor_divide(room, a, b, operation == OPERATOR_FLOOR_DIVIDE);
    default:
        return power(room, a, b);
    }
    if (a->is_float || b->is_float) {
        return value_float(real);
    }
    return overflow ? fail_overflow(room) : value_int(whole);
}

struct value operate(struct value_room *room, enum operation operation, const struct value *left,
                     const struct value *right)
{
    struct number a;
    struct number b;

    if (operand_number(left, &a) && operand_number(right, &b)) {
        return operate_numbers(room, operation, &a, &b);
    }
    if (operation == OPERATOR_ADD && left->kind == right->kind) {
        if (left->kind == VALUE_STRING) {
            return add_strings(room, left, right);
        }
        if (value_is_sequence(left)) {
            return add_lists(room, left, right);
        }
    }
    if (operation == OPERATOR_MULTIPLY && can_repeat(left, right)) {
        return repeat(room, left, value_whole(right));
    }
    if (operation == OPERATOR_MULTIPLY && can_repeat(right, left)) {
        return repeat(room, right, value_whole(left));
    }
    if (operation == OPERATOR_MODULO && left->kind == VALUE_STRING && !left->markup &&
        right->kind != VALUE_UNDEFINED) {
        return value_format_percent(room, left->string, right);
    }
    return fail_operands(room, operation, left, right);
}

struct value operate_sign(struct value_room *room, const struct value *value, bool is_minus)
{
    struct number number;
    if (!operand_number(value, &number)) {
        (void)value_refuse(room, value, "bad operand type for unary %c: '%s'", is_minus ? '-' : '+',
                           value_type_name(value));
        return value_none();
    }
    if (is_minus && number.integer == INT64_MIN) {
        return fail_overflow(room);
    }
    return number.is_float ? value_float(is_minus ? -number.real : number.real)
                           : value_int(is_minus ? -number.integer : number.integer);
}

bool operate_compare(struct value_room *room, enum operation operation, const struct value *left,
                     const struct value *right)
{
    int order = 0;
    switch (operation) {
    case OPERATOR_EQUAL:
    case OPERATOR_NOT_EQUAL:;
        bool is_equal = left->kind == VALUE_STRING && right->kind == VALUE_STRING
                            ? value_strings_equal(room, left->string, right->string)
                            : value_equals(room, left, right);
        return is_equal == (operation == OPERATOR_EQUAL);
    case OPERATOR_IN:
    case OPERATOR_NOT_IN:
        return value_contains(room, right, left) == (operation == OPERATOR_IN);
    default:
        order = value_compare(room, left, right);
        return operation == OPERATOR_LESS         ? order < 0
               : operation == OPERATOR_LESS_EQUAL ? order <= 0
               : operation == OPERATOR_GREATER    ? order > 0
                                                  : order >= 0;
    }
}

static int64_t read_bound(struct value_room *room, const struct value *bound, int64_t otherwise)
{
    if (bound->kind != VALUE_NONE && !value_is_whole(bound)) {
        (void)value_refuse(room, bound, "slice indices must be integers or None");
    }
    return value_is_whole(bound) ? value_whole(bound) : otherwise;
}

// A bound as Python places it: from the end when negative, and moved into the limits.
static int64_t place_bound(struct value_room *room, const struct value *bound, int64_t length,
                           const int64_t limits[2], int64_t otherwise)
{
    if (bound->kind == VALUE_NONE) {
        return otherwise;
    }
    int64_t at = read_bound(room, bound, otherwise);
    if (at < 0) {
        at = at < -length ? limits[0] : at + length;
    }
    return at < limits[0] ? limits[0] : at > limits[1] ? limits[1] : at;
}

struct slice_bounds {
    int64_t from;
    int64_t step;
    int64_t count;
};

static struct slice_bounds read_bounds(struct value_room *room, const struct value *const bounds[3],
                                       int64_t length)
{
    int64_t step = read_bound(room, bounds[2], 1);
    step = step < -INT64_MAX ? -INT64_MAX : step;
    if (step == 0) {
        (void)value_raise(room, "slice step cannot be zero");
        return (struct slice_bounds){0};
    }
    bool is_down = step < 0;
    const int64_t limits[2] = {is_down ? -1 : 0, is_down ? length - 1 : length};
    int64_t from = place_bound(room, bounds[0], length, limits, limits[is_down]);
    int64_t to = place_bound(room, bounds[1], length, limits, limits[!is_down]);
    int64_t distance = is_down ? from - to : to - from;
    int64_t stride = is_down ? -step : step;
    return (struct slice_bounds){
        .from = from,
        .step = step,
        .count = distance > 0 ? (distance - 1) / stride + 1 : 0,
    };
}

// The characters or items from[bounds->from + i * bounds->step].
static struct value_list *pick_items(struct value_room *room, const struct value_list *from,
                                     const struct slice_bounds *bounds)
{
    ASSERT(bounds->count >= 0 && bounds->count <= from->count);
    struct value_list *list = value_list_new(room, (uint32_t)bounds->count);
    for (int64_t i = 0; list != NULL && i < bounds->count; i++) {
        list->items[i] = from->items[bounds->from + i * bounds->step];
    }
    (void)value_step(room, (uint64_t)bounds->count + 1);
    return list;
}

static struct value slice_string(struct value_room *room, const struct value *subject,
                                 const struct slice_bounds *bounds)
{
    struct value out = *subject;
    if (bounds->count == 0 || bounds->step == 1) {
        out.string = value_string_part(subject->string, (size_t)bounds->from,
                                       (size_t)(bounds->from + bounds->count));
        return out;
    }
    const struct value_list *characters = value_iterate(room, subject);
    struct text text = value_text_open(room);
    for (int64_t i = 0; i < bounds->count && characters->count > 0; i++) {
        text_add(&text, characters->items[bounds->from + i * bounds->step].string);
    }
    out.string = value_text_take(room, &text);
    return out;
}

struct value operate_slice(struct value_room *room, const struct value *subject,
                           const struct value *const bounds[3])
{
    bool is_string = subject->kind == VALUE_STRING;
    if (!is_string && !value_is_sequence(subject)) {
        (void)value_refuse(room, subject, "'%s' object cannot be sliced", value_type_name(subject));
        return value_none();
    }
    struct slice_bounds read = read_bounds(room, bounds, value_length(room, subject));
    if (is_string) {
        return slice_string(room, subject, &read);
    }
    struct value_list *list = pick_items(room, subject->list, &read);
    return subject->kind == VALUE_LIST ? value_of_list(list) : value_of_tuple(list);
}
