// SPDX-License-Identifier: Apache-2.0
//
// char_class.h -- what kind of character a code point is, as the regex engine of tokenizers sees
// it.
//
// Patterns of tokenizers 0.22 and 0.23 know Unicode 16.0; two classes come from Rust's own, newer
// tables.  char_class.txt has the members of each class, and the build makes the table of it
// (tools/char_classes.py).
#pragma once

#include <stdint.h>

enum char_class {
    CHAR_LU = 1 << 0,
    CHAR_LL = 1 << 1,
    CHAR_LT = 1 << 2,
    CHAR_LM = 1 << 3,
    CHAR_LO = 1 << 4,
    CHAR_M = 1 << 5,
    CHAR_N = 1 << 6,
    CHAR_P = 1 << 7,
    CHAR_S = 1 << 8,
    CHAR_WS = 1 << 9, // \s
    CHAR_HAN = 1 << 10,
    CHAR_RUST_NUMERIC = 1 << 11, // char::is_numeric
    CHAR_RUST_WORD = 1 << 12,    // \w of Rust's regex crate
    CHAR_L = CHAR_LU | CHAR_LL | CHAR_LT | CHAR_LM | CHAR_LO,
};

// Pages of 128 code points.
extern const uint8_t char_class_pages[0x110000 / 128];
extern const uint16_t char_class_table[][128];

// `code_point` is below 0x110000.
static inline uint16_t char_class(uint32_t code_point)
{
    return char_class_table[char_class_pages[code_point >> 7]][code_point & 127];
}
