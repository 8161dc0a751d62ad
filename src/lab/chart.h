// SPDX-License-Identifier: Apache-2.0
//
// chart.h -- charts as SVG, for pages that stand alone: no script, nothing to fetch.
//
// A page begins with its title and the style of all its parts; colours come from there, light
// or dark as the reader prefers.  A pointer on a line, or on its name in the
// legend, dims the others.
//
//     lines   y |      ___/  a        bars   round_robin |=====        12.5%
//               |  ___/  __  b               warm        |==========|  97.1%
//               +----------- x                                      ^ mark
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum chart_unit {
    CHART_NUMBER,
    CHART_MS,      // seconds from 1,000 on
    CHART_PERCENT, // of values from 0 to 1
};

struct chart_axis {
    const char *label;
    enum chart_unit unit;
    bool is_log; // values that are not positive are drawn at the lower end
};

// Colour 0 is for the one that matters; the others differ in hue, and beyond the eighth in their
// dashes.
struct chart_series {
    const char *name;
    const double *x; // growing
    const double *y;
    uint32_t point_count;
    uint32_t color;
};

struct chart_lines {
    const char *title;
    struct chart_axis x;
    struct chart_axis y;
    const struct chart_series *series;
    uint32_t series_count;
};

struct chart_bar {
    const char *name;
    double value; // not negative
    uint32_t color;
};

struct chart_bars {
    const char *title;
    enum chart_unit unit;
    const struct chart_bar *bars;
    uint32_t bar_count;
    const char *mark_name; // a line across all bars at `mark`; NULL: none
    double mark;
};

void chart_begin_page(FILE *out, const char *title);
void chart_end_page(FILE *out);

void chart_write_lines(FILE *out, const struct chart_lines *chart);
void chart_write_bars(FILE *out, const struct chart_bars *chart);

// Text from anywhere, as text of a page.
void chart_write_text(FILE *out, const char *text);

// "12.3 ms", "1.2 s", "97.1%", "8.25".
enum { chart_value_size = 32 };
void chart_format(enum chart_unit unit, double value, char out[chart_value_size]);
