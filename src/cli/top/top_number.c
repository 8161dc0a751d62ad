// SPDX-License-Identifier: Apache-2.0

#include "cli/top/top_number.h"

#include "base/base.h"
#include "cli/top/top_document.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { currency_size = 9 };

static const double shown_max = 1e15; // beyond it a number is nonsense, and an integer too small

// Below 100,000, with a comma; above in thousands, millions, ... with three digits.
static void write_count(double value, char out[top_number_size])
{
    static const char *const letters[] = {"k", "M", "G", "T"};
    uint64_t whole = (uint64_t)(value + 0.5);

    if (whole < 1000) {
        snprintf(out, top_number_size, "%" PRIu64, whole);
        return;
    }
    if (whole < 100000) {
        snprintf(out, top_number_size, "%" PRIu64 ",%03" PRIu64, whole / 1000, whole % 1000);
        return;
    }
    size_t letter = 0;
    value /= 1000;
    while (value >= 999.5 && letter + 1 < ARRAY_COUNT(letters)) {
        value /= 1000;
        letter++;
    }
    snprintf(out, top_number_size, value < 99.95 ? "%.1f%s" : "%.0f%s", value, letters[letter]);
}

static void write_rate(double value, char out[top_number_size])
{
    if (value < 9.995) {
        snprintf(out, top_number_size, "%.2f", value);
    } else if (value < 999.95) {
        snprintf(out, top_number_size, "%.1f", value);
    } else {
        write_count(value, out);
    }
}

static void write_ms(double value, char out[top_number_size])
{
    if (value < 9.95) {
        snprintf(out, top_number_size, "%.1fms", value);
    } else if (value < 999.5) {
        snprintf(out, top_number_size, "%.0fms", value);
    } else if (value < 9995) {
        snprintf(out, top_number_size, "%.2fs", value / 1000);
    } else if (value < 99950) {
        snprintf(out, top_number_size, "%.1fs", value / 1000);
    } else {
        write_count(value / 1000, out);
        strncat(out, "s", top_number_size - strlen(out) - 1);
    }
}

static void write_age(double value, char out[top_number_size])
{
    uint64_t s = (uint64_t)value;

    if (s < 60) {
        snprintf(out, top_number_size, "%" PRIu64 "s", s);
    } else if (s < 3600) {
        snprintf(out, top_number_size, "%" PRIu64 "m %" PRIu64 "s", s / 60, s % 60);
    } else if (s < 86400) {
        snprintf(out, top_number_size, "%" PRIu64 "h %" PRIu64 "m", s / 3600, s / 60 % 60);
    } else {
        snprintf(out, top_number_size, "%" PRIu64 "d %" PRIu64 "h", s / 86400, s / 3600 % 24);
    }
}

const char *top_number(double value, enum top_unit unit, char out[top_number_size])
{
    if (isnan(value)) {
        snprintf(out, top_number_size, "–");
        return out;
    }
    value = value < shown_max ? value : shown_max;
    value = value > 0 ? value : 0;
    switch (unit) {
    case TOP_COUNT:
        write_count(value, out);
        break;
    case TOP_RATE:
    case TOP_SECONDS:
        write_rate(value, out);
        break;
    case TOP_SHARE:
        snprintf(out, top_number_size, "%.0f%%", 100 * fmin(value, 99));
        break;
    case TOP_PERCENT:
        snprintf(out, top_number_size, "%.1f%%", 100 * fmin(value, 99));
        break;
    case TOP_MS:
        write_ms(value, out);
        break;
    case TOP_AGE:
        write_age(value, out);
        break;
    }
    return out;
}

const char *top_money(double value, const char *currency, char out[top_number_size])
{
    char number[top_number_size];
    char sign[currency_size];

    if (isnan(value)) {
        return top_number(value, TOP_RATE, out);
    }
    top_text_copy(slice_str(currency), sign, sizeof(sign));
    double size = fabs(value);
    if (size < 999.995) {
        snprintf(number, sizeof(number), "%.2f", size);
    } else {
        top_number(size, TOP_COUNT, number);
    }
    snprintf(out, top_number_size, "%s%s%.12s", value < 0 ? "-" : "", sign, number);
    return out;
}
