// SPDX-License-Identifier: Apache-2.0
//
// work_kind.h -- the built-in workloads as constants; workloads.def explains and lists them.
#pragma once

#include "sim/workload/draw.h"

#include <stdbool.h>
#include <stdint.h>

enum { work_prompt_max = 4 };

// A kind of prompt.
struct work_prompt {
    uint32_t percent; // of the sessions
    uint32_t groups;  // 0: prompts share no prefix
    double exponent;  // of Zipf's law, by which a group is picked; 0: all alike
    struct draw shared_tokens;
    struct draw own_tokens; // of each turn
    struct draw output_tokens;
};

struct work_kind {
    const char *name;
    const char *summary;
    uint32_t turns_min;
    uint32_t turns_max;
    uint32_t common_tokens; // that all prompts begin with
    bool varies_share;
    struct draw pause_s;                         // between turns
    struct draw think_s;                         // between the sessions of a user
    struct work_prompt prompts[work_prompt_max]; // of the rest, `percent` is 0
};

// NULL: unknown kind.
const struct work_kind *work_kind_find(const char *name);

// NULL past the last.
const struct work_kind *work_kind_at(uint32_t index);

double work_kind_mean_turns(const struct work_kind *kind);
