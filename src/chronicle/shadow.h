// SPDX-License-Identifier: Apache-2.0
//
// shadow.h -- what round-robin would have done with the same requests: an estimate.
//
// Every computed request is replayed through two small models of the fleet: one works in rotation,
// the other does what was really done.  Both have a cache (shadow_cache.h) and a queue for each
// backend.  Only the difference between the two counts: whatever the model leaves out, it leaves
// out in both.
//
//     receipt --+--> next in the pool's rotation:  found r,  queue R
//               +--> the backend that did it:      found q,  queue Q
//
//     The estimate for round-robin is the measured value, moved from q to r and from Q to R:
//
//     cached tokens   r = q: as measured.  r < q: the cached tokens, times r/q.  r > q: of the
//                     uncached tokens, the part (r-q)/(1-q) is added.  If the engine reports
//                     nothing, the expected tokens stand for the measured ones.
//     first token     as measured, plus R - Q, and at least 0
//     saved time      as saved, scaled by the time that the cached tokens of each would have taken
//
// With one backend, and wherever both did the same, the estimate is exactly the measured value.
//
// A queue is fluid: a request adds its uncached tokens times the backend's time per token, which
// passes as time does; the first token comes when all before it and itself are done.  A queue holds
// two minutes at most, since clients do not wait longer.
//
// Time and order.  Requests that are announced when they are sent (exchange/account.h) are replayed
// at that time and in that order, by their expected tokens.  At rates where not all are announced,
// receipts come when requests end, and caches and queues see requests in the order of their ends.
// For caches this is seconds against the minutes that blocks stay.  For queues it moves each
// request by the length of its response: the load is the same and independent arrivals stay
// independent, but short bursts are spread out and a policy's even distribution is lost, while the
// rotation stays regular.  So times are reliable where policies differ by cache hits, and not where
// they differ by looking at queues: for a policy that looks at nothing else the sign may be wrong.
// (Shuffling the rotation in the same way was tried: it was off by a fifth where it had been
// right.)  docs/internals/chronicle.md has figures.
//
// When only one key in many is followed (thinning.h), most requests have none, and all requests of
// a pool get the same shares: those of its recent kept keys, halving every ten seconds.
//
//     f   tokens that kept keys found, of s that they stand for, of n that the prompts really had
//     q   (f of the real fleet + n - s) / n, and r likewise
//
// n - s is the sampling error: a few hot prefixes are a large part of all traffic and a handful of
// keys.  Both fleets find prefixes that are so hot (as in SHARDS), so it is added to both and
// cancels out.  The estimate of a single request is then its pool's average.  In queues requests
// are not alike: as many find all or nothing as that average needs.
//
// Left out: retries and failures (only computed requests count), schedulers of ranks, and weights:
// the rotation gives each usable member of the pool its turn.
//
// Threads: one at a time.  Memory: taken by _create.
#pragma once

#include "chronicle/chronicle.h"
#include "chronicle/shadow_cache.h"

struct shadow;

enum {
    shadow_half_ms = 10000,
    shadow_pool_max = 64,
    // The cache size of a backend that does not report it: more than most have, so that the error
    // is in favour of round-robin.
    shadow_cache_tokens = 2000000,
    shadow_queue_ms = 120000,
};

// NULL when memory is short.
struct shadow *shadow_create(uint32_t member_max);
void shadow_destroy(struct shadow **shadow);

// At most member_max.
void shadow_set_members(struct shadow *shadow, const struct chronicle_member *members,
                        uint32_t count);

// The backend of that slot has left.
void shadow_forget(struct shadow *shadow, uint32_t slot);

struct shadow_estimate {
    uint64_t backend; // that has the turn; 0: unknown, and all values are as measured
    double cached_tokens;
    double saved_s;
    double ttft_ms; // NAN: unknown
    // Q and R; NAN: unknown.
    double model_ms;
    double shadow_model_ms;
};

// Sets how many keys are followed; lets the evidence fade.
void shadow_set_sieve(struct shadow *shadow, struct shadow_sieve sieve);
void shadow_fade(struct shadow *shadow, uint64_t elapsed_ms);

// Replays a request that was sent to the backend of that slot; shadow_note returns the estimate
// when it ends.
void shadow_begin(struct shadow *shadow, const struct receipt *receipt, uint32_t slot);

// A request that was computed by the backend of that slot, or chronicle_no_slot.  Replays it unless
// shadow_begin did.
void shadow_note(struct shadow *shadow, const struct receipt *receipt, uint32_t slot,
                 struct shadow_estimate *out);
