// SPDX-License-Identifier: Apache-2.0
//
// load.h -- the load of one backend, and its speed.
//
// Every request that we send adds to the counters when it is sent, moves when its first token
// comes, and leaves when it ends, on every path it can take:
//
//     load_begin    requests + 1, queued tokens + the uncached tokens of its prompt
//     load_output   the first time: queued tokens back; sequences + 1, context tokens + its prompt
//                   each time: context tokens + the generated ones
//     load_end      all of it back
//
// Speeds are learned from requests.  Prefill: the time to the first token, over the tokens that had
// to be computed before it (those queued in front, and its own).  Decoding: the time between
// tokens.  Both are running quantiles in log space, which an outlier moves by one step only; steps
// are long at first and short later.  Before the first sample the shipped constants hold, those of
// an 8B model on one H200.
//
// A learned speed is trusted less the older its last sample is: a backend that looks slow gets no
// requests, and so could never show that it is well again.  route/survey.c blends the speed with
// that of the pool by load_trust.  A request carries the blend that its decision counted on, and
// its sample may move the speed by one long step, up to the blend and no further:
//
//     learned 20, pool 1    after 13 s    blend 2    sample 20: stays 20; sample 1: 2, then 1
//
// So one sample decides between the two values that we thought possible, and an outlier beyond them
// still moves the speed by a short step.
//
// The engine's own report (scraped) shows the work of other clients.  It counts for less as it gets
// older, and for nothing after load_report_life_ms.
//
// Threads: any; every field is an independent atomic, so a reader may see one field of a request
// and not yet another.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    load_report_life_ms = 10000,
    // How long a request counts as recent: long enough to even out chance, short enough that a
    // backend with a slow start is not favoured for long.
    load_recent_ms = 30000,
    // A learned speed has half its weight when its last sample is 0.83 of this old, which makes a
    // backend of any slowness at most twice as slow as its pool.  So one that is well again is
    // tried after 8 to 13 s, and one that stays slow costs one slow response in as long.
    load_speed_ms = 15000,
    // The same in requests, for a pool that is hardly used: so many at an equal share.
    load_speed_requests = 8,
    // Until this age it counts in full.  Samples that come faster than that repair a factor of 20
    // by short steps within half a minute, and a busy fleet should not be steered by their gaps.
    load_speed_fresh_ms = 500,
};

struct load {
    // The hot line: written by every request, read by every decision.
    _Alignas(64) atomic_int_fast64_t queued_tokens;
    atomic_int_fast64_t context_tokens;
    atomic_int sequences;     // past their first token
    atomic_int requests;      // begun and not ended; queued ones and sequences
    _Atomic float prefill_ms; // for one uncached token; 0: not learned
    _Atomic float step_ms;    // between two tokens of one sequence; 0: not learned
    atomic_uint prefill_samples;
    atomic_uint step_samples;
    _Atomic float recent_requests;  // begun, fading with load_recent_ms
    _Atomic float recent_tokens;    // their uncached tokens
    _Atomic uint32_t recent_ms;     // when both were updated
    _Atomic uint32_t prefill_at_ms; // when its last sample came
    _Atomic uint32_t step_at_ms;    // likewise
    _Atomic uint32_t known_ms;      // when a decision first asked load_presence; 0: not yet

    // Written by the scraper and by feedback.
    _Alignas(64) atomic_uint_fast64_t reported_ms; // when; 0: never
    _Atomic float reported_running;
    _Atomic float reported_waiting;
    _Atomic float reported_kv_usage;         // 0..1; negative: unknown
    atomic_int reported_own_requests;        // ours at that time; the rest are of other clients
    atomic_int_fast64_t reported_own_tokens; // of ours, queued and in contexts, at that time
    atomic_uint_fast64_t cache_tokens;       // of the KV cache; 0: unknown
    atomic_uint block_tokens;                // of the engine's blocks; 0: unknown
    atomic_uint told_block_tokens;           // the same from its KV events, which takes precedence
    // What the other routers of a cluster have on it, in all; written by the thread of the cluster.
    atomic_uint others_requests;
    atomic_uint others_sequences;
    atomic_uint others_queued_tokens;
    atomic_uint others_context_tokens;

    // No decision reads these.  Begun since the start, for other routers.
    _Alignas(64) atomic_uint_fast64_t begun_requests;
    atomic_uint_fast64_t begun_tokens; // uncached ones
    atomic_uint prefill_measured;      // samples of this router alone
    atomic_uint step_measured;         // likewise
    // Of responses that report it: tokens predicted to be cached, and tokens that were.
    atomic_uint_fast64_t predicted_tokens;
    atomic_uint_fast64_t cached_tokens;
};

_Static_assert(offsetof(struct load, reported_ms) == 64, "requests write the first line");
_Static_assert(offsetof(struct load, begun_requests) == 128, "a decision reads two lines");

// One request's part of it; the caller keeps it from load_begin to load_end.
struct load_request {
    uint64_t sent_us;
    uint64_t first_us; // 0: no token yet
    uint64_t last_us;  // when the speed of its decoding was last measured
    uint32_t prompt_tokens;
    uint32_t uncached_tokens;  // believed
    uint32_t output_tokens;    // so far
    uint32_t sampled_tokens;   // of them at last_us
    uint32_t ahead_tokens;     // queued in front of it when it was sent
    float expected_prefill_ms; // the speed that the decision counted on; 0: unknown
    float expected_step_ms;    // the same, until its first sample
    bool is_counted;
};

// The numbers that a decision needs.
struct load_view {
    uint64_t queued_tokens;
    uint64_t context_tokens;
    uint32_t sequences;
    uint32_t requests;      // ours, and those of other routers of the cluster; so for the above
    float recent_requests;  // begun lately
    float recent_tokens;    // their uncached tokens
    float foreign_requests; // of other clients, from the last report, faded by its age
    float waiting;          // as reported, faded; negative: unknown
    float kv_usage;   // as reported, and as our own tokens have changed since; negative: unknown
    float prefill_ms; // per token; never 0
    float step_ms;    // never 0
    uint32_t prefill_age_ms; // of its last sample
    uint32_t step_age_ms;    // likewise
    uint64_t cache_tokens;   // 0: unknown
    bool speed_is_learned;
    bool awaits_first_token; // some request of ours does
};

struct load_report {
    float running; // negative: not reported, as for all of these
    float waiting;
    float kv_usage; // 0..1
    double cache_tokens;
    double block_tokens;
};

void load_init(struct load *load);

// `request` has prompt_tokens, uncached_tokens and the expected speeds set; the rest is filled in.
void load_begin(struct load *load, struct load_request *request, uint64_t now_us);

// The first token has come at an unknown time, as in a response that is not streamed: moves the
// counters and teaches nothing.  Idempotent.
void load_assume_first_token(struct load *load, struct load_request *request, uint64_t now_us);

// `tokens` more have come; implies the first.
void load_output(struct load *load, struct load_request *request, uint32_t tokens, uint64_t now_us);

// Idempotent; does nothing for a request that did not begin.
void load_end(struct load *load, struct load_request *request);

// Other routers have so much on it now, in all.
struct load_others {
    uint32_t requests;
    uint32_t sequences;
    uint64_t queued_tokens;
    uint64_t context_tokens;
};
void load_set_others(struct load *load, const struct load_others *others);

// Other routers have sent it requests.
void load_note_begun(struct load *load, uint64_t requests, uint64_t uncached_tokens,
                     uint64_t now_ms);

// How many samples there were when other routers were told last.
struct load_told {
    unsigned prefill;
    unsigned step;
};

// Speeds of which this router itself has had samples since then, in ms; 0: none.  Only these go to
// other routers, so that no speed comes back to where it was measured.
struct load_speeds {
    float prefill_ms;
    float step_ms;
};
struct load_speeds load_take_measured(const struct load *load, struct load_told *told);

// Another router has measured these speeds, in ms; 0: none.  They count as one sample of ours, and
// take the place of a speed that has had no sample lately.
void load_hear_speed(struct load *load, float prefill_ms, float step_ms, uint64_t now_us);

void load_report(struct load *load, const struct load_report *report, uint64_t now_ms);

// Tokens in one of the engine's blocks; 0: unknown.
uint32_t load_block_tokens(const struct load *load);

// Milliseconds for one uncached token, as learned or as shipped; never 0.
float load_prefill_ms(const struct load *load);

void load_read(const struct load *load, uint64_t now_ms, struct load_view *out);

// The part of the recent time in which the backend could have got requests: 0 at the first call,
// later nearly 1.
float load_presence(struct load *load, uint64_t now_ms);

// How long a speed lives in a pool where so many requests arrive for each backend; 0: unknown.
float load_speed_life_ms(float arrivals_per_ms);

// The weight of a learned speed whose last sample is so old: 1 while it is fresh, later less.
float load_trust(uint32_t age_ms, float life_ms);
