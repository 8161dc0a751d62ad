// SPDX-License-Identifier: Apache-2.0
//
// chronicle.h -- the recent past, for people who watch.
//
// Made of receipts alone, and bounded: the last decisions (decision_ring.h), a time series
// (timeline.h), the hottest prefixes (hot_prefixes.h), the last minute of each backend
// (backend_minute.h), and an estimate of round-robin on the same requests (shadow.h).  Routing does
// not use it.
//
// Threads: one at a time; the scribe has a lock for it.  Memory: taken by _create.
#pragma once

#include "metrics/receipt.h"

struct chronicle;

// The slot of a backend that is not in the fleet.
enum { chronicle_no_slot = UINT32_MAX };

// A backend as the keeper knows it, reported every second.
struct chronicle_member {
    uint64_t id;
    uint64_t cache_tokens; // 0: unknown
    uint32_t slot;         // in the fleet; below member_max
    uint32_t pool;
    float token_ms; // for one uncached token
    bool is_usable; // a rotation would include it
};

struct chronicle_options {
    uint32_t decision_max; // 0 keeps none
    uint32_t member_max;
    uint32_t hot_max; // prefixes that are counted; about a tenth of them are hot
    uint64_t seed;    // of random choices
};

// NULL when memory is short.
struct chronicle *chronicle_create(const struct chronicle_options *options);
void chronicle_destroy(struct chronicle **chronicle);

void chronicle_set_members(struct chronicle *chronicle, const struct chronicle_member *members,
                           uint32_t count);

// A request ended, or was sent (RECEIPT_RUNNING): the latter is only for decisions and the shadow.
void chronicle_note(struct chronicle *chronicle, const struct receipt *receipt);

// Closes what is over.  Wall time, which may jump.
void chronicle_tick(struct chronicle *chronicle, uint64_t wall_ms);

enum { chronicle_percentile_count = 3 };

// Sums over requests: X(type, type in the sums of five seconds, name).  Failures are busy, failed,
// broken and refused requests.  The engines of told requests reported their cached tokens; a shadow
// value is the estimate for round-robin; saved_s is the prefill time that caches saved.
#define CHRONICLE_SUM_MAP(X)                                                                       \
    X(uint64_t, uint32_t, requests)                                                                \
    X(uint64_t, uint32_t, failures)                                                                \
    X(uint64_t, uint32_t, prompt_tokens)                                                           \
    X(uint64_t, uint32_t, output_tokens)                                                           \
    X(uint64_t, uint32_t, told_prompt_tokens)                                                      \
    X(uint64_t, uint32_t, cached_tokens) /* of told requests */                                    \
    X(double, float, shadow_cached_tokens)                                                         \
    X(double, float, saved_s)                                                                      \
    X(double, float, shadow_saved_s)

// The figures of a stretch of time.
struct chronicle_figures {
    double span_s; // its length: counts are divided by it for a rate
#define X(type, compact, name) type name;
    CHRONICLE_SUM_MAP(X)
#undef X
    // The 50th, 95th and 99th percentile; NAN: unknown.
    double ttft_ms[chronicle_percentile_count];
    double shadow_ttft_ms[chronicle_percentile_count];
};

// A point of the time series.
struct chronicle_point {
    uint64_t wall_ms; // when it began
    struct chronicle_figures figures;
};

enum { chronicle_step_ms = 5000, chronicle_point_max = 720 }; // an hour

// Closed points that began after `since_ms`, oldest first.
uint32_t chronicle_points(const struct chronicle *chronicle, uint64_t since_ms,
                          struct chronicle_point *out, uint32_t out_max);

// About the last minute; and since the start, without percentiles.
void chronicle_recent(const struct chronicle *chronicle, struct chronicle_figures *out);
void chronicle_total(const struct chronicle *chronicle, struct chronicle_figures *out);

// The last minute of one backend; false: it is not among the members.
bool chronicle_backend(const struct chronicle *chronicle, uint32_t slot, uint64_t id,
                       struct chronicle_figures *out);

enum { chronicle_holder_max = 16 };

struct chronicle_prefix {
    uint64_t key;    // of its last block
    double requests; // halving every five minutes
    double share;    // of all requests
    uint32_t tokens; // of the prefix
    uint32_t holder_count;
    uint64_t holders[chronicle_holder_max]; // ids, as far as decisions have shown them
};

// The hottest first.  A prefix is left out if a longer one has nearly all of its requests.
uint32_t chronicle_prefixes(const struct chronicle *chronicle, struct chronicle_prefix *out,
                            uint32_t out_max);

// A kept decision.  `serial` grows with each change of the list.
struct chronicle_decision {
    uint64_t serial;
    const struct receipt *receipt; // until the next chronicle_note
    // The estimate for round-robin.
    uint64_t shadow_backend; // 0: unknown
    uint32_t shadow_cached_tokens;
    float shadow_ttft_ms; // NAN: unknown
};

// By request id: the latest of that id.
bool chronicle_find(const struct chronicle *chronicle, struct slice id,
                    struct chronicle_decision *out);

// Newest first, those with a serial above `since`.
uint32_t chronicle_decisions(const struct chronicle *chronicle, uint64_t since,
                             struct chronicle_decision *out, uint32_t out_max);
