// SPDX-License-Identifier: Apache-2.0
//
// A merge sort from the bottom up: no recursion, and no input that makes it slow.

#include "base/base.h"
#include "template/value/value_internal.h"

// Both halves are sorted: [from, middle) and [middle, to).
static void sort_merge(struct value_room *room, const struct value **in, const struct value **out,
                       const uint32_t bounds[3], bool reverse)
{
    ASSERT(bounds[0] <= bounds[1] && bounds[1] <= bounds[2]);
    uint32_t left = bounds[0];
    uint32_t right = bounds[1];
    for (uint32_t at = bounds[0]; at < bounds[2]; at++) {
        bool take_right = left == bounds[1];
        if (left < bounds[1] && right < bounds[2]) {
            int order = value_compare(room, in[right], in[left]);
            take_right = reverse ? order > 0 : order < 0;
        }
        out[at] = take_right ? in[right++] : in[left++];
    }
}

static uint32_t lesser(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

void value_sort(struct value_room *room, const struct value **keys, uint32_t count, bool reverse)
{
    struct arena before = *room->arena;
    const struct value **in = keys;
    const struct value **out = value_bytes_new(room, count * sizeof(const struct value *));
    for (uint64_t width = 1; width < count && room->status == STATUS_OK; width *= 2) {
        for (uint64_t at = 0; at < count; at += 2 * width) {
            uint32_t bounds[3] = {(uint32_t)at, lesser(at + width, count),
                                  lesser(at + 2 * width, count)};
            sort_merge(room, in, out, bounds, reverse);
        }
        const struct value **swap = in;
        in = out;
        out = swap;
    }
    if (in != keys) {
        memcpy(keys, in, count * sizeof(const struct value *));
    }
    ASSERT(room->arena->bytes == before.bytes && room->arena->used >= before.used);
    *room->arena = before;
}
