// SPDX-License-Identifier: Apache-2.0
//
// For any input, a parsed field has ids, and writing it gives a field that reads as the same.

#include "base/base.h"
#include "base/text.h"
#include "fuzz.h"
#include "http/traceparent.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct traceparent in;
    struct traceparent again;
    uint8_t space[traceparent_size];

    if (!traceparent_parse(slice_of(bytes, size), &in)) {
        return 0;
    }
    ASSERT((in.trace[0] | in.trace[1]) != 0 && in.parent != 0);
    ASSERT((in.flags & ~(TRACEPARENT_SAMPLED | TRACEPARENT_RANDOM)) == 0);

    struct text out = text_over(space, sizeof(space));
    traceparent_write(&in, &out);
    ASSERT(!out.overflow && out.size == traceparent_size);
    ASSERT(traceparent_parse(text_slice(&out), &again));
    ASSERT(in.trace[0] == again.trace[0] && in.trace[1] == again.trace[1] &&
           in.parent == again.parent && in.flags == again.flags);
    // But for the version and the flags nothing is changed on the way.
    ASSERT(memcmp(space + 2, bytes + 2, traceparent_size - 4) == 0);
    return 0;
}
