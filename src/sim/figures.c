// SPDX-License-Identifier: Apache-2.0
//
// Sums run over sorted values: the order in which requests ended does not change a bit of the
// result.

#include "sim/figures.h"

#include <stdlib.h>

// Limits of a fluent response: other routing studies use the same two.
static const double good_ttft_ms = 1000;
static const double good_tpot_ms = 50;

static double sample_first_of(const struct figure_sample *sample)
{
    return sample->first_ms;
}

static double last_of(const struct figure_sample *sample)
{
    return sample->last_ms;
}

static double tpot_of(const struct figure_sample *sample)
{
    return (sample->last_ms - sample->first_ms) / (double)(sample->output_tokens - 1);
}

static int figures_order(double a, double b)
{
    return (a > b) - (a < b);
}

static int by_first(const void *a, const void *b)
{
    return figures_order(sample_first_of(a), sample_first_of(b));
}

static int by_last(const void *a, const void *b)
{
    return figures_order(last_of(a), last_of(b));
}

static int by_tpot(const void *a, const void *b)
{
    return figures_order(tpot_of(a), tpot_of(b));
}

static int by_backend(const void *a, const void *b)
{
    const struct figure_sample *one = a;
    const struct figure_sample *other = b;
    return (one->backend > other->backend) - (one->backend < other->backend);
}

// Moves those that are wanted to the front; returns how many they are.
static uint32_t sample_gather(struct figure_sample *samples, uint32_t count,
                              bool (*is_wanted)(const struct figure_sample *sample, double limit),
                              double limit)
{
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (is_wanted(&samples[i], limit)) {
            struct figure_sample moved = samples[i];
            samples[i] = samples[wanted];
            samples[wanted++] = moved;
        }
    }
    return wanted;
}

static bool is_due_from(const struct figure_sample *sample, double from_ms)
{
    return sample->due_ms >= from_ms;
}

static bool has_pace(const struct figure_sample *sample, double unused)
{
    (void)unused;
    return sample->output_tokens >= 2;
}

// Between the two nearest of the sorted samples, in proportion.
static double percentile(const struct figure_sample *sorted, uint32_t count,
                         double (*value)(const struct figure_sample *sample), double percent)
{
    double place = percent / 100 * (double)(count - 1);
    uint32_t below = (uint32_t)place;
    uint32_t above = below + 1 < count ? below + 1 : below;
    double low = value(&sorted[below]);
    return low + (value(&sorted[above]) - low) * (place - below);
}

static struct distribution distribution(const struct figure_sample *sorted, uint32_t count,
                                        double (*value)(const struct figure_sample *sample))
{
    if (count == 0) {
        return (struct distribution){0};
    }
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += value(&sorted[i]);
    }
    return (struct distribution){
        .mean = sum / count,
        .p50 = percentile(sorted, count, value, 50),
        .p90 = percentile(sorted, count, value, 90),
        .p99 = percentile(sorted, count, value, 99),
        .max = value(&sorted[count - 1]),
    };
}

// Engines behind HTTP count by their own tokenizer, so theirs may be more than we sent.
static uint32_t cached_tokens(const struct figure_sample *sample)
{
    return sample->cached_tokens < sample->prompt_tokens ? sample->cached_tokens
                                                         : sample->prompt_tokens;
}

static uint64_t computed_tokens(const struct figure_sample *sample)
{
    return (uint64_t)(sample->prompt_tokens - cached_tokens(sample)) + sample->output_tokens;
}

static uint64_t one_request(const struct figure_sample *sample)
{
    (void)sample;
    return 1;
}

// Of samples that are sorted by backend.
static double balance(const struct figure_sample *sorted, uint32_t count, uint32_t backend_count,
                      uint64_t (*work)(const struct figure_sample *sample))
{
    uint64_t sum = 0;
    uint64_t most = 0;
    uint64_t own = 0;

    for (uint32_t i = 0; i < count && sorted[i].backend < backend_count; i++) {
        bool is_same = i > 0 && sorted[i].backend == sorted[i - 1].backend;
        own = (is_same ? own : 0) + work(&sorted[i]);
        most = own > most ? own : most;
        sum += work(&sorted[i]);
    }
    return sum > 0 ? (double)most * backend_count / (double)sum : 0;
}

static bool sample_is_good(const struct figure_sample *sample)
{
    return sample->first_ms < good_ttft_ms &&
           (sample->output_tokens < 2 || tpot_of(sample) < good_tpot_ms);
}

static void figures_sum_up(const struct figure_sample *samples, uint32_t count, struct figures *out)
{
    uint64_t prompt = 0;
    uint64_t cached = 0;
    uint64_t output = 0;
    uint32_t good = 0;
    double begin_ms = samples[0].due_ms;
    double end_ms = begin_ms;

    for (uint32_t i = 0; i < count; i++) {
        const struct figure_sample *sample = &samples[i];
        double ended_ms = sample->due_ms + sample->last_ms;
        prompt += sample->prompt_tokens;
        cached += cached_tokens(sample);
        output += sample->output_tokens;
        good += sample_is_good(sample);
        begin_ms = sample->due_ms < begin_ms ? sample->due_ms : begin_ms;
        end_ms = ended_ms > end_ms ? ended_ms : end_ms;
    }
    out->span_s = (end_ms - begin_ms) / 1000;
    out->hit_rate = prompt > 0 ? (double)cached / (double)prompt : 0;
    out->goodput = (double)good / count;
    if (out->span_s > 0) {
        out->requests_per_s = count / out->span_s;
        out->output_per_s = (double)output / out->span_s;
    }
}

void figures_sum(struct figure_sample *samples, uint32_t sample_count, double from_ms,
                 uint32_t backend_count, struct figures *out)
{
    uint32_t count = sample_gather(samples, sample_count, is_due_from, from_ms);

    *out = (struct figures){.request_count = count, .bound_rate = -1, .affinity = -1};
    if (count == 0) {
        return;
    }
    figures_sum_up(samples, count, out);
    qsort(samples, count, sizeof(*samples), by_backend);
    out->balance = balance(samples, count, backend_count, computed_tokens);
    out->request_balance = balance(samples, count, backend_count, one_request);
    qsort(samples, count, sizeof(*samples), by_last);
    out->e2e = distribution(samples, count, last_of);
    qsort(samples, count, sizeof(*samples), by_first);
    out->ttft = distribution(samples, count, sample_first_of);
    for (int i = 0; i < figure_curve_points; i++) {
        out->ttft_curve[i] = percentile(samples, count, sample_first_of, i);
    }
    uint32_t paced = sample_gather(samples, count, has_pace, 0);
    qsort(samples, paced, sizeof(*samples), by_tpot);
    out->tpot = distribution(samples, paced, tpot_of);
}
