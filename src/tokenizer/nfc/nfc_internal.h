// SPDX-License-Identifier: Apache-2.0
//
// nfc_internal.h -- the tables of normalization form C; tools/nfc_tables.py writes their contents.
#pragma once

#include <stdint.h>

enum {
    nfc_end = 0x30000, // characters from here on stay as they are
    nfc_page_size = 64,
    nfc_pair_count = 940,
};

// A value of the table.  Without NFC_DECOMPOSES its low byte is the combining class.  With it, the
// twelve low bits say where in nfc_points the decomposition begins, and two more how long it is,
// less 1.
enum {
    NFC_CLASS_MASK = 0xff,
    NFC_MAY_COMPOSE = 1 << 8, // with a character before it
    NFC_POINT_MASK = 0xfff,
    NFC_LENGTH_SHIFT = 12,
    NFC_LENGTH_MASK = 3,
    NFC_CHANGES = 1 << 14, // what it decomposes into is not composed again
    NFC_DECOMPOSES = 1 << 15,
};

// By first byte: 1 if no character that begins with it changes, changes another, or has a class.  1
// for continuation bytes as well.
extern const uint8_t nfc_clean_leads[256];

extern const uint8_t nfc_pages[nfc_end / nfc_page_size];
extern const uint16_t nfc_table[];
extern const uint32_t nfc_points[]; // full decompositions

// Two characters, the first in the upper half, in rising order; and what they compose to.
extern const uint64_t nfc_pairs[nfc_pair_count];
extern const uint32_t nfc_wholes[nfc_pair_count];

static inline uint16_t nfc_value(uint32_t code_point)
{
    if (code_point >= nfc_end) {
        return 0;
    }
    return nfc_table[nfc_pages[code_point / nfc_page_size] * nfc_page_size +
                     code_point % nfc_page_size];
}
