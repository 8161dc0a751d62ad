// SPDX-License-Identifier: Apache-2.0
//
// prompt_fixture.h -- made-up prompts for the tests of the policies.
#pragma once

#include "base/base.h"
#include "base/hash.h"
#include "policy/policy.h"

#include <stdlib.h>

enum { prompt_blocks_max = 4096 };

struct prompt {
    uint64_t keys[prompt_blocks_max];
    uint32_t count;
};

// Appends `count` blocks of the text with that number.  A key stands for all blocks before it too.
static inline void prompt_add(struct prompt *prompt, uint64_t text, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ASSERT(prompt->count < prompt_blocks_max);
        uint64_t before = prompt->count > 0 ? prompt->keys[prompt->count - 1] : 0;
        prompt->keys[prompt->count++] = hash_pair(before, hash_pair(text, i));
    }
}

static inline void prompt_put(const struct prompt *prompt, uint32_t block_tokens,
                              struct policy_input *in)
{
    in->keys = prompt->keys;
    in->key_count = prompt->count;
    in->block_tokens = block_tokens;
    in->prompt_tokens = prompt->count * block_tokens;
}

static inline void *prompt_state(const struct policy *policy)
{
    void *state = calloc(1, policy->state_size > 0 ? policy->state_size : 1);
    ASSERT(state != NULL);
    return state;
}
