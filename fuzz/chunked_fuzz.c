// SPDX-License-Identifier: Apache-2.0
//
// The first byte picks what to keep and the portion size.  For any input, the verdict and the kept
// bytes do not depend on the portions, and a body kept with its framing is accepted again.

#include "base/base.h"
#include "fuzz.h"
#include "http/chunked.h"

#include <stdlib.h>

struct outcome {
    enum status status;
    size_t used;
    size_t kept;
};

// Scans `size` bytes in portions; what is kept is gathered at the front of `bytes`.
static struct outcome scan(enum chunked_keep keep, uint8_t *bytes, size_t size, size_t portion)
{
    struct chunked chunked;
    struct outcome all = {.status = STATUS_AGAIN};

    chunked_start(&chunked, keep);
    while (all.status == STATUS_AGAIN && all.used < size) {
        size_t used = 0;
        size_t kept = 0;
        size_t take = size - all.used < portion ? size - all.used : portion;
        all.status = chunked_scan(&chunked, bytes + all.used, take, &used, &kept);
        ASSERT(used <= take && kept <= used);
        memmove(bytes + all.kept, bytes + all.used, kept);
        all.used += used;
        all.kept += kept;
    }
    return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 2) {
        return 0;
    }
    enum chunked_keep keep = (enum chunked_keep)(bytes[0] % 3);
    size_t portion = 1 + bytes[0] / 3;
    uint8_t *whole = malloc(size - 1);
    uint8_t *parts = malloc(size - 1);
    ASSERT(whole != NULL && parts != NULL);
    memcpy(whole, bytes + 1, size - 1);
    memcpy(parts, bytes + 1, size - 1);

    struct outcome a = scan(keep, whole, size - 1, size);
    struct outcome b = scan(keep, parts, size - 1, portion);
    ASSERT(a.status == b.status && a.used == b.used);
    if (a.status == STATUS_OK || a.status == STATUS_AGAIN) {
        ASSERT(a.kept == b.kept && memcmp(whole, parts, a.kept) == 0);
    }
    if (a.status == STATUS_OK && keep == CHUNKED_KEEP_FRAMED) {
        struct outcome again = scan(keep, whole, a.kept, size);
        ASSERT(again.status == STATUS_OK && again.used == a.kept && again.kept == a.kept);
    }
    free(whole);
    free(parts);
    return 0;
}
