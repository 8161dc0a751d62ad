// SPDX-License-Identifier: Apache-2.0
//
// profile.h -- an engine as the simulation knows it: a model on a GPU, and the engine's limits.
//
// profiles.def has those that we ship, fitted by `warmpath calibrate --file` to measurements of one
// H200; calibration.h makes one from a file of the user.
#pragma once

#include "sim/engine/step_model.h"

#include <stdbool.h>

enum { profile_name_size = 64 };

// Defaults of engines.
enum {
    profile_block_tokens = 16,
    profile_step_tokens = 8192,
    profile_sequences_max = 256,
    profile_context_max = 131072,
};

struct profile {
    char name[profile_name_size];
    struct step_model step;
    uint64_t kv_tokens;          // that fit into its KV cache
    uint64_t kv_bytes_per_token; // what moving one to the host and back costs
    uint32_t block_tokens;       // of its cache
    uint32_t step_tokens;        // most in one step
    uint32_t sequences_max;      // most in one batch
    uint32_t context_max;        // most tokens of prompt and response together
    uint64_t host_tokens;        // of a second tier of cache in host memory; 0: none
    double host_token_ms;        // to fetch one from there
};

// False: unknown profile.
bool profile_find(const char *name, struct profile *out);

// The names of the shipped ones; NULL past the last.
const char *profile_name(uint32_t index);
