// SPDX-License-Identifier: Apache-2.0
//
// preble -- exploits cached prefixes or explores idle targets: the rule of Preble's global
// scheduler.
//
//     shared = tokens that the deepest holders have of this prompt;  own = prompt tokens - shared
//     own < shared  exploit: the deepest holders are the candidates
//     otherwise     explore: all targets are
//     choice        = the candidate of the lowest cost, ties at random
//
//     cost(target) = prefill_ms * sum over important prefixes of the last 3 minutes placed on it of
//                                   misses * tokens / number of targets it is placed on
//                  + step_ms * running requests * output tokens
//
// A prompt's important prefix is the prompt itself when its own part is longer than the shared one,
// else the deepest prefix that was important to an earlier prompt, else the shared part.
//
// Rebalancing runs at every 50th request, after the first 50 per target.  While the highest cost of
// a target is more than 1.5 times the lowest, a prefix moves from the one to the other, at most 8
// times: of those with more than one request, the one with the least work.  If there is only one,
// it is copied instead, and only if the queue there would double its prefill.  Requests for a moved
// prefix have the new target among their candidates, and not the old one.
//
// Differences from the original:
//   - Speeds are learned for each target, not fitted to one GPU and model.
//   - Holders come from the prefix index, which knows evictions and the other workers, not from a
//     tree of placements.  preble_window.h stores important prefixes only, placed where their own
//     requests went, not those of longer prefixes.  Rebalancing thus has no limit on depth.
//   - A policy does not see the ends of requests.  Active requests are counted by target, not by
//     prefix, and all count as of mean length (45 tokens until known).
//   - Times to the first token are not recorded, hence the queue in the rule for copies.
//   - The cost of evictions, off by default, is left out.
//   - The lowest cost among the candidates is looked up by target; the original takes the position
//     among the candidates for a GPU's number.

#include "base/base.h"
#include "policy/baseline/preble_window.h"
#include "policy/cheapest_internal.h"
#include "policy/owner_table_internal.h"
#include "policy/policy.h"

#include <math.h>
#include <stdbool.h>

static const double output_tokens_unknown = 45;
static const double imbalance_max = 1.5;
enum { requests_per_target_min = 50, rebalance_period = 50, rebalance_moves_max = 8 };

struct preble {
    struct preble_window window;
    uint64_t request_count;
};

// The part of a prompt that requests are counted under.
struct preble_part {
    uint64_t key;
    uint32_t tokens;
    uint32_t blocks; // from the start of the prompt to the end of this part; 0: no such part
};

static double preble_cost(const struct preble *self, const struct policy_input *in,
                          const struct policy_target *target)
{
    double output_tokens = in->traffic->output_tokens;
    output_tokens = output_tokens > 0 ? output_tokens : output_tokens_unknown;
    return preble_window_work(&self->window, target->identity) * target->prefill_ms +
           (double)target->running_requests * output_tokens * target->step_ms;
}

// One of the targets that hold most of the prompt.
static const struct policy_target *deepest_holder(const struct policy_input *in)
{
    const struct policy_target *deepest = &in->targets[0];
    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *target = &in->targets[i];
        ASSERT(target->matched_tokens <= in->prompt_tokens);
        ASSERT(target->matched_blocks <= in->key_count);
        deepest = target->matched_blocks > deepest->matched_blocks ? target : deepest;
    }
    return deepest;
}

static struct preble_part important_part(struct preble *self, const struct policy_input *in,
                                         const struct policy_target *deepest)
{
    uint32_t shared = deepest->matched_tokens;
    uint32_t own = in->prompt_tokens - shared;
    uint32_t blocks = own > shared ? in->key_count : deepest->matched_blocks;
    if (blocks == 0) {
        return (struct preble_part){0};
    }

    if (own <= shared) {
        for (uint32_t i = blocks; i > 0; i--) {
            const struct preble_prefix *known = preble_window_find(&self->window, in->keys[i - 1]);
            if (known != NULL) {
                return (struct preble_part){known->key, known->tokens, i};
            }
        }
    }
    return (struct preble_part){in->keys[blocks - 1], own > shared ? own : shared, blocks};
}

// The prefix in the window, if it was moved to one of the targets.
static const struct preble_prefix *moved_prefix(struct preble *self, const struct policy_input *in,
                                                uint64_t key)
{
    const struct preble_prefix *prefix = preble_window_find(&self->window, key);
    bool is_moved = prefix != NULL && prefix->moved_to != 0 &&
                    owner_target(in, prefix->moved_to) < in->target_count;
    return is_moved ? prefix : NULL;
}

static bool is_preble_candidate(const struct policy_target *target, uint32_t blocks,
                                const struct preble_prefix *moved)
{
    if (moved != NULL && target->identity == moved->moved_to) {
        return true;
    }
    return target->matched_blocks == blocks &&
           (moved == NULL || target->identity != moved->moved_from);
}

// Makes all others dearer than the dearest candidate, so that the lowest cost is the choice.
static void narrow_to_holders(const struct policy_input *in, uint32_t blocks,
                              const struct preble_prefix *moved)
{
    double dearest = 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        if (is_preble_candidate(&in->targets[i], blocks, moved)) {
            dearest = fmax(dearest, in->costs[i]);
        }
    }
    for (uint32_t i = 0; i < in->target_count; i++) {
        if (!is_preble_candidate(&in->targets[i], blocks, moved)) {
            // Doubled, since adding 1 to a huge number may not change it.
            in->costs[i] += 2 * dearest + 1;
        }
    }
}

static void preble_rebalance(struct preble *self, const struct policy_input *in)
{
    const struct policy_target *heavy = &in->targets[0];
    const struct policy_target *light = &in->targets[0];
    double heavy_cost = preble_cost(self, in, heavy);
    double light_cost = heavy_cost;
    for (uint32_t i = 1; i < in->target_count; i++) {
        double cost = preble_cost(self, in, &in->targets[i]);
        heavy = cost > heavy_cost ? &in->targets[i] : heavy;
        heavy_cost = cost > heavy_cost ? cost : heavy_cost;
        light = cost < light_cost ? &in->targets[i] : light;
        light_cost = cost < light_cost ? cost : light_cost;
    }

    for (int moves = 0; moves < rebalance_moves_max; moves++) {
        uint32_t count = 0;
        struct preble_prefix *prefix = NULL;
        if (heavy_cost > imbalance_max * light_cost) {
            prefix =
                preble_window_cheapest(&self->window, heavy->identity, light->identity, &count);
        }
        if (prefix == NULL) {
            return;
        }
        if (count == 1) {
            if (heavy->queued_tokens > prefix->tokens) {
                preble_window_move(&self->window, prefix, 0, light->identity);
            }
            return;
        }
        // A larger move would only swap the roles of the two.
        if (light_cost + preble_prefix_work(prefix) * light->prefill_ms >= heavy_cost) {
            return;
        }
        preble_window_move(&self->window, prefix, heavy->identity, light->identity);
        heavy_cost = preble_cost(self, in, heavy);
        light_cost = preble_cost(self, in, light);
    }
}

static uint32_t preble_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    struct preble *self = state;
    ASSERT(in->costs != NULL);

    preble_window_expire(&self->window, in->now_ms);
    self->request_count++;
    if (self->request_count % rebalance_period == 0 &&
        self->request_count >= (uint64_t)requests_per_target_min * in->target_count) {
        preble_rebalance(self, in);
    }

    for (uint32_t i = 0; i < in->target_count; i++) {
        in->costs[i] = preble_cost(self, in, &in->targets[i]);
    }
    const struct policy_target *deepest = deepest_holder(in);
    struct preble_part important = important_part(self, in, deepest);
    if (in->prompt_tokens - deepest->matched_tokens < deepest->matched_tokens) {
        narrow_to_holders(in, deepest->matched_blocks, moved_prefix(self, in, important.key));
    }

    uint32_t choice = cheapest_of(in->costs, in->target_count, rng);
    if (important.blocks > 0) {
        const struct preble_note note = {
            .key = important.key,
            .tokens = important.tokens,
            .identity = in->targets[choice].identity,
            .is_miss = in->targets[choice].matched_blocks < important.blocks,
            .now_ms = in->now_ms,
        };
        preble_window_add(&self->window, &note);
    }
    return choice;
}

const struct policy policy_preble = {
    .name = "preble",
    .summary = "exploit what is cached or explore what is idle (Preble)",
    .state_size = sizeof(struct preble),
    .reads_prompt = true,
    .pick = preble_pick,
};
