// SPDX-License-Identifier: Apache-2.0
//
// consistent_hash -- a session stays on its target while that one is there and not overloaded.
//
// Rendezvous hashing: the session ranks all targets by a score of its own and takes the best,
//
//     u             = hash(session, target identity), as a number in (0, 1)
//     score(target) = -weight / ln u
//
// so a target that leaves gives up exactly the sessions it held, each to that session's next best,
// and one that arrives takes exactly those that now rank it first.  -ln u is exponential, the least
// of exponentials with rates w belongs to each with probability w / sum of w, and hence each target
// holds its share of the sessions.  There is no ring to build and nothing to remember: every worker
// and every replica of ours comes to the same answer from the names of the backends alone.
//
// Bounded load: with m requests running in all and W the sum of weights, a target that runs
//
//     cap = ceil(load_bound_percent / 100 * (m + 1) * weight / W), or more,
//
// is passed over and the session takes its next best for this request.  The caps add up to more
// than m, so someone is always below.  On a quiet fleet the mean is next to nothing and the cap
// would be 1: two requests of one session at a time would part although everyone is idle.  Hence
// the floor: one running request overloads nobody.
//
// A request without a session has nothing to stick to and is placed by weighted_power_of_two, which
// with equal weights is power_of_two.

#include "base/base.h"
#include "base/hash.h"
#include "policy/policy.h"

#include <math.h>
#include <stdbool.h>

// A target with fewer running requests than this is never overloaded.
enum { overload_floor = 2 };

struct fleet_load {
    uint64_t running;
    uint64_t weight;
};

struct candidate {
    uint64_t hash;
    uint64_t identity;
    uint32_t weight;
};

static struct fleet_load fleet_load(const struct policy_input *in)
{
    struct fleet_load sum = {0};
    for (uint32_t i = 0; i < in->target_count; i++) {
        ASSERT(in->targets[i].weight > 0);
        sum.running += in->targets[i].running_requests;
        sum.weight += in->targets[i].weight;
    }
    return sum;
}

static bool is_overloaded(const struct policy_input *in, const struct fleet_load *fleet,
                          const struct policy_target *target)
{
    if (target->running_requests < overload_floor) {
        return false;
    }
    // A whole number is at least ceil(a/b) when it is at least a/b; multiplied out, nothing rounds.
    // 32 + 7 + 64 bits on the left, 32 + 64 + 32 on the right.
    unsigned __int128 running = (unsigned __int128)target->running_requests * 100 * fleet->weight;
    unsigned __int128 cap =
        (unsigned __int128)in->knobs->load_bound_percent * (fleet->running + 1) * target->weight;
    return running >= cap;
}

static double score(const struct candidate *candidate)
{
    // The top 53 bits, moved to the middle of their step: neither 0 nor 1, both of which ln spoils.
    double u = ((double)(candidate->hash >> 11) + 0.5) * 0x1p-53;
    return -(double)candidate->weight / log(u);
}

static bool ranks_before(const struct candidate *a, const struct candidate *b)
{
    // With equal weights the score grows with the hash, and no logarithm is needed.
    if (a->weight == b->weight) {
        return a->hash != b->hash ? a->hash > b->hash : a->identity > b->identity;
    }
    double a_score = score(a);
    double b_score = score(b);
    return a_score != b_score ? a_score > b_score : a->identity > b->identity;
}

static uint32_t consistent_hash_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;
    ASSERT(in->knobs->load_bound_percent >= 100);

    if (in->session_key == 0) {
        return policy_weighted_power_of_two.pick(NULL, in, rng);
    }

    struct fleet_load fleet = fleet_load(in);
    struct candidate best = {0};
    uint32_t best_index = in->target_count;

    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *target = &in->targets[i];
        if (is_overloaded(in, &fleet, target)) {
            continue;
        }
        struct candidate candidate = {
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
