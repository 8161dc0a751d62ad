// SPDX-License-Identifier: Apache-2.0
//
// life.h -- when the routers of a cluster agree that an engine has lost its cache.
//
// The life of a backend is a number, its era, that only grows: all routers take the largest that
// they hear of, and what was learned in a smaller one is void.  So the register merges by maximum,
// and the only question is who may enlarge it.
//
// A router that is refused a connection does not know whether the engine died or the path to it.
// So it believes nothing of the engine until the first of these:
//
//     the engine responds to it                   it was gone: a new era
//     another router has moved the era already    they saw the same: nothing to add
//     another router had output from it           we were cut off: the era stays, and a snapshot
//                                                 brings back what we forgot
//
// So a router that is cut off cannot void what others know.  An engine whose responses miss their
// cached tokens in a row has emptied its cache, whoever sees it: a new era, at most once in
// life_emptied_ms.
//
// Threads: one.  Memory: the caller's.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    // Output that another router tells of within this time may have left the engine before it died.
    life_grace_ms = 250,
    // An era that moved within this time was moved for the same outage: probes of different routers
    // are so far apart.
    life_same_outage_ms = 10000,
    life_emptied_ms = 10000,
};

// No backend restarts so often between two words of another router.  A larger step is a mistake of
// that router, or of a stranger who writes to the store: near the end of all numbers no era would
// be left for the next life.
#define LIFE_STEP_MAX (UINT64_C(1) << 32)

struct life {
    uint64_t era;
    uint64_t moved_ms;     // when the era last moved; 0: never
    uint64_t out_since_ms; // of our outage
    uint64_t emptied_ms;   // when we last moved the era for an emptied cache; 0: never
    uint32_t lives;        // as this process counts them
    bool is_out;           // we were refused, and had no output since
};

enum life_verdict {
    LIFE_GOES_ON,
    LIFE_ENDED,    // the era has moved: what was believed of it is void
    LIFE_REJOINED, // it goes on, but this router has forgotten what it knew of it
};

// This process counts so many lives of the backend now.
enum life_verdict life_count(struct life *life, uint32_t lives, uint64_t now_ms);

// This router had output from it.
enum life_verdict life_prove(struct life *life, uint64_t now_ms);

// Another router tells of it in that era; and that it had output from it.
enum life_verdict life_hear(struct life *life, uint64_t era, uint64_t now_ms);
enum life_verdict life_hear_output(struct life *life, uint64_t era, uint64_t now_ms);

// This router's responses show an empty cache.
enum life_verdict life_empty(struct life *life, uint64_t now_ms);
