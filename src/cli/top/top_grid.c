// SPDX-License-Identifier: Apache-2.0

#include "cli/top/top_grid.h"

#include "base/base.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>

enum { code_max = 512, format_size = 512 };

struct top_range {
    uint32_t first;
    uint32_t last;
};

// One column everywhere: the letters of Europe, signs that we use, arrows, boxes, blocks.
static const struct top_range narrow[] = {
    {0x20, 0x7e},     {0xa1, 0xac},     {0xae, 0x2ff},    {0x370, 0x377},   {0x37a, 0x37f},
    {0x384, 0x482},   {0x48a, 0x52f},   {0x1e00, 0x1eff}, {0x2010, 0x2027}, {0x2030, 0x205e},
    {0x20a0, 0x20bf}, {0x2190, 0x21ff}, {0x2500, 0x25bf}, {0x2800, 0x28ff},
};

// Two columns everywhere: Chinese, Japanese, Korean, and faces.
static const struct top_range wide[] = {
    {0x1100, 0x115f}, {0x3001, 0x3029}, {0x3041, 0x3096},   {0x309b, 0x30ff},
    {0x3131, 0x318e}, {0x3400, 0x4dbf}, {0x4e00, 0x9fff},   {0xac00, 0xd7a3},
    {0xf900, 0xfa6d}, {0xff01, 0xff60}, {0x1f600, 0x1f64f}, {0x20000, 0x2a6d6},
};

// Our own signs and their stand-ins in ASCII.
static const struct {
    uint32_t code;
    char stand_in;
} signs[] = {
    {0x2026, '>'}, {0x2013, '-'}, {0x2014, '-'}, {0x25bc, 'v'}, {0x25b2, '^'}, {0x2500, '-'},
    {0x00b7, '.'}, {0x2581, '.'}, {0x2582, ':'}, {0x2583, '-'}, {0x2584, '='}, {0x2585, '+'},
    {0x2586, '*'}, {0x2587, '#'}, {0x2588, '@'}, {0x2191, '^'}, {0x2193, 'v'},
};

static const uint32_t ellipsis = 0x2026;

static bool is_in(const struct top_range *ranges, size_t count, uint32_t code)
{
    for (size_t i = 0; i < count; i++) {
        if (code >= ranges[i].first && code <= ranges[i].last) {
            return true;
        }
    }
    return false;
}

static uint32_t width_of(uint32_t code)
{
    return is_in(wide, ARRAY_COUNT(wide), code) ? 2 : 1;
}

// The character that is shown for `code`.
static uint32_t shown(uint32_t code, bool is_ascii)
{
    if (code >= 0x20 && code <= 0x7e) {
        return code;
    }
    if (!is_ascii) {
        bool is_known = is_in(narrow, ARRAY_COUNT(narrow), code) || width_of(code) == 2;
        return is_known ? code : '?';
    }
    for (size_t i = 0; i < ARRAY_COUNT(signs); i++) {
        if (signs[i].code == code) {
            return (uint8_t)signs[i].stand_in;
        }
    }
    return '?';
}

// A text as it is shown, cut after code_max characters.
struct top_line {
    uint32_t count;
    uint32_t width;
    uint32_t codes[code_max];
};

static void top_grid_decode(const char *text, bool is_ascii, struct top_line *out)
{
    const uint8_t *at = (const uint8_t *)text;

    out->count = 0;
    out->width = 0;
    // snprintf may have left a part of the last character, which is not shown.
    while (*at != '\0' && out->count < code_max &&
           memchr(at, '\0', utf8_size_of_lead(*at)) == NULL) {
        unsigned size;
        uint32_t code = shown(utf8_read(at, &size), is_ascii);
        out->codes[out->count++] = code;
        out->width += width_of(code);
        at += size;
    }
}

void top_grid_reset(struct top_grid *grid, uint32_t width, uint32_t height, bool is_ascii)
{
    grid->width = width < top_width_max ? width : top_width_max;
    grid->height = height < top_height_max ? height : top_height_max;
    grid->is_ascii = is_ascii;
    for (uint32_t i = 0; i < grid->width * grid->height; i++) {
        grid->cells[i] = (struct top_cell){.code = ' '};
    }
}

struct top_pen top_pen_at(struct top_grid *grid, uint32_t row)
{
    ASSERT(row < grid->height);
    return (struct top_pen){.grid = grid, .row = row, .end = grid->width};
}

static void put_code(struct top_pen *pen, enum top_look look, uint32_t code)
{
    struct top_cell *cell = &pen->grid->cells[pen->row * pen->grid->width + pen->column];
    uint32_t width = width_of(code);

    ASSERT(pen->column + width <= pen->end);
    cell[0] = (struct top_cell){code, look};
    if (width == 2) {
        cell[1] = (struct top_cell){0, look};
    }
    pen->column += width;
}

// As many of the codes from `first` as fit into `width` columns; returns those columns.
static uint32_t put_some(struct top_pen *pen, enum top_look look, const struct top_line *line,
                         uint32_t first, uint32_t width)
{
    uint32_t used = 0;
    for (uint32_t i = first; i < line->count && used + width_of(line->codes[i]) <= width; i++) {
        put_code(pen, look, line->codes[i]);
        used += width_of(line->codes[i]);
    }
    return used;
}

// The index of the first code of the longest tail that fits into `width` columns.
static uint32_t tail_of(const struct top_line *line, uint32_t width)
{
    uint32_t first = line->count;
    uint32_t used = 0;
    while (first > 0 && used + width_of(line->codes[first - 1]) <= width) {
        used += width_of(line->codes[--first]);
    }
    return first;
}

static void put_cut(struct top_pen *pen, enum top_look look, const struct top_line *line,
                    uint32_t width, bool in_middle)
{
    if (width == 0) {
        return;
    }
    // URLs of a fleet differ at their end.
    uint32_t tail = in_middle ? (width - 1) * 2 / 3 : 0;
    put_some(pen, look, line, 0, width - 1 - tail);
    put_code(pen, look, shown(ellipsis, pen->grid->is_ascii));
    put_some(pen, look, line, tail_of(line, tail), tail);
}

void top_pen_field(struct top_pen *pen, enum top_look look, enum top_cut cut, uint32_t width,
                   const char *text)
{
    struct top_line line;
    uint32_t room = pen->end - pen->column;
    width = width < room ? width : room;
    uint32_t after = pen->column + width;

    top_grid_decode(text, pen->grid->is_ascii, &line);
    if (line.width > width) {
        put_cut(pen, look, &line, width, cut == TOP_MIDDLE);
    } else {
        pen->column += cut == TOP_RIGHT ? width - line.width : 0;
        put_some(pen, look, &line, 0, line.width);
    }
    pen->column = after;
}

void top_pen_put(struct top_pen *pen, enum top_look look, const char *text)
{
    uint32_t width = top_text_width(text, pen->grid->is_ascii);
    top_pen_field(pen, look, TOP_LEFT, width, text);
}

void top_pen_format(struct top_pen *pen, enum top_look look, const char *format, ...)
{
    char text[format_size];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    top_pen_put(pen, look, text);
}

void top_pen_skip(struct top_pen *pen, uint32_t columns)
{
    uint32_t room = pen->end - pen->column;
    pen->column += columns < room ? columns : room;
}

uint32_t top_text_width(const char *text, bool is_ascii)
{
    struct top_line line;
    top_grid_decode(text, is_ascii, &line);
    return line.width;
}

size_t top_text_break(const char *text, uint32_t width, bool is_ascii)
{
    const uint8_t *begin = (const uint8_t *)text;
    const uint8_t *at = begin;
    size_t last_blank = 0;
    uint32_t used = 0;

    while (*at != '\0') {
        unsigned size;
        uint32_t code = utf8_read(at, &size);
        if (code == ' ') {
            last_blank = (size_t)(at - begin);
        }
        used += width_of(shown(code, is_ascii));
        if (used > width) {
            return last_blank > 0 ? last_blank : (size_t)(at - begin);
        }
        at += size;
    }
    return (size_t)(at - begin);
}

void top_grid_write_row(const struct top_grid *grid, uint32_t row, struct text *out)
{
    const struct top_cell *cells = &grid->cells[(size_t)row * grid->width];
    uint32_t end = grid->width;

    while (end > 0 && cells[end - 1].code == ' ') {
        end--;
    }
    for (uint32_t column = 0; column < end; column++) {
        uint8_t bytes[4];
        if (cells[column].code != 0) {
            text_add(out, slice_of(bytes, utf8_write(cells[column].code, bytes)));
        }
    }
}
