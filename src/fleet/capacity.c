// SPDX-License-Identifier: Apache-2.0

#include "fleet/capacity.h"

enum {
    // Smaller caches are not worth routing for; the bound keeps bad samples from disabling a cache
    // for good.
    tokens_min = 4096,
    // A miss at less than this part of the belief is not an eviction.
    emptied_divisor = 8,
    shrink_divisor = 8,
    emptied_shrink_divisor = 16,
    tokens_max = 1 << 30, // ages are differences of 32-bit clocks
};

static uint32_t bounded_capacity(uint64_t tokens)
{
    uint64_t most = tokens < tokens_max ? tokens : tokens_max;
    return (uint32_t)(most > tokens_min ? most : tokens_min);
}

uint32_t capacity_learn(uint32_t belief, const struct capacity_sample *sample,
                        enum capacity_verdict *verdict)
{
    uint64_t age = sample->age;

    *verdict = CAPACITY_HELD;
    if (sample->was_there) {
        return belief != 0 && age > belief ? bounded_capacity(age + age / 8) : belief;
    }
    if (belief == 0) {
        // The first miss: an eviction, or the cache was emptied, which shows within the first few
        // thousand tokens.
        *verdict = age < tokens_min ? CAPACITY_EMPTIED : CAPACITY_EVICTED;
        return age < tokens_min ? 0 : bounded_capacity(2 * age);
    }
    if (age < belief / emptied_divisor) {
        // Shrinks as well: if this repeats, the belief is far too large.
        *verdict = CAPACITY_EMPTIED;
        return bounded_capacity(belief - belief / emptied_shrink_divisor);
    }
    *verdict = CAPACITY_EVICTED;
    return age < belief ? bounded_capacity(belief - (belief - age) / shrink_divisor) : belief;
}

uint32_t capacity_told(uint64_t cache_tokens)
{
    return cache_tokens == 0 ? 0 : bounded_capacity(cache_tokens + cache_tokens / 8);
}
