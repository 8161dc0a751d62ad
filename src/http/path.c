// SPDX-License-Identifier: Apache-2.0

#include "http/path.h"

#include "base/base.h"

static size_t path_decode(struct slice path, uint8_t space[http_path_size_max])
{
    size_t size = 0;

    // One byte less than there is, for a slash in front of a path without one.
    for (size_t i = 0; i < path.size && size < http_path_size_max - 1; i++) {
        uint8_t byte = path.bytes[i];
        if (byte == '%' && i + 2 < path.size && ascii_hex_value(path.bytes[i + 1]) >= 0 &&
            ascii_hex_value(path.bytes[i + 2]) >= 0) {
            byte = (uint8_t)(ascii_hex_value(path.bytes[i + 1]) << 4 |
                             ascii_hex_value(path.bytes[i + 2]));
            i += 2;
        }
        space[size++] = byte;
    }
    return size;
}

// Takes the segment that begins at *at, without its parameters; *at is then behind its slash.
static struct slice segment_next(const uint8_t *space, size_t end, size_t *at)
{
    const uint8_t *slash = memchr(space + *at, '/', end - *at);
    size_t size = slash == NULL ? end - *at : (size_t)(slash - space) - *at;
    struct slice segment = slice_of(space + *at, size);
    const uint8_t *parameters = size == 0 ? NULL : memchr(segment.bytes, ';', size);

    *at += size + 1;
    segment.size = parameters == NULL ? size : (size_t)(parameters - segment.bytes);
    return segment;
}

// Never overtakes the reading end: each segment was read with the slash before it, save for a first
// one without.
static size_t path_append(uint8_t *space, size_t out, struct slice segment)
{
    ASSERT(out + 1 + segment.size <= http_path_size_max);
    memmove(space + out + 1, segment.bytes, segment.size);
    space[out] = '/';
    return out + 1 + segment.size;
}

struct slice http_path_plain(struct slice path, uint8_t space[http_path_size_max])
{
    size_t end = path_decode(path, space);
    size_t out = 0;
    size_t at = 0;

    while (at < end) {
        struct slice segment = segment_next(space, end, &at);
        if (slice_is(segment, "..")) {
            const uint8_t *slash = out == 0 ? NULL : memrchr(space, '/', out);
            out = slash == NULL ? 0 : (size_t)(slash - space);
        } else if (segment.size > 0 && !slice_is(segment, ".")) {
            out = path_append(space, out, segment);
        }
    }
    if (out == 0) {
        space[out++] = '/';
    }
    return slice_of(space, out);
}
