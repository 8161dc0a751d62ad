// SPDX-License-Identifier: Apache-2.0
//
// meters.h -- counters and histograms of one worker, about finished requests.
//
// Each worker has meters of its own and is their only writer, so a count is a load and a store.
// GET /metrics reads the meters of all workers and adds them up; neither side waits.
//
//     slots     by the backend's slot: tokens, times, and requests by model, policy and outcome
//     models    by name: how long clients waited, as histograms
//     stages    time that routing itself took
//     unrouted  requests that reached no backend, by outcome
//
// `backend` of a slot says whose counts they are; a slot that another backend takes over begins at
// zero.  That does not happen while the first backend is in the fleet, so a reader finds its counts
// or an empty slot.  Ids of backends only grow: a request that ends after its slot was taken over
// counts by model alone.  Names of models come from requests, so only those that a backend serves
// are kept (`is_served`), at most meters_model_max; the rest counts as model "other".
//
// Threads: one writer, any readers.  Memory: one block, the caller's; unused pages are not touched.
#pragma once

#include "metrics/receipt.h"

#include <stdatomic.h>

enum {
    meters_model_max = 64,
    meters_model_size = receipt_text_max,
    // Pairs of model and policy of one backend; one more row has all others.
    meters_kind_max = 8,
    meters_other = UINT16_MAX, // the number of all other models
};

// Buckets of durations.  Bound i is steps[i % per_octave] << (i / per_octave) nanoseconds: whole
// numbers, so that the bound that counts and the one that is shown agree to the last digit.  A
// duration is in the first bucket whose bound it does not exceed; the last bucket has no bound.
struct meter_scale {
    uint32_t per_octave;
    uint32_t count;    // of bounds
    uint64_t steps[6]; // ascending, below twice the first
};

enum { meter_bucket_max = 128 };

// 1 ms to about 18 minutes, six to an octave: with many requests, a quantile interpolated in a
// bucket is off by at most 2%.
extern const struct meter_scale meter_scale_request;
// 0.1 ms to 13 s, four to an octave.
extern const struct meter_scale meter_scale_token;
// 0.25 µs to 4 s, two to an octave.
extern const struct meter_scale meter_scale_stage;

static inline uint64_t meter_scale_bound_ns(const struct meter_scale *scale, uint32_t bucket)
{
    return scale->steps[bucket % scale->per_octave] << (bucket / scale->per_octave);
}

// The bucket of a duration; scale->count beyond the last bound.
uint32_t meter_scale_bucket(const struct meter_scale *scale, uint64_t duration_ns);

struct meter_histogram {
    atomic_uint_fast64_t sum_ns;
    atomic_uint_fast64_t buckets[meter_bucket_max + 1]; // not cumulative
};

struct meter_model {
    uint32_t name_size;
    char name[meters_model_size];
    struct meter_histogram ttft;  // streams only: until the first token
    struct meter_histogram tpot;  // streams only: between the tokens after it
    struct meter_histogram total; // outcome ok: until the end
};

struct meter_kind {
    atomic_uint model; // its number, from 1; 0: unused; or meters_other
    _Atomic(const char *) policy;
    atomic_uint_fast64_t outcomes[RECEIPT_OUTCOME_COUNT];
};

// Counts by backend.  The engine of a told request reported its cached tokens; wrong_tokens is the
// absolute difference between those and the expected ones.
#define METER_SLOT_MAP(X)                                                                          \
    X(prompt_tokens)                                                                               \
    X(output_tokens)                                                                               \
    X(told_count)                                                                                  \
    X(told_prompt_tokens)                                                                          \
    X(expected_tokens) /* of told requests */                                                      \
    X(cached_tokens)   /* of told requests */                                                      \
    X(wrong_tokens)                                                                                \
    X(saved_us)                                                                                    \
    X(ttft_us)                                                                                     \
    X(ttft_count)

struct meter_slot {
    _Alignas(64) atomic_uint_fast64_t backend; // its id; 0: unused
#define X(name) atomic_uint_fast64_t name;
    METER_SLOT_MAP(X)
#undef X
    struct meter_kind kinds[meters_kind_max + 1];
};

struct meters {
    uint32_t slot_count;
    atomic_uint model_count;                 // raised once the name is complete
    uint64_t model_hashes[meters_model_max]; // the writer's own: finds a name without reading all
    atomic_uint_fast64_t unrouted[RECEIPT_OUTCOME_COUNT];
    struct meter_histogram stages[RECEIPT_STAGE_COUNT]; // of requests that were measured
    struct meter_model models[meters_model_max + 1];    // the last one: all others
    struct meter_slot slots[];
};

size_t meters_size(uint32_t slot_count);
// Over a zeroed block of that many bytes, aligned to a cache line.
struct meters *meters_over(void *block, uint32_t slot_count);

// Counts the request.  `slot` is that of its backend, and ignored without one; `is_served`: some
// backend serves its model.
void meters_note(struct meters *meters, const struct receipt *receipt,
                 const struct receipt_parts *parts, uint32_t slot, bool is_served);

// Any thread.  The name of a model by the number of a meter_kind.
struct slice meters_model_name(const struct meters *meters, uint32_t number);
