// SPDX-License-Identifier: Apache-2.0
//
// meters_sum.h -- the sum of the meters of all workers.
//
// Each worker numbers models in the order of its requests.  Here every name has one place, and all
// sums are by place.
//
// Threads: one.  Workers may write their meters meanwhile; models added after _open are not seen.
// Memory: taken by _open; the meters stay the caller's.
#pragma once

#include "metrics/meters.h"

struct meters_sum;

// An entry of `meters` may be NULL: that worker has none.  Returns NULL when memory is short.
struct meters_sum *meters_sum_open(const struct meters *const *meters, uint32_t count);

// Clears the caller's pointer, which may be NULL.
void meters_sum_close(struct meters_sum **sum);

// Workers that have meters.
uint32_t meters_sum_worker_count(const struct meters_sum *sum);

// Names of models, each once; the first is "other".  `place` is below the count.
uint32_t meters_sum_model_count(const struct meters_sum *sum);
struct slice meters_sum_model(const struct meters_sum *sum, uint32_t place);

// Plain numbers of a histogram.
struct meter_counts {
    uint64_t sum_ns;
    uint64_t buckets[meter_bucket_max + 1];
};

enum meters_duration { METERS_TTFT, METERS_TPOT, METERS_TOTAL };

void meters_sum_duration(const struct meters_sum *sum, uint32_t place,
                         enum meters_duration duration, struct meter_counts *out);
void meters_sum_stage(const struct meters_sum *sum, enum receipt_stage stage,
                      struct meter_counts *out);
uint64_t meters_sum_unrouted(const struct meters_sum *sum, enum receipt_outcome outcome);

// Counts of one backend; all 0 if it had no requests.
struct meters_slot_sum {
#define X(name) uint64_t name;
    METER_SLOT_MAP(X)
#undef X
};

void meters_sum_slot(const struct meters_sum *sum, uint32_t slot, uint64_t backend,
                     struct meters_slot_sum *out);

struct meters_kind_sum {
    uint32_t place;     // of the model
    const char *policy; // its name; "none" without a decision
    uint64_t outcomes[RECEIPT_OUTCOME_COUNT];
};

// Requests of a backend, by model and policy.  `*out` is valid until the next call.
uint32_t meters_sum_kinds(struct meters_sum *sum, uint32_t slot, uint64_t backend,
                          const struct meters_kind_sum **out);
