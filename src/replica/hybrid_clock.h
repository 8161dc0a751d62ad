// SPDX-License-Identifier: Apache-2.0
//
// hybrid_clock.h -- stamps that order what routers with different clocks did.
//
//     stamp   48 bits of wall time in milliseconds | 16 bits that count within one
//
// A router stamps later than all that it has stamped or heard of.  So of two moves of which one
// was known to the author of the other, the other is the later, whatever the clocks say.  A clock
// that is far ahead takes all others with it, and nothing else happens.
#pragma once

#include <stdint.h>

struct hybrid_clock {
    uint64_t last;
};

static inline uint64_t hybrid_clock_stamp(struct hybrid_clock *clock, uint64_t wall_ms)
{
    uint64_t now = wall_ms << 16;
    clock->last = now > clock->last ? now : clock->last + 1;
    return clock->last;
}

// A larger stamp is malformed: no clock gets there.
static const uint64_t hybrid_clock_stamp_max = UINT64_MAX / 2;

// A stamp from outside.  One of the far future moves no clock: the stamps behind it are not many,
// and a router at their end could say nothing more.
static inline void hybrid_clock_hear(struct hybrid_clock *clock, uint64_t stamp)
{
    if (stamp > clock->last && stamp < hybrid_clock_stamp_max / 2) {
        clock->last = stamp;
    }
}
