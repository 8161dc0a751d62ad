// SPDX-License-Identifier: Apache-2.0
//
// An event that lies whole in one feed is read in a single pass: each line is looked at when its
// end is found.  Of one that began in an earlier feed only the end is looked for; its bytes gather
// in the buffer, and its lines are read there once it is all together.  So every byte is passed
// over twice at most, however small the pieces.

#include "http/sse.h"

#include "base/base.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

_Static_assert(sizeof(struct sse) <= 40, "one lives in every stream");

static bool is_line_end(uint8_t byte)
{
    return byte == '\n' || byte == '\r';
}

// The first CR or LF, or `end`.  One search for both: a search for each would have to look, line by
// line, for the one that a stream never uses.
static const uint8_t *find_line_end(const uint8_t *at, const uint8_t *end)
{
#ifdef __SSE2__
    const __m128i lf = _mm_set1_epi8('\n');
    const __m128i cr = _mm_set1_epi8('\r');

    if (end - at >= 16) {
        for (;;) {
            __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
            __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, lf), _mm_cmpeq_epi8(bytes, cr));
            unsigned mask = (unsigned)_mm_movemask_epi8(found);
            if (mask != 0) {
                return at + __builtin_ctz(mask);
            }
            at += 16;
            if (at == end) {
                return end;
            }
            // The last vector overlaps bytes in which nothing was found.
            at = end - at >= 16 ? at : end - 16;
        }
    }
#endif
    while (at < end && !is_line_end(*at)) {
        at++;
    }
    return at;
}

// The line that begins at `at`, without its end.  Returns the place after that, which is behind the
// LF of a CRLF unless that is still to come; NULL when the line does not end.
static const uint8_t *sse_read_line(const uint8_t *at, const uint8_t *end, struct slice *line)
{
    const uint8_t *stop = at < end && is_line_end(*at) ? at : find_line_end(at, end);

    if (stop == end) {
        return NULL;
    }
    *line = slice_of(at, (size_t)(stop - at));
    bool is_crlf = *stop == '\r' && end - stop >= 2 && stop[1] == '\n';
    return stop + (is_crlf ? 2 : 1);
}

// Whether the line is the field `name`, with or without a value.
static bool sse_read_field(struct slice line, const char *name, struct slice *value)
{
    size_t size = strlen(name);

    if (line.size < size || memcmp(line.bytes, name, size) != 0) {
        return false;
    }
    if (line.size > size && line.bytes[size] != ':') {
        return false;
    }
    size += line.size > size;
    size += line.size > size && line.bytes[size] == ' ';
    *value = slice_of(line.bytes + size, line.size - size);
    return true;
}

// An event as far as its lines have been read.
struct sse_reading {
    struct slice data;
    struct slice name;
    bool has_data;
    bool is_joined;    // data lies in the buffer and can grow there
    bool is_too_large; // data or name found no room
};

// A further line of data goes behind the first.  Of an event that lies in the caller's bytes,
// nothing of which is held, that is in the buffer; of one in the buffer it is over lines already
// read, since each gives up its name and its end.
static void sse_join(struct sse *sse, struct sse_reading *reading, struct slice line)
{
    if (!reading->is_joined && sse->held == 0) {
        if (sse->buffer == NULL || reading->data.size > sse->capacity) {
            reading->is_too_large = true;
            return;
        }
        memcpy(sse->buffer, reading->data.bytes, reading->data.size);
        reading->data.bytes = sse->buffer;
    }
    reading->is_joined = true;

    uint8_t *to = sse->buffer + (reading->data.bytes - sse->buffer) + reading->data.size;
    size_t room = (size_t)(sse->buffer + sse->capacity - to);
    if (room < 1 || line.size > room - 1) {
        reading->is_too_large = true;
        return;
    }
    memmove(to + 1, line.bytes, line.size);
    *to = '\n';
    reading->data.size += 1 + line.size;
}

// A name between lines of data would be written over when these are joined.
static void save_name(struct sse *sse, struct sse_reading *reading)
{
    if (reading->name.size > sse->capacity - sse->held) {
        reading->is_too_large = true;
        return;
    }
    memmove(sse->buffer + sse->held, reading->name.bytes, reading->name.size);
    reading->name.bytes = sse->buffer + sse->held;
}

static void take_line(struct sse *sse, struct sse_reading *reading, struct slice line)
{
    struct slice value;

    if (reading->is_too_large) {
        return;
    }
    if (sse_read_field(line, "data", &value)) {
        if (reading->has_data) {
            sse_join(sse, reading, value);
        } else {
            reading->data = value;
            reading->has_data = true;
        }
    } else if (sse_read_field(line, "event", &value)) {
        reading->name = value;
        if (reading->has_data && sse->held > 0) {
            save_name(sse, reading);
        }
    }
}

// Reads lines until an empty one and returns the place behind that; NULL when there is none, and
// then *rest is where the line begins that has no end.
static const uint8_t *sse_read_event(struct sse *sse, struct slice bytes, struct sse_reading *out,
                                     const uint8_t **rest)
{
    const uint8_t *at = bytes.bytes;
    const uint8_t *end = bytes.bytes + bytes.size;
    const uint8_t *after;
    struct slice line;

    while ((after = sse_read_line(at, end, &line)) != NULL) {
        if (line.size == 0) {
            return after;
        }
        if (!sse->has_begun && at == bytes.bytes && slice_starts_with(line, "\xef\xbb\xbf")) {
            line = slice_of(line.bytes + 3, line.size - 3);
        }
        take_line(sse, out, line);
        at = after;
    }
    *rest = at;
    return NULL;
}

// The same for an event that began in an earlier feed, whose lines are read later.
static const uint8_t *find_event_end(const struct sse *sse, struct slice bytes,
                                     const uint8_t **rest)
{
    // The LF of a CR that was the last byte belongs to the same line's end.
    const uint8_t *at = bytes.bytes + (sse->after_cr && bytes.bytes[0] == '\n');
    const uint8_t *end = bytes.bytes + bytes.size;
    const uint8_t *after;
    bool is_begun = !sse->line_is_empty;
    struct slice line;

    while ((after = sse_read_line(at, end, &line)) != NULL) {
        if (line.size == 0 && !is_begun) {
            return after;
        }
        is_begun = false;
        at = after;
    }
    *rest = at;
    return NULL;
}

static void sse_hold(struct sse *sse, struct slice bytes)
{
    if (sse->is_passed_over) {
        return;
    }
    if (sse->buffer == NULL || bytes.size > sse->capacity - sse->held) {
        sse->is_passed_over = true;
        sse->held = 0;
        return;
    }
    memcpy(sse->buffer + sse->held, bytes.bytes, bytes.size);
    sse->held += (uint32_t)bytes.size;
}

void sse_begin(struct sse *sse, uint8_t *buffer, uint32_t capacity)
{
    *sse = (struct sse){.capacity = capacity, .line_is_empty = true};
    sse->buffer = buffer;
}

bool sse_is_inside(const struct sse *sse)
{
    return sse->held > 0 || sse->is_passed_over;
}

bool sse_next(struct sse *sse, struct slice *bytes, struct sse_event *out)
{
    bool is_inside = sse_is_inside(sse);

    if (sse->after_cr && !is_inside && bytes->size > 0 && bytes->bytes[0] == '\n') {
        *bytes =
            slice_of(bytes->bytes + 1, bytes->size - 1); // the last event's, not the next one's
        sse->after_cr = false;
    }
    if (bytes->size == 0) {
        return false;
    }

    struct sse_reading reading = {0};
    const uint8_t *rest = NULL;
    const uint8_t *end = bytes->bytes + bytes->size;
    const uint8_t *after = is_inside ? find_event_end(sse, *bytes, &rest)
                                     : sse_read_event(sse, *bytes, &reading, &rest);
    if (after == NULL) {
        sse->line_is_empty = rest == end;
        sse->after_cr = end[-1] == '\r';
        sse_hold(sse, *bytes);
        *bytes = slice_of(end, 0);
        return false;
    }

    struct slice whole = slice_of(bytes->bytes, (size_t)(after - bytes->bytes));
    if (is_inside) {
        sse_hold(sse, whole);
        if (!sse->is_passed_over) {
            sse_read_event(sse, slice_of(sse->buffer, sse->held), &reading, &rest);
        }
    }
    bool is_complete = !sse->is_passed_over && !reading.is_too_large;
    *out = (struct sse_event){
        .data = is_complete ? reading.data : slice_of(whole.bytes, 0),
        .name = is_complete ? reading.name : slice_of(whole.bytes, 0),
        .whole = whole,
        .is_complete = is_complete,
    };
    sse->held = 0;
    sse->is_passed_over = false;
    sse->has_begun = true;
    sse->line_is_empty = true;
    sse->after_cr = after[-1] == '\r';
    *bytes = slice_of(after, (size_t)(end - after));
    return true;
}
