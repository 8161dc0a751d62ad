// SPDX-License-Identifier: Apache-2.0
//
// value_text.h -- characters as Python's strings class them: letters, digits, case, white space.
//
// The tables are those of one version of Python, which case_tables.txt names.  They grow with
// Unicode, by characters that were unassigned before.
#pragma once

#include "template/value/value.h"

bool value_text_is_space(uint32_t code_point);
bool value_text_is_printable(uint32_t code_point);
bool value_text_is_alphabetic(uint32_t code_point);
bool value_text_is_digit(uint32_t code_point);
bool value_text_is_numeric(uint32_t code_point); // digits included

// As isupper() and islower(): at least one such character, and none of another case.
bool value_text_is_upper(struct slice string);
bool value_text_is_lower(struct slice string);

// Bytes of white space at the start of the string, and at its end.
size_t value_text_space_before(struct slice string);
size_t value_text_space_after(struct slice string);

enum value_text_case {
    VALUE_TEXT_LOWER,
    VALUE_TEXT_UPPER,
    VALUE_TEXT_TITLE,
    VALUE_TEXT_CAPITALIZE
};

// As lower(), upper(), title() and capitalize().
void value_text_add_case(struct slice string, enum value_text_case to, struct text *out);
struct slice value_text_to_case(struct value_room *room, struct slice string,
                                enum value_text_case to);
