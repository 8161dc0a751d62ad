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
// The engine's own report (scraped) shows the work of other clients.  It counts for less as it gets
// older, and for nothing after load_report_life_ms.
//
// Threads: any; every field is an independent atomic, so a reader may see one field of a request
// and not yet another.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    load_report_life_ms = 10000,
    // How long a request counts as recent: long enough to even out chance, short enough that a
    // backend with a slow start is not favoured for long.
    load_recent_ms = 30000,
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
    atomic_uint_fast32_t recent_ms; // when both were updated

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
    // Of responses that report it: tokens predicted to be cached, and tokens that were.
    atomic_uint_fast64_t predicted_tokens;
    atomic_uint_fast64_t cached_tokens;
};

// One request's part of it; the caller keeps it from load_begin to load_end.
struct load_request {
    uint64_t sent_us;
    uint64_t first_us; // 0: no token yet
    uint64_t last_us;  // when the speed of its decoding was last measured
    uint32_t prompt_tokens;
    uint32_t uncached_tokens; // believed
    uint32_t output_tokens;   // so far
    uint32_t sampled_tokens;  // of them at last_us
    uint32_t ahead_tokens;    // queued in front of it when it was sent
    bool is_counted;
};

// The numbers that a decision needs.
struct load_view {
    uint64_t queued_tokens;
    uint64_t context_tokens;
    uint32_t sequences;
    uint32_t requests;      // ours
    float recent_requests;  // begun lately
    float recent_tokens;    // their uncached tokens
    float foreign_requests; // of other clients, from the last report, faded by its age
    float waiting;          // as reported, faded; negative: unknown
    float kv_usage;   // as reported, and as our own tokens have changed since; negative: unknown
    float prefill_ms; // per token; never 0
    float step_ms;    // never 0
    uint64_t cache_tokens; // 0: unknown
    bool speed_is_learned;
};

struct load_report {
    float running; // negative: not reported, as for all of these
    float waiting;
    float kv_usage; // 0..1
    double cache_tokens;
    double block_tokens;
};

void load_init(struct load *load);

// `request` has prompt_tokens and uncached_tokens set; the rest is filled in.
void load_begin(struct load *load, struct load_request *request, uint64_t now_us);

// The first token has come at an unknown time, as in a response that is not streamed: moves the
// counters and teaches nothing.  Idempotent.
void load_assume_first_token(struct load *load, struct load_request *request, uint64_t now_us);

// `tokens` more have come; implies the first.
void load_output(struct load *load, struct load_request *request, uint32_t tokens, uint64_t now_us);

// Idempotent; does nothing for a request that did not begin.
void load_end(struct load *load, struct load_request *request);

void load_report(struct load *load, const struct load_report *report, uint64_t now_ms);

// Tokens in one of the engine's blocks; 0: unknown.
uint32_t load_block_tokens(const struct load *load);

// Milliseconds for one uncached token, as learned or as shipped; never 0.
float load_prefill_ms(const struct load *load);

void load_read(const struct load *load, uint64_t now_ms, struct load_view *out);
