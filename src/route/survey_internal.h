// SPDX-License-Identifier: Apache-2.0
//
// survey_internal.h -- who could take a request, and what is known of each.
//
// The targets are the members of a group that were not tried yet, of the best tier that has any: ready
// ones; else those that asked for a pause; else those that are down.  For a policy that looks
// at prompts each gets what the index and the load say of it.  In a large group a policy may be content
// with those who hold the most of the prompt and a random sample of the others: the cost of a
// decision then stays nearly the same however large the fleet is.
//
// What everybody holds, a system prompt, is no reason to look at everybody.  So the holders are looked
// at from the best down to the first depth at which there are too many, and of those with just that
// depth again a random sample:
//
//     blocks held   58      16 16 16 16 16 16 16 ...   0 0 0 0 ...
//     looked at     all     about survey_sample        about survey_sample
#pragma once

#include "base/rng.h"
#include "knowledge/knowledge.h"
#include "policy/policy.h"
#include "prefix/prefix_index.h"
#include "route/route.h"

enum {
    // Groups up to this size are looked at in full.
    survey_full_max = 160,
    // Of a larger one: how many of those who hold nothing, or only what many hold, are looked at,
    // about; and how many of the best holders in any case, less one.
    survey_sample = 64,
};

// What is known of a slot, for the present request.  Blocks are the request's own.
struct survey_belief {
    // What the index says, of what we sent there.
    uint32_t believed;
    uint32_t confirmed;
    uint32_t age;
    // What the backend's events say.
    uint32_t told_tokens;
    uint32_t host_tokens; // of them, not on the GPU
    uint32_t disk_tokens; // and neither in host memory
    uint32_t told_block;  // tokens of a block there; 0: nothing is told
    bool is_cut;          // all that was asked for is there, and the prompt is longer
    // At most this can be there, by either.
    uint32_t blocks;
};

struct survey {
    struct policy_target *targets;
    struct backend **backends; // of each target
    double *costs;             // of each target
    struct prefix_hit *hits;
    struct prefix_hit *told_hits;
    uint32_t hit_count;
    struct survey_belief *beliefs; // by slot; zero but for the hits
    uint32_t session_slot;         // UINT32_MAX: none
    float capacity_sum;            // tokens in the caches of all that were looked at
    uint32_t looked_at;            // of which that is the sum
    uint32_t count;
    uint32_t count_max;
    enum backend_tier tier; // of all targets
};

bool survey_init(struct survey *survey, uint32_t target_count_max);
void survey_fini(struct survey *survey);

struct survey_task {
    struct knowledge *knowledge;
    uint32_t sender;
    const struct fleet_view *view;
    const struct fleet_group *group;
    const struct route_request *request;
    const struct route_tried *tried;
    uint64_t now_us;
    float host_worth;
    float disk_worth;
    bool reads_prompt;
    bool may_sample;
};

// What the index says of the request; stays until the next call.
void survey_match(struct survey *survey, const struct survey_task *task);

// Fills the targets.
void survey_collect(struct survey *survey, const struct survey_task *task, struct rng *rng);

// Both put together, for a backend in the state it is in.
struct route_holding survey_holding(const struct survey *survey, const struct survey_task *task,
                                    const struct backend *backend);

// Tokens in the first so many blocks of the prompt.
uint32_t survey_tokens(const struct route_request *request, uint32_t blocks);

// Leaves one out: another worker was quicker to put it on trial.
void survey_drop(struct survey *survey, uint32_t target);

// How often each of `pool_size` targets would use what the best holders have of the prompt before it is
// evicted, if all of them held it; 0 when nobody holds any.
float survey_reuse(const struct survey *survey, uint32_t pool_size);
