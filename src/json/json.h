// SPDX-License-Identifier: Apache-2.0
//
// json.h -- a pull scanner: reads JSON text in place, from front to back, without a tree.
//
// The cursor walks the items of one array or object at a time.  An item that is itself a
// container is entered on request and passed over otherwise, so a reader states only what it
// wants:
//
//     struct json json = json_open(body);
//     struct json_item item;
//     if (json_next(&json, &item) && item.value.kind == JSON_OBJECT) {
//         json_enter(&json);
//         while (json_next(&json, &item)) {          // the members, one by one
//             if (json_string_is(item.key, "messages") && item.value.kind == JSON_ARRAY) {
//                 json_enter(&json);
//                 while (json_next(&json, &item)) {  // its elements
//                     ...
//                 }                                  // false: the cursor is outside again
//             }
//         }
//     }
//     return json_close(&json);                      // checks all that was not read
//
// Errors stick: after the first one json_next returns false at every level, and json_close says
// why.  Items handed out until then were well-formed, but only STATUS_OK from json_close means
// that the text is JSON from its first to its last byte.
//
// Strict RFC 8259: UTF-8 is validated in full (no overlong forms, no surrogates, no code points
// above U+10FFFF), no byte order mark, no NaN, no comments, no trailing commas, and only white
// space after the value.  Two things that the grammar allows are checked only when they are
// decoded: numbers of any size, and \u escapes that are half a surrogate pair.
//
// Limits: json_depth_max levels of nesting, beyond which the status is STATUS_TOO_LARGE; length
// is not limited.  Time is linear in the text; memory is the cursor.
//
// Threads: a cursor belongs to one thread.  Memory: a cursor neither allocates nor
// copies.  It keeps the text it was opened on, and every slice it hands out points into that text.
//
// Not here: writing JSON (json_writer.h), and documents that arrive in pieces.
#pragma once

#include "base/slice.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// Requests nest less than 30 levels, schemas of tools included; Python's own parser, which most
// engines use, gives up near 1,000.
enum { json_depth_max = 128 };

enum json_kind {
    JSON_ABSENT,
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

struct json_value {
    enum json_kind kind;
    // A string: the text between the quotes, escapes as they are.  An array or object: its
    // opening bracket alone until json_skip has found the other end.  Any other value: its text.
    struct slice raw;
};

struct json_item {
    struct slice key; // raw like a string's text; empty in arrays and for the document's own value
    struct json_value value;
};

// A cursor.  Its fields are json.c's own.
struct json {
    const uint8_t *at;
    const uint8_t *end;
    enum status status;
    uint32_t depth;  // containers begun and not ended
    uint8_t closing; // the bracket that ends the innermost container
    bool first;      // no item of the innermost container has been read
    bool pending;    // the innermost container was handed out and neither entered nor passed over
    uint64_t objects[json_depth_max / 64]; // bit d: the container at depth d is an object
};

// The cursor stands before the document, whose only item is its value.  Keeps `text`.
struct json json_open(struct slice text);

// Moves to the next item of the container that the cursor is in; passes over the last one handed
// out if that was a container and was not entered.  False at the end of the container, which is
// then behind the cursor, or when the text is malformed.
bool json_next(struct json *json, struct json_item *out);

// Enters the array or object that json_next has just handed out; a bug to call at another time.
void json_enter(struct json *json);

// Passes over the array or object that json_next has just handed out and widens its `raw` to all
// of its text, which can be opened as a document.  Does nothing to other values.  False when
// malformed.
bool json_skip(struct json *json, struct json_value *value);

// Passes over elements of the array that the cursor is in while each is a whole number of at most
// nine digits, as token ids are, and returns how many.  A hint for speed: it may stop early, at 0
// too, and leaves at least one element to json_next.  Does nothing outside an array.
uint64_t json_skip_ids(struct json *json);

// A cursor among the items of an array or object that comes with all of its text; other values have
// no items.
struct json json_inside(struct slice container);

// As json_next; an item that is an array or object comes with all of its text.
bool json_next_whole(struct json *json, struct json_item *out);

// Reads the rest.  STATUS_MALFORMED, or STATUS_TOO_LARGE when nested too deep.  The cursor has
// then no more items.
enum status json_close(struct json *json);

// Finds the members of the document's object that have the given names; of duplicates the last,
// as Python's parser does.  Missing members are JSON_ABSENT; all are if the document is not an
// object.  Arrays and objects come with all their text.  Reads and checks the whole text.  At
// most json_find_max names; `out` has one value for each, untouched on failure.
enum { json_find_max = 32 };
enum status json_find(struct slice text, const char *const *names, uint32_t name_count,
                      struct json_value *out);

// Whether a string that the cursor handed out, unescaped, is `text`: "mod\u0065l" is "model".
bool json_string_is(struct slice raw, const char *text);

// Unescapes a string that the cursor handed out.  `*out` is `raw` itself when it has no escape,
// and otherwise lies in `buffer`.  STATUS_TOO_LARGE: `capacity` is less than the result; raw.size
// is always enough.  STATUS_MALFORMED: half a surrogate pair, which has no UTF-8.
enum status json_string_decode(struct slice raw, void *buffer, size_t capacity, struct slice *out);

// False, with `*out` untouched, when the value is not a number written as plain digits below
// 2^64.  1.0 and 1e3 are not.
bool json_uint(const struct json_value *value, uint64_t *out);

// Absent, or null.
bool json_is_unset(const struct json_value *value);

// Whether the value is a string that, unescaped, is `text`.
bool json_is_string(const struct json_value *value, const char *text);

// True only for the literal true.
bool json_is_true(const struct json_value *value);

// The value of a number as strtod reads it.  NaN for other values, for infinite numbers, and for
// those of more than 63 characters.
double json_number(const struct json_value *value);

// The last member of that name; JSON_ABSENT when it is missing or `object` is not an object with
// all of its text.
struct json_value json_member(const struct json_value *object, const char *name);
