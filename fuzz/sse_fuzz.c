// SPDX-License-Identifier: Apache-2.0
//
// The first byte picks the portions, the second the buffer: none, a small one, or one that holds
// everything.  For any input, the parser gives for every event what its simple twin gives for the
// whole text, and skips an event only if the buffer is too small.

#include "fuzz.h"
#include "http/sse_twin.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 2) {
        return 0;
    }
    struct slice text = slice_of(bytes + 2, size - 2);
    struct rng rng = {.state = bytes[0]};
    bool is_regular = bytes[0] % 2 == 0;
    size_t portion = 1 + bytes[0] / 2;
    // Twice the text: a name between lines of data is put behind them.
    uint32_t capacity = bytes[1] == 255 ? (uint32_t)(2 * size) : bytes[1];

    struct sse_count count = sse_compare(text, is_regular ? NULL : &rng, portion, capacity);
    ASSERT(count.is_same);
    ASSERT(count.passed_over == 0 || bytes[1] != 255);
    return 0;
}
