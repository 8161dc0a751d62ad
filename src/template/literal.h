// SPDX-License-Identifier: Apache-2.0
//
// literal.h -- strings and numbers as they are written in a template.
#pragma once

#include "template/value/value.h"

// What is between the quotes, its escapes replaced as Python does: \n, \x41, \u00e9, \101 and so on; a
// backslash before anything else stays.  `bytes` holds text.size.  False when an escape is broken, is half
// a surrogate pair, or names a character.
bool literal_string(struct slice text, uint8_t *bytes, struct slice *out);

// 12, 1_000, 0x1F, 0o17, 0b1.  `bytes` holds text.size: digits of numbers beyond 64 bits.  False when a
// number that is not decimal is beyond 64 bits.
bool literal_integer(struct slice text, uint8_t *bytes, struct value *out);

// 1.5, 1e5, 1_0.5; false when it is too long.
bool literal_float(struct slice text, struct value *out);
