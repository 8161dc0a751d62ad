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

#include <stdbool.h>
#include <stdint.h>

// A clock may be as wrong as that of a host that believes it is 1970.  A stamp that is further
// ahead is a mistake: near the end of all numbers it would leave no later stamp.
#define HYBRID_CLOCK_AHEAD_MS (UINT64_C(100) * 366 * 24 * 3600 * 1000)

struct hybrid_clock {
    uint64_t last;
};

static inline uint64_t hybrid_clock_stamp(struct hybrid_clock *clock, uint64_t wall_ms)
{
    uint64_t now = wall_ms << 16;
    clock->last = now > clock->last ? now : clock->last + 1;
    return clock->last;
}

// A stamp from outside.  False: no router stamps so.
static inline bool hybrid_clock_hear(struct hybrid_clock *clock, uint64_t stamp, uint64_t wall_ms)
{
    if (stamp >> 16 > wall_ms + HYBRID_CLOCK_AHEAD_MS) {
        return false;
    }
    clock->last = stamp > clock->last ? stamp : clock->last;
    return true;
}
