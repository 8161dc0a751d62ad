// SPDX-License-Identifier: Apache-2.0

#include "sweep/report.h"

// The longest name of a policy has 23 letters; the rest fits into 120 columns.
enum { name_width = 24, cell_width = 9 };

static void report_table_row(FILE *out, const struct sweep *sweep, const struct sweep_point *point,
                             uint32_t policy)
{
    const struct figures *figures = &point->cells[policy].figures;
    fprintf(out, "%-*s", name_width, sweep->options.policies[policy].name);
    for (uint32_t c = 0; c < report_column_count; c++) {
        char cell[report_cell_size];
        report_format(&report_columns[c], figures, cell);
        fprintf(out, "%*s%c", cell_width, cell,
                report_is_best(sweep, point, &report_columns[c], policy) ? '*' : ' ');
    }
    if (figures->failed_count > 0) {
        fprintf(out, " %u failed", figures->failed_count);
    }
    fputc('\n', out);
}

static void report_table_point(FILE *out, const struct sweep *sweep,
                               const struct sweep_point *point,
                               const struct report_options *options)
{
    char name[sweep_name_size];
    sweep_point_name(sweep, point, name);
    fprintf(out, "%s; an infinite cache hits %.1f%%\n", name, point->bound * 100);
    fprintf(out, "%-*s", name_width, "policy");
    for (uint32_t c = 0; c < report_column_count; c++) {
        fprintf(out, "%*s ", cell_width, report_columns[c].heading);
    }
    fputc('\n', out);
    uint32_t rows[sweep_policy_max];
    report_order(sweep, point, options->sort, rows);
    for (uint32_t i = 0; i < sweep->options.policy_count; i++) {
        report_table_row(out, sweep, point, rows[i]);
    }
}

static void report_table_change(FILE *out, const struct sweep *sweep,
                                const struct sweep_point *point,
                                const struct report_options *options, uint32_t change)
{
    uint32_t rows[sweep_policy_max];
    char cell[report_cell_size];

    fprintf(out, "after %-*s ", name_width - 7, sweep->options.changes[change].name);
    for (uint32_t c = 0; c < report_change_columns; c++) {
        fprintf(out, "%*s ", cell_width, report_change_headings[c]);
    }
    fputc('\n', out);
    report_order(sweep, point, options->sort, rows);
    for (uint32_t i = 0; i < sweep->options.policy_count; i++) {
        fprintf(out, "%-*s", name_width, sweep->options.policies[rows[i]].name);
        for (uint32_t c = 0; c < report_change_columns; c++) {
            report_format_change(c, &point->cells[rows[i]].changes[change], cell);
            fprintf(out, "%*s ", cell_width, cell);
        }
        fputc('\n', out);
    }
}

void report_table_write(FILE *out, const struct sweep *sweep, const struct report_options *options)
{
    for (uint32_t i = 0; i < sweep->point_count; i++) {
        if (i > 0) {
            fputc('\n', out);
        }
        report_table_point(out, sweep, &sweep->points[i], options);
        for (uint32_t c = 0; c < sweep->options.change_count; c++) {
            report_table_change(out, sweep, &sweep->points[i], options, c);
        }
    }
}
