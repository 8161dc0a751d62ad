// SPDX-License-Identifier: Apache-2.0

#include "cli/top/top_number.h"

#include "cli/top/top_grid.h"
#include "test.h"

#include <math.h>

static char number[top_number_size];

TEST(numbers_are_written_as_people_read_them)
{
    static const struct {
        double value;
        enum top_unit unit;
        const char *text;
    } cases[] = {
        {0, TOP_COUNT, "0"},
        {999, TOP_COUNT, "999"},
        {1000, TOP_COUNT, "1,000"},
        {99999, TOP_COUNT, "99,999"},
        {123456, TOP_COUNT, "123k"},
        {1234567, TOP_COUNT, "1.2M"},
        {999999, TOP_COUNT, "1.0M"},
        {5e9, TOP_COUNT, "5.0G"},
        {0, TOP_RATE, "0.00"},
        {9.999, TOP_RATE, "10.0"},
        {41.23, TOP_RATE, "41.2"},
        {1500, TOP_RATE, "1,500"},
        {0.724, TOP_SHARE, "72%"},
        {1, TOP_SHARE, "100%"},
        {0.724, TOP_PERCENT, "72.4%"},
        {0.4, TOP_MS, "0.4ms"},
        {85, TOP_MS, "85ms"},
        {999.6, TOP_MS, "1.00s"},
        {12345, TOP_MS, "12.3s"},
        {123456, TOP_MS, "123s"},
        {59, TOP_AGE, "59s"},
        {725, TOP_AGE, "12m 5s"},
        {11532, TOP_AGE, "3h 12m"},
        {90000, TOP_AGE, "1d 1h"},
        {12345.6, TOP_SECONDS, "12,346"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK_STR(top_number(cases[i].value, cases[i].unit, number), cases[i].text);
    }
}

TEST(unknown_is_a_dash_and_impossible_values_are_clamped)
{
    static const enum top_unit units[] = {TOP_COUNT, TOP_RATE,    TOP_SHARE, TOP_PERCENT,
                                          TOP_MS,    TOP_SECONDS, TOP_AGE};
    for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
        CHECK_STR(top_number((double)NAN, units[i], number), "–");
        CHECK(strchr(top_number(-5, units[i], number), '-') == NULL);
        CHECK(strlen(top_number(1e300, units[i], number)) + 1 < top_number_size);
    }
}

TEST(numbers_fit_into_the_columns_that_the_header_promises)
{
    double value = 0.001;
    for (uint32_t i = 0; i < 300; i++) { // up to 650,000
        value *= 1.07;
        CHECK(top_text_width(top_number(value, TOP_MS, number), false) <= 6);
        CHECK(top_text_width(top_number(value, TOP_RATE, number), false) <= 6);
        CHECK(top_text_width(top_number(value, TOP_COUNT, number), false) <= 7);
    }
}

TEST(money_has_its_currency_in_front)
{
    CHECK_STR(top_money(8.567, "$", number), "$8.57");
    CHECK_STR(top_money(-0.5, "€", number), "-€0.50");
    CHECK_STR(top_money(12345, "$", number), "$12,345");
    CHECK_STR(top_money((double)NAN, "$", number), "–");
    CHECK_STR(top_money(1, "€€€€", number), "€€1.00");
}
