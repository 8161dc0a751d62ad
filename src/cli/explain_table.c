// SPDX-License-Identifier: Apache-2.0

#include "cli/explain_table.h"

#include "base/base.h"
#include "cli/explain_document.h"

#include <math.h>

enum {
    cell_size = 32,
    columns_max = 16,
    // A longer url pushes the rest of its row to the right.
    label_width_max = 64,
};

struct explain_cell {
    char text[cell_size];
};

// Unknown is a dash.
static struct explain_cell cell_of(double number, enum explain_unit unit)
{
    struct explain_cell cell = {"-"};

    if (!isfinite(number)) {
        return cell;
    }
    switch (unit) {
    case EXPLAIN_SOME:
    case EXPLAIN_COUNT:
        snprintf(cell.text, cell_size, "%.0f", number);
        break;
    case EXPLAIN_DIFFERENCE:
        snprintf(cell.text, cell_size, number != 0 ? "%+.0f" : "0", number);
        break;
    case EXPLAIN_MS:
        snprintf(cell.text, cell_size, "%.1f ms", number);
        break;
    case EXPLAIN_SHARE:
        snprintf(cell.text, cell_size, "%.2f%%", 100 * number);
        break;
    case EXPLAIN_PERCENT:
        snprintf(cell.text, cell_size, "%.2f%%", number);
        break;
    case EXPLAIN_COST:
        snprintf(cell.text, cell_size, "%.4g", number);
        break;
    }
    return cell;
}

struct explain_line {
    const char *mark;
    struct slice url;
    struct slice word;
    const double *numbers;
};

// One table: a mark, the url, a word, and numbers under the titles of their fields.
struct grid {
    const struct explain_document *document;
    struct explain_line (*line_at)(const struct explain_document *document, uint32_t row);
    uint32_t row_count;
    const char *word_title;
    const struct explain_field *fields;
    uint32_t field_count;
    int url_width;
    int word_width;          // 0: no row has one
    int widths[columns_max]; // 0: no row has a number
};

static int wider(int width, size_t size)
{
    return (int)size > width ? (int)size : width;
}

static void explain_table_measure(struct grid *grid)
{
    grid->url_width = (int)strlen("backend");
    for (uint32_t row = 0; row < grid->row_count; row++) {
        struct explain_line line = grid->line_at(grid->document, row);
        grid->url_width = wider(grid->url_width, line.url.size);
        grid->word_width = wider(grid->word_width, line.word.size);
        for (uint32_t i = 0; i < grid->field_count; i++) {
            struct explain_cell cell = cell_of(line.numbers[i], grid->fields[i].unit);
            bool is_shown = grid->fields[i].unit != EXPLAIN_SOME || line.numbers[i] != 0;
            if (isfinite(line.numbers[i]) && is_shown) {
                grid->widths[i] = wider(grid->widths[i], strlen(cell.text));
            }
        }
    }
    grid->url_width = grid->url_width < label_width_max ? grid->url_width : label_width_max;
    grid->word_width = grid->word_width < label_width_max ? grid->word_width : label_width_max;
    if (grid->word_width > 0) {
        grid->word_width = wider(grid->word_width, strlen(grid->word_title));
    }
    for (uint32_t i = 0; i < grid->field_count; i++) {
        if (grid->widths[i] > 0) {
            grid->widths[i] = wider(grid->widths[i], strlen(grid->fields[i].title));
        }
    }
}

static void explain_table_write_label(const struct grid *grid, const char *mark, struct slice url,
                                      struct slice word, FILE *out)
{
    fprintf(out, "%s %-*.*s", mark, grid->url_width, (int)url.size, (const char *)url.bytes);
    if (grid->word_width > 0) {
        fprintf(out, "  %-*.*s", grid->word_width, (int)word.size, (const char *)word.bytes);
    }
}

static void write_grid(struct grid *grid, FILE *out)
{
    ASSERT(grid->field_count <= columns_max);

    explain_table_measure(grid);
    explain_table_write_label(grid, " ", slice_str("backend"), slice_str(grid->word_title), out);
    for (uint32_t i = 0; i < grid->field_count; i++) {
        if (grid->widths[i] > 0) {
            fprintf(out, "  %*s", grid->widths[i], grid->fields[i].title);
        }
    }
    fprintf(out, "\n");
    for (uint32_t row = 0; row < grid->row_count; row++) {
        struct explain_line line = grid->line_at(grid->document, row);
        explain_table_write_label(grid, line.mark, line.url, line.word, out);
        for (uint32_t i = 0; i < grid->field_count; i++) {
            if (grid->widths[i] > 0) {
                struct explain_cell cell = cell_of(line.numbers[i], grid->fields[i].unit);
                fprintf(out, "  %*s", grid->widths[i], cell.text);
            }
        }
        fprintf(out, "\n");
    }
}

static struct explain_line candidate_at(const struct explain_document *document, uint32_t row)
{
    const struct explain_candidate *candidate = &document->candidates[row];
    return (struct explain_line){.mark = candidate->is_chosen ? ">" : " ",
                                 .url = candidate->url,
                                 .word = candidate->events,
                                 .numbers = candidate->numbers};
}

static struct explain_line record_at(const struct explain_document *document, uint32_t row)
{
    const struct explain_record *record = &document->records[row];
    return (struct explain_line){.mark = " ",
                                 .url = record->url,
                                 .word = slice_str(record->kind),
                                 .numbers = record->numbers};
}

static void write_opening(const struct explain_document *document, FILE *out)
{
    fprintf(out, "%.*s\n", (int)document->summary.size, (const char *)document->summary.bytes);
    if (isfinite(document->prompt_tokens)) {
        fprintf(out, "The prompt has %s%.0f tokens, %s.", document->is_counted ? "" : "about ",
                document->prompt_tokens, document->is_counted ? "counted" : "guessed by its size");
        if (isfinite(document->wait_ms) && isfinite(document->prefill_ms)) {
            fprintf(out, " There it waits %.1f ms, and takes %.1f ms to compute.",
                    document->wait_ms, document->prefill_ms);
        }
        fprintf(out, "\n");
    }
    fprintf(out, "\n");
}

static void write_ending(const struct explain_document *document, FILE *out)
{
    const struct explain_ending *ending = &document->ending;

    fprintf(out, "It ended as %.*s", (int)ending->outcome.size,
            (const char *)ending->outcome.bytes);
    if (isfinite(ending->status)) {
        fprintf(out, " (%.0f)", ending->status);
    }
    if (isfinite(ending->cached_tokens) && isfinite(document->prompt_tokens)) {
        fprintf(out, ", with %.0f of %.0f prompt tokens cached", ending->cached_tokens,
                document->prompt_tokens);
    }
    if (isfinite(ending->ttft_ms)) {
        fprintf(out, ", its first token after %.1f ms", ending->ttft_ms);
    }
    if (isfinite(ending->total_ms)) {
        fprintf(out, ", and was over after %.1f ms", ending->total_ms);
    }
    fprintf(out, ".\n");
    if (ending->other_url.size > 0 && isfinite(ending->other_cached_tokens)) {
        fprintf(out, "Round-robin would have sent it to %.*s, with %.0f tokens cached",
                (int)ending->other_url.size, (const char *)ending->other_url.bytes,
                ending->other_cached_tokens);
        if (isfinite(ending->other_ttft_ms)) {
            fprintf(out, " and its first token after about %.1f ms", ending->other_ttft_ms);
        }
        fprintf(out, ".\n");
    }
}

// One that was sent.
static void write_kept(const struct explain_document *document, struct grid *candidates, FILE *out)
{
    fprintf(out, "%.*s\n", (int)document->summary.size, (const char *)document->summary.bytes);
    if (slice_is(document->ending.outcome, "running")) {
        fprintf(out, "It is still running.\n");
    } else if (document->ending.outcome.size > 0) {
        write_ending(document, out);
    }
    if (document->candidate_count > 0) {
        fprintf(out, "\n");
        write_grid(candidates, out);
    }
}

void explain_table_write(const struct explain_document *document, FILE *out)
{
    struct grid candidates = {.document = document,
                              .line_at = candidate_at,
                              .row_count = document->candidate_count,
                              .word_title = "events",
                              .fields = explain_candidate_fields,
                              .field_count = explain_candidate_numbers};
    struct grid records = {.document = document,
                           .line_at = record_at,
                           .row_count = document->record_count,
                           .word_title = "by",
                           .fields = explain_record_fields,
                           .field_count = explain_record_numbers};

    if (document->is_kept) {
        write_kept(document, &candidates, out);
        return;
    }
    write_opening(document, out);
    write_grid(&candidates, out);
    if (document->record_count == 0) {
        fprintf(out, "\nNo response has reported cached tokens yet.\n");
        return;
    }
    fprintf(out, "\nCached tokens, predicted minus actual:\n");
    write_grid(&records, out);
}
