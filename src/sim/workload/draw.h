// SPDX-License-Identifier: Apache-2.0
//
// draw.h -- random numbers of a given distribution, for tables of constants:
//
//     DRAW_UNIFORM(500, 1500)      every value from 500 to 1,500
//     DRAW_LOGNORMAL(300, 0.6)     300 in the mean; the logarithm has a standard deviation of 0.6
//     DRAW_EXPONENTIAL(20)         20 in the mean, as waiting times are
//
// Pure: the randomness is handed in.
#pragma once

#include "base/rng.h"

enum draw_kind { DRAW_KIND_FIXED, DRAW_KIND_UNIFORM, DRAW_KIND_LOGNORMAL, DRAW_KIND_EXPONENTIAL };

struct draw {
    enum draw_kind kind;
    double first;
    double second;
};

// Initialisers.
#define DRAW_FIXED(value)                                                                          \
    {                                                                                              \
        DRAW_KIND_FIXED, (value), 0                                                                \
    }
#define DRAW_UNIFORM(low, high)                                                                    \
    {                                                                                              \
        DRAW_KIND_UNIFORM, (low), (high)                                                           \
    }
#define DRAW_LOGNORMAL(mean, sigma)                                                                \
    {                                                                                              \
        DRAW_KIND_LOGNORMAL, (mean), (sigma)                                                       \
    }
#define DRAW_EXPONENTIAL(mean)                                                                     \
    {                                                                                              \
        DRAW_KIND_EXPONENTIAL, (mean), 0                                                           \
    }

// Uniform in (0, 1).
double draw_unit(struct rng *rng);

double draw_value(const struct draw *draw, struct rng *rng);
double draw_mean(const struct draw *draw);

// A whole number from `low` to `high`, both included, each as likely.
uint32_t draw_between(uint32_t low, uint32_t high, struct rng *rng);

// Numbers from 0 to count - 1, of which number n comes in proportion to 1 / (n + 1)^exponent.
struct zipf {
    double *cumulative;
    uint32_t count;
};

// `count` is at least 1.
void zipf_init(struct zipf *zipf, uint32_t count, double exponent);
void zipf_fini(struct zipf *zipf);
uint32_t zipf_pick(const struct zipf *zipf, struct rng *rng);
