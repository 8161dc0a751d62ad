// SPDX-License-Identifier: Apache-2.0
//
// value_internal.h -- what the files that work with values share.
#pragma once

#include "template/value/value.h"

// As Python's repr(): the shortest digits that read back as the same number.
void value_print_float(double number, struct text *out);

// "a == b" of strings; takes steps by what is read.
bool value_strings_equal(struct value_room *room, struct slice a, struct slice b, bool *out);

// Writing to what is left of the arena.  Nothing else takes from it until value_text_take, which keeps what
// was written; false, TOO_LARGE, when it did not fit.  Takes steps by its size.
struct text value_text_open(struct value_room *room);
bool value_text_take(struct value_room *room, const struct text *text, struct slice *out);
// The same, as a string.
bool value_text_end(struct value_room *room, const struct text *text, struct value *out);

// Sorting keeps the order of equal keys, also when it is turned round, as Python's does.
struct value_sort_entry {
    const struct value *key;
    uint32_t index; // of whatever it is the key of
};
bool value_sort(struct value_room *room, struct value_sort_entry *entries, uint32_t count,
                bool reverse);
// Entries for value_sort; NULL with the failure noted.
struct value_sort_entry *value_sort_entries_new(struct value_room *room, uint32_t count);

// The members of a dict: their keys, their values, or each as a tuple of both.
enum value_dict_part { VALUE_DICT_KEYS, VALUE_DICT_VALUES, VALUE_DICT_ITEMS };
bool value_dict_list(struct value_room *room, const struct value_dict *dict,
                     enum value_dict_part part, const struct value_list **out);
