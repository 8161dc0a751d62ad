// SPDX-License-Identifier: Apache-2.0
//
// survey_internal.h -- the candidates for a request, and what is known of each.
//
// The targets are the members of a group that were not tried yet, of the best tier that has one:
// ready; else paused at their own request; else down.  For a policy that reads prompts each target
// gets what the index and the load say of it.
//
// In a large group a policy may accept a sample, so that a decision costs nearly the same in a
// fleet of any size: the best holders of the prompt, and a random part of the other members.  A
// prefix that all members hold, such as a system prompt, would make all of them holders.  So the
// holders are taken from the best down to the first depth at which there are too many, and of those
// with just that depth again a random part:
//
//     blocks held   58      16 16 16 16 16 16 16 ...   0 0 0 0 ...
//     surveyed      all     about survey_sample        about survey_sample
#pragma once

#include "base/rng.h"
#include "knowledge/knowledge.h"
#include "policy/policy.h"
#include "prefix/prefix_index.h"
#include "route/route.h"

enum {
    // Groups up to this size are surveyed in full.
    survey_full_max = 160,
    // In a larger one: about so many of the members that hold nothing are surveyed, about so many
    // of those that hold only what many hold, and of the best holders at least so many less one.
    survey_sample = 64,
};

// The speeds that a target has shown, and the trust in each: from 0, no sample, to 1.
struct survey_speeds {
    float presence; // load_presence
    float prefill_ms;
    float step_ms;
    float prefill_trust;
    float step_trust;
};

// Facts about a slot, for the present request.  Blocks are the request's own.
struct survey_belief {
    // By the index, from what was sent there.
    uint32_t believed;
    uint32_t confirmed;
    uint32_t age;
    // By the backend's KV events.
    uint32_t reported_tokens;
    uint32_t host_tokens;    // of them, not on the GPU
    uint32_t disk_tokens;    // and neither in host memory
    uint32_t reported_block; // tokens of a block there; 0: it reports none of the prompt
    bool is_cut;             // it holds all keys that were looked up, and the prompt is longer
    // The larger of the two.
    uint32_t blocks;
};

struct survey {
    struct policy_target *targets;
    struct backend **backends;    // of each target
    double *costs;                // of each target
    struct survey_speeds *speeds; // of each target
    // At most count_max from the index, where a backend whose holder moves during the match may be
    // met twice, and one for each backend that only events report.
    struct prefix_hit *hits;
    struct prefix_hit *reported_hits;
    uint32_t hit_count;
    struct survey_belief *beliefs; // by slot; zero but for the hits
    uint32_t session_slot;         // UINT32_MAX: none
    float capacity_sum;            // tokens in the caches of all that were surveyed
    uint32_t capacity_count;       // caches in that sum
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
    float speed_life_ms; // load_speed_life_ms
    bool reads_prompt;
    bool may_sample;
};

// Looks the request up in the index and the ledger; valid until the next call.
void survey_match(struct survey *survey, const struct survey_task *task);

// Fills the targets.
void survey_collect(struct survey *survey, const struct survey_task *task, struct rng *rng);

// The part of the prompt that the backend holds by index and events together, given the state of
// its events.
struct route_holding survey_holding(const struct survey *survey, const struct survey_task *task,
                                    const struct backend *backend);

// Tokens in the first `blocks` blocks of the prompt.
uint32_t survey_tokens(const struct route_request *request, uint32_t blocks);

// Removes a target that another worker has put on trial in the meantime.
void survey_drop(struct survey *survey, uint32_t target);

// How often each of `pool_size` targets would use the prefix that the best holders have before it
// is evicted, if all of them held it; 0: no target holds a prefix of the prompt.
float survey_reuse(const struct survey *survey, uint32_t pool_size);
