// SPDX-License-Identifier: Apache-2.0
//
// cache_aware -- who had the longest part of the prompt, unless that is short or the fleet is out of
// balance; the rule of the SGLang gateway and of the vLLM router.
//
//     inf(t)     = running requests
//     imbalanced = max inf - min inf > balance_absolute  and  max inf > balance_relative * min inf
//     least      = argmin (inf, requests that this worker gave to it so far, place in the list)
//     match      = tokens of the prompt's longest beginning that was routed before / its tokens
//     pick       = least                           if imbalanced, or match <= match_threshold
//                  tenant(the matched beginning)   otherwise
//     after      : each beginning of the prompt that has no tenant gets the chosen one
//
// A beginning has one tenant, the first that it was sent to, whoever else has it by now.
//
// The peer sends a match whose tenant is gone to the first of its list, every such request, and
// remembers nothing.  A request that nobody can serve from a cache must not follow a dead backend:
// here it goes to `least`, which takes over what was matched.
//
// The peer's tree holds 2^26 characters for each tenant.  The table of this one is smaller, so of a
// long prompt not every beginning is remembered: all up to 32 blocks, from there on 16 for each
// doubling.  A match is therefore found up to a sixteenth too short.

#include "base/base.h"
#include "policy/owner_table_internal.h"
#include "policy/policy.h"

#include <stdbool.h>

// One for each slot that limits.backends allows; slots above share, and the last one counts.
enum { tally_count = 4096 };

struct tally {
    uint64_t identity;
    uint64_t processed;
};

struct cache_aware {
    struct owner_table tenants;
    struct tally tallies[tally_count];
};

struct match {
    uint32_t blocks;
    uint64_t tenant; // an identity; 0 without a match
};

// The longest remembered beginning of at most so many blocks; 0 when there is none.
static uint32_t remembered_blocks(uint32_t blocks)
{
    if (blocks < 32) {
        return blocks;
    }
    uint32_t stride = 1U << (31 - __builtin_clz(blocks) - 4);
    return blocks & ~(stride - 1);
}

static uint64_t processed(const struct cache_aware *self, const struct policy_target *target)
{
    const struct tally *tally = &self->tallies[target->backend % tally_count];
    return tally->identity == target->identity ? tally->processed : 0;
}

static void count_processed(struct cache_aware *self, const struct policy_target *target)
{
    self->tallies[target->backend % tally_count] = (struct tally){
        .identity = target->identity,
        .processed = processed(self, target) + 1,
    };
}

static uint32_t least(const struct cache_aware *self, const struct policy_input *in)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < in->target_count; i++) {
        uint32_t running = in->targets[i].running_requests;
        uint32_t best_running = in->targets[best].running_requests;
        if (running < best_running ||
            (running == best_running &&
             processed(self, &in->targets[i]) < processed(self, &in->targets[best]))) {
            best = i;
        }
    }
    return best;
}

static bool is_imbalanced(const struct policy_input *in)
{
    uint32_t most = 0;
    uint32_t fewest = UINT32_MAX;
    for (uint32_t i = 0; i < in->target_count; i++) {
        uint32_t running = in->targets[i].running_requests;
        most = running > most ? running : most;
        fewest = running < fewest ? running : fewest;
    }
    return most - fewest > in->knobs->balance_absolute &&
           (double)most > (double)in->knobs->balance_relative * (double)fewest;
}

// Keys are chained, so whichever is found stands for all blocks before it: the search begins with
// the longest and the first find is the answer.
static struct match longest_match(struct cache_aware *self, const struct policy_input *in)
{
    struct match match = {.blocks = remembered_blocks(in->key_count)};
    while (match.blocks > 0) {
        match.tenant = owner_table_find(&self->tenants, in->keys[match.blocks - 1]);
        if (match.tenant != 0) {
            break;
        }
        match.blocks = remembered_blocks(match.blocks - 1);
    }
    return match;
}

static bool is_enough(const struct policy_input *in, const struct match *match)
{
    double matched_tokens = (double)match->blocks * (double)in->block_tokens;
    return matched_tokens > (double)in->knobs->match_threshold * (double)in->prompt_tokens;
}

// target_count when it is not among the targets.
static uint32_t target_of(const struct policy_input *in, uint64_t identity)
{
    uint32_t i = 0;
    while (i < in->target_count && in->targets[i].identity != identity) {
        i++;
    }
    return i;
}

// Makes `chosen` the tenant of what had none, or had `gone`.
static void insert(struct cache_aware *self, const struct policy_input *in, uint64_t chosen,
                   uint64_t gone)
{
    uint32_t blocks = remembered_blocks(in->key_count);
    while (blocks > 0) {
        uint64_t key = in->keys[blocks - 1];
        uint64_t tenant = owner_table_find(&self->tenants, key);
        if (tenant == 0 || tenant == gone) {
            owner_table_store(&self->tenants, key, chosen);
        }
        blocks = remembered_blocks(blocks - 1);
    }
}

static uint32_t cache_aware_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)rng;
    struct cache_aware *self = state;

    uint32_t chosen = in->target_count;
    uint64_t gone = 0;
    if (!is_imbalanced(in)) {
        struct match match = longest_match(self, in);
        if (match.tenant != 0 && is_enough(in, &match)) {
            chosen = target_of(in, match.tenant);
            gone = chosen == in->target_count ? match.tenant : 0;
        }
    }
    if (chosen == in->target_count) {
        chosen = least(self, in);
    }
    insert(self, in, in->targets[chosen].identity, gone);
    count_processed(self, &in->targets[chosen]);
    return chosen;
}

const struct policy policy_cache_aware = {
    .name = "cache_aware",
    .summary = "who had most of the prompt, the least loaded when out of balance (SGLang gateway)",
    .state_size = sizeof(struct cache_aware),
    .reads_prompt = true,
    .pick = cache_aware_pick,
};
