// SPDX-License-Identifier: Apache-2.0
//
// For any target: a found value is a part of it without `&`, behind a `?` and its name; decoding
// never lengthens it; and spelt again with %XX throughout it decodes to the same.

#include "admin/query.h"
#include "base/base.h"
#include "base/text.h"
#include "fuzz.h"

#include <stdlib.h>

enum { size_max = 4096 };

static void check_decoded(struct slice spelt)
{
    static uint8_t space[size_max];
    static uint8_t again_space[size_max];
    static uint8_t spelt_space[3 * size_max];
    struct text text = text_over(spelt_space, sizeof(spelt_space));
    struct slice decoded;
    struct slice again;

    if (!query_decode(spelt, space, sizeof(space), &decoded)) {
        ASSERT(spelt.size > size_max || memchr(spelt.bytes, '%', spelt.size) != NULL);
        return;
    }
    ASSERT(decoded.size <= spelt.size);
    for (size_t i = 0; i < decoded.size; i++) {
        text_add_format(&text, "%%%02x", decoded.bytes[i]);
    }
    ASSERT(query_decode(text_slice(&text), again_space, sizeof(again_space), &again));
    ASSERT(slice_equal(decoded, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct slice value = {0};
    uint64_t number = 7;
    uint8_t *copy = malloc(size > 0 ? size : 1);
    ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    struct slice target = slice_of(copy, size);

    if (query_find(target, "id", &value)) {
        size_t at = (size_t)(value.bytes - target.bytes);
        ASSERT(at >= 3 && at + value.size <= size);
        ASSERT(memchr(target.bytes, '?', at) != NULL);
        ASSERT(value.size == 0 || memchr(value.bytes, '&', value.size) == NULL);
        if (value.size > 0) {
            check_decoded(value);
        }
    } else {
        ASSERT(query_number(target, "id", 9, &number) && number == 9);
    }
    free(copy);
    return 0;
}
