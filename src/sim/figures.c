// SPDX-License-Identifier: Apache-2.0
//
// Sums run over sorted values: the order in which requests ended does not change a bit of the
// result.

#include "sim/figures.h"

#include "base/base.h"

#include <stdlib.h>

// Limits of a fluent response: other routing studies use the same two.
static const double good_ttft_ms = 1000;
static const double good_tpot_ms = 50;

// The counted samples of a run.
struct figures_tally {
    uint32_t count;
    uint32_t paced_count;  // with two tokens or more
    double *ttft_ms;       // `count` of them
    double *e2e_ms;        // likewise
    double *tpot_ms;       // paced_count of them
    uint64_t *work_tokens; // computed by each backend
    uint64_t *requests;    // of each backend
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
    uint64_t output_tokens;
    uint32_t good_count;
    double begin_ms;
    double end_ms;
};

int figures_order(const void *a, const void *b)
{
    double one = *(const double *)a;
    double other = *(const double *)b;
    return (one > other) - (one < other);
}

double figures_median(double *values, uint32_t count)
{
    ASSERT(count > 0);
    qsort(values, count, sizeof(*values), figures_order);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

// Between the two nearest of the sorted values, in proportion.
static double figures_percentile(const double *sorted, uint32_t count, double percent)
{
    double place = percent / 100 * (double)(count - 1);
    uint32_t below = (uint32_t)place;
    uint32_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (sorted[above] - sorted[below]) * (place - below);
}

struct distribution figures_distribution(double *values, uint32_t count)
{
    if (count == 0) {
        return (struct distribution){0};
    }
    qsort(values, count, sizeof(*values), figures_order);
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return (struct distribution){
        .mean = sum / count,
        .p50 = figures_percentile(values, count, 50),
        .p90 = figures_percentile(values, count, 90),
        .p99 = figures_percentile(values, count, 99),
        .max = values[count - 1],
    };
}

static double figures_balance(const uint64_t *work, uint32_t backend_count)
{
    uint64_t sum = 0;
    uint64_t most = 0;
    for (uint32_t i = 0; i < backend_count; i++) {
        sum += work[i];
        most = work[i] > most ? work[i] : most;
    }
    return sum > 0 ? (double)most * backend_count / (double)sum : 0;
}

static void tally_sample(struct figures_tally *tally, const struct figure_sample *sample,
                         uint32_t backend_count)
{
    double ended_ms = sample->due_ms + sample->last_ms;
    // Engines behind HTTP count by their own tokenizer, so theirs may be more than we sent.
    uint32_t cached = sample->cached_tokens < sample->prompt_tokens ? sample->cached_tokens
                                                                    : sample->prompt_tokens;
    bool is_good = sample->first_ms < good_ttft_ms;

    tally->ttft_ms[tally->count] = sample->first_ms;
    tally->e2e_ms[tally->count] = sample->last_ms;
    if (sample->output_tokens >= 2) {
        double tpot_ms = (sample->last_ms - sample->first_ms) / (double)(sample->output_tokens - 1);
        tally->tpot_ms[tally->paced_count++] = tpot_ms;
        is_good = is_good && tpot_ms < good_tpot_ms;
    }
    if (sample->backend < backend_count) {
        tally->work_tokens[sample->backend] +=
            (uint64_t)(sample->prompt_tokens - cached) + sample->output_tokens;
        tally->requests[sample->backend]++;
    }
    tally->prompt_tokens += sample->prompt_tokens;
    tally->cached_tokens += cached;
    tally->output_tokens += sample->output_tokens;
    tally->good_count += is_good;
    bool is_first = tally->count++ == 0;
    tally->begin_ms =
        is_first || sample->due_ms < tally->begin_ms ? sample->due_ms : tally->begin_ms;
    tally->end_ms = is_first || ended_ms > tally->end_ms ? ended_ms : tally->end_ms;
}

static void tally_conclude(struct figures_tally *tally, uint32_t backend_count, struct figures *out)
{
    out->span_s = (tally->end_ms - tally->begin_ms) / 1000;
    out->hit_rate =
        tally->prompt_tokens > 0 ? (double)tally->cached_tokens / (double)tally->prompt_tokens : 0;
    out->goodput = (double)tally->good_count / tally->count;
    if (out->span_s > 0) {
        out->requests_per_s = tally->count / out->span_s;
        out->output_per_s = (double)tally->output_tokens / out->span_s;
    }
    out->balance = figures_balance(tally->work_tokens, backend_count);
    out->request_balance = figures_balance(tally->requests, backend_count);
    out->e2e = figures_distribution(tally->e2e_ms, tally->count);
    out->ttft = figures_distribution(tally->ttft_ms, tally->count);
    for (int i = 0; i < figure_curve_points; i++) {
        out->ttft_curve[i] = figures_percentile(tally->ttft_ms, tally->count, i);
    }
    out->tpot = figures_distribution(tally->tpot_ms, tally->paced_count);
}

void figures_sum(const struct figure_sample *samples, uint32_t sample_count, double from_ms,
                 uint32_t backend_count, struct figures *out)
{
    double *values = calloc(3 * (size_t)sample_count + 1, sizeof(*values));
    uint64_t *work = calloc(2 * (size_t)backend_count + 1, sizeof(*work));
    ASSERT(values != NULL && work != NULL);
    struct figures_tally tally = {.ttft_ms = values,
                                  .e2e_ms = values + sample_count,
                                  .tpot_ms = values + 2 * (size_t)sample_count,
                                  .work_tokens = work,
                                  .requests = work + backend_count};

    for (uint32_t i = 0; i < sample_count; i++) {
        if (samples[i].due_ms >= from_ms) {
            tally_sample(&tally, &samples[i], backend_count);
        }
    }
    *out = (struct figures){.request_count = tally.count, .bound_rate = -1, .affinity = -1};
    if (tally.count > 0) {
        tally_conclude(&tally, backend_count, out);
    }
    free(values);
    free(work);
}
