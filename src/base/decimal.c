// SPDX-License-Identifier: Apache-2.0

#include "base/decimal.h"

#include "base/base.h"

// Enough for 2^64 - 1.
enum { digits_max = 20 };

static unsigned digit_count(uint64_t number)
{
    unsigned count = 1;
    for (; number >= 10000; number /= 10000) {
        count += 4;
    }
    return count + (number >= 10) + (number >= 100) + (number >= 1000);
}

// The last `count` digits.
static uint64_t put_digits(uint8_t *at, unsigned count, uint64_t number)
{
    while (count > 0) {
        at[--count] = (uint8_t)('0' + number % 10);
        number /= 10;
    }
    return number;
}

uint8_t *decimal_put_long(uint8_t *at, uint64_t number)
{
    unsigned count = digit_count(number);
    put_digits(at, count, number);
    return at + count;
}

uint8_t *decimal_put_fixed_long(uint8_t *at, uint64_t number, unsigned places)
{
    unsigned count = digit_count(number);
    unsigned whole = count > places ? count - places : 1;

    ASSERT(places < digits_max);
    number = put_digits(at + whole + 1, places, number);
    at[whole] = '.';
    put_digits(at, whole, number);
    return at + whole + 1 + places;
}
