// SPDX-License-Identifier: Apache-2.0
//
// meters_sum.h -- the meters of all workers as one.
//
// Workers number models as they meet them, so the same name has another number with each.  Here every
// name has one place, and all sums are by it.
//
// Threads: one; the meters may be written meanwhile, and models that come after _open are not seen.
// Memory: taken by _open; the meters stay the caller's.
#pragma once

#include "metrics/meters.h"

struct meters_sum;

// Some of `meters` may be NULL: that worker counts nothing.  NULL when memory is short.
struct meters_sum *meters_sum_open(const struct meters *const *meters, uint32_t count);

// Clears the caller's pointer, which may be NULL.
void meters_sum_close(struct meters_sum **sum);

// Workers that count.
uint32_t meters_sum_worker_count(const struct meters_sum *sum);

// Names of models, without repetition; the first is "other".  `place` is below the count.
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
uint64_t meters_sum_homeless(const struct meters_sum *sum, enum receipt_outcome outcome);

// What a backend came to; of one that nobody has met all is 0.
struct meters_slot_sum {
    uint64_t prompt_tokens;
    uint64_t output_tokens;
    uint64_t expected_tokens;
    uint64_t cached_tokens;
    uint64_t wrong_tokens;
    uint64_t told_count;
    uint64_t told_prompt_tokens;
    uint64_t saved_us;
    uint64_t ttft_us;
    uint64_t ttft_count;
};

void meters_sum_slot(const struct meters_sum *sum, uint32_t slot, uint64_t backend,
                     struct meters_slot_sum *out);

struct meters_kind_sum {
    uint32_t place;     // of the model
    const char *policy; // its name; "none": nothing was decided
    uint64_t outcomes[RECEIPT_OUTCOME_COUNT];
};

// Requests of a backend, no pair of model and policy twice.  `*out` is valid until the next call.
uint32_t meters_sum_kinds(struct meters_sum *sum, uint32_t slot, uint64_t backend,
                          const struct meters_kind_sum **out);
