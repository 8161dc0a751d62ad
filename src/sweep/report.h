// SPDX-License-Identifier: Apache-2.0
//
// report.h -- what all reports of a sweep have in common: the columns of their tables, the order of
// the rows, and which cells are the best of their column.
#pragma once

#include "lab/chart.h"
#include "sweep/sweep.h"

#include <stddef.h>

struct report_column {
    const char *key; // of --sort
    const char *heading;
    const char *title;
    size_t offset; // of its number in struct figures
    enum chart_unit unit;
    bool is_more_better;
};

enum { report_column_count = 9, report_cell_size = 32 };

extern const struct report_column report_columns[report_column_count];

// NULL: unknown column.
const struct report_column *report_column_find(const char *key);

struct report_options {
    const struct report_column *sort; // NULL: rows in the order of the policies
    uint32_t judge;     // the policy that stands out; report_no_judge: none was among them
    bool has_wall_time; // which differs from run to run
};

enum { report_no_judge = UINT32_MAX >> 1 };

double report_value(const struct report_column *column, const struct figures *figures);

// As it stands in a table: milliseconds without their unit, which is in the heading.
void report_format(const struct report_column *column, const struct figures *figures,
                   char out[report_cell_size]);

// It looks like the best of its column, and not all of the column look like it.
bool report_is_best(const struct sweep *sweep, const struct sweep_point *point,
                    const struct report_column *column, uint32_t policy);

// The policies, best first by that column.
void report_order(const struct sweep *sweep, const struct sweep_point *point,
                  const struct report_column *sort, uint32_t rows[sweep_policy_max]);

// The columns of the time after a change: shares within the windows, and times to the first token.
enum { report_change_columns = lab_change_windows + 2 };

extern const char *const report_change_headings[report_change_columns];

// As it stands in a table; "-" if it is not known.
void report_format_change(uint32_t column, const struct lab_change_figures *figures,
                          char out[report_cell_size]);

// The writers, one file each.
void report_table_write(FILE *out, const struct sweep *sweep, const struct report_options *options);
void report_json_write(FILE *out, const struct sweep *sweep, const struct report_options *options);
// A page that stands alone.
void report_html_write(FILE *out, const struct sweep *sweep, const struct report_options *options);
void report_markdown_write(FILE *out, const struct sweep *sweep,
                           const struct report_options *options);

// How the judged policy fares against the others: by peer, by list and at its worst points.
void report_score_write(FILE *out, const struct sweep *sweep, uint32_t judge);
