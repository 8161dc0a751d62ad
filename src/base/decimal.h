// SPDX-License-Identifier: Apache-2.0
//
// decimal.h -- numbers as decimal digits, eight of them at once.
//
// For writers of many numbers that know there is room; other code uses text.h.  Up to eight digits
// take neither loop nor branch: leading zeros are counted and shifted out.
//
// All write from `at` on and return the end.  They may overwrite decimal_room bytes.
#pragma once

#include <stdint.h>
#include <string.h>

enum {
    decimal_room = 24,
    // Numbers below this have at most eight digits.
    decimal_short = 100000000,
};

uint8_t *decimal_put_long(uint8_t *at, uint64_t number);
uint8_t *decimal_put_fixed_long(uint8_t *at, uint64_t number, unsigned places);

// The eight digits as bytes 0 to 9, the first in the lowest.  Halves, then pairs, then digits: in
// each step every lane holds a number and is split in two, by a multiplication that is a division
// rounded down.
static inline uint64_t decimal_digits(uint32_t number)
{
    uint64_t fours = number / 10000 | (uint64_t)(number % 10000) << 32;
    uint64_t hundreds = fours * 10486 >> 20 & 0x0000007f0000007f;
    uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
    uint64_t tens = twos * 103 >> 10 & 0x000f000f000f000f;
    return tens | (twos - tens * 10) << 8;
}

// The lowest first.
static inline void decimal_store(uint8_t *at, uint64_t bytes)
{
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) {
        bytes = __builtin_bswap64(bytes);
    }
    memcpy(at, &bytes, sizeof(bytes));
}

static inline uint8_t *decimal_put(uint8_t *at, uint64_t number)
{
    static const uint64_t zeros = 0x3030303030303030;
    if (number < 10) {
        *at = (uint8_t)('0' + number);
        return at + 1;
    }
    if (number >= decimal_short) {
        return decimal_put_long(at, number);
    }
    uint64_t digits = decimal_digits((uint32_t)number);
    // A zero in front is not shown, but for the last digit.
    unsigned skipped = (unsigned)__builtin_ctzll(digits | 1ULL << 56) / 8;
    decimal_store(at, (digits | zeros) >> 8 * skipped);
    return at + 8 - skipped;
}

// With 1 to 7 decimal places; the number counts units of the last one: 12345 with three is 12.345.
static inline uint8_t *decimal_put_fixed(uint8_t *at, uint64_t number, unsigned places)
{
    static const uint64_t zeros = 0x3030303030303030;
    if (number >= decimal_short) {
        return decimal_put_fixed_long(at, number, places);
    }
    uint64_t digits = decimal_digits((uint32_t)number);
    unsigned whole = 8 - places;
    // Likewise, but for the one before the point.
    unsigned skipped = (unsigned)__builtin_ctzll(digits | 1ULL << 8 * (whole - 1)) / 8;
    decimal_store(at, (digits | zeros) >> 8 * skipped);
    at += whole - skipped;
    *at = '.';
    decimal_store(at + 1, (digits | zeros) >> 8 * whole);
    return at + 1 + places;
}
