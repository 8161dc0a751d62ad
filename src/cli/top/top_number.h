// SPDX-License-Identifier: Apache-2.0
//
// top_number.h -- numbers for people, in few columns: 85ms, 12.3s, 1,234, 41.2k, 72.4%, 3h 12m.
//
// NaN, unknown, is shown as – and never as 0.
#pragma once

enum top_unit {
    TOP_COUNT,   // 1,234 and 41.2k
    TOP_RATE,    // 0.25, 41.2, 1,234
    TOP_SHARE,   // of 1, as 72%
    TOP_PERCENT, // of 1, as 72.4%
    TOP_MS,
    TOP_SECONDS, // of work: 12.3, 1,234
    TOP_AGE,     // of time: 59s, 12m 3s, 3h 12m, 4d 1h
};

enum { top_number_size = 24 };

// Returns `out`.  Six columns at most for SHARE, MS and for RATE below a million; seven for COUNT.
const char *top_number(double value, enum top_unit unit, char out[top_number_size]);

// "$1,234.50", with the currency in front.
const char *top_money(double value, const char *currency, char out[top_number_size]);
