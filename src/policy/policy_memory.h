// SPDX-License-Identifier: Apache-2.0
//
// policy_memory.h -- what a policy with a state remembers about a pool, for all workers together.
//
// Some routers keep one table of where they sent prompts, or one turn of their rotation, for the
// whole process.  Their rules only compare fairly if the workers here share that memory too: with
// one for each of 16 workers, every prefix would be learned sixteen times.
//
//     worker 0 --+
//     worker 1 --+--> [ lock | state of policy.h ]     one for each pool whose policy has a state
//     worker 2 --+
//
// A pick holds a spin lock while the policy reads and changes its state: microseconds, the price of
// these policies alone.  A policy without state has no memory and takes no lock.
//
// Threads: any.  Memory: freed by the last release.
#pragma once

#include "policy/policy.h"

struct policy_memory;

// Of a policy with a state, zeroed.  NULL: out of memory.
struct policy_memory *policy_memory_create(const struct policy *policy);

// One more owner, who owes a release.
struct policy_memory *policy_memory_share(struct policy_memory *memory);

// Another memory with the same contents, to ask the policy without an effect on its next picks.
// NULL: out of memory.
struct policy_memory *policy_memory_copy(struct policy_memory *memory);

// Clears the caller's pointer, which may be NULL.
void policy_memory_release(struct policy_memory **memory);

const struct policy *policy_memory_policy(const struct policy_memory *memory);

// As policy_pick, with the state of this memory.
uint32_t policy_memory_pick(struct policy_memory *memory, const struct policy_input *in,
                            struct rng *rng);
