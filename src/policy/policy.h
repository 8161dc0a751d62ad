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

#include <stddef.h>
#include <stdint.h>

struct rng;

// One routable backend, as known when the request arrived.  Draining and unhealthy backends are
// filtered out before a policy sees the list.
struct policy_target {
    uint32_t backend;          // its slot in the fleet
    uint32_t weight;           // at least 1
    uint32_t running_requests; // sent by us, all workers together, not answered to the end
    uint64_t identity;         // hash of the backend's name: the same in every process and order
};

struct policy_input {
    const struct policy_target *targets;
    uint32_t target_count;       // at least one
    uint32_t load_bound_percent; // of the mean load: how far affinity may overload a target; >= 100
    uint64_t session_key;        // 0 when the client gave none
};

struct policy {
    const char *name;    // in the configuration and in metric labels
    const char *summary; // one line, for --help and the manual
    size_t state_size;   // private to each worker and pool, starts zeroed

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
