// SPDX-License-Identifier: Apache-2.0
//
// value_text.h -- what Python's strings know of their characters: classes, case, white space.
//
// The tables are those of one version of Python (case_tables.txt says which); they grow with Unicode, by
// characters that were unassigned before.
#pragma once

#include "template/value/value.h"

bool value_text_is_space(uint32_t code_point);
bool value_text_is_printable(uint32_t code_point);
bool value_text_is_alphabetic(uint32_t code_point);
bool value_text_is_digit(uint32_t code_point);
bool value_text_is_numeric(uint32_t code_point); // digits included

// As isupper() and islower(): one such character at least, and none of the other case.
bool value_text_is_upper(struct slice string);
bool value_text_is_lower(struct slice string);

// Bytes of the white space that the string begins with, and of that it ends with.
size_t value_text_space_before(struct slice string);
size_t value_text_space_after(struct slice string);

enum value_text_case {
    VALUE_TEXT_LOWER,
    VALUE_TEXT_UPPER,
    VALUE_TEXT_TITLE,
    VALUE_TEXT_CAPITALIZE
};

// The whole string as lower(), upper(), title() and capitalize() have it.
void value_text_add_case(struct slice string, enum value_text_case to, struct text *out);
bool value_text_to_case(struct value_room *room, struct slice string, enum value_text_case to,
                        struct slice *out);
