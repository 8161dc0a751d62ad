// SPDX-License-Identifier: Apache-2.0
//
// histogram.h -- counts of durations, exact to 1/128: percentiles without keeping the samples.
//
// The first 128 buckets are one nanosecond each; every further power of two has 128 buckets.
#pragma once

#include <stdint.h>

enum {
    histogram_bits = 7,
    histogram_octave = 1 << histogram_bits,
    // Up to 2^40 ns, 18 minutes; longer durations count as that.
    histogram_buckets = (40 - histogram_bits + 1) * histogram_octave,
};

struct histogram {
    uint64_t count;
    uint64_t sum_ns;
    uint64_t max_ns;
    uint64_t buckets[histogram_buckets];
};

static inline uint32_t histogram_bucket(uint64_t ns)
{
    if (ns < histogram_octave) {
        return (uint32_t)ns;
    }
    uint32_t shift = 63 - (uint32_t)__builtin_clzll(ns) - histogram_bits;
    uint64_t bucket = (uint64_t)(shift + 1) * histogram_octave + (ns >> shift) - histogram_octave;
    return bucket < histogram_buckets ? (uint32_t)bucket : histogram_buckets - 1;
}

static inline void histogram_add(struct histogram *histogram, uint64_t ns)
{
    histogram->count++;
    histogram->sum_ns += ns;
    histogram->max_ns = ns > histogram->max_ns ? ns : histogram->max_ns;
    histogram->buckets[histogram_bucket(ns)]++;
}

// The lower bound of the bucket in which the quantile lies; 0 without samples.
static inline uint64_t histogram_quantile(const struct histogram *histogram, double quantile)
{
    uint64_t rank = (uint64_t)(quantile * (double)histogram->count);
    uint64_t seen = 0;
    for (uint32_t i = 0; i < histogram_buckets; i++) {
        seen += histogram->buckets[i];
        if (seen > rank) {
            uint32_t octave = i / histogram_octave;
            uint64_t place = i % histogram_octave;
            return octave == 0 ? place : (histogram_octave + place) << (octave - 1);
        }
    }
    return histogram->max_ns;
}
