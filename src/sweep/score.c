// SPDX-License-Identifier: Apache-2.0

#include "sweep/score.h"

#include "base/base.h"

#include <math.h>
#include <string.h>

const char *const score_metrics[score_metric_count] = {"TTFT", "TTFT p99", "E2E", "E2E p99"};

static const size_t offsets[score_metric_count] = {
    offsetof(struct figures, ttft.mean), offsetof(struct figures, ttft.p99),
    offsetof(struct figures, e2e.mean), offsetof(struct figures, e2e.p99)};

static double score_number_of(const struct sweep_point *point, uint32_t policy, uint32_t metric)
{
    double value = 0;
    memcpy(&value, (const char *)&point->cells[policy].figures + offsets[metric], sizeof(value));
    return value;
}

uint32_t score_best_of(const struct sweep *sweep, const struct sweep_point *point, uint32_t judge,
                       uint32_t metric)
{
    uint32_t best = judge;
    for (uint32_t i = 0; i < sweep->options.policy_count; i++) {
        if (i != judge && (best == judge || score_number_of(point, i, metric) <
                                                score_number_of(point, best, metric))) {
            best = i;
        }
    }
    return best;
}

double score_ratio(const struct sweep *sweep, const struct sweep_point *point, uint32_t judge,
                   uint32_t peer, uint32_t metric)
{
    if (peer == score_best_peer) {
        peer = score_best_of(sweep, point, judge, metric);
    }
    double theirs = score_number_of(point, peer, metric);
    double ours = score_number_of(point, judge, metric);
    return peer != judge && theirs > 0 && ours > 0 ? theirs / ours : 0;
}

static void sum_metric(const struct sweep *sweep, const struct score_question *question,
                       uint32_t metric, struct score *out)
{
    double logs = 0;
    uint32_t count = 0;
    out->point_count = 0;
    for (uint32_t i = 0; i < sweep->point_count; i++) {
        const struct sweep_point *point = &sweep->points[i];
        if (question->counts != NULL && !question->counts(point, question->wanted)) {
            continue;
        }
        out->point_count++;
        double ratio = score_ratio(sweep, point, question->judge, question->peer, metric);
        if (ratio > 0) {
            logs += log(ratio);
            if (count++ == 0 || ratio < out->metrics[metric].worst) {
                out->metrics[metric].worst = ratio;
                out->metrics[metric].worst_at = point;
            }
        }
    }
    out->metrics[metric].mean = count > 0 ? exp(logs / count) : 0;
}

void score_sum(const struct sweep *sweep, const struct score_question *question, struct score *out)
{
    ASSERT(question->judge < sweep->options.policy_count);
    *out = (struct score){.all = 1};
    for (uint32_t m = 0; m < score_metric_count; m++) {
        sum_metric(sweep, question, m, out);
        out->all *= pow(out->metrics[m].mean, 1.0 / score_metric_count);
    }
}
