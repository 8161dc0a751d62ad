// SPDX-License-Identifier: Apache-2.0

#include "http/path.h"

#include "base/base.h"

static int hex_value(uint8_t byte)
{
    uint8_t lower = ascii_lower(byte);
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static size_t decode(struct slice path, uint8_t space[http_path_size_max])
{
    size_t size = 0;

    // One byte less than there is, for a slash in front of a path without one.
    for (size_t i = 0; i < path.size && size < http_path_size_max - 1; i++) {
        uint8_t byte = path.bytes[i];
        if (byte == '%' && i + 2 < path.size && hex_value(path.bytes[i + 1]) >= 0 &&
            hex_value(path.bytes[i + 2]) >= 0) {
            byte = (uint8_t)(hex_value(path.bytes[i + 1]) << 4 | hex_value(path.bytes[i + 2]));
            i += 2;
        }
        space[size++] = byte;
    }
    return size;
}

struct slice http_path_plain(struct slice path, uint8_t space[http_path_size_max])
{
    size_t end = decode(path, space);
    size_t out = 0;
    size_t at = 0;

    while (at < end) {
        size_t begin = at;
        while (at < end && space[at] != '/') {
            at++;
        }
        struct slice segment = slice_of(space + begin, at - begin);
        at++; // the slash
        const uint8_t *parameters =
            segment.size == 0 ? NULL : memchr(segment.bytes, ';', segment.size);
        segment.size = parameters == NULL ? segment.size : (size_t)(parameters - segment.bytes);
        if (slice_is(segment, "..")) {
            while (out > 0 && space[--out] != '/') {
            }
        } else if (segment.size > 0 && !slice_is(segment, ".")) {
            // Never overtakes the reading end: each segment was read with the slash before it, save
            // for a first one without.
            ASSERT(out + 1 + segment.size <= end + 1 &&
                   out + 1 + segment.size <= http_path_size_max);
            memmove(space + out + 1, segment.bytes, segment.size);
            space[out] = '/';
            out += 1 + segment.size;
        }
    }
    if (out == 0) {
        space[out++] = '/';
    }
    return slice_of(space, out);
}
