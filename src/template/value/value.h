// SPDX-License-Identifier: Apache-2.0
//
// value.h -- what templates compute with: the values of Python that Jinja shows to a template.
//
// A value is small and copied; what it points to lies in an arena and lives as long as that.  Values do not
// change once they are made, except for namespaces, so lists and strings can be shared freely.
//
// Strings are UTF-8; their length and positions, as a template sees them, count code points.
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
    VALUE_BIG_INT, // of any length: a string of digits, which can be printed and compared, no more
    VALUE_FLOAT,
    VALUE_STRING,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_DICT,
    VALUE_NAMESPACE,
    VALUE_CALLABLE,  // a macro, a function, a bound method; call.h
    VALUE_VIEW,      // dict.items() and the like: has a length, can be gone through, not indexed
    VALUE_GENERATOR, // map, select and the like: always true, can be gone through once
};

struct value {
    enum value_kind kind;
    bool markup; // STRING, after |safe: what is added to it is escaped
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct slice string;           // STRING; BIG_INT: digits, '-' before them
        struct slice name;             // UNDEFINED: what is missing, for errors
        const struct value_list *list; // LIST and TUPLE
        const struct value_dict *dict;
        struct value_space *space;
        const struct value_callable *callable;
        const struct value_view *view;
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

// namespace(): the one thing that a template can change.
struct value_space {
    uint32_t count;
    uint32_t capacity;
    struct value_member *members;
};

struct value_view {
    const char *name; // as Python prints it: "dict_items"
    const struct value_list *list;
};

// What is left of a generator.  Ours are computed whole; only the going through them is once.
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

static inline struct value value_of_list(const struct value_list *list)
{
    return (struct value){.kind = VALUE_LIST, .list = list};
}

// What can go wrong while values are worked with: the template is wrong (MALFORMED, with a text like
// Python's), or a bound is reached (TOO_LARGE).  The first failure stays.
struct value_room {
    struct arena *arena;
    enum status status;
    char error[160];
    uint64_t steps_left; // every loop turn, call and byte of a copy takes some
};

// Both note the failure and return false, so that callers can return it.  `value_raise` is for templates
// that are wrong: MALFORMED.
bool value_fail(struct value_room *room, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool value_raise(struct value_room *room, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// "'x' is undefined".
bool value_raise_undefined(struct value_room *room, const struct value *value);

// A list with room for `count` items, which the caller fills before it hands the list on.  NULL, with the
// failure noted, when the arena is full.  The same for dicts and bytes of strings.
struct value_list *value_list_new(struct value_room *room, uint32_t count);
struct value_dict *value_dict_new(struct value_room *room, uint32_t count);
uint8_t *value_bytes_new(struct value_room *room, size_t size);

// Takes `cost` steps; false, TOO_LARGE, when there are not as many.
static inline bool value_step(struct value_room *room, uint64_t cost)
{
    if (__builtin_expect(room->steps_left < cost, 0)) {
        room->steps_left = 0;
        return value_fail(room, STATUS_TOO_LARGE, "the template takes too long");
    }
    room->steps_left -= cost;
    return true;
}

// Values can hold each other to any depth; what walks them stops here, with TOO_LARGE.
enum { value_depth_max = 200 };

// As Python calls it, for errors: "str", "list".
const char *value_type_name(const struct value *value);

bool value_is_true(const struct value *value);

// "a == b".  False with the failure noted when they are nested too deep or steps run out.
bool value_equals(struct value_room *room, const struct value *a, const struct value *b, bool *out);
// The same without a room to note failures: values that cannot be compared to the end are not equal.
bool value_equal(const struct value *a, const struct value *b);

// -1, 0, 1; false with the failure noted when the two have no order ('<' between str and int).  Nothing
// is ordered beside a nan, which is refused.
bool value_compare(struct value_room *room, const struct value *a, const struct value *b, int *out);

// The value of a key, or NULL.
const struct value *value_dict_get(const struct value_dict *dict, struct slice key);

// The same for a key of any kind: 1, 1.0 and true are one key.  False with the failure noted when the
// key cannot be one, as a list.  *out is NULL when it is not there.
bool value_dict_find(struct value_room *room, const struct value_dict *dict,
                     const struct value *key, const struct value **out);

// Sets the value of a key, which the caller has left room for: the place of a key is its first, the value
// its last.
bool value_dict_put(struct value_room *room, struct value_dict *dict, const struct value *key,
                    const struct value *value);

// The member of a namespace, or NULL.
struct value *value_space_find(const struct value_space *space, struct slice name);

// As len() and iter(): the items of lists, the keys of dicts, the characters of strings, nothing for what
// is undefined.  A generator is empty afterwards.  False with the failure noted when it has none.
bool value_length(struct value_room *room, const struct value *value, uint32_t *out);
bool value_iterate(struct value_room *room, const struct value *value,
                   const struct value_list **out);

// What map and the like give, and what dict.items() and the like give.  Keep `list`.
bool value_generator_new(struct value_room *room, const struct value_list *list, struct value *out);
bool value_view_new(struct value_room *room, const char *name, const struct value_list *list,
                    struct value *out);

// "needle in haystack".
bool value_contains(struct value_room *room, const struct value *haystack,
                    const struct value *needle, bool *out);

// As str(): what {{ }} prints.  Values that Python prints with an address, or that are too deep, set
// the overflow of `out`; so do generators and callables, but not macros, which the interpreter prints.
void value_print(const struct value *value, struct text *out);
// As repr().
void value_print_repr(const struct value *value, struct text *out);
// As the same into the arena; false with the failure noted when it does not fit.
bool value_to_string(struct value_room *room, const struct value *value, struct slice *out);

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

// Code points of a string, and a part of it by code points [from, to), both within it.
size_t value_string_length(struct slice string);
struct slice value_string_part(struct slice string, size_t from, size_t to);
