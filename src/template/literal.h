// SPDX-License-Identifier: Apache-2.0
//
// literal.h -- strings and numbers as they are written in a template.
#pragma once

#include "template/value/value.h"

// The text between the quotes, its escapes replaced as in Python: \n, \x41, \u00e9, \101 and so on;
// a backslash before anything else stays.  `bytes` holds text.size.  False: an escape is broken, is
// half a surrogate pair, or names a character.
bool literal_string(struct slice text, uint8_t *bytes, struct slice *out);

// int(text, base), without white space around it: sign, prefix, digits, underscores.  Base 0 means
// the prefix's, or 10.  `bytes` holds text.size: the digits of a number beyond 64 bits.  MALFORMED:
// not an integer; TOO_LARGE: beyond 64 bits, and not decimal.
enum status literal_integer(struct slice text, unsigned base, uint8_t *bytes, struct value *out);

// 1.5, 1e5, 1_0.5; false when it is too long.
bool literal_float(struct slice text, struct value *out);
