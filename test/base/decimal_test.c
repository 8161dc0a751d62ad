// SPDX-License-Identifier: Apache-2.0

#include "base/decimal.h"

#include "base/rng.h"
#include "test.h"

static char written[decimal_room + 1];

static const char *end_at(const uint8_t *end)
{
    written[end - (uint8_t *)written] = '\0';
    return written;
}

static const char *put(uint64_t number)
{
    return end_at(decimal_put((uint8_t *)written, number));
}

static const char *put_fixed(uint64_t number, unsigned places)
{
    return end_at(decimal_put_fixed((uint8_t *)written, number, places));
}

// Of every length, and often next to a power of ten.
static uint64_t any_number(struct rng *rng)
{
    uint64_t power = 1;
    for (uint32_t i = rng_below(rng, 20); i > 0; i--) {
        power *= 10;
    }
    uint64_t some = (uint64_t)rng_below(rng, UINT32_MAX) << 32 | rng_below(rng, UINT32_MAX);
    switch (rng_below(rng, 4)) {
    case 0:
        return power;
    case 1:
        return power - 1;
    case 2:
        return power + rng_below(rng, 10);
    default:
        return some % power;
    }
}

TEST(writes_as_the_c_library_does)
{
    struct rng rng = {3};
    for (uint32_t i = 0; i < 200000; i++) {
        char expected[32];
        uint64_t number = any_number(&rng);
        snprintf(expected, sizeof(expected), "%" PRIu64, number);
        CHECK_STR(put(number), expected);
    }
    CHECK_STR(put(0), "0");
    CHECK_STR(put(UINT64_MAX), "18446744073709551615");
}

// All that are split together: four digits, in front and behind.
TEST(writes_all_groups_of_four_digits)
{
    for (uint32_t four = 0; four < 10000; four++) {
        char expected[32];
        snprintf(expected, sizeof(expected), "%u", four * 10001);
        CHECK_STR(put((uint64_t)four * 10001), expected);
    }
}

TEST(places_a_decimal_point)
{
    CHECK_STR(put_fixed(12345, 3), "12.345");
    CHECK_STR(put_fixed(7, 3), "0.007");
    CHECK_STR(put_fixed(0, 1), "0.0");
    CHECK_STR(put_fixed(99999999, 7), "9.9999999");
    CHECK_STR(put_fixed(100000000, 1), "10000000.0");
    CHECK_STR(put_fixed(UINT64_MAX, 1), "1844674407370955161.5");
}

TEST(places_it_as_the_c_library_does)
{
    struct rng rng = {4};
    uint64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
    for (uint32_t i = 0; i < 200000; i++) {
        char expected[48];
        uint64_t number = any_number(&rng);
        unsigned places = 1 + rng_below(&rng, 7);
        snprintf(expected, sizeof(expected), "%" PRIu64 ".%0*" PRIu64, number / powers[places],
                 (int)places, number % powers[places]);
        CHECK_STR(put_fixed(number, places), expected);
    }
}
