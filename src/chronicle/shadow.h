// SPDX-License-Identifier: Apache-2.0
//
// shadow.h -- what round-robin would have done with the same requests.
//
// Every request that was computed is done twice more, in small: by a fleet that works in rotation, and
// by one that does what was really done.  Both have a cache (shadow_cache.h) and a queue for each backend.  Only
// the difference of the two counts: whatever the model leaves out, it leaves out in both.
//
//     receipt --+--> next in the pool's rotation:  found r,  queue R        estimate for round-robin
//               +--> the backend that did it:      found q,  queue Q        = measured, moved from q to r, Q to R
//
//     cached tokens   r = q: as measured.  r < q: what was cached, times r/q.  r > q: of what was not cached,
//                     the part (r-q)/(1-q) is added.  Where the engine did not tell, what was expected of it stands
//                     for what was measured.
//     first token     as measured, plus R - Q, and not below 0
//     saved time      as saved, times the time that the cached tokens of each would have taken
//
// With one backend, and wherever both did the same, the estimate is what was measured, exactly.
//
// A queue is fluid: a request adds its uncached tokens times the backend's time for one, which time works
// off; the first token comes when all before it and itself are done.  It holds two minutes at most: clients do not
// wait longer.
//
// Time and order.  Requests that are announced when they are sent (proxy/account.h) are done at that time and in that
// order, by what was expected of them.  At rates where not all are, receipts come when requests end, and caches and
// queues see requests in the order of their ends.  For caches this is seconds against the minutes that blocks stay.
// For queues it moves each request by the length of its answer.  Arrivals that were independent are so afterwards, and the
// load is the same; but bursts that are shorter than answers differ are spread out, and how evenly a policy
// deals requests out is lost on the way, while the rotation stays as regular as it is.  So the time is good where
// policies differ by what they find in caches, and not where they differ by how they look at queues: for a policy
// that looks at nothing else the sign may be wrong.  (Shuffling the rotation likewise was tried: it was off by a
// fifth where it had been right.)  docs/internals/chronicle.md has figures.
//
// Where only one key in many is followed (thinning.h) most requests have none, and all are moved alike: by what
// kept keys of their pool's requests showed lately, fading by half every ten seconds.
//
//     f   tokens that kept keys found, of s that they stand for, of n that prompts really had
//     q   (f of what was done + n - s) / n, and r likewise
//
// n - s is what luck left out of the sample or put in twice: a few hot beginnings are a large part of all
// traffic and a handful of keys.  What is that hot is found by both fleets (known from SHARDS), so it belongs
// to both, and the difference of the two does not know of it.  What is told of a single request is then its
// pool's average.  In queues requests are not alike: as many find all or nothing as it takes for that average.
//
// Left out: retries and failures (only requests that were computed are followed), ranks' own schedulers,
// and weights: the rotation gives each usable member of the pool its turn.
//
// Threads: one at a time.  Memory: taken by _create.
#pragma once

#include "chronicle/chronicle.h"
#include "chronicle/shadow_cache.h"

struct shadow;

enum {
    shadow_half_ms = 10000,
    shadow_pool_max = 64,
    // What a cache is taken to hold when nobody knows: more than most do, so that the error is in favour of
    // round-robin.
    shadow_cache_tokens = 2000000,
    shadow_queue_ms = 120000,
};

// NULL when memory is short.
struct shadow *shadow_create(uint32_t member_max);
void shadow_destroy(struct shadow **shadow);

// Who is there, each with its number (member_table.h); at most member_max.
void shadow_set_members(struct shadow *shadow, const struct chronicle_member *members,
                        uint32_t count);

// That number has nobody any more.
void shadow_forget(struct shadow *shadow, uint32_t slot);

struct shadow_estimate {
    uint64_t backend; // that had the turn; 0: not known, and all below is as measured
    double cached_tokens;
    double saved_s;
    double ttft_ms; // NAN: unknown
    // Q and R; NAN: unknown.
    double model_ms;
    double shadow_model_ms;
};

// How many keys are followed from now on; and time passes.
void shadow_set_sieve(struct shadow *shadow, struct shadow_sieve sieve);
void shadow_fade(struct shadow *shadow, uint64_t elapsed_ms);

// A request was sent to the backend of that number: it is done now, in the order in which requests came, and told of
// when it ends.
void shadow_begin(struct shadow *shadow, const struct receipt *receipt, uint32_t slot);

// A request that was computed, by the backend of that number or member_none; unless it was begun it is done now.
void shadow_note(struct shadow *shadow, const struct receipt *receipt, uint32_t slot,
                 struct shadow_estimate *out);
