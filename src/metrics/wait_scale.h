// SPDX-License-Identifier: Apache-2.0
//
// wait_scale.h -- histograms of waiting times, with buckets proportional to the time.
//
// 1/16 ms to 17 minutes in 24 octaves, each cut into 2^bits equal parts; bucket 0 has all shorter
// times, the last one all longer ones.  A quantile is interpolated in its bucket: off by at most
// 2^-bits, and by far less with many requests.  The bucket comes from the bits of a float.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    wait_octaves = 24,
    wait_exponent = 127 - 4, // of 1/16, as floats have it
    wait_fine = 4,           // bits: for all requests
    wait_coarse = 2,         // for the requests of one backend
    wait_fine_count = 1 + (wait_octaves << wait_fine),
    wait_coarse_count = 1 + (wait_octaves << wait_coarse),
};

static inline uint32_t wait_bucket(double ms, uint32_t bits)
{
    float value = (float)ms;
    if (!(value >= 0.0625F)) {
        return 0;
    }
    uint32_t word;
    memcpy(&word, &value, sizeof(word));
    uint32_t bucket = (word >> (23 - bits)) - ((uint32_t)wait_exponent << bits);
    uint32_t last = ((uint32_t)wait_octaves << bits) - 1;
    return 1 + (bucket < last ? bucket : last);
}

// The lower bound of the bucket.
static inline double wait_bound(uint32_t bucket, uint32_t bits)
{
    if (bucket == 0) {
        return 0;
    }
    uint32_t octave = (bucket - 1) >> bits;
    uint32_t part = (bucket - 1) & ((1U << bits) - 1);
    double parts = (double)(1U << bits);
    return 0.0625 * (double)(1U << octave) * (1 + (double)part / parts);
}

// A quantile of counts on the scale of `bits`; NAN: nothing was counted.
static inline double wait_quantile(const uint32_t *counts, uint32_t bits, double quantile)
{
    uint32_t count = 1 + ((uint32_t)wait_octaves << bits);
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += counts[i];
    }
    double rank = quantile * (double)total;
    double seen = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (counts[i] > 0 && seen + counts[i] >= rank) {
            double from = wait_bound(i, bits);
            return from + (wait_bound(i + 1, bits) - from) * (rank - seen) / counts[i];
        }
        seen += counts[i];
    }
    return (double)NAN;
}
