// SPDX-License-Identifier: Apache-2.0
//
// gaie -- the highest sum of three scores: the default profile of the Kubernetes endpoint picker.
//
//     score(t) = 2 * (max q - q(t)) / (max q - min q)       1 for all when all q are equal
//              + 2 * (1 - kv_usage(t))
//              + 3 * matched blocks(t) / blocks of the prompt
//     cost     = -score;  the lowest, ties at random
//
// q is the length of the engine's queue.  A missing report does not count as 0: if the queue of one
// target is unknown, q is the running requests of each; if the cache usage of one is unknown, that
// term is left out for all.

#include "base/base.h"
#include "policy/cheapest_internal.h"
#include "policy/policy.h"

#include <stdbool.h>

static const double queue_weight = 2;
static const double usage_weight = 2;
static const double prefix_weight = 3;

struct gaie_reports {
    bool has_waiting; // of every target
    bool has_usage;   // of every target
    double queue_max;
    double queue_min;
};

static double gaie_queue(const struct gaie_reports *reports, const struct policy_target *target)
{
    return reports->has_waiting ? (double)target->waiting : (double)target->running_requests;
}

static struct gaie_reports read_reports(const struct policy_input *in)
{
    struct gaie_reports reports = {.has_waiting = true, .has_usage = true};
    for (uint32_t i = 0; i < in->target_count; i++) {
        reports.has_waiting = reports.has_waiting && in->targets[i].waiting >= 0;
        reports.has_usage = reports.has_usage && in->targets[i].kv_usage >= 0;
    }
    reports.queue_min = gaie_queue(&reports, &in->targets[0]);
    reports.queue_max = reports.queue_min;
    for (uint32_t i = 1; i < in->target_count; i++) {
        double queue = gaie_queue(&reports, &in->targets[i]);
        reports.queue_min = queue < reports.queue_min ? queue : reports.queue_min;
        reports.queue_max = queue > reports.queue_max ? queue : reports.queue_max;
    }
    return reports;
}

static double gaie_score(const struct policy_input *in, const struct gaie_reports *reports,
                         const struct policy_target *target)
{
    double range = reports->queue_max - reports->queue_min;
    double queue = range > 0 ? (reports->queue_max - gaie_queue(reports, target)) / range : 1;
    double free_share = reports->has_usage ? 1 - (double)target->kv_usage : 0;
    double prefix = in->key_count > 0 ? (double)target->matched_blocks / in->key_count : 0;
    return queue_weight * queue + usage_weight * free_share + prefix_weight * prefix;
}

static uint32_t gaie_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;
    ASSERT(in->costs != NULL);

    struct gaie_reports reports = read_reports(in);
    for (uint32_t i = 0; i < in->target_count; i++) {
        in->costs[i] = -gaie_score(in, &reports, &in->targets[i]);
    }
    return cheapest_of(in->costs, in->target_count, rng);
}

const struct policy policy_gaie = {
    .name = "gaie",
    .summary = "scores for queue, cache usage and matched prefix, 2:2:3 (endpoint picker)",
    .reads_prompt = true,
    .pick = gaie_pick,
};
