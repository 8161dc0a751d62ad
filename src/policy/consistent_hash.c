// SPDX-License-Identifier: Apache-2.0
//
// consistent_hash -- a session stays on its target while that target is routable and not
// overloaded.
//
// Rendezvous hashing: every session ranks all targets by a score and takes the highest:
//
//     u             = hash(session, target identity), as a number in (0, 1)
//     score(target) = -weight / ln u
//
// A target that leaves gives up exactly its own sessions, each to the session's next best target.
// A target that arrives takes exactly the sessions that rank it first.  -ln u is exponential; the
// least of exponentials with rates w belongs to each with probability w / sum of w, so each target
// gets its share of the sessions by weight.  Without state, every worker and every replica of the
// router makes the same choice from the names of the backends alone.
//
// Bounded load: with m requests running in all and W the sum of weights, a target that runs
//
//     cap = ceil(load_bound_percent / 100 * (m + 1) * weight / W), or more,
//
// is skipped, and the session takes its next best target for this request.  The caps add up to more
// than m, so some target is always below its cap.  On a quiet fleet the cap would be 1 or 2, and
// sessions that happen to share a target would leave it although no engine has much to do.  Hence
// the floor: an engine computes a handful of requests in one batch nearly as fast as one, so fewer
// than overload_floor are never an overload.
//
// A request without a session goes by weighted_power_of_two, which with equal weights is
// power_of_two.

#include "base/base.h"
#include "base/hash.h"
#include "policy/policy.h"

#include <math.h>
#include <stdbool.h>

// A target with fewer running requests than this is never overloaded.
enum { overload_floor = 8 };

struct fleet_totals {
    uint64_t running;
    uint64_t weight;
};

struct rendezvous {
    uint64_t hash;
    uint64_t identity;
    uint32_t weight;
};

static struct fleet_totals fleet_totals(const struct policy_input *in)
{
    struct fleet_totals sum = {0};
    for (uint32_t i = 0; i < in->target_count; i++) {
        ASSERT(in->targets[i].weight > 0);
        sum.running += in->targets[i].running_requests;
        sum.weight += in->targets[i].weight;
    }
    return sum;
}

static bool is_above_load_bound(const struct policy_input *in, const struct fleet_totals *fleet,
                                const struct policy_target *target)
{
    if (target->running_requests < overload_floor) {
        return false;
    }
    // A whole number is at least ceil(a/b) when it is at least a/b.  Multiplied out, nothing
    // rounds.  32 + 7 + 64 bits on the left, 32 + 64 + 32 on the right.
    unsigned __int128 running = (unsigned __int128)target->running_requests * 100 * fleet->weight;
    unsigned __int128 cap =
        (unsigned __int128)in->knobs->load_bound_percent * (fleet->running + 1) * target->weight;
    return running >= cap;
}

static double rendezvous_score(const struct rendezvous *candidate)
{
    // The top 53 bits plus half a step: never 0 or 1, for which the score is not finite.
    double u = ((double)(candidate->hash >> 11) + 0.5) * 0x1p-53;
    return -(double)candidate->weight / log(u);
}

static bool ranks_before(const struct rendezvous *a, const struct rendezvous *b)
{
    // With equal weights the score grows with the hash, and no logarithm is needed.
    if (a->weight == b->weight) {
        return a->hash != b->hash ? a->hash > b->hash : a->identity > b->identity;
    }
    double a_score = rendezvous_score(a);
    double b_score = rendezvous_score(b);
    return a_score != b_score ? a_score > b_score : a->identity > b->identity;
}

static uint32_t consistent_hash_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;
    ASSERT(in->knobs->load_bound_percent >= 100);

    if (in->session_key == 0) {
        return policy_weighted_power_of_two.pick(NULL, in, rng);
    }

    struct fleet_totals fleet = fleet_totals(in);
    struct rendezvous best = {0};
    uint32_t best_index = in->target_count;

    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *target = &in->targets[i];
        if (is_above_load_bound(in, &fleet, target)) {
            continue;
        }
        struct rendezvous candidate = {
            .hash = hash_pair(in->session_key, target->identity),
            .identity = target->identity,
            .weight = target->weight,
        };
        if (best_index == in->target_count || ranks_before(&candidate, &best)) {
            best = candidate;
            best_index = i;
        }
    }
    return best_index;
}

const struct policy policy_consistent_hash = {
    .name = "consistent_hash",
    .summary = "a session stays on its target, within the load bound",
    .pick = consistent_hash_pick,
};
