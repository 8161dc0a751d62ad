// SPDX-License-Identifier: Apache-2.0
//
// sse_twin.h -- what a stream of events says, worked out from the whole text, a byte at a time, as
// the standard tells it; and the comparison with the parser fed in portions.  For the test and the
// fuzz target.
#pragma once

#include "base/base.h"
#include "base/rng.h"
#include "base/text.h"
#include "http/sse.h"

#include <stdlib.h>

static inline struct slice sse_twin_value(struct slice line, size_t name_size)
{
    size_t at = name_size;
    if (at < line.size && line.bytes[at] == ':') {
        at++;
    }
    if (at < line.size && line.bytes[at] == ' ') {
        at++;
    }
    return slice_of(line.bytes + at, line.size - at);
}

static inline bool sse_twin_is(struct slice line, const char *name)
{
    size_t size = strlen(name);
    return slice_is(line, name) || (slice_starts_with(line, name) && line.bytes[size] == ':');
}

// The event that begins at *begin, which moves behind it; false when none ends.  The data is put
// together in `scratch`, which has room for all of the text.
static inline bool sse_twin_next(struct slice text, size_t *begin, uint8_t *scratch,
                                 struct sse_event *out)
{
    struct text data = text_over(scratch, text.size + 1);
    bool has_data = false;
    size_t at = *begin; // of the line

    *out = (struct sse_event){.is_complete = true};
    for (size_t i = at; i < text.size; i++) {
        if (text.bytes[i] != '\n' && text.bytes[i] != '\r') {
            continue;
        }
        struct slice line = slice_of(text.bytes + at, i - at);
        if (text.bytes[i] == '\r' && i + 1 < text.size && text.bytes[i + 1] == '\n') {
            i++;
        }
        if (line.size == 0) {
            out->whole = slice_of(text.bytes + *begin, i + 1 - *begin);
            out->data = text_slice(&data);
            *begin = i + 1;
            return true;
        }
        if (at == 0 && slice_starts_with(line, "\xef\xbb\xbf")) {
            line = slice_of(line.bytes + 3, line.size - 3);
        }
        at = i + 1;
        if (sse_twin_is(line, "data")) {
            text_add_str(&data, has_data ? "\n" : "");
            text_add(&data, sse_twin_value(line, strlen("data")));
            has_data = true;
        } else if (sse_twin_is(line, "event")) {
            out->name = sse_twin_value(line, strlen("event"));
        }
    }
    return false;
}

struct sse_count {
    bool is_same; // as the twin: every event, and every one there is
    uint32_t complete;
    uint32_t passed_over;
};

// One event of a feed, whose copy at `feed` holds the text from `offset` on, against the twin's.
static inline bool sse_same(const struct sse_event *event, const struct sse_event *twin,
                            struct slice text, const uint8_t *feed, size_t offset)
{
    size_t begin = (size_t)(twin->whole.bytes - text.bytes);
    size_t end = begin + twin->whole.size;
    size_t from = offset + (size_t)(event->whole.bytes - feed);
    size_t to = from + event->whole.size;

    // A CR ends the event before anybody can know whether an LF follows.
    if (to + 1 == end && text.bytes[to] == '\n') {
        end = to;
    }
    return from == (begin > offset ? begin : offset) && to == end &&
           (!event->is_complete ||
            (slice_equal(event->data, twin->data) && slice_equal(event->name, twin->name))) &&
           (event->is_complete || (event->data.size == 0 && event->name.size == 0));
}

// Feeds the text in portions of 1 to `portion_max` bytes, or of exactly `portion_max` without
// `rng`.  Each lies in a block of its own size, which is gone before the next one.
static inline struct sse_count sse_compare(struct slice text, struct rng *rng, size_t portion_max,
                                           uint32_t capacity)
{
    struct sse_count count = {.is_same = true};
    uint8_t *scratch = malloc(text.size + 1);
    uint8_t *buffer = capacity > 0 ? malloc(capacity) : NULL;
    ASSERT(scratch != NULL && (buffer != NULL) == (capacity > 0));
    struct sse sse;
    struct sse_event event;
    struct sse_event twin;
    size_t twin_at = 0;

    sse_begin(&sse, buffer, capacity);
    for (size_t at = 0; at < text.size;) {
        size_t size = rng != NULL ? 1 + rng_below(rng, (uint32_t)portion_max) : portion_max;
        size = size < text.size - at ? size : text.size - at;
        uint8_t *feed = malloc(size > 0 ? size : 1);
        ASSERT(feed != NULL);
        memcpy(feed, text.bytes + at, size);
        struct slice bytes = slice_of(feed, size);
        while (sse_next(&sse, &bytes, &event)) {
            count.is_same = count.is_same && sse_twin_next(text, &twin_at, scratch, &twin) &&
                            sse_same(&event, &twin, text, feed, at);
            count.complete += event.is_complete;
            count.passed_over += !event.is_complete;
        }
        count.is_same = count.is_same && bytes.size == 0;
        free(feed);
        at += size;
        // Inside exactly when there are bytes behind the last event.
        count.is_same = count.is_same && sse_is_inside(&sse) == (twin_at < at);
    }
    count.is_same = count.is_same && !sse_twin_next(text, &twin_at, scratch, &twin);
    free(scratch);
    free(buffer);
    return count;
}
