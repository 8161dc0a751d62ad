// SPDX-License-Identifier: Apache-2.0
//
// meters.h -- what one worker has counted of requests that are over.
//
// Each worker has meters of its own and is their only writer, so a count is a load and a store.  Whoever
// shows them (GET /metrics) reads the meters of all workers and adds up; nobody waits for anybody.
//
//     slots   by the backend's slot: tokens, times, and requests by model, policy and outcome
//     models  by name: how long clients waited, as histograms
//     stages  what routing itself took
//
// A slot that another backend takes over begins at zero: `backend` says whose counts they are.  A slot is not
// taken over while its backend is in the fleet, so whoever reads it for one that is finds that one's counts or
// nobody's.  Ids of backends only grow: a request that ends after its backend has left and another has the slot
// counts by model alone.  Names of models come from requests, so only those that a backend serves are kept
// (`is_served`), at most meters_model_max; the rest counts as model "other".
//
// Threads: one writer, any readers.  Memory: one block, the caller's, touched where it is used.
#pragma once

#include "metrics/receipt.h"

#include <stdatomic.h>

enum {
    meters_model_max = 64,
    meters_model_size = receipt_text_max,
    // Of a backend: models under policies, and one more for all others.
    meters_kind_max = 8,
    meters_other = UINT16_MAX, // the number of all other models
};

// Buckets of durations.  Bound i is steps[i % per_octave] << (i / per_octave), in nanoseconds: whole numbers, so
// that what is counted and what is shown agree to the last digit.  A duration is in the first bucket whose
// bound it does not exceed; the last bucket has no bound.
struct meter_scale {
    uint32_t per_octave;
    uint32_t count;    // of bounds
    uint64_t steps[6]; // ascending, below twice the first
};

enum { meter_bucket_max = 128 };

// 1 ms to about 18 minutes, six to an octave: a quantile that is interpolated in a bucket is off by 2% or
// less where requests are many.
extern const struct meter_scale meter_scale_request;
// 0.1 ms to 13 s, four to an octave.
extern const struct meter_scale meter_scale_token;
// 0.25 µs to 4 s, two to an octave.
extern const struct meter_scale meter_scale_stage;

static inline uint64_t meter_scale_bound_ns(const struct meter_scale *scale, uint32_t bucket)
{
    return scale->steps[bucket % scale->per_octave] << (bucket / scale->per_octave);
}

// The bucket of a duration; scale->count: it is beyond all bounds.
uint32_t meter_scale_bucket(const struct meter_scale *scale, uint64_t duration_ns);

struct meter_histogram {
    atomic_uint_fast64_t sum_ns;
    atomic_uint_fast64_t buckets[meter_bucket_max + 1]; // not cumulative
};

struct meter_model {
    uint32_t name_size;
    char name[meters_model_size];
    struct meter_histogram ttft;  // of streams: until the first token
    struct meter_histogram tpot;  // of streams: between the tokens after it
    struct meter_histogram total; // of requests that went well: until the end
};

struct meter_kind {
    atomic_uint model; // its number, from 1; 0: nothing is here; or meters_other
    _Atomic(const char *) policy;
    atomic_uint_fast64_t outcomes[RECEIPT_OUTCOME_COUNT];
};

struct meter_slot {
    _Alignas(64) atomic_uint_fast64_t backend; // the id; 0: nobody's yet
    atomic_uint_fast64_t prompt_tokens;
    atomic_uint_fast64_t output_tokens;
    atomic_uint_fast64_t expected_tokens; // of requests whose engine told what was cached
    atomic_uint_fast64_t cached_tokens;   // of the same requests
    atomic_uint_fast64_t wrong_tokens;    // the difference of the two, whatever its sign
    atomic_uint_fast64_t told_count;      // of the same requests
    atomic_uint_fast64_t told_prompt_tokens;
    atomic_uint_fast64_t saved_us;
    atomic_uint_fast64_t ttft_us;
    atomic_uint_fast64_t ttft_count;
    struct meter_kind kinds[meters_kind_max + 1];
};

struct meters {
    uint32_t slot_count;
    atomic_uint model_count;                 // raised when the name is whole
    uint64_t model_hashes[meters_model_max]; // the writer's own: finds names without visiting them
    // Requests that came to no backend.
    atomic_uint_fast64_t homeless[RECEIPT_OUTCOME_COUNT];
    struct meter_histogram stages[RECEIPT_STAGE_COUNT]; // of requests that had them
    struct meter_model models[meters_model_max + 1];    // the last: all others
    struct meter_slot slots[];
};

size_t meters_size(uint32_t slot_count);
// Over a zeroed block of that many bytes, aligned to a cache line.
struct meters *meters_over(void *block, uint32_t slot_count);

// Counts it.  `slot` is the backend's and of no account where it came to none; `is_served`: its model is
// one that some backend serves.
void meters_note(struct meters *meters, const struct receipt *receipt,
                 const struct receipt_parts *parts, uint32_t slot, bool is_served);

// Any thread.  The name of a model by its number as in a kind; "other" for all others.
struct slice meters_model_name(const struct meters *meters, uint32_t number);
