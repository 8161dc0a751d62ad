// SPDX-License-Identifier: Apache-2.0
//
// Numbers compare by their exact values across kinds, as in Python: 2^53 + 1 is above the float
// 2^53, and a whole number beyond 64 bits may equal a float.

#include "template/value/value.h"

#include "base/base.h"
#include "base/utf8.h"
#include "template/value/value_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

const struct value_list value_no_items = {0};
const struct value_dict value_no_members = {0};

static bool __attribute__((format(printf, 3, 0)))
value_vfail(struct value_room *room, enum status status, const char *format, va_list arguments)
{
    ASSERT(status != STATUS_OK);
    if (room->status == STATUS_OK) {
        room->status = status;
        room->steps_left = 0;
        (void)vsnprintf(room->error, sizeof(room->error), format, arguments);
    }
    return false;
}

bool value_fail(struct value_room *room, enum status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)value_vfail(room, status, format, arguments);
    va_end(arguments);
    return false;
}

bool value_refuse(struct value_room *room, const struct value *value, const char *format, ...)
{
    if (value->kind == VALUE_UNDEFINED) {
        return value_raise(room, "'%.*s' is undefined", (int)value->name.size, value->name.bytes);
    }
    va_list arguments;
    va_start(arguments, format);
    (void)value_vfail(room, STATUS_MALFORMED, format, arguments);
    va_end(arguments);
    return false;
}

void *value_bytes_new(struct value_room *room, size_t size)
{
    ASSERT_SLOW(room->arena != NULL);
    void *taken = arena_take(room->arena, size);
    if (taken == NULL) {
        (void)value_fail(room, STATUS_TOO_LARGE, "the template takes too much memory");
    }
    return taken;
}

struct value_list *value_list_new(struct value_room *room, uint32_t count)
{
    struct value_list *list =
        value_bytes_new(room, sizeof(*list) + (size_t)count * sizeof(list->items[0]));
    if (list != NULL) {
        list->count = count;
    }
    return list;
}

struct value_list *value_list_copy(struct value_room *room, const struct value *items,
                                   uint32_t count)
{
    struct value_list *list = value_list_new(room, count);
    if (list != NULL && count > 0) {
        memcpy(list->items, items, count * sizeof(items[0]));
    }
    return list;
}

struct value_dict *value_dict_new(struct value_room *room, uint32_t count)
{
    struct value_dict *dict =
        value_bytes_new(room, sizeof(*dict) + (size_t)count * sizeof(dict->members[0]));
    if (dict != NULL) {
        dict->count = count;
    }
    return dict;
}

struct value value_generator_new(struct value_room *room, const struct value_list *list)
{
    struct value_generator *generator = value_bytes_new(room, sizeof(*generator));
    if (generator == NULL || list == NULL) {
        return value_none();
    }
    *generator = (struct value_generator){.list = list};
    return (struct value){.kind = VALUE_GENERATOR, .generator = generator};
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
    static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
    if (value->kind == VALUE_VIEW) {
        return views[value->part];
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
    case VALUE_VIEW:
        return value->list->count > 0;
    case VALUE_DICT:
        return value->dict->count > 0;
    default:
        return true;
    }
}

static bool is_number(const struct value *value)
{
    return value->kind >= VALUE_BOOL && value->kind <= VALUE_FLOAT;
}

static bool is_nan(const struct value *value)
{
    return value->kind == VALUE_FLOAT && isnan(value->number);
}

static int sign_of(int64_t difference)
{
    return (difference > 0) - (difference < 0);
}

// The decimal digits of a number, '-' before them, its fraction rounded off.  The digits of a float
// are at most 309; glibc prints them all.
static struct slice number_digits(const struct value *number, char text[320])
{
    if (number->kind == VALUE_BIG_INT) {
        return number->string;
    }
    int size = number->kind == VALUE_FLOAT
                   ? snprintf(text, 320, "%.0f", number->number)
                   : snprintf(text, 320, "%lld", (long long)value_whole(number));
    return slice_of(text, (size_t)size);
}

// Rounding the other number is harmless: no float has a fraction where BIG_INTs begin.
static int compare_with_big(const struct value *a, const struct value *b)
{
    ASSERT(a->kind == VALUE_BIG_INT || b->kind == VALUE_BIG_INT);
    char texts[2][320];
    struct slice left = number_digits(a, texts[0]);
    struct slice right = number_digits(b, texts[1]);
    bool negative = left.bytes[0] == '-';
    if (negative != (right.bytes[0] == '-')) {
        return negative ? -1 : 1;
    }
    int order = left.size != right.size ? (left.size < right.size ? -1 : 1)
                                        : sign_of(memcmp(left.bytes, right.bytes, left.size));
    return negative ? -order : order;
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

// Of two numbers, neither of which is a nan.
static int compare_numbers(const struct value *a, const struct value *b)
{
    ASSERT_SLOW(is_number(a) && is_number(b) && !is_nan(a) && !is_nan(b));
    if (b->kind == VALUE_FLOAT && a->kind == VALUE_FLOAT) {
        return (a->number > b->number) - (a->number < b->number);
    }
    if (a->kind == VALUE_FLOAT) {
        return -compare_numbers(b, a);
    }
    if (b->kind == VALUE_FLOAT && isinf(b->number)) {
        return b->number > 0 ? -1 : 1;
    }
    if (a->kind == VALUE_BIG_INT || b->kind == VALUE_BIG_INT) {
        return compare_with_big(a, b);
    }
    if (b->kind == VALUE_FLOAT) {
        return compare_whole_with_float(value_whole(a), b->number);
    }
    return (value_whole(a) > value_whole(b)) - (value_whole(a) < value_whole(b));
}

// The order of UTF-8 bytes is that of code points.
static int compare_strings(struct slice a, struct slice b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common > 0 ? memcmp(a.bytes, b.bytes, common) : 0;
    return order != 0 ? sign_of(order) : (a.size > b.size) - (a.size < b.size);
}

static bool depth_is_allowed(struct value_room *room, unsigned depth)
{
    return depth < value_depth_max ||
           value_fail(room, STATUS_TOO_LARGE, "values are nested too deep");
}

// Whether both are the very same object, which makes them equal inside containers.  Kinds that
// point to something all do so in the same place.
static bool is_same_object(const struct value *a, const struct value *b)
{
    return a->kind == b->kind && a->kind >= VALUE_LIST && a->list == b->list;
}

static bool find_equal(struct value_room *room, const struct value *a, const struct value *b,
                       unsigned depth);

static bool value_lists_equal(struct value_room *room, const struct value_list *a,
                              const struct value_list *b, unsigned depth)
{
    bool equal = a->count == b->count;
    for (uint32_t i = 0; equal && i < a->count; i++) {
        equal = find_equal(room, &a->items[i], &b->items[i], depth);
    }
    return equal;
}

static bool dicts_equal(struct value_room *room, const struct value_dict *a,
                        const struct value_dict *b, unsigned depth)
{
    bool equal = a->count == b->count;
    for (uint32_t i = 0; equal && i < a->count; i++) {
        // Equal dicts nearly always have the same order; otherwise the key is searched for.
        const struct value *key = &a->members[i].key;
        const struct value *other = value_equal(key, &b->members[i].key)
                                        ? &b->members[i].value
                                        : value_dict_find(room, b, key);
        equal = other != NULL && find_equal(room, &a->members[i].value, other, depth);
    }
    return equal;
}

bool value_strings_equal(struct value_room *room, struct slice a, struct slice b)
{
    return value_step(room, a.size == b.size ? a.size / 64 : 0) && slice_equal(a, b);
}

static bool find_equal(struct value_room *room, const struct value *a, const struct value *b,
                       unsigned depth)
{
    if (!value_step(room, 1)) {
        return false;
    }
    if (is_number(a) && is_number(b)) {
        return !is_nan(a) && !is_nan(b) && compare_numbers(a, b) == 0;
    }
    if (a->kind != b->kind || is_same_object(a, b)) {
        return a->kind == b->kind;
    }
    switch (a->kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return true;
    case VALUE_STRING:
        return value_strings_equal(room, a->string, b->string);
    case VALUE_LIST:
    case VALUE_TUPLE:
        return depth_is_allowed(room, depth) &&
               value_lists_equal(room, a->list, b->list, depth + 1);
    case VALUE_DICT:
        return depth_is_allowed(room, depth) && dicts_equal(room, a->dict, b->dict, depth + 1);
    case VALUE_VIEW:
        // Python compares some as sets.
        return value_raise(room, "'%s' == '%s' is not implemented", value_type_name(a),
                           value_type_name(b));
    default:
        return false;
    }
}

bool value_equals(struct value_room *room, const struct value *a, const struct value *b)
{
    return find_equal(room, a, b, 0);
}

bool value_equal(const struct value *a, const struct value *b)
{
    // Values that share parts can take exponential time to walk: the steps bound it.
    struct value_room room = {.steps_left = 1 << 20};
    return value_equals(&room, a, b) && room.status == STATUS_OK;
}

// As Python: the first pair that is not equal decides.
static int compare_values(struct value_room *room, const struct value *a, const struct value *b,
                          unsigned depth)
{
    if (is_number(a) && is_number(b)) {
        if (is_nan(a) || is_nan(b)) {
            return value_raise(room, "nan has no order");
        }
        return value_step(room, 1) ? compare_numbers(a, b) : 0;
    }
    if (a->kind == VALUE_STRING && b->kind == VALUE_STRING) {
        return value_step(room, 1) ? compare_strings(a->string, b->string) : 0;
    }
    if (a->kind != b->kind || !value_is_sequence(a)) {
        return value_raise(room, "'<' not supported between instances of '%s' and '%s'",
                           value_type_name(a), value_type_name(b));
    }
    if (!depth_is_allowed(room, depth)) {
        return 0;
    }
    uint32_t common = a->list->count < b->list->count ? a->list->count : b->list->count;
    for (uint32_t i = 0; i < common; i++) {
        const struct value *left = &a->list->items[i];
        const struct value *right = &b->list->items[i];
        if (!value_equals(room, left, right)) {
            return room->status == STATUS_OK ? compare_values(room, left, right, depth + 1) : 0;
        }
    }
    return (a->list->count > b->list->count) - (a->list->count < b->list->count);
}

int value_compare(struct value_room *room, const struct value *a, const struct value *b)
{
    return compare_values(room, a, b, 0);
}

// The place of a string among the keys; dict->count: it is absent.
static inline uint32_t dict_place_of_string(const struct value_dict *dict, struct slice key)
{
    for (uint32_t i = 0; i < dict->count; i++) {
        const struct value *other = &dict->members[i].key;
        if (other->kind == VALUE_STRING && slice_equal(other->string, key)) {
            return i;
        }
    }
    return dict->count;
}

const struct value *value_dict_get(const struct value_dict *dict, struct slice key)
{
    uint32_t place = dict_place_of_string(dict, key);
    return place < dict->count ? &dict->members[place].value : NULL;
}

// Tuples are keys if their items are.
static bool check_key(struct value_room *room, const struct value *key, unsigned depth)
{
    if (key->kind == VALUE_LIST || key->kind == VALUE_DICT) {
        return value_raise(room, "unhashable type: '%s'", value_type_name(key));
    }
    if (key->kind != VALUE_TUPLE) {
        return true;
    }
    bool is_key = depth_is_allowed(room, depth);
    for (uint32_t i = 0; is_key && i < key->list->count; i++) {
        is_key = value_step(room, 1) && check_key(room, &key->list->items[i], depth + 1);
    }
    return is_key;
}

// dict->count: it is absent, or the key is refused.
static uint32_t dict_place(struct value_room *room, const struct value_dict *dict,
                           const struct value *key)
{
    if (key->kind == VALUE_STRING) {
        return value_step(room, 1 + dict->count / 16) ? dict_place_of_string(dict, key->string)
                                                      : dict->count;
    }
    uint32_t place = check_key(room, key, 0) ? 0 : dict->count;
    while (place < dict->count && !value_equals(room, &dict->members[place].key, key)) {
        place++;
    }
    return place;
}

const struct value *value_dict_find(struct value_room *room, const struct value_dict *dict,
                                    const struct value *key)
{
    uint32_t place = dict_place(room, dict, key);
    return place < dict->count ? &dict->members[place].value : NULL;
}

void value_dict_put(struct value_room *room, struct value_dict *dict, const struct value *key,
                    const struct value *value)
{
    if (!value_step(room, dict->count / 8 + 1)) {
        return;
    }
    uint32_t place = dict_place(room, dict, key);
    if (room->status != STATUS_OK) {
        return;
    }
    if (place == dict->count) {
        dict->members[dict->count++].key = *key;
    }
    dict->members[place].value = *value;
}

uint32_t value_length(struct value_room *room, const struct value *value)
{
    switch (value->kind) {
    case VALUE_UNDEFINED:
        return 0;
    case VALUE_STRING:
        return value_step(room, 1 + value->string.size / 64)
                   ? (uint32_t)value_string_length(value->string)
                   : 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
        return value->list->count;
    case VALUE_DICT:
        return value->dict->count;
    default:
        return value_raise(room, "object of type '%s' has no len()", value_type_name(value));
    }
}

// NULL: it failed.
static const struct value_list *list_characters(struct value_room *room, struct slice string)
{
    size_t length = value_string_length(string);
    struct value_list *list =
        value_step(room, 1 + length) ? value_list_new(room, (uint32_t)length) : NULL;
    const uint8_t *at = string.bytes;
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        unsigned size = utf8_size_of_lead(*at);
        list->items[i] = value_string(slice_of(at, size));
        at += size;
    }
    return list;
}

const struct value_list *value_dict_list(struct value_room *room, const struct value_dict *dict,
                                         enum value_dict_part part)
{
    struct value_list *list =
        value_step(room, 1 + dict->count) ? value_list_new(room, dict->count) : NULL;
    for (uint32_t i = 0; list != NULL && i < dict->count; i++) {
        const struct value_member *member = &dict->members[i];
        struct value pair[] = {member->key, member->value};
        if (part == VALUE_DICT_ITEMS) {
            list->items[i] = value_of_tuple(value_list_copy(room, pair, 2));
        } else {
            list->items[i] = pair[part == VALUE_DICT_VALUES];
        }
    }
    return room->status == STATUS_OK ? list : &value_no_items;
}

static const struct value_list *generator_rest(struct value_room *room,
                                               struct value_generator *generator)
{
    ASSERT(generator->next <= generator->list->count);
    const struct value_list *list = generator->list;
    uint32_t next = generator->next;
    generator->next = list->count;
    return next == 0 ? list : value_list_copy(room, list->items + next, list->count - next);
}

const struct value_list *value_iterate(struct value_room *room, const struct value *value)
{
    const struct value_list *list = NULL;
    switch (value->kind) {
    case VALUE_UNDEFINED:
        break;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
        return value->list;
    case VALUE_STRING:
        list = list_characters(room, value->string);
        break;
    case VALUE_DICT:
        return value_dict_list(room, value->dict, VALUE_DICT_KEYS);
    case VALUE_GENERATOR:
        list = generator_rest(room, value->generator);
        break;
    default:
        (void)value_raise(room, "'%s' object is not iterable", value_type_name(value));
        break;
    }
    return list != NULL ? list : &value_no_items;
}

static bool contains_string(struct value_room *room, struct slice haystack,
                            const struct value *needle)
{
    if (needle->kind != VALUE_STRING) {
        return value_raise(room, "'in <string>' requires string as left operand, not %s",
                           value_type_name(needle));
    }
    return value_step(room, 1 + haystack.size / 64) &&
           (needle->string.size == 0 ||
            (haystack.size > 0 && memmem(haystack.bytes, haystack.size, needle->string.bytes,
                                         needle->string.size) != NULL));
}

// The keys and the pairs of a dict are looked up in it, so needles that cannot be keys fail.
static bool check_viewed(struct value_room *room, const struct value *view,
                         const struct value *needle)
{
    ASSERT(view->kind == VALUE_VIEW);
    bool is_pair =
        view->part == VALUE_DICT_ITEMS && needle->kind == VALUE_TUPLE && needle->list->count == 2;
    const struct value *key = is_pair ? &needle->list->items[0] : needle;
    return (!is_pair && view->part != VALUE_DICT_KEYS) || check_key(room, key, 0);
}

bool value_contains(struct value_room *room, const struct value *haystack,
                    const struct value *needle)
{
    bool found = false;
    switch (haystack->kind) {
    case VALUE_STRING:
        return contains_string(room, haystack->string, needle);
    case VALUE_DICT:
        return value_dict_find(room, haystack->dict, needle) != NULL;
    case VALUE_VIEW:
        if (!check_viewed(room, haystack, needle)) {
            return false;
        }
        break;
    case VALUE_UNDEFINED:
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_GENERATOR:
        break;
    default:
        return value_raise(room, "argument of type '%s' is not iterable",
                           value_type_name(haystack));
    }
    const struct value_list *list = value_iterate(room, haystack);
    for (uint32_t i = 0; i < list->count && !found && room->status == STATUS_OK; i++) {
        found = value_equals(room, &list->items[i], needle);
    }
    return found;
}

size_t value_string_length(struct slice string)
{
    // A byte that continues a character is 10xxxxxx.  Eight at a time: their top bits, less those
    // whose next bit is set as well.
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

// The byte at which the code point `count` after `at` begins, which may be the end.
static size_t skip_characters(struct slice string, size_t at, size_t count)
{
    ASSERT_SLOW(at <= string.size);
    // In steps that are counted fast.
    enum { stride = 256 };
    while (count >= stride && string.size - at >= stride) {
        size_t step = value_string_length(slice_of(string.bytes + at, stride));
        // It may end within a character, which was counted; the loop below passes its rest.
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
