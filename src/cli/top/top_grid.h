// SPDX-License-Identifier: Apache-2.0
//
// top_grid.h -- a screen as cells, independent of any terminal.
//
//     +---+---+---+---+---+      a wide character has two cells; the right one's code is 0
//     | m | 漢    | 字    |
//     +---+---+---+---+---+
//
// Every cell of a row is written by us, so we must know how wide a terminal shows a character.
// There is a short list of characters for which all terminals agree; any other is shown as `?`.
// Without UTF-8 the signs that we use ourselves have stand-ins (… is >), and all else beyond ASCII
// is `?`.
//
// Text that does not fit is cut at the end and the cut is marked by …; never within a character.
//
// Threads: none.  Memory: the caller's.
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { top_width_max = 400, top_height_max = 200 };

enum top_look {
    TOP_PLAIN,
    TOP_DIM,
    TOP_BOLD,
    TOP_GOOD,
    TOP_WARN,
    TOP_BAD,
    TOP_ACCENT,
    TOP_TITLE, // of a panel
    top_look_count,
};

struct top_cell {
    uint32_t code; // 0: the right half of the character before
    uint32_t look; // enum top_look
};

struct top_grid {
    uint32_t width;
    uint32_t height;
    bool is_ascii;
    struct top_cell cells[top_width_max * top_height_max]; // row after row, `width` each
};

// Blanks everywhere.  A larger size than the limits is cut down to them.
void top_grid_reset(struct top_grid *grid, uint32_t width, uint32_t height, bool is_ascii);

// Writes from `column` on, up to `end`.
struct top_pen {
    struct top_grid *grid;
    uint32_t row;
    uint32_t column;
    uint32_t end;
};

// Over the whole row.
struct top_pen top_pen_at(struct top_grid *grid, uint32_t row);

void top_pen_put(struct top_pen *pen, enum top_look look, const char *text);
void top_pen_format(struct top_pen *pen, enum top_look look, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

enum top_cut {
    TOP_LEFT,   // aligned; cut at its end
    TOP_RIGHT,  // aligned; cut at its end
    TOP_MIDDLE, // aligned left; cut in the middle, for URLs, which differ at their end
};

// In exactly `width` columns, or fewer at the end of the row.
void top_pen_field(struct top_pen *pen, enum top_look look, enum top_cut cut, uint32_t width,
                   const char *text);

void top_pen_skip(struct top_pen *pen, uint32_t columns);

// Columns of a text that fits.
uint32_t top_text_width(const char *text, bool is_ascii);

// Bytes of the first line when the text is broken between words into lines of `width` columns; the
// blank at the break belongs to neither line.
size_t top_text_break(const char *text, uint32_t width, bool is_ascii);

// The characters of a row, without the blanks at its end.
void top_grid_write_row(const struct top_grid *grid, uint32_t row, struct text *out);
