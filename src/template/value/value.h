// SPDX-License-Identifier: Apache-2.0
//
// value.h -- the values of Python that Jinja shows to a template.
//
// A value is small and copied; the memory it points to lies in an arena.  Only namespaces and
// generators change after they are made, so lists and strings are shared freely.
//
// Strings are UTF-8; their lengths and positions count code points.
//
// Failures stick to the room: the first one stays, and no steps are left after it.  A function that
// fails returns an empty or undefined result, so a caller may compute on and check room->status
// once. Only memory (value_list_new and the like) must be checked where it is taken.
#pragma once

#include "base/arena.h"
#include "base/slice.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum value_kind {
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_BIG_INT, // beyond 64 bits: a string of digits; can be printed and compared only
    VALUE_FLOAT,
    VALUE_STRING,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_DICT,
    VALUE_NAMESPACE,
    VALUE_CALLABLE,  // a macro, a function, a bound method; call.h
    VALUE_VIEW,      // dict.items() and the like: has a length, can be iterated, not indexed
    VALUE_GENERATOR, // map, select and the like: always true, can be iterated once
};

// The members of a dict: their keys, their values, or each as a tuple of both.
enum value_dict_part { VALUE_DICT_KEYS, VALUE_DICT_VALUES, VALUE_DICT_ITEMS };

struct value {
    enum value_kind kind;
    bool markup;  // STRING, after |safe: strings that are added to it are escaped
    uint8_t part; // VIEW: enum value_dict_part
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct slice string;           // STRING; BIG_INT: digits, '-' before them
        struct slice name;             // UNDEFINED: the missing name, for errors
        const struct value_list *list; // LIST, TUPLE and VIEW
        const struct value_dict *dict;
        struct value_space *space;
        const struct value_callable *callable;
        struct value_generator *generator;
    };
};

struct value_list {
    uint32_t count;
    struct value items[];
};

// In order of insertion, keys unique; keys are strings nearly always.
struct value_member {
    struct value key;
    struct value value;
};
struct value_dict {
    uint32_t count;
    struct value_member members[];
};

// namespace(): the one object that a template can change.
struct value_space {
    struct value_dict *dict;
    uint32_t capacity;
};

// Our generators are computed at once; `next` is the first item that was not read yet.
struct value_generator {
    const struct value_list *list;
    uint32_t next;
};

static inline struct value value_none(void)
{
    return (struct value){.kind = VALUE_NONE};
}

static inline struct value value_bool(bool boolean)
{
    return (struct value){.kind = VALUE_BOOL, .boolean = boolean};
}

static inline struct value value_int(int64_t integer)
{
    return (struct value){.kind = VALUE_INT, .integer = integer};
}

static inline struct value value_float(double number)
{
    return (struct value){.kind = VALUE_FLOAT, .number = number};
}

static inline struct value value_string(struct slice string)
{
    return (struct value){.kind = VALUE_STRING, .string = string};
}

static inline struct value value_undefined(struct slice name)
{
    return (struct value){.kind = VALUE_UNDEFINED, .name = name};
}

// A whole number of up to 64 bits: bool is a kind of int in Python.
static inline bool value_is_whole(const struct value *value)
{
    return value->kind == VALUE_INT || value->kind == VALUE_BOOL;
}

static inline int64_t value_whole(const struct value *value)
{
    return value->kind == VALUE_BOOL ? value->boolean : value->integer;
}

// NULL, after a failure, becomes an empty container.
extern const struct value_list value_no_items;
extern const struct value_dict value_no_members;

static inline struct value value_of_list(const struct value_list *list)
{
    return (struct value){.kind = VALUE_LIST, .list = list != NULL ? list : &value_no_items};
}

static inline struct value value_of_tuple(const struct value_list *list)
{
    return (struct value){.kind = VALUE_TUPLE, .list = list != NULL ? list : &value_no_items};
}

static inline struct value value_of_dict(const struct value_dict *dict)
{
    return (struct value){.kind = VALUE_DICT, .dict = dict != NULL ? dict : &value_no_members};
}

static inline struct value value_view(enum value_dict_part part, const struct value_list *list)
{
    return (struct value){.kind = VALUE_VIEW, .part = (uint8_t)part, .list = list};
}

static inline bool value_is_sequence(const struct value *value)
{
    return value->kind == VALUE_LIST || value->kind == VALUE_TUPLE;
}

struct value_room {
    struct arena *arena;
    enum status status;  // MALFORMED: the template is wrong; TOO_LARGE: a limit is reached
    char error[160];     // like Python's
    uint64_t steps_left; // every iteration, call and byte of a copy takes some
};

// Notes the failure, unless there is one already; returns false.
bool value_fail(struct value_room *room, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define value_raise(room, ...) value_fail(room, STATUS_MALFORMED, __VA_ARGS__)
// "'x' is undefined" if the value is; else the text.
bool value_refuse(struct value_room *room, const struct value *value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Memory for `count` items, which the caller fills before it hands the list on.  NULL: the arena is
// full.  The same for dicts and bytes.
struct value_list *value_list_new(struct value_room *room, uint32_t count);
struct value_list *value_list_copy(struct value_room *room, const struct value *items,
                                   uint32_t count);
struct value_dict *value_dict_new(struct value_room *room, uint32_t count);
void *value_bytes_new(struct value_room *room, size_t size);

// Takes `cost` steps; false, TOO_LARGE, when fewer are left.
static inline bool value_step(struct value_room *room, uint64_t cost)
{
    if (__builtin_expect(room->steps_left < cost, 0)) {
        return value_fail(room, STATUS_TOO_LARGE, "the template takes too long");
    }
    room->steps_left -= cost;
    return true;
}

// Recursion over values stops at this depth, with TOO_LARGE.
enum { value_depth_max = 200 };

// As Python calls it, for errors: "str", "list".
const char *value_type_name(const struct value *value);

bool value_is_true(const struct value *value);

// "a == b".
bool value_equals(struct value_room *room, const struct value *a, const struct value *b);
// The same without a room: values that are too deep or too large to compare are not equal.
bool value_equal(const struct value *a, const struct value *b);

// -1, 0, 1.  Fails when the two have no order, as str and int, or one is a nan.
int value_compare(struct value_room *room, const struct value *a, const struct value *b);

// The value of a key, or NULL.
const struct value *value_dict_get(const struct value_dict *dict, struct slice key);

// The same for a key of any kind: 1, 1.0 and true are one key.  Fails on keys that Python cannot
// hash, as lists.
const struct value *value_dict_find(struct value_room *room, const struct value_dict *dict,
                                    const struct value *key);

// Adds a member, for which the caller has memory, or changes the value of its key.
void value_dict_put(struct value_room *room, struct value_dict *dict, const struct value *key,
                    const struct value *value);

// As len() and iter(): the items of lists, the keys of dicts, the characters of strings, nothing
// for undefined values.  A generator is empty afterwards.  value_iterate never returns NULL.
uint32_t value_length(struct value_room *room, const struct value *value);
const struct value_list *value_iterate(struct value_room *room, const struct value *value);

// Keeps `list`.
struct value value_generator_new(struct value_room *room, const struct value_list *list);

// "needle in haystack".
bool value_contains(struct value_room *room, const struct value *haystack,
                    const struct value *needle);

// As str(), which {{ }} prints.  Sets the overflow of `out` for values that are too deep, and for
// those that Python prints with an address: generators and callables.  render.c prints macros.
void value_print(const struct value *value, struct text *out);
// As repr().
void value_print_repr(const struct value *value, struct text *out);
// As str(), into the arena.
struct slice value_to_string(struct value_room *room, const struct value *value);

// json.dumps(value, ensure_ascii=..., indent=..., separators, sort_keys) as transformers has it.
struct value_json_style {
    bool ensure_ascii;
    bool sort_keys;
    int32_t indent;              // below 0: on one line
    struct slice item_separator; // no bytes (NULL): ", ", or "," with an indent
    struct slice key_separator;  // no bytes (NULL): ": "
};
bool value_to_json(struct value_room *room, const struct value *value,
                   const struct value_json_style *style, struct text *out);

// As json.loads; strings without escapes are slices of `json`, which the values keep.
bool value_from_json(struct value_room *room, struct slice json, struct value *out);

// Code points of a string, and the part of it between code points [from, to), both within it.
size_t value_string_length(struct slice string);
struct slice value_string_part(struct slice string, size_t from, size_t to);
