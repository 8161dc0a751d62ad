// SPDX-License-Identifier: Apache-2.0
//
// policy.h -- what a routing policy is.
//
// A policy is a pure decision: given a snapshot of the routable backends and one request, name a
// backend.  It performs no I/O, takes no lock, allocates nothing and reads no clock; all it may
// change is its own state and the generator it is handed.  The proxy, the simulator and the unit
// tests therefore run the very same code, and a run is replayed from its seed.
//
// To add one: write src/policy/<name>.c defining `policy_<name>`, add a line to policies.def,
// and test it in test/policy/<name>_test.c.  No other file names a policy.
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
    uint32_t running_requests; // sent by us, all workers together, not answered to the end

    // What it is believed to hold of this prompt.
    uint32_t matched_blocks; // leading ones
    uint32_t matched_tokens; // at most prompt_tokens
    bool has_session;        // served the request's session last

    // What it has to do.
    uint64_t queued_tokens;  // uncached prompt tokens of requests that wait for their first token
    uint64_t context_tokens; // in the KV cache of requests that are being decoded
    uint32_t decoding;       // requests past their first token
    float recent_requests;   // sent there lately, fading
    float recent_tokens;     // those of their prompts that were not cached
    float foreign_requests;  // others', as the engine reports
    float waiting;           // requests in the engine's queue; negative: not known
    float kv_usage;          // 0..1 of the cache in use by running requests; negative: not known

    // What it can do.
    float prefill_ms;      // for one uncached token
    float step_ms;         // between two tokens
    uint64_t cache_tokens; // 0: not known
};

// What the pool's requests are like; fleet/traffic.h says how it is learned.
struct policy_traffic {
    float arrivals_per_ms; // of the whole pool
    float decode_ms;       // mean, from first token to last; 0: not known yet
    float output_tokens;   // mean
    float prefill_ms;      // mean of what the chosen targets were predicted to need
    float scarcity; // 0..1 of what is found would not be, if all held all; negative: not known
};

// Numbers that peers let their operators set; those of `warm` are measured, not set.
struct policy_knobs {
    uint32_t load_bound_percent; // of the mean load: how far affinity may overload a target; >= 100
    float match_threshold;       // cache_aware: share of the prompt that counts as a match
    uint32_t balance_absolute;   // cache_aware: requests between the most and the least loaded
    float balance_relative;      // cache_aware: and their ratio
    float prefill_scale;         // dynamo
    float temperature;           // dynamo
};

// What the peers ship with.
extern const struct policy_knobs policy_knobs_default;

struct policy_input {
    const struct policy_target *targets;
    uint32_t target_count; // at least one
    uint32_t pool_size;    // backends that the targets were taken from; more when they are a sample
    uint64_t session_key;  // 0 when the client gave none
    uint64_t now_ms;

    // The prompt.
    const uint64_t *keys; // of its whole blocks
    uint32_t key_count;   // 0 when it was not understood
    uint32_t prompt_tokens;
    uint32_t block_tokens;   // in one block, about; at least 1
    uint32_t history_tokens; // before the last turn of the assistant
    uint32_t turns;          // of the assistant
    uint32_t output_max;     // tokens; 0: not said
    float reuse;             // of what its holders have, by each target, if all had it

    const struct policy_knobs *knobs;
    const struct policy_traffic *traffic;

    // Room for target_count numbers.  A policy that ranks all targets leaves here what each would
    // cost, the lowest being the best, for people to see; others leave it alone.
    double *costs;
};

struct policy {
    const char *name;    // in the configuration and in metric labels
    const char *summary; // one line, for --help and the manual
    size_t state_size;   // private to each worker and pool, starts zeroed
    bool reads_prompt;   // wants to know what targets hold of the prompt
    bool may_sample;     // of a large pool it is enough to see holders and some others

    // Returns an index into in->targets.
    uint32_t (*pick)(void *state, const struct policy_input *in, struct rng *rng);
};

// The checked way to call a policy: states what callers and policies owe each other, once.
uint32_t policy_pick(const struct policy *policy, void *state, const struct policy_input *in,
                     struct rng *rng);

// NULL when no policy has that name.
const struct policy *policy_find(const char *name);

// The policies in the order of policies.def; NULL past the last.
const struct policy *policy_at(uint32_t index);

#define POLICY(name) extern const struct policy policy_##name;
#include "policy/policies.def"
#undef POLICY
