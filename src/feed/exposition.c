// SPDX-License-Identifier: Apache-2.0

#include "feed/exposition.h"

#include <stdlib.h>

enum {
    // The longest that a double is written, and some.
    number_size_max = 63,
};

// Where in a line.
struct line_cursor {
    const uint8_t *at;
    const uint8_t *end;
};

static bool is_blank_byte(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static void skip_blanks(struct line_cursor *line)
{
    while (line->at < line->end && is_blank_byte(*line->at)) {
        line->at++;
    }
}

static bool take_byte(struct line_cursor *line, uint8_t byte)
{
    skip_blanks(line);
    if (line->at == line->end || *line->at != byte) {
        return false;
    }
    line->at++;
    return true;
}

static bool ends_word(uint8_t byte)
{
    return is_blank_byte(byte) || byte == '{' || byte == '}' || byte == '=' || byte == ',' ||
           byte == '"';
}

// May be empty.
static struct slice take_word(struct line_cursor *line)
{
    skip_blanks(line);
    const uint8_t *start = line->at;
    const uint8_t *at = start;
    while (at < line->end && !ends_word(*at)) {
        at++;
    }
    line->at = at;
    return slice_of(start, (size_t)(at - start));
}

bool exposition_number(struct slice text, double *out)
{
    char copy[number_size_max + 1];
    char *end = NULL;

    if (text.size == 0 || text.size > number_size_max) {
        return false;
    }
    // strtod also takes infinities and hexadecimal digits, which are not metric values.
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] == '\0' || strchr("0123456789+-.eE", text.bytes[i]) == NULL) {
            return false;
        }
    }
    memcpy(copy, text.bytes, text.size);
    copy[text.size] = '\0';
    double value = strtod(copy, &end);
    if (end != copy + text.size || !(value >= 0 && value <= EXPOSITION_VALUE_MAX)) {
        return false;
    }
    *out = value;
    return true;
}

bool exposition_name_is(struct slice name, const char *known)
{
    for (size_t i = 0; i < name.size; i++) {
        uint8_t byte = name.bytes[i];
        if (byte != (uint8_t)known[i] && !(byte == '_' && known[i] == ':') &&
            !(byte == ':' && known[i] == '_')) {
            return false;
        }
        if (known[i] == '\0') {
            return false;
        }
    }
    return known[name.size] == '\0';
}

static struct slice bare_name(struct slice name)
{
    static const char suffix[] = "_total";
    size_t suffix_size = sizeof(suffix) - 1;

    if (slice_starts_with(name, "ray_")) {
        name = slice_of(name.bytes + 4, name.size - 4);
    }
    if (name.size > suffix_size &&
        memcmp(name.bytes + name.size - suffix_size, suffix, suffix_size) == 0) {
        name.size -= suffix_size;
    }
    return name;
}

// Moves behind one `name="value"` and the comma after it.  The value stays as it is escaped.  False
// when there is none.
static bool take_label(struct line_cursor *line, struct slice *name, struct slice *value)
{
    *name = take_word(line);
    if (name->size == 0 || !take_byte(line, '=') || !take_byte(line, '"')) {
        return false;
    }
    const uint8_t *start = line->at;
    while (line->at < line->end && *line->at != '"') {
        line->at += *line->at == '\\' && line->end - line->at > 1 ? 2 : 1;
    }
    *value = slice_of(start, (size_t)(line->at - start));
    if (!take_byte(line, '"')) {
        return false;
    }
    (void)take_byte(line, ',');
    return true;
}

// From behind the opening brace to behind the closing one.
static bool skip_labels(struct line_cursor *line)
{
    struct slice name;
    struct slice value;
    while (take_label(line, &name, &value)) {
    }
    return name.size == 0 && take_byte(line, '}');
}

struct slice exposition_label(struct slice labels, const char *wanted)
{
    struct line_cursor line = {.at = labels.bytes, .end = labels.bytes + labels.size};
    struct slice name;
    struct slice value;
    while (take_label(&line, &name, &value)) {
        if (slice_is(name, wanted)) {
            return value;
        }
    }
    return (struct slice){0};
}

struct exposition exposition_open(struct slice page)
{
    page = page.size > 0 ? page : slice_str("");
    return (struct exposition){.at = page.bytes, .end = page.bytes + page.size};
}

bool exposition_next(struct exposition *page, struct exposition_series *out)
{
    while (page->at < page->end) {
        const uint8_t *newline = memchr(page->at, '\n', (size_t)(page->end - page->at));
        struct line_cursor line = {.at = page->at, .end = newline != NULL ? newline : page->end};
        page->at = newline != NULL ? newline + 1 : page->end;
        skip_blanks(&line);
        if (line.at < line.end && *line.at != '#') {
            out->name = bare_name(take_word(&line));
            out->rest = slice_of(line.at, (size_t)(line.end - line.at));
            return true;
        }
    }
    return false;
}

bool exposition_sample(const struct exposition_series *series, struct exposition_sample *out)
{
    struct line_cursor line = {.at = series->rest.bytes,
                               .end = series->rest.bytes + series->rest.size};
    *out = (struct exposition_sample){.labels = slice_of(line.at, 0)};
    if (take_byte(&line, '{')) {
        const uint8_t *start = line.at;
        if (!skip_labels(&line)) {
            return false;
        }
        out->labels = slice_of(start, (size_t)(line.at - start));
    }
    out->has_value = exposition_number(take_word(&line), &out->value); // a time may follow
    return true;
}

char exposition_json_bracket(struct slice page)
{
    size_t at = 0;
    while (at < page.size && (is_blank_byte(page.bytes[at]) || page.bytes[at] == '\n')) {
        at++;
    }
    if (at < page.size && page.bytes[at] == '[') {
        return '[';
    }
    if (at < page.size && page.bytes[at] == '{') {
        return '{';
    }
    return '\0';
}
