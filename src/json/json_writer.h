// SPDX-License-Identifier: Apache-2.0
//
// json_writer.h -- writes JSON into a bounded text, one item at a time, and sets the commas itself.
//
//     struct json_writer json = json_writer_over(&text);
//     json_begin_object(&json, NULL);
//     json_put_u64(&json, "tokens", 512);
//     json_begin_array(&json, "models");
//     json_put_str(&json, NULL, "llama");
//     json_end(&json);                          // the array
//     json_end(&json);                          // {"tokens":512,"models":["llama"]}
//
// Every function takes the key of the item, or NULL in an array and for the document's own value.
// Keys are the program's own words: they are not escaped.
//
// Check `overflow` of the text once, at the end.  The writer keeps no pointer into the text's
// bytes: a caller that streams a long document may write the bytes out and set text->size to 0
// between any two calls.
//
// Limits: json_writer_depth_max levels of nesting, asserted.  Nothing is allocated.
#pragma once

#include "base/text.h"

enum { json_writer_depth_max = 64 };

// Its fields are json_writer.c's own.
struct json_writer {
    struct text *out;
    uint64_t objects; // bit d: the container at depth d is an object
    uint8_t depth;
    uint8_t indent;   // of the line that the next item begins, if breaks_line
    bool breaks_line; // the next item, or the bracket of json_end, begins a line
    bool has_item;    // the innermost container has an item: a comma comes before the next one
    bool is_spaced;
};

// Keeps `out`.
struct json_writer json_writer_over(struct text *out);

// With a space behind every comma and colon, for documents that people read.
struct json_writer json_writer_spaced(struct text *out);

// The next item, or the bracket of the next json_end, begins a line with so many spaces.
void json_break_line(struct json_writer *json, unsigned indent);

void json_begin_object(struct json_writer *json, const char *key);
void json_begin_array(struct json_writer *json, const char *key);
// Ends the innermost object or array.
void json_end(struct json_writer *json);

void json_put_null(struct json_writer *json, const char *key);
void json_put_bool(struct json_writer *json, const char *key, bool value);
void json_put_u64(struct json_writer *json, const char *key, uint64_t number);
// The number, or null if it is not known.
void json_put_known(struct json_writer *json, const char *key, bool is_known, uint64_t number);
void json_put_i64(struct json_writer *json, const char *key, int64_t number);

// With so many significant digits, as %g; null if not finite.
void json_put_number(struct json_writer *json, const char *key, double number, unsigned digits);
// With so many decimal places, as %f; null if not finite.
void json_put_fixed(struct json_writer *json, const char *key, double number, unsigned places);

// A string of ours, or one that is known to be UTF-8: bytes above 0x7f pass unchanged.
void json_put_string(struct json_writer *json, const char *key, struct slice string);
// The same; null for NULL.
void json_put_str(struct json_writer *json, const char *key, const char *string);
// A string of a peer: each byte that belongs to no UTF-8 character becomes `?`, so that the
// document is valid.
void json_put_foreign(struct json_writer *json, const char *key, struct slice string);
// A string from a printf format.  The result must need no escapes: numbers and words of the
// program.
void json_put_format(struct json_writer *json, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// A string in pieces: between the two calls the caller appends to the text with text_add_escaped.
void json_begin_string(struct json_writer *json, const char *key);
void json_end_string(struct json_writer *json);

// Makes room for one item that the caller appends to the text itself, as valid JSON.
void json_put_key(struct json_writer *json, const char *key);
