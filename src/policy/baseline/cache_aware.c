// SPDX-License-Identifier: Apache-2.0
//
// cache_aware -- the target that the longest known prefix was sent to, or the least loaded one if
// that prefix is short or the fleet is out of balance: the rule of the SGLang gateway and the vLLM
// router.
//
//     inf(t)     = running requests
//     imbalanced = max inf - min inf > balance_absolute  and  max inf > balance_relative * min inf
//     least      = argmin (inf, requests sent there so far, position in the list)
//     match      = tokens of the prompt's longest prefix that was routed before / its tokens
//     pick       = least                        if imbalanced, or match <= match_threshold
//                  tenant(the matched prefix)   otherwise
//     after      : each prefix of the prompt without a tenant gets the chosen one
//
// A prefix has one tenant: the first target that it was sent to.
//
// The original sends every match whose tenant is gone to the first target of its list and remembers
// nothing.  Here such a request goes to `least`, which becomes the tenant of the matched prefix.
//
// The original's tree holds 2^26 characters for each tenant.  This table is smaller, so it
// remembers only some prefixes of a long prompt: all up to 32 blocks, then 16 for each doubling.  A
// match is therefore found up to a sixteenth too short.

#include "base/base.h"
#include "policy/owner_table_internal.h"
#include "policy/policy.h"

#include <stdbool.h>

// One for each slot that limits.backends allows.
enum { tenant_load_count = 4096 };

struct tenant_load {
    uint64_t identity;
    uint64_t processed;
};

struct cache_aware {
    struct owner_table tenants;
    struct tenant_load loads[tenant_load_count];
};

struct tenant_match {
    uint32_t blocks;
    uint64_t tenant; // an identity; 0: no match
};

// The longest remembered prefix of at most so many blocks.
static uint32_t remembered_blocks(uint32_t blocks)
{
    if (blocks < 32) {
        return blocks;
    }
    uint32_t stride = 1U << (31 - __builtin_clz(blocks) - 4);
    return blocks & ~(stride - 1);
}

static uint64_t processed_by(const struct cache_aware *self, const struct policy_target *target)
{
    const struct tenant_load *load = &self->loads[target->backend % tenant_load_count];
    return load->identity == target->identity ? load->processed : 0;
}

static void count_processed(struct cache_aware *self, const struct policy_target *target)
{
    self->loads[target->backend % tenant_load_count] = (struct tenant_load){
        .identity = target->identity,
        .processed = processed_by(self, target) + 1,
    };
}

static uint32_t least_processed(const struct cache_aware *self, const struct policy_input *in)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < in->target_count; i++) {
        uint32_t running = in->targets[i].running_requests;
        uint32_t best_running = in->targets[best].running_requests;
        if (running < best_running ||
            (running == best_running &&
             processed_by(self, &in->targets[i]) < processed_by(self, &in->targets[best]))) {
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

// A key stands for all blocks before it, so the search goes from the longest prefix to the
// shortest.
static struct tenant_match longest_match(struct cache_aware *self, const struct policy_input *in)
{
    struct tenant_match match = {.blocks = remembered_blocks(in->key_count)};
    while (match.blocks > 0) {
        match.tenant = owner_table_find(&self->tenants, in->keys[match.blocks - 1]);
        if (match.tenant != 0) {
            break;
        }
        match.blocks = remembered_blocks(match.blocks - 1);
    }
    return match;
}

static bool is_above_threshold(const struct policy_input *in, const struct tenant_match *match)
{
    double matched_tokens = (double)match->blocks * (double)in->block_tokens;
    return matched_tokens > (double)in->knobs->match_threshold * (double)in->prompt_tokens;
}

// Makes `chosen` the tenant of the prefixes that have none, or have `gone`.
static void insert_tenant(struct cache_aware *self, const struct policy_input *in, uint64_t chosen,
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
        struct tenant_match match = longest_match(self, in);
        if (match.tenant != 0 && is_above_threshold(in, &match)) {
            chosen = owner_target(in, match.tenant);
            gone = chosen == in->target_count ? match.tenant : 0;
        }
    }
    if (chosen == in->target_count) {
        chosen = least_processed(self, in);
    }
    insert_tenant(self, in, in->targets[chosen].identity, gone);
    count_processed(self, &in->targets[chosen]);
    return chosen;
}

const struct policy policy_cache_aware = {
    .name = "cache_aware",
    .summary = "the first target of the longest prefix, else the least loaded (SGLang gateway)",
    .state_size = sizeof(struct cache_aware),
    .reads_prompt = true,
    .pick = cache_aware_pick,
};
