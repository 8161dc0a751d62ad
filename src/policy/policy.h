// SPDX-License-Identifier: Apache-2.0
//
// policy.h -- the interface of routing policies.
//
// A policy is a pure decision: from a snapshot of the routable backends and one request it picks a
// backend.  It performs no I/O, takes no lock, allocates nothing and reads no clock.  It changes
// only its own state and the generator that it is given.  The proxy, the simulator and the unit
// tests therefore run the same code, and a seed replays a run.
//
// Most policies have no state, and workers ask them at the same time.  A policy with a state has
// one for each pool of the process: policy_memory.h keeps it, and lets one worker at a time ask.
//
// CONTRIBUTING.md says how to add one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rng;

// One routable backend, as known when the request arrived.  Draining and unhealthy backends are
// filtered out before a policy sees the list.
struct policy_target {
    uint64_t identity;         // hash of the backend's name: the same in every process and order
    uint32_t backend;          // its slot in the fleet
    uint32_t weight;           // at least 1
    uint32_t running_requests; // in flight from this router, all workers together

    // Cache: the prefix of this prompt that it is believed to hold.
    uint32_t matched_blocks;
    uint32_t matched_tokens; // at most prompt_tokens
    bool has_session;        // served the request's session last

    // Load.
    uint64_t queued_tokens;  // uncached prompt tokens of requests that wait for their first token
    uint64_t context_tokens; // in the KV cache, of requests that are decoding
    uint32_t decoding;       // requests past their first token
    float recent_requests;   // sent there recently, decaying
    float recent_tokens;     // uncached prompt tokens of the recent requests
    float foreign_requests;  // of other routers, as the engine reports
    float waiting;           // requests in the engine's queue; negative: unknown
    float kv_usage;          // 0..1 of the cache in use by running requests; negative: unknown

    // Speed and size.
    float prefill_ms;      // for one uncached token
    float step_ms;         // between two output tokens
    uint64_t cache_tokens; // 0: unknown
};

// The traffic of the pool, as fleet/traffic.h learns it.
struct policy_traffic {
    float arrivals_per_ms; // of the whole pool
    float decode_ms;       // mean, from first token to last; 0: unknown
    float output_tokens;   // mean
    float prefill_ms;      // mean of the predictions for the chosen targets
    // If every target cached every prompt, evictions would prevent this fraction of the hits, 0..1;
    // negative: unknown.
    float scarcity;
};

// Settings of other routers' policies.  `warm` has none.
struct policy_knobs {
    uint32_t load_bound_percent; // of the mean load: how far affinity may overload a target; >= 100
    float match_threshold;       // cache_aware: fraction of the prompt that counts as a match
    uint32_t balance_absolute;   // cache_aware: most minus fewest running requests
    float balance_relative;      // cache_aware: most over fewest running requests
    float prefill_scale;         // dynamo
    float temperature;           // dynamo
};

// The defaults of those routers.
extern const struct policy_knobs policy_knobs_default;

struct policy_input {
    const struct policy_target *targets;
    uint32_t target_count; // at least one
    uint32_t pool_size;    // backends that the targets were taken from; larger for a sample
    uint64_t session_key;  // 0: no session
    uint64_t now_ms;

    // The prompt.
    const uint64_t *keys; // of its whole blocks
    uint32_t key_count;   // 0: the prompt could not be read
    uint32_t prompt_tokens;
    uint32_t block_tokens;   // in one block, about; at least 1
    uint32_t history_tokens; // before the last turn of the assistant
    uint32_t turns;          // of the assistant
    uint32_t output_max;     // tokens; 0: no limit in the request
    float reuse;             // uses of a copy before its eviction, if every target had one

    const struct policy_knobs *knobs;
    const struct policy_traffic *traffic;

    // Room for target_count numbers.  A policy that ranks all targets writes the cost of each, the
    // lowest being the best; /explain shows them.  Other policies do not touch it.
    double *costs;
};

struct policy {
    const char *name;    // in the configuration and in metric labels
    const char *summary; // one line, for --help and the manual
    size_t state_size;   // one for each pool, shared by all workers, starts zeroed; 0: no state
    bool reads_prompt;   // needs the matches, loads and speeds of targets
    bool may_sample;     // of a large pool, holders and a few other targets are enough

    // Returns an index into in->targets.
    uint32_t (*pick)(void *state, const struct policy_input *in, struct rng *rng);
};

// Calls `pick` and checks the contract of both sides.
uint32_t policy_pick(const struct policy *policy, void *state, const struct policy_input *in,
                     struct rng *rng);

// NULL: unknown name.
const struct policy *policy_find(const char *name);

// The policies in the order of policies.def; NULL past the last.
const struct policy *policy_at(uint32_t index);

#define POLICY(name) extern const struct policy policy_##name;
#include "policy/policies.def"
#undef POLICY
