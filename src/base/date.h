// SPDX-License-Identifier: Apache-2.0
//
// date.h -- from days since 1970 to a date of the Gregorian calendar.
#pragma once

#include <stdint.h>

struct date {
    int32_t year;
    uint8_t month;     // 1 to 12
    uint8_t day;       // 1 to 31
    uint16_t year_day; // 1 to 366
    uint8_t weekday;   // 0: Monday
};

// By eras of 400 years.  Years begin in March here, so that a leap day is the last of its year.
static inline struct date date_of_days(int64_t days_since_1970)
{
    int64_t days = days_since_1970 + 719468; // since 1 March of the year 0
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t in_era = days - era * 146097;
    int64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * in_year + 2) / 153; // 0: March
    struct date out = {
        .year = (int32_t)(era * 400 + year + (month >= 10)),
        .month = (uint8_t)(month < 10 ? month + 3 : month - 9),
        .day = (uint8_t)(in_year - (153 * month + 2) / 5 + 1),
        .weekday = (uint8_t)(((days_since_1970 + 3) % 7 + 7) % 7),
    };
    int64_t is_leap = (out.year % 4 == 0 && out.year % 100 != 0) || out.year % 400 == 0;
    // 1 March is day 60 of a year, or 61.
    out.year_day = (uint16_t)(out.month > 2 ? in_year + 60 + is_leap : in_year - 305);
    return out;
}
