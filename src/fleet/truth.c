// SPDX-License-Identifier: Apache-2.0

#include "fleet/truth.h"

#include "base/base.h"

#include <math.h>

// Relaxed everywhere: the figures are only shown.
#define LOAD(field) atomic_load_explicit(field, memory_order_relaxed)
#define STORE(field, value) atomic_store_explicit(field, value, memory_order_relaxed)
#define ADD(field, value) atomic_fetch_add_explicit(field, value, memory_order_relaxed)

enum {
    step_tokens = 16,
    octave_buckets = 4,
};

// The bound of the n-th bucket from zero: steps up to eight of them, then four for each power of
// two.
static uint32_t bucket_bound(uint32_t n)
{
    if (n < 2 * octave_buckets) {
        return n * step_tokens;
    }
    uint32_t octave = n / octave_buckets - 1;
    return (octave_buckets + n % octave_buckets) * step_tokens << octave;
}

uint32_t truth_bucket(int64_t difference)
{
    uint64_t size = (uint64_t)(difference < 0 ? -difference : difference);
    if (size == 0) {
        return truth_side_buckets;
    }
    uint64_t steps = (size - 1) / step_tokens; // that lie below it in full
    uint64_t n = steps + 1;
    if (steps >= octave_buckets) {
        uint64_t octave = 61 - (uint64_t)__builtin_clzll(steps);
        n = octave * octave_buckets + (steps >> octave) + 1;
    }
    uint32_t away = n < truth_side_buckets ? (uint32_t)n : truth_side_buckets;
    return difference < 0 ? truth_side_buckets - away : truth_side_buckets + away;
}

int32_t truth_bucket_edge(uint32_t bucket)
{
    ASSERT(bucket < truth_bucket_count);

    return bucket < truth_side_buckets ? -(int32_t)bucket_bound(truth_side_buckets - bucket)
                                       : (int32_t)bucket_bound(bucket - truth_side_buckets);
}

static uint64_t half_number(uint64_t now_ms)
{
    return now_ms / truth_half_ms + 1;
}

// The current half; the first thread in it clears the counts of a minute ago.  A thread whose clock
// is behind adds to the newer half.
static struct truth_half *half_now(struct truth_record *record, uint64_t now_ms)
{
    uint64_t number = half_number(now_ms);
    struct truth_half *half = &record->halves[number % 2];
    uint_fast64_t seen = LOAD(&half->number);

    if (seen < number &&
        atomic_compare_exchange_strong_explicit(&half->number, &seen, number, memory_order_relaxed,
                                                memory_order_relaxed)) {
        STORE(&half->sums.predicted_tokens, 0);
        STORE(&half->sums.actual_tokens, 0);
        STORE(&half->sums.wrong_tokens, 0);
        for (uint32_t i = 0; i < truth_bucket_count; i++) {
            STORE(&half->buckets[i], 0);
        }
    }
    return half;
}

static void add_sums(struct truth_sums *sums, uint32_t predicted_tokens, uint32_t actual_tokens)
{
    ADD(&sums->predicted_tokens, predicted_tokens);
    ADD(&sums->actual_tokens, actual_tokens);
    ADD(&sums->wrong_tokens, predicted_tokens > actual_tokens ? predicted_tokens - actual_tokens
                                                              : actual_tokens - predicted_tokens);
}

void truth_note(struct truth *truth, enum truth_kind kind, uint32_t predicted_tokens,
                uint32_t actual_tokens, uint64_t now_ms)
{
    ASSERT(kind < TRUTH_KIND_COUNT);

    struct truth_record *record = &truth->records[kind];
    struct truth_half *half = half_now(record, now_ms);
    uint32_t bucket = truth_bucket((int64_t)predicted_tokens - actual_tokens);

    STORE(&record->last, (uint64_t)predicted_tokens << 32 | actual_tokens);
    add_sums(&record->sums, predicted_tokens, actual_tokens);
    ADD(&record->buckets[bucket], 1);
    add_sums(&half->sums, predicted_tokens, actual_tokens);
    ADD(&half->buckets[bucket], 1);
}

static int32_t figures_quantile(const struct truth_figures *figures, uint32_t percent)
{
    uint64_t rank = figures->count * percent / 100;
    uint64_t seen = 0;

    for (uint32_t i = 0; i < truth_bucket_count; i++) {
        seen += figures->buckets[i];
        if (seen > rank) {
            return truth_bucket_edge(i);
        }
    }
    return 0;
}

static double percent_wrong(const struct truth_figures *figures)
{
    if (figures->wrong_tokens == 0) {
        return 0;
    }
    return figures->actual_tokens == 0
               ? (double)INFINITY
               : 100 * (double)figures->wrong_tokens / (double)figures->actual_tokens;
}

// All figures follow from one copy of the buckets, so shares add up while other threads count on.
static void figures_conclude(struct truth_figures *figures)
{
    for (uint32_t i = 0; i < truth_bucket_count; i++) {
        figures->count += figures->buckets[i];
    }
    figures->equal = figures->buckets[truth_side_buckets];
    figures->equal_share = figures->count > 0 ? (double)figures->equal / (double)figures->count : 0;
    figures->wrong_percent = percent_wrong(figures);
    figures->p1 = figures_quantile(figures, 1);
    figures->p50 = figures_quantile(figures, 50);
    figures->p99 = figures_quantile(figures, 99);
}

static void read_sums(const struct truth_sums *sums, struct truth_figures *out)
{
    out->predicted_tokens += LOAD(&sums->predicted_tokens);
    out->actual_tokens += LOAD(&sums->actual_tokens);
    out->wrong_tokens += LOAD(&sums->wrong_tokens);
}

static void read_half(const struct truth_half *half, uint64_t now_ms, struct truth_figures *out)
{
    if (LOAD(&half->number) + 1 < half_number(now_ms)) {
        return; // too old
    }
    read_sums(&half->sums, out);
    for (uint32_t i = 0; i < truth_bucket_count; i++) {
        out->buckets[i] += LOAD(&half->buckets[i]);
    }
}

void truth_read(const struct truth *truth, enum truth_kind kind, uint64_t now_ms,
                struct truth_view *out)
{
    ASSERT(kind < TRUTH_KIND_COUNT);

    const struct truth_record *record = &truth->records[kind];
    uint64_t last = LOAD(&record->last);

    *out = (struct truth_view){.last_predicted = (uint32_t)(last >> 32),
                               .last_actual = (uint32_t)last};
    read_sums(&record->sums, &out->all);
    for (uint32_t i = 0; i < truth_bucket_count; i++) {
        out->all.buckets[i] = LOAD(&record->buckets[i]);
    }
    figures_conclude(&out->all);
    read_half(&record->halves[0], now_ms, &out->recent);
    read_half(&record->halves[1], now_ms, &out->recent);
    figures_conclude(&out->recent);
}
