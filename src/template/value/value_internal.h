// SPDX-License-Identifier: Apache-2.0
//
// value_internal.h -- functions that only src/template calls.
#pragma once

#include "template/value/value.h"

// As Python's repr(): the shortest digits that read back as the same number.
void value_print_float(double number, struct text *out);

// strtod of bytes that are a number in C's syntax.
double value_read_float(struct value_room *room, struct slice digits);

// A whole number of any size, '-' before it if negative.  `digits` are decimal, without leading
// zeros; a number beyond 64 bits keeps them.
struct value value_read_integer(struct slice digits);

// "a == b" of strings; takes steps by the bytes that are read.
bool value_strings_equal(struct value_room *room, struct slice a, struct slice b);

// Writing to the rest of the arena.  Nothing else may take from it until value_text_take, which
// keeps the text; empty, TOO_LARGE, when it did not fit.  Takes steps by its size.
struct text value_text_open(struct value_room *room);
struct slice value_text_take(struct value_room *room, const struct text *text);
// The same, as a string.
struct value value_text_end(struct value_room *room, const struct text *text);

// Sorts pointers to keys in place.  Keeps the order of equal keys, also when reversed, as Python.
void value_sort(struct value_room *room, const struct value **keys, uint32_t count, bool reverse);

// Never NULL.
const struct value_list *value_dict_list(struct value_room *room, const struct value_dict *dict,
                                         enum value_dict_part part);
