// SPDX-License-Identifier: Apache-2.0

#include "sim/workload/draw.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>

double draw_unit(struct rng *rng)
{
    // 52 bits and a half: neither 0 nor 1, whose logarithms are of no use.
    return ((double)(rng_next(rng) >> 12) + 0.5) * 0x1p-52;
}

static double draw_normal(struct rng *rng)
{
    // Box and Muller; the second of the pair is not kept, so that a draw is a function of the
    // state.
    double radius = sqrt(-2 * log(draw_unit(rng)));
    return radius * cos(2 * M_PI * draw_unit(rng));
}

double draw_value(const struct draw *draw, struct rng *rng)
{
    switch (draw->kind) {
    case DRAW_KIND_FIXED:
        return draw->first;
    case DRAW_KIND_UNIFORM:
        return draw->first + (draw->second - draw->first) * draw_unit(rng);
    case DRAW_KIND_LOGNORMAL: {
        double sigma = draw->second;
        // e^(sigma^2 / 2) is the mean of e^(sigma * normal).
        return draw->first * exp(sigma * draw_normal(rng) - sigma * sigma / 2);
    }
    case DRAW_KIND_EXPONENTIAL:
        return -draw->first * log(draw_unit(rng));
    }
    return 0;
}

double draw_mean(const struct draw *draw)
{
    return draw->kind == DRAW_KIND_UNIFORM ? (draw->first + draw->second) / 2 : draw->first;
}

uint32_t draw_between(uint32_t low, uint32_t high, struct rng *rng)
{
    ASSERT(low <= high && high - low < UINT32_MAX);
    return low + rng_below(rng, high - low + 1);
}

void zipf_init(struct zipf *zipf, uint32_t count, double exponent)
{
    ASSERT(count > 0);
    double *cumulative = malloc(count * sizeof(*cumulative));
    ASSERT(cumulative != NULL);
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += pow(i + 1.0, -exponent);
        cumulative[i] = sum;
    }
    *zipf = (struct zipf){.cumulative = cumulative, .count = count};
}

void zipf_fini(struct zipf *zipf)
{
    free(zipf->cumulative);
    *zipf = (struct zipf){0};
}

uint32_t zipf_pick(const struct zipf *zipf, struct rng *rng)
{
    double wanted = draw_unit(rng) * zipf->cumulative[zipf->count - 1];
    uint32_t low = 0;
    uint32_t high = zipf->count - 1;
    while (low < high) { // the first whose sum is above the wanted one
        uint32_t middle = low + (high - low) / 2;
        if (zipf->cumulative[middle] > wanted) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}
