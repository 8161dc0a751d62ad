// SPDX-License-Identifier: Apache-2.0

#include "admin/query.h"

#include "base/text.h"

// Returns the text up to the mark and moves behind it; without a mark, all of the text.
static struct slice take_until(struct slice *rest, char mark)
{
    const uint8_t *found = rest->size > 0 ? memchr(rest->bytes, mark, rest->size) : NULL;
    size_t size = found != NULL ? (size_t)(found - rest->bytes) : rest->size;
    struct slice taken = slice_of(rest->bytes, size);
    size_t passed = found != NULL ? size + 1 : size;

    *rest = slice_of(rest->bytes + passed, rest->size - passed);
    return taken;
}

bool query_find(struct slice target, const char *name, struct slice *out)
{
    struct slice rest = target;

    take_until(&rest, '?');
    while (rest.size > 0) {
        struct slice pair = take_until(&rest, '&');
        if (slice_is(take_until(&pair, '='), name)) {
            *out = pair;
            return true;
        }
    }
    return false;
}

bool query_number(struct slice target, const char *name, uint64_t absent, uint64_t *out)
{
    struct slice digits;

    if (!query_find(target, name, &digits)) {
        *out = absent;
        return true;
    }
    return slice_parse_u64(digits, out);
}

bool query_decode(struct slice spelt, void *space, size_t capacity, struct slice *out)
{
    struct text text = text_over(space, capacity);

    for (size_t i = 0; i < spelt.size; i++) {
        uint8_t byte = spelt.bytes[i];
        if (byte == '%') {
            int high = i + 2 < spelt.size ? ascii_hex_value(spelt.bytes[i + 1]) : -1;
            int low = i + 2 < spelt.size ? ascii_hex_value(spelt.bytes[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return false;
            }
            byte = (uint8_t)(high << 4 | low);
            i += 2;
        }
        text_add(&text, slice_of(&byte, 1));
    }
    *out = text_slice(&text);
    return !text.overflow;
}
