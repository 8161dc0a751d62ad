// SPDX-License-Identifier: Apache-2.0
//
// figures.h -- the results of a run: distributions, hit rate, balance, goodput.
//
// Each finished request leaves one sample; figures_sum makes the figures of them.  The same for
// runs in virtual time and for runs over HTTP, so that both can be laid side by side.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct figure_sample {
    double due_ms;   // when it should have been sent, from the start of the run
    double first_ms; // from then to its first token
    double last_ms;  // from then to its last
    uint32_t prompt_tokens;
    uint32_t cached_tokens; // as the engine says
    uint32_t output_tokens;
    uint32_t backend; // that served it; UINT32_MAX: not known
};

struct distribution {
    double mean;
    double p50;
    double p90;
    double p99;
    double max;
};

enum { figure_curve_points = 101 };

struct figures {
    uint32_t request_count;
    uint32_t failed_count;
    double span_s;            // from the first counted request to the end of the last
    struct distribution ttft; // ms
    struct distribution tpot; // ms between tokens, mean of each request with two or more
    struct distribution e2e;  // ms
    double ttft_curve[figure_curve_points]; // its percentiles 0 to 100
    double hit_rate;                        // cached tokens over tokens of prompts
    double bound_rate;                      // with one infinite cache; negative: not known
    double balance; // computed tokens, prompt and response, of the busiest backend over the mean;
                    // 1: even, 0: not known
    double request_balance; // the same of requests
    double affinity; // share of requests that went where the last one with the same prefix went;
                     // negative: not known
    double goodput;  // share of requests with TTFT below 1 s and TPOT below 50 ms
    double requests_per_s;
    double output_per_s;
    double preemptions;
};

// Samples that were due before `from_ms` warmed the caches up and do not count.  The caller fills
// in the rest: failed_count and preemptions are 0 here, bound_rate and affinity -1.
void figures_sum(const struct figure_sample *samples, uint32_t sample_count, double from_ms,
                 uint32_t backend_count, struct figures *out);

// Sorts the values; all zero if there are none.
struct distribution figures_distribution(double *values, uint32_t count);

// The order of two doubles, for qsort.
int figures_order(const void *a, const void *b);

// Sorts the values, of which there is at least one.
double figures_median(double *values, uint32_t count);
