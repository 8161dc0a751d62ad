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
    switch (value->kind) {
    case VALUE_BOOL:
        *out = (struct number){.integer = value->boolean, .real = value->boolean};
        return true;
    case VALUE_INT:
        *out = (struct number){.integer = value->integer, .real = (double)value->integer};
        return true;
    case VALUE_FLOAT:
        *out = (struct number){.is_float = true, .real = value->number};
        return true;
    default:
        return false;
    }
}

static const char *operation_text(enum operation operation)
{
    static const char *const texts[] = {
        [OPERATOR_NONE] = "+",          [OPERATOR_SUBTRACT] = "-", [OPERATOR_MULTIPLY] = "*",
        [OPERATOR_DIVIDE] = "/",        [OPERATOR_MODULO] = "%",   [OPERATOR_POWER] = "**",
        [OPERATOR_FLOOR_DIVIDE] = "//",
    };
    ASSERT(operation < ARRAY_COUNT(texts) && texts[operation] != NULL);
    return texts[operation];
}

static bool fail_operands(struct value_room *room, enum operation operation,
                          const struct value *left, const struct value *right)
{
    if (left->kind == VALUE_UNDEFINED) {
        return value_raise_undefined(room, left);
    }
    if (right->kind == VALUE_UNDEFINED) {
        return value_raise_undefined(room, right);
    }
    if (left->kind == VALUE_BIG_INT || right->kind == VALUE_BIG_INT) {
        return value_raise(room, "arithmetic on whole numbers beyond 64 bits is not implemented");
    }
    return value_raise(room, "unsupported operand type(s) for %s: '%s' and '%s'",
                       operation_text(operation), value_type_name(left), value_type_name(right));
}

static bool fail_overflow(struct value_room *room)
{
    return value_raise(room, "a result beyond 64 bits, which is not implemented");
}

// What a byte becomes beside a safe string; NULL: it stays.
static const char *escaped(uint8_t byte)
{
    static const char *const texts[128] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['\''] = "&#39;", ['"'] = "&#34;",
    };
    return byte < ARRAY_COUNT(texts) ? texts[byte] : NULL;
}

static size_t escaped_size(struct slice string)
{
    size_t size = string.size;
    for (size_t i = 0; i < string.size; i++) {
        const char *text = escaped(string.bytes[i]);
        size += text != NULL ? strlen(text) - 1 : 0;
    }
    return size;
}

static void add_operand_string(const struct value *string, bool is_escaped, struct text *out)
{
    if (!is_escaped) {
        text_add(out, string->string);
        return;
    }
    for (size_t i = 0; i < string->string.size; i++) {
        const uint8_t *byte = &string->string.bytes[i];
        const char *text = escaped(*byte);
        text_add(out, text != NULL ? slice_str(text) : slice_of(byte, 1));
    }
}

// A safe string and another: the other is escaped, and the sum is safe.
static bool add_strings(struct value_room *room, const struct value *left,
                        const struct value *right, struct value *out)
{
    bool escapes_left = right->markup && !left->markup;
    bool escapes_right = left->markup && !right->markup;
    size_t size = (escapes_left ? escaped_size(left->string) : left->string.size) +
                  (escapes_right ? escaped_size(right->string) : right->string.size);
    uint8_t *bytes = value_bytes_new(room, size);
    if (bytes == NULL || !value_step(room, size / 16 + 1)) {
        return false;
    }
    struct text text = text_over(bytes, size);
    add_operand_string(left, escapes_left, &text);
    add_operand_string(right, escapes_right, &text);
    ASSERT(!text.overflow);
    struct value sum = value_string(text_slice(&text));
    sum.markup = left->markup || right->markup;
    *out = sum;
    return true;
}

static bool add_lists(struct value_room *room, const struct value *left, const struct value *right,
                      struct value *out)
{
    ASSERT(left->kind == right->kind);
    uint64_t count = (uint64_t)left->list->count + right->list->count;
    if (!value_step(room, count + 1) || count > UINT32_MAX) {
        return false;
    }
    struct value_list *sum = value_list_new(room, (uint32_t)count);
    if (sum == NULL) {
        return false;
    }
    memcpy(sum->items, left->list->items, left->list->count * sizeof(sum->items[0]));
    memcpy(sum->items + left->list->count, right->list->items,
           right->list->count * sizeof(sum->items[0]));
    *out = (struct value){.kind = left->kind, .list = sum};
    return true;
}

bool operate_add(struct value_room *room, const struct value *left, const struct value *right,
                 struct value *out)
{
    struct number a;
    struct number b;

    if (left->kind == VALUE_STRING && right->kind == VALUE_STRING) {
        return add_strings(room, left, right, out);
    }
    if (left->kind == right->kind && (left->kind == VALUE_LIST || left->kind == VALUE_TUPLE)) {
        return add_lists(room, left, right, out);
    }
    if (!operand_number(left, &a) || !operand_number(right, &b)) {
        return fail_operands(room, OPERATOR_NONE, left, right);
    }
    int64_t sum;
    if (a.is_float || b.is_float) {
        *out = value_float(a.real + b.real);
    } else if (__builtin_add_overflow(a.integer, b.integer, &sum)) {
        return fail_overflow(room);
    } else {
        *out = value_int(sum);
    }
    return true;
}

// "ab" * 3, [1] * 2, and the other way round.
static bool repeat(struct value_room *room, const struct value *value, int64_t times,
                   struct value *out)
{
    bool is_string = value->kind == VALUE_STRING;
    uint64_t size = is_string ? value->string.size : value->list->count;
    uint64_t total;
    uint64_t count = times > 0 ? (uint64_t)times : 0;
    if (__builtin_mul_overflow(size, count, &total) || total > UINT32_MAX) {
        return value_fail(room, STATUS_TOO_LARGE, "the template takes too much memory");
    }
    if (!value_step(room, total / (is_string ? 16 : 1) + 1)) {
        return false;
    }
    if (is_string) {
        uint8_t *bytes = value_bytes_new(room, total);
        for (uint64_t at = 0; bytes != NULL && at < total; at += size) { // total > 0: size is, too
            memcpy(bytes + at, value->string.bytes, size);
        }
        *out = *value;
        out->string = slice_of(bytes, total);
        return bytes != NULL;
    }
    struct value_list *list = value_list_new(room, (uint32_t)total);
    for (uint64_t at = 0; list != NULL && at < total; at += size) {
        memcpy(list->items + at, value->list->items, size * sizeof(list->items[0]));
    }
    *out = (struct value){.kind = value->kind, .list = list};
    return list != NULL;
}

static bool can_repeat(const struct value *value, const struct value *times)
{
    bool is_sequence =
        value->kind == VALUE_STRING || value->kind == VALUE_LIST || value->kind == VALUE_TUPLE;
    return is_sequence && (times->kind == VALUE_INT || times->kind == VALUE_BOOL);
}

static bool divide(struct value_room *room, const struct number *a, const struct number *b,
                   struct value *out)
{
    // Python rounds the exact quotient; two roundings may differ from that.
    const int64_t exact = 1LL << 53;
    if (b->real == 0) {
        return value_raise(room, "division by zero");
    }
    bool is_exact = (a->is_float || (a->integer <= exact && a->integer >= -exact)) &&
                    (b->is_float || (b->integer <= exact && b->integer >= -exact));
    if (!is_exact) {
        return fail_overflow(room);
    }
    *out = value_float(a->real / b->real);
    return true;
}

static bool float_mod(struct value_room *room, double a, double b, bool wants_quotient,
                      struct value *out)
{
    if (b == 0) {
        return value_raise(room, "division by zero");
    }
    double rest = fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0) {
        if ((b < 0) != (rest < 0)) {
            rest += b;
            quotient -= 1;
        }
    } else {
        rest = copysign(0.0, b);
    }
    if (!wants_quotient) {
        *out = value_float(rest);
        return true;
    }
    double whole = floor(quotient);
    if (quotient - whole > 0.5) {
        whole += 1;
    }
    *out = value_float(quotient != 0 ? whole : copysign(0.0, a / b));
    return true;
}

static bool floor_divide(struct value_room *room, const struct number *a, const struct number *b,
                         bool wants_quotient, struct value *out)
{
    if (a->is_float || b->is_float) {
        return float_mod(room, a->real, b->real, wants_quotient, out);
    }
    if (b->integer == 0) {
        return value_raise(room, "integer division or modulo by zero");
    }
    if (b->integer == -1) { // the one quotient that can overflow
        if (wants_quotient && a->integer == INT64_MIN) {
            return fail_overflow(room);
        }
        *out = value_int(wants_quotient ? -a->integer : 0);
        return true;
    }
    int64_t quotient = a->integer / b->integer;
    int64_t rest = a->integer % b->integer;
    if (rest != 0 && (rest < 0) != (b->integer < 0)) {
        rest += b->integer;
        quotient -= 1;
    }
    *out = value_int(wants_quotient ? quotient : rest);
    return true;
}

static bool integer_power(struct value_room *room, int64_t base, int64_t exponent,
                          struct value *out)
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
    if (overflow) {
        return fail_overflow(room);
    }
    *out = value_int(result);
    return true;
}

static bool power(struct value_room *room, const struct number *a, const struct number *b,
                  struct value *out)
{
    if (!a->is_float && !b->is_float && b->integer >= 0) {
        return integer_power(room, a->integer, b->integer, out);
    }
    if (a->real == 0 && b->real < 0) {
        return value_raise(room, "0.0 cannot be raised to a negative power");
    }
    if (a->real < 0 && isfinite(b->real) && floor(b->real) != b->real) {
        return value_raise(room, "complex numbers are not implemented");
    }
    double result = pow(a->real, b->real);
    if (isinf(result) && isfinite(a->real) && isfinite(b->real)) {
        return value_raise(room, "a result out of range");
    }
    *out = value_float(result);
    return true;
}

static bool operate_numbers(struct value_room *room, enum operation operation,
                            const struct number *a, const struct number *b, struct value *out)
{
    ASSERT(operation > OPERATOR_NONE && operation < OPERATOR_EQUAL);
    bool is_float = a->is_float || b->is_float;
    int64_t result;

    switch (operation) {
    case OPERATOR_SUBTRACT:
        if (!is_float && __builtin_sub_overflow(a->integer, b->integer, &result)) {
            return fail_overflow(room);
        }
        *out = is_float ? value_float(a->real - b->real) : value_int(result);
        return true;
    case OPERATOR_MULTIPLY:
        if (!is_float && __builtin_mul_overflow(a->integer, b->integer, &result)) {
            return fail_overflow(room);
        }
        *out = is_float ? value_float(a->real * b->real) : value_int(result);
        return true;
    case OPERATOR_DIVIDE:
        return divide(room, a, b, out);
    case OPERATOR_FLOOR_DIVIDE:
        return floor_divide(room, a, b, true, out);
    case OPERATOR_MODULO:
        return floor_divide(room, a, b, false, out);
    default:
        return power(room, a, b, out);
    }
}

bool operate(struct value_room *room, enum operation operation, const struct value *left,
             const struct value *right, struct value *out)
{
    struct number a;
    struct number b;

    if (operand_number(left, &a) && operand_number(right, &b)) {
        return operate_numbers(room, operation, &a, &b, out);
    }
    if (operation == OPERATOR_MULTIPLY && can_repeat(left, right)) {
        return operand_number(right, &b) && repeat(room, left, b.integer, out);
    }
    if (operation == OPERATOR_MULTIPLY && can_repeat(right, left)) {
        return operand_number(left, &a) && repeat(room, right, a.integer, out);
    }
    if (operation == OPERATOR_MODULO && left->kind == VALUE_STRING && !left->markup &&
        right->kind != VALUE_UNDEFINED) {
        return value_format_percent(room, left->string, right, out);
    }
    return fail_operands(room, operation, left, right);
}

bool operate_sign(struct value_room *room, const struct value *value, bool is_minus,
                  struct value *out)
{
    struct number number;
    if (!operand_number(value, &number)) {
        return value->kind == VALUE_UNDEFINED
                   ? value_raise_undefined(room, value)
                   : value_raise(room, "bad operand type for unary %c: '%s'", is_minus ? '-' : '+',
                                 value_type_name(value));
    }
    if (is_minus && !number.is_float && number.integer == INT64_MIN) {
        return fail_overflow(room);
    }
    int64_t sign = is_minus ? -1 : 1;
    *out = number.is_float ? value_float(is_minus ? -number.real : number.real)
                           : value_int(sign * number.integer);
    return true;
}

bool operate_compare(struct value_room *room, enum operation operation, const struct value *left,
                     const struct value *right, bool *out)
{
    ASSERT_SLOW(operation >= OPERATOR_EQUAL && operation <= OPERATOR_NOT_IN);
    bool is_equality = operation == OPERATOR_EQUAL || operation == OPERATOR_NOT_EQUAL;
    if (is_equality) {
        bool equal = false;
        bool good = left->kind == VALUE_STRING && right->kind == VALUE_STRING
                        ? value_strings_equal(room, left->string, right->string, &equal)
                        : value_equals(room, left, right, &equal);
        *out = good && equal == (operation == OPERATOR_EQUAL);
        return good;
    }
    if (operation == OPERATOR_IN || operation == OPERATOR_NOT_IN) {
        bool contains;
        bool good = value_contains(room, right, left, &contains);
        *out = good && contains == (operation == OPERATOR_IN);
        return good;
    }
    int order;
    if (!value_compare(room, left, right, &order)) {
        return false;
    }
    *out = operation == OPERATOR_LESS         ? order < 0
           : operation == OPERATOR_LESS_EQUAL ? order <= 0
           : operation == OPERATOR_GREATER    ? order > 0
                                              : order >= 0;
    return true;
}

// A bound as Python reads it: counted from the end when negative, and moved into [low, high].
static bool read_bound(struct value_room *room, const struct value *bound, int64_t length,
                       const int64_t limits[2], int64_t *out)
{
    struct number number;
    if (bound == NULL || bound->kind == VALUE_NONE) {
        return true; // stays as it is
    }
    if (!operand_number(bound, &number) || number.is_float) {
        return bound->kind == VALUE_UNDEFINED
                   ? value_raise_undefined(room, bound)
                   : value_raise(room, "slice indices must be integers or None");
    }
    int64_t at = number.integer;
    if (at < 0) {
        at = at < -length ? limits[0] : at + length;
    }
    *out = at < limits[0] ? limits[0] : at > limits[1] ? limits[1] : at;
    return true;
}

struct slice_bounds {
    int64_t from;
    int64_t step;
    int64_t count;
};

static bool read_bounds(struct value_room *room, const struct value *const bounds[3],
                        int64_t length, struct slice_bounds *out)
{
    const int64_t all[2] = {-INT64_MAX, INT64_MAX};
    int64_t step = 1;
    struct number number;
    if (bounds[2] != NULL && operand_number(bounds[2], &number) && !number.is_float) {
        step = number.integer < all[0] ? all[0] : number.integer;
    } else if (!read_bound(room, bounds[2], 0, all, &step)) {
        return false; // not a number: read_bound has noted that
    }
    if (step == 0) {
        return value_raise(room, "slice step cannot be zero");
    }
    bool is_down = step < 0;
    const int64_t limits[2] = {is_down ? -1 : 0, is_down ? length - 1 : length};
    int64_t from = is_down ? length - 1 : 0;
    int64_t to = is_down ? -1 : length;
    if (!read_bound(room, bounds[0], length, limits, &from) ||
        !read_bound(room, bounds[1], length, limits, &to)) {
        return false;
    }
    int64_t distance = is_down ? from - to : to - from;
    int64_t stride = is_down ? -step : step;
    *out = (struct slice_bounds){
        .from = from,
        .step = step,
        .count = distance > 0 ? (distance - 1) / stride + 1 : 0,
    };
    return true;
}

static bool slice_list(struct value_room *room, const struct value *subject,
                       const struct slice_bounds *bounds, struct value *out)
{
    ASSERT(bounds->count >= 0 && bounds->count <= subject->list->count);
    struct value_list *list = value_list_new(room, (uint32_t)bounds->count);
    if (list == NULL || !value_step(room, (uint64_t)bounds->count + 1)) {
        return false;
    }
    for (int64_t i = 0; i < bounds->count; i++) {
        list->items[i] = subject->list->items[bounds->from + i * bounds->step];
    }
    *out = (struct value){.kind = subject->kind, .list = list};
    return true;
}

static bool slice_string(struct value_room *room, const struct value *subject,
                         const struct slice_bounds *bounds, struct value *out)
{
    ASSERT(bounds->count >= 0 && bounds->step != 0);
    *out = *subject;
    if (bounds->count == 0) {
        out->string.size = 0;
        return true;
    }
    if (bounds->step == 1) {
        out->string = value_string_part(subject->string, (size_t)bounds->from,
                                        (size_t)(bounds->from + bounds->count));
        return true;
    }
    // With a step, by characters: they become a list of slices, and those a string.
    const struct value_list *characters;
    uint8_t *bytes = value_bytes_new(room, subject->string.size);
    if (bytes == NULL || !value_iterate(room, subject, &characters)) {
        return false;
    }
    size_t size = 0;
    for (int64_t i = 0; i < bounds->count; i++) {
        struct slice character = characters->items[bounds->from + i * bounds->step].string;
        memcpy(bytes + size, character.bytes, character.size);
        size += character.size;
    }
    out->string = slice_of(bytes, size);
    return true;
}

bool operate_slice(struct value_room *room, const struct value *subject,
                   const struct value *const bounds[3], struct value *out)
{
    bool is_string = subject->kind == VALUE_STRING;
    if (!is_string && subject->kind != VALUE_LIST && subject->kind != VALUE_TUPLE) {
        return subject->kind == VALUE_UNDEFINED
                   ? value_raise_undefined(room, subject)
                   : value_raise(room, "'%s' object cannot be sliced", value_type_name(subject));
    }
    uint32_t length = 0;
    struct slice_bounds read = {0};
    if (!value_length(room, subject, &length) || !read_bounds(room, bounds, length, &read)) {
        return false;
    }
    return is_string ? slice_string(room, subject, &read, out)
                     : slice_list(room, subject, &read, out);
}
