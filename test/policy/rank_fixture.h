// SPDX-License-Identifier: Apache-2.0
//
// rank_fixture.h -- one request in front of a small fleet, for the tests of policies that read the
// prompt.
//
// A test starts from an idle, cold fleet and sets the differences.
#pragma once

#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "test.h"

enum { rank_target_max = 8, rank_key_max = 256, rank_block_tokens = 16 };

struct rank {
    struct policy_target targets[rank_target_max];
    double costs[rank_target_max];
    uint64_t keys[rank_key_max];
    struct policy_knobs knobs;
    struct policy_traffic traffic;
    struct policy_input in;
    struct rng rng;
};

// Keys of blocks from `begin` on belong to the prompt `name` alone; those before it stay.
static inline void rank_name_blocks(struct rank *rank, uint32_t begin, uint64_t name)
{
    for (uint32_t i = begin; i < rank_key_max; i++) {
        rank->keys[i] = hash_pair(i > 0 ? rank->keys[i - 1] : 0, name);
    }
}

static inline uint32_t rank_tokens(uint32_t blocks)
{
    return blocks * rank_block_tokens;
}

static inline void rank_ask(struct rank *rank, uint32_t prompt_blocks)
{
    ASSERT(prompt_blocks <= rank_key_max);
    rank->in.key_count = prompt_blocks;
    rank->in.prompt_tokens = rank_tokens(prompt_blocks);
}

static inline void rank_hold(struct rank *rank, uint32_t target, uint32_t blocks)
{
    ASSERT(blocks <= rank->in.key_count);
    rank->targets[target].matched_blocks = blocks;
    rank->targets[target].matched_tokens = rank_tokens(blocks);
}

// Pointers go into the struct: it must stay where it is.
static inline void rank_init(struct rank *rank, uint32_t target_count, uint32_t prompt_blocks)
{
    ASSERT(target_count <= rank_target_max);
    *rank = (struct rank){
        .knobs = {.load_bound_percent = 125, .prefill_scale = 1},
        .rng = {.state = 1},
    };
    fleet_fill(rank->targets, target_count);
    for (uint32_t i = 0; i < target_count; i++) {
        rank->targets[i].waiting = -1;
        rank->targets[i].kv_usage = -1;
    }
    rank_name_blocks(rank, 0, 1);
    rank->in = (struct policy_input){
        .targets = rank->targets,
        .target_count = target_count,
        .pool_size = target_count,
        .keys = rank->keys,
        .block_tokens = rank_block_tokens,
        .knobs = &rank->knobs,
        .traffic = &rank->traffic,
        .costs = rank->costs,
    };
    rank_ask(rank, prompt_blocks);
}

static inline uint32_t rank_pick(struct rank *rank, const struct policy *policy, void *state)
{
    return policy_pick(policy, state, &rank->in, &rank->rng);
}

// Whether `rounds` picks give each target whose bit is set in `among` an equal part, within 10
// percent, and the others none.
static inline bool rank_is_spread(struct rank *rank, const struct policy *policy, void *state,
                                  uint32_t among)
{
    enum { rounds = 12000 };
    uint32_t hits[rank_target_max] = {0};
    for (int i = 0; i < rounds; i++) {
        hits[rank_pick(rank, policy, state)]++;
    }

    double part = (double)rounds / __builtin_popcount(among);
    for (uint32_t i = 0; i < rank->in.target_count; i++) {
        bool is_in = (among >> i & 1) != 0;
        if (is_in ? !fleet_is_near(hits[i], part, 10) : hits[i] > 0) {
            return false;
        }
    }
    return true;
}
