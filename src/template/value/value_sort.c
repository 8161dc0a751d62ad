// SPDX-License-Identifier: Apache-2.0
//
// A merge sort from the bottom up: no recursion, and no input that makes it slow.

#include "base/base.h"
#include "template/value/value_internal.h"

struct value_sort_entry *value_sort_entries_new(struct value_room *room, uint32_t count)
{
    return (struct value_sort_entry *)(void *)value_bytes_new(
        room, count * sizeof(struct value_sort_entry));
}

// Both halves are sorted: [from, middle) and [middle, to).
static bool merge_halves(struct value_room *room, const struct value_sort_entry *in,
                         struct value_sort_entry *out, const uint32_t bounds[3], bool reverse)
{
    ASSERT(bounds[0] <= bounds[1] && bounds[1] <= bounds[2]);
    uint32_t left = bounds[0];
    uint32_t right = bounds[1];
    for (uint32_t at = bounds[0]; at < bounds[2]; at++) {
        bool take_right = left == bounds[1];
        if (left < bounds[1] && right < bounds[2]) {
            int order = 0;
            if (!value_compare(room, in[right].key, in[left].key, &order)) {
                return false;
            }
            take_right = reverse ? order > 0 : order < 0;
        }
        out[at] = take_right ? in[right++] : in[left++];
    }
    return true;
}

static uint32_t lesser(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

bool value_sort(struct value_room *room, struct value_sort_entry *entries, uint32_t count,
                bool reverse)
{
    struct arena before = *room->arena;
    struct value_sort_entry *in = entries;
    struct value_sort_entry *out = value_sort_entries_new(room, count);
    if (out == NULL) {
        return false;
    }
    for (uint64_t width = 1; width < count; width *= 2) {
        for (uint64_t at = 0; at < count; at += 2 * width) {
            uint32_t bounds[3] = {(uint32_t)at, lesser(at + width, count),
                                  lesser(at + 2 * width, count)};
            if (!merge_halves(room, in, out, bounds, reverse)) {
                return false;
            }
        }
        struct value_sort_entry *swap = in;
        in = out;
        out = swap;
    }
    if (in != entries && count > 0) {
        memcpy(entries, in, count * sizeof(*entries));
    }
    ASSERT(room->arena->bytes == before.bytes && room->arena->used >= before.used);
    *room->arena = before;
    return true;
}
