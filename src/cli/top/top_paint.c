// SPDX-License-Identifier: Apache-2.0

#include "cli/top/top_paint.h"

#include "base/base.h"
#include "base/utf8.h"

enum {
    // A move of the cursor is six bytes or more: shorter gaps are written again.
    gap_max = 4,
    no_look = top_look_count,
};

static const char *const colored[top_look_count] = {
    [TOP_PLAIN] = "0",   [TOP_DIM] = "0;2",    [TOP_BOLD] = "0;1",    [TOP_GOOD] = "0;32",
    [TOP_WARN] = "0;33", [TOP_BAD] = "0;1;31", [TOP_ACCENT] = "0;36", [TOP_TITLE] = "0;1",
};

static const char *const colorless[top_look_count] = {
    [TOP_PLAIN] = "0",  [TOP_DIM] = "0;2", [TOP_BOLD] = "0;1",   [TOP_GOOD] = "0",
    [TOP_WARN] = "0;1", [TOP_BAD] = "0;1", [TOP_ACCENT] = "0;1", [TOP_TITLE] = "0;1",
};

void top_paint_forget(struct top_paint *paint)
{
    paint->is_known = false;
}

// Where the cursor and the look are, as far as this frame has brought them.
struct brush {
    struct top_paint *paint;
    struct text *out;
    uint32_t look;
};

// A blank is a blank in any look.
static bool is_same(const struct top_cell *a, const struct top_cell *b)
{
    return a->code == b->code && (a->look == b->look || a->code == ' ');
}

static void write_span(struct brush *brush, const struct top_cell *cells, uint32_t row,
                       uint32_t first, uint32_t end)
{
    const char *const *looks = brush->paint->has_color ? colored : colorless;

    text_add_format(brush->out, "\033[%u;%uH", row + 1, first + 1);
    for (uint32_t i = first; i < end; i++) {
        uint8_t bytes[4];
        if (cells[i].code == 0) {
            continue;
        }
        if (cells[i].look != brush->look) {
            brush->look = cells[i].look;
            text_add_format(brush->out, "\033[%sm", looks[brush->look]);
        }
        text_add(brush->out, slice_of(bytes, utf8_write(cells[i].code, bytes)));
    }
}

// Half a wide character cannot be written, so a span begins and ends with whole ones.  Where the
// old screen had a wide one and the new one has not, both its cells differ, hence are written.
static void paint_row(struct brush *brush, const struct top_grid *next, uint32_t row)
{
    const struct top_cell *now = &next->cells[(size_t)row * next->width];
    const struct top_cell *old = &brush->paint->shown.cells[(size_t)row * next->width];
    uint32_t column = 0;

    while (column < next->width) {
        if (is_same(&now[column], &old[column])) {
            column++;
            continue;
        }
        uint32_t first = column - (now[column].code == 0);
        uint32_t end = column + 1;
        for (uint32_t gap = 0; column < next->width && gap <= gap_max; column++) {
            bool differs = !is_same(&now[column], &old[column]);
            gap = differs ? 0 : gap + 1;
            end = differs ? column + 1 : end;
        }
        end += end < next->width && now[end].code == 0;
        write_span(brush, now, row, first, end);
        column = end;
    }
}

static bool has_difference(const struct top_paint *paint, const struct top_grid *next)
{
    uint32_t count = next->width * next->height;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_same(&paint->shown.cells[i], &next->cells[i])) {
            return true;
        }
    }
    return false;
}

void top_paint_update(struct top_paint *paint, const struct top_grid *next, struct text *out)
{
    struct brush brush = {paint, out, no_look};
    bool is_known =
        paint->is_known && paint->shown.width == next->width && paint->shown.height == next->height;

    if (is_known && !has_difference(paint, next)) {
        return;
    }
    text_add_str(out, "\033[?2026h");
    if (!is_known) {
        text_add_str(out, "\033[0m\033[2J");
        top_grid_reset(&paint->shown, next->width, next->height, next->is_ascii);
    }
    for (uint32_t row = 0; row < next->height; row++) {
        paint_row(&brush, next, row);
    }
    text_add_str(out, "\033[0m\033[?2026l");
    ASSERT(!out->overflow);
    memcpy(paint->shown.cells, next->cells,
           (size_t)next->width * next->height * sizeof(next->cells[0]));
    paint->is_known = true;
}
