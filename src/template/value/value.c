// SPDX-License-Identifier: Apache-2.0
//
// Numbers compare by their exact values across kinds, as in Python: 2^53 + 1 is above the float 2^53, and a
// whole number of any length may equal a float.

#include "template/value/value.h"

#include "base/base.h"
#include "base/utf8.h"
#include "template/value/value_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static void value_note(struct value_room *room, enum status status, const char *format,
                       va_list arguments)
{
    ASSERT(status != STATUS_OK);
    if (room->status == STATUS_OK) {
        room->status = status;
        (void)vsnprintf(room->error, sizeof(room->error), format, arguments);
    }
}

bool value_fail(struct value_room *room, enum status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    value_note(room, status, format, arguments);
    va_end(arguments);
    return false;
}

bool value_raise(struct value_room *room, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    value_note(room, STATUS_MALFORMED, format, arguments);
    va_end(arguments);
    return false;
}

bool value_raise_undefined(struct value_room *room, const struct value *value)
{
    ASSERT(value->kind == VALUE_UNDEFINED);
    return value_raise(room, "'%.*s' is undefined", (int)value->name.size, value->name.bytes);
}

static void *value_take(struct value_room *room, size_t size)
{
    void *taken = arena_take(room->arena, size);
    if (taken == NULL) {
        (void)value_fail(room, STATUS_TOO_LARGE, "the template takes too much memory");
    }
    return taken;
}

struct value_list *value_list_new(struct value_room *room, uint32_t count)
{
    ASSERT_SLOW(room->arena != NULL);
    struct value_list *list =
        value_take(room, sizeof(*list) + (size_t)count * sizeof(list->items[0]));
    if (list != NULL) {
        list->count = count;
    }
    return list;
}

struct value_dict *value_dict_new(struct value_room *room, uint32_t count)
{
    ASSERT_SLOW(room->arena != NULL);
    struct value_dict *dict =
        value_take(room, sizeof(*dict) + (size_t)count * sizeof(dict->members[0]));
    if (dict != NULL) {
        dict->count = count;
    }
    return dict;
}

uint8_t *value_bytes_new(struct value_room *room, size_t size)
{
    return value_take(room, size);
}

bool value_generator_new(struct value_room *room, const struct value_list *list, struct value *out)
{
    ASSERT(list != NULL);
    struct value_generator *generator = value_take(room, sizeof(*generator));
    if (generator == NULL) {
        return false;
    }
    *generator = (struct value_generator){.list = list};
    *out = (struct value){.kind = VALUE_GENERATOR, .generator = generator};
    return true;
}

bool value_view_new(struct value_room *room, const char *name, const struct value_list *list,
                    struct value *out)
{
    ASSERT(name != NULL && list != NULL);
    struct value_view *view = value_take(room, sizeof(*view));
    if (view == NULL) {
        return false;
    }
    *view = (struct value_view){.name = name, .list = list};
    *out = (struct value){.kind = VALUE_VIEW, .view = view};
    return true;
}

const char *value_type_name(const struct value *value)
{
    ASSERT(value->kind <= VALUE_GENERATOR);
    static const char *const names[] = {
        [VALUE_UNDEFINED] = "Undefined", [VALUE_NONE] = "NoneType",
        [VALUE_BOOL] = "bool",           [VALUE_INT] = "int",
        [VALUE_BIG_INT] = "int",         [VALUE_FLOAT] = "float",
        [VALUE_STRING] = "str",          [VALUE_LIST] = "list",
        [VALUE_TUPLE] = "tuple",         [VALUE_DICT] = "dict",
        [VALUE_NAMESPACE] = "Namespace", [VALUE_CALLABLE] = "function",
        [VALUE_GENERATOR] = "generator",
    };
    if (value->kind == VALUE_VIEW) {
        return value->view->name;
    }
    return value->kind == VALUE_STRING && value->markup ? "Markup" : names[value->kind];
}

bool value_is_true(const struct value *value)
{
    switch (value->kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
        return value->boolean;
    case VALUE_INT:
        return value->integer != 0;
    case VALUE_FLOAT:
        return value->number != 0;
    case VALUE_STRING:
        return value->string.size > 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
        return value->list->count > 0;
    case VALUE_DICT:
        return value->dict->count > 0;
    case VALUE_VIEW:
        return value->view->list->count > 0;
    case VALUE_BIG_INT:
    case VALUE_NAMESPACE:
    case VALUE_CALLABLE:
    case VALUE_GENERATOR:
        return true;
    }
    return true;
}

static bool is_number(const struct value *value)
{
    return value->kind >= VALUE_BOOL && value->kind <= VALUE_FLOAT;
}

static int sign_of(int64_t difference)
{
    return (difference > 0) - (difference < 0);
}

// Both as decimal digits without zeros in front, '-' before them.
static int compare_digits(struct slice a, struct slice b)
{
    ASSERT(a.size > 0 && b.size > 0);
    bool a_negative = a.bytes[0] == '-';
    bool b_negative = b.bytes[0] == '-';
    if (a_negative != b_negative) {
        return a_negative ? -1 : 1;
    }
    int order = a.size != b.size ? (a.size < b.size ? -1 : 1) : memcmp(a.bytes, b.bytes, a.size);
    return a_negative ? sign_of(-(int64_t)order) : sign_of(order);
}

static int compare_whole_with_float(int64_t integer, double number)
{
    ASSERT(!isnan(number));
    // 2^63 is a float; from there up no int64_t is near.
    if (number >= 0x1p63) {
        return -1;
    }
    if (number < -0x1p63) {
        return 1;
    }
    double floor_of = floor(number);
    int64_t below = (int64_t)floor_of;
    if (integer != below) {
        return integer < below ? -1 : 1;
    }
    return number > floor_of ? -1 : 0;
}

// The digits of any float are at most 309 before the point; glibc prints them all.
static int compare_big_with_float(struct slice digits, double number)
{
    ASSERT(!isnan(number) && digits.size > 0);
    if (isinf(number)) {
        return number > 0 ? -1 : 1;
    }
    if (fabs(number) < 0x1p63) {
        return digits.bytes[0] == '-' ? -1 : 1;
    }
    char text[320];
    int size = snprintf(text, sizeof(text), "%.0f", number);
    return compare_digits(digits, slice_of(text, (size_t)size));
}

static bool is_nan(const struct value *value)
{
    return value->kind == VALUE_FLOAT && isnan(value->number);
}

// Of two numbers, none of which is a nan.
static int compare_number_values(const struct value *a, const struct value *b)
{
    ASSERT_SLOW(is_number(a) && is_number(b) && !is_nan(a) && !is_nan(b));
    if (b->kind == VALUE_FLOAT && a->kind == VALUE_FLOAT) {
        return (a->number > b->number) - (a->number < b->number);
    }
    if (a->kind == VALUE_FLOAT) {
        return -compare_number_values(b, a);
    }
    if (b->kind == VALUE_FLOAT) {
        return a->kind == VALUE_BIG_INT ? compare_big_with_float(a->string, b->number)
                                        : compare_whole_with_float(value_whole(a), b->number);
    }
    if (a->kind == VALUE_BIG_INT && b->kind == VALUE_BIG_INT) {
        return compare_digits(a->string, b->string);
    }
    if (a->kind == VALUE_BIG_INT) {
        return a->string.bytes[0] == '-' ? -1 : 1;
    }
    if (b->kind == VALUE_BIG_INT) {
        return b->string.bytes[0] == '-' ? 1 : -1;
    }
    return (value_whole(a) > value_whole(b)) - (value_whole(a) < value_whole(b));
}

static int compare_strings(struct slice a, struct slice b)
{
    // The order of UTF-8 bytes is that of code points.
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common > 0 ? memcmp(a.bytes, b.bytes, common) : 0;
    if (order == 0) {
        return (a.size > b.size) - (a.size < b.size);
    }
    return sign_of(order);
}

// What compares to the end: a result, or no more depth or steps.
struct equality {
    struct value_room *room;
    bool equal;
};

static bool find_equal(struct equality *equality, const struct value *a, const struct value *b,
                       unsigned depth);

// Whether both are the very same object, which makes them equal inside containers.  Kinds that point to
// something all do so in the same place.
static bool is_same_object(const struct value *a, const struct value *b)
{
    return a->kind == b->kind && a->kind >= VALUE_LIST && a->list == b->list;
}

static bool value_lists_equal(struct equality *equality, const struct value_list *a,
                              const struct value_list *b, unsigned depth)
{
    ASSERT(depth <= value_depth_max);
    equality->equal = a->count == b->count;
    for (uint32_t i = 0; equality->equal && i < a->count; i++) {
        if (!find_equal(equality, &a->items[i], &b->items[i], depth)) {
            return false;
        }
    }
    return true;
}

static bool dicts_equal(struct equality *equality, const struct value_dict *a,
                        const struct value_dict *b, unsigned depth)
{
    ASSERT(depth <= value_depth_max);
    equality->equal = a->count == b->count;
    for (uint32_t i = 0; equality->equal && i < a->count; i++) {
        // Equal dicts nearly always have the same order; otherwise the key is searched for.
        const struct value *other = NULL;
        if (value_equal(&a->members[i].key, &b->members[i].key)) {
            other = &b->members[i].value;
        } else if (!value_dict_find(equality->room, b, &a->members[i].key, &other)) {
            return false;
        }
        equality->equal = other != NULL;
        if (other != NULL && !find_equal(equality, &a->members[i].value, other, depth)) {
            return false;
        }
    }
    return true;
}

bool value_strings_equal(struct value_room *room, struct slice a, struct slice b, bool *out)
{
    *out = slice_equal(a, b);
    return value_step(room, a.size == b.size ? a.size / 64 : 0);
}

// False: it is not known.
static bool find_equal(struct equality *equality, const struct value *a, const struct value *b,
                       unsigned depth)
{
    if (!value_step(equality->room, 1)) {
        return false;
    }
    if (is_number(a) && is_number(b)) {
        equality->equal = !is_nan(a) && !is_nan(b) && compare_number_values(a, b) == 0;
        return true;
    }
    equality->equal = false;
    if (a->kind != b->kind) {
        return true;
    }
    switch (a->kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        equality->equal = true;
        return true;
    case VALUE_STRING:
        return value_strings_equal(equality->room, a->string, b->string, &equality->equal);
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
    case VALUE_VIEW:
        break;
    default:
        equality->equal = is_same_object(a, b);
        return true;
    }
    if (is_same_object(a, b)) {
        equality->equal = true;
        return true;
    }
    if (a->kind == VALUE_VIEW) {
        // Python compares some as sets.
        return value_raise(equality->room, "'%s' == '%s' is not implemented", value_type_name(a),
                           value_type_name(b));
    }
    if (depth >= value_depth_max) {
        return value_fail(equality->room, STATUS_TOO_LARGE, "values are nested too deep");
    }
    return a->kind == VALUE_DICT ? dicts_equal(equality, a->dict, b->dict, depth + 1)
                                 : value_lists_equal(equality, a->list, b->list, depth + 1);
}

bool value_equals(struct value_room *room, const struct value *a, const struct value *b, bool *out)
{
    struct equality equality = {.room = room};
    if (!find_equal(&equality, a, b, 0)) {
        return false;
    }
    *out = equality.equal;
    return true;
}

bool value_equal(const struct value *a, const struct value *b)
{
    // Values that share parts can take exponential time to walk: the steps bound it.
    struct value_room room = {.steps_left = 1 << 20};
    bool equal = false;
    return value_equals(&room, a, b, &equal) && equal;
}

static bool compare_values(struct value_room *room, const struct value *a, const struct value *b,
                           unsigned depth, int *out);

// As Python: the first pair that is not equal decides.
static bool compare_lists(struct value_room *room, const struct value_list *a,
                          const struct value_list *b, unsigned depth, int *out)
{
    if (depth >= value_depth_max) {
        return value_fail(room, STATUS_TOO_LARGE, "values are nested too deep");
    }
    uint32_t common = a->count < b->count ? a->count : b->count;
    for (uint32_t i = 0; i < common; i++) {
        bool equal = false;
        if (!value_equals(room, &a->items[i], &b->items[i], &equal)) {
            return false;
        }
        if (!equal) {
            return compare_values(room, &a->items[i], &b->items[i], depth + 1, out);
        }
    }
    *out = (a->count > b->count) - (a->count < b->count);
    return true;
}

static bool compare_values(struct value_room *room, const struct value *a, const struct value *b,
                           unsigned depth, int *out)
{
    if (is_number(a) && is_number(b)) {
        if (is_nan(a) || is_nan(b)) {
            return value_raise(room, "nan has no order");
        }
        *out = compare_number_values(a, b);
        return value_step(room, 1);
    }
    if (a->kind == VALUE_STRING && b->kind == VALUE_STRING) {
        *out = compare_strings(a->string, b->string);
        return value_step(room, 1);
    }
    if (a->kind == b->kind && (a->kind == VALUE_LIST || a->kind == VALUE_TUPLE)) {
        return compare_lists(room, a->list, b->list, depth, out);
    }
    return value_raise(room, "'<' not supported between instances of '%s' and '%s'",
                       value_type_name(a), value_type_name(b));
}

bool value_compare(struct value_room *room, const struct value *a, const struct value *b, int *out)
{
    return compare_values(room, a, b, 0, out);
}

const struct value *value_dict_get(const struct value_dict *dict, struct slice key)
{
    for (uint32_t i = 0; i < dict->count; i++) {
        const struct value *other = &dict->members[i].key;
        if (other->kind == VALUE_STRING && slice_equal(other->string, key)) {
            return &dict->members[i].value;
        }
    }
    return NULL;
}

// Tuples are keys when what they hold is.
static bool check_key(struct value_room *room, const struct value *key, unsigned depth)
{
    if (key->kind == VALUE_LIST || key->kind == VALUE_DICT) {
        return value_raise(room, "unhashable type: '%s'", value_type_name(key));
    }
    if (key->kind != VALUE_TUPLE) {
        return true;
    }
    if (depth >= value_depth_max) {
        return value_fail(room, STATUS_TOO_LARGE, "values are nested too deep");
    }
    for (uint32_t i = 0; i < key->list->count; i++) {
        if (!value_step(room, 1) || !check_key(room, &key->list->items[i], depth + 1)) {
            return false;
        }
    }
    return true;
}

bool value_dict_find(struct value_room *room, const struct value_dict *dict,
                     const struct value *key, const struct value **out)
{
    if (key->kind == VALUE_STRING) {
        *out = value_dict_get(dict, key->string);
        return value_step(room, 1 + dict->count / 16);
    }
    if (!check_key(room, key, 0)) {
        return false;
    }
    for (uint32_t i = 0; i < dict->count; i++) {
        bool equal = false;
        if (!value_equals(room, &dict->members[i].key, key, &equal)) {
            return false;
        }
        if (equal) {
            *out = &dict->members[i].value;
            return true;
        }
    }
    *out = NULL;
    return true;
}

bool value_dict_put(struct value_room *room, struct value_dict *dict, const struct value *key,
                    const struct value *value)
{
    const struct value *found;
    if (!value_step(room, dict->count / 8 + 1) || !value_dict_find(room, dict, key, &found)) {
        return false;
    }
    if (found == NULL) {
        dict->members[dict->count++] = (struct value_member){.key = *key, .value = *value};
        return true;
    }
    uint32_t at = 0;
    while (&dict->members[at].value != found) {
        at++;
        ASSERT(at < dict->count);
    }
    dict->members[at].value = *value;
    return true;
}

struct value *value_space_find(const struct value_space *space, struct slice name)
{
    ASSERT_SLOW(space->count <= space->capacity);
    for (uint32_t i = 0; i < space->count; i++) {
        struct value_member *member = &space->members[i];
        if (member->key.kind == VALUE_STRING && slice_equal(member->key.string, name)) {
            return &member->value;
        }
    }
    return NULL;
}

bool value_length(struct value_room *room, const struct value *value, uint32_t *out)
{
    switch (value->kind) {
    case VALUE_UNDEFINED:
        *out = 0;
        return true;
    case VALUE_STRING:
        *out = (uint32_t)value_string_length(value->string);
        return value_step(room, 1 + value->string.size / 64);
    case VALUE_LIST:
    case VALUE_TUPLE:
        *out = value->list->count;
        return true;
    case VALUE_DICT:
        *out = value->dict->count;
        return true;
    case VALUE_VIEW:
        *out = value->view->list->count;
        return true;
    default:
        return value_raise(room, "object of type '%s' has no len()", value_type_name(value));
    }
}

static bool list_characters(struct value_room *room, struct slice string,
                            const struct value_list **out)
{
    size_t length = value_string_length(string);
    if (!value_step(room, 1 + length)) {
        return false;
    }
    struct value_list *list = value_list_new(room, (uint32_t)length);
    if (list == NULL) {
        return false;
    }
    const uint8_t *at = string.bytes;
    for (size_t i = 0; i < length; i++) {
        unsigned size = utf8_size_of_lead(*at);
        list->items[i] = value_string(slice_of(at, size));
        at += size;
    }
    *out = list;
    return true;
}

bool value_dict_list(struct value_room *room, const struct value_dict *dict,
                     enum value_dict_part part, const struct value_list **out)
{
    struct value_list *list =
        value_step(room, 1 + dict->count) ? value_list_new(room, dict->count) : NULL;
    if (list == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < dict->count; i++) {
        const struct value_member *member = &dict->members[i];
        if (part != VALUE_DICT_ITEMS) {
            list->items[i] = part == VALUE_DICT_KEYS ? member->key : member->value;
            continue;
        }
        struct value_list *pair = value_list_new(room, 2);
        if (pair == NULL) {
            return false;
        }
        pair->items[0] = member->key;
        pair->items[1] = member->value;
        list->items[i] = (struct value){.kind = VALUE_TUPLE, .list = pair};
    }
    *out = list;
    return true;
}

static bool list_rest(struct value_room *room, struct value_generator *generator,
                      const struct value_list **out)
{
    ASSERT(generator->next <= generator->list->count);
    const struct value_list *list = generator->list;
    uint32_t next = generator->next;
    generator->next = list->count;
    if (next == 0) {
        *out = list;
        return true;
    }
    struct value_list *rest = value_list_new(room, list->count - next);
    if (rest == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < rest->count; i++) {
        rest->items[i] = list->items[next + i];
    }
    *out = rest;
    return true;
}

bool value_iterate(struct value_room *room, const struct value *value,
                   const struct value_list **out)
{
    static const struct value_list nothing;
    switch (value->kind) {
    case VALUE_UNDEFINED:
        *out = &nothing;
        return true;
    case VALUE_LIST:
    case VALUE_TUPLE:
        *out = value->list;
        return true;
    case VALUE_VIEW:
        *out = value->view->list;
        return true;
    case VALUE_STRING:
        return list_characters(room, value->string, out);
    case VALUE_DICT:
        return value_dict_list(room, value->dict, VALUE_DICT_KEYS, out);
    case VALUE_GENERATOR:
        return list_rest(room, value->generator, out);
    default:
        return value_raise(room, "'%s' object is not iterable", value_type_name(value));
    }
}

static bool contains_string(struct value_room *room, struct slice haystack,
                            const struct value *needle, bool *out)
{
    if (needle->kind != VALUE_STRING) {
        return value_raise(room, "'in <string>' requires string as left operand, not %s",
                           value_type_name(needle));
    }
    *out = needle->string.size == 0 ||
           (haystack.size > 0 && memmem(haystack.bytes, haystack.size, needle->string.bytes,
                                        needle->string.size) != NULL);
    return value_step(room, 1 + haystack.size / 64);
}

static bool contains_item(struct value_room *room, const struct value_list *list,
                          const struct value *needle, bool *out)
{
    *out = false;
    for (uint32_t i = 0; i < list->count && !*out; i++) {
        if (!value_equals(room, &list->items[i], needle, out)) {
            return false;
        }
    }
    return true;
}

// Keys and pairs of a dict are looked up in it, so what cannot be a key fails.
static bool check_viewed(struct value_room *room, const struct value_view *view,
                         const struct value *needle)
{
    ASSERT(view->name != NULL && view->list != NULL);
    if (strcmp(view->name, "dict_keys") == 0) {
        return check_key(room, needle, 0);
    }
    bool pair = strcmp(view->name, "dict_items") == 0 && needle->kind == VALUE_TUPLE &&
                needle->list->count == 2;
    return !pair || check_key(room, &needle->list->items[0], 0);
}

bool value_contains(struct value_room *room, const struct value *haystack,
                    const struct value *needle, bool *out)
{
    const struct value *found = NULL;
    const struct value_list *list = NULL;
    switch (haystack->kind) {
    case VALUE_STRING:
        return contains_string(room, haystack->string, needle, out);
    case VALUE_DICT:
        if (!value_dict_find(room, haystack->dict, needle, &found)) {
            return false;
        }
        *out = found != NULL;
        return true;
    case VALUE_VIEW:
        return check_viewed(room, haystack->view, needle) &&
               contains_item(room, haystack->view->list, needle, out);
    case VALUE_UNDEFINED:
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_GENERATOR:
        return value_iterate(room, haystack, &list) && contains_item(room, list, needle, out);
    default:
        return value_raise(room, "argument of type '%s' is not iterable",
                           value_type_name(haystack));
    }
}

size_t value_string_length(struct slice string)
{
    // A byte that continues a character is 10xxxxxx.  Eight at a time: their top bits, less those whose next
    // bit is set as well.
    const uint64_t ones = 0x0101010101010101;
    size_t continuing = 0;
    size_t at = 0;
    for (; string.size - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, string.bytes + at, sizeof(word));
        continuing += (size_t)(((word >> 7 & ~word >> 6 & ones) * ones) >> 56);
    }
    for (; at < string.size; at++) {
        continuing += (string.bytes[at] & 0xc0) == 0x80;
    }
    return string.size - continuing;
}

// The byte at which code point `count` from `at` begins, which is there or at the end.
static size_t skip_characters(struct slice string, size_t at, size_t count)
{
    ASSERT_SLOW(at <= string.size);
    // In steps that are counted fast.
    enum { stride = 256 };
    while (count >= stride && string.size - at >= stride) {
        size_t step = value_string_length(slice_of(string.bytes + at, stride));
        // It may end within a character, which has been counted; the rest of that is passed below.
        count -= step;
        at += stride;
    }
    while (at < string.size && ((string.bytes[at] & 0xc0) == 0x80 || count > 0)) {
        count -= (string.bytes[at] & 0xc0) != 0x80;
        at++;
    }
    return at;
}

struct slice value_string_part(struct slice string, size_t from, size_t to)
{
    if (string.size == 0 || to <= from) {
        return slice_of(string.bytes, 0);
    }
    size_t begin = skip_characters(string, 0, from);
    size_t end = skip_characters(string, begin, to - from);
    return slice_of(string.bytes + begin, end - begin);
}
