// SPDX-License-Identifier: Apache-2.0
//
// receipt_fixture.h -- receipts of prompts whose blocks are all known.
#pragma once

#include "base/base.h"
#include "base/hash.h"
#include "base/rng.h"
#include "metrics/receipt.h"

#include <string.h>

enum { fixture_block_tokens = 16, fixture_block_max = 8192 };

struct fixture_prompt {
    uint32_t block_count;
    uint64_t keys[fixture_block_max];
};

static inline void prompt_clear(struct fixture_prompt *prompt)
{
    prompt->block_count = 0;
}

// One block more; equal contents behind equal beginnings have equal keys.
static inline void prompt_add(struct fixture_prompt *prompt, uint64_t content)
{
    ASSERT(prompt->block_count < fixture_block_max);
    uint32_t at = prompt->block_count++;
    uint64_t before = at == 0 ? 0x1234567 : prompt->keys[at - 1];
    prompt->keys[at] = rng_mix(before * 3 + rng_mix(content + 1));
}

struct fixture_receipt {
    _Alignas(8) uint8_t bytes[receipt_size_max];
};

// Writes the receipt with the prompt's keys, as a worker would; `parts` has the rest.
static inline const struct receipt *receipt_make(struct fixture_receipt *to, struct receipt receipt,
                                                 const struct fixture_prompt *prompt,
                                                 struct receipt_parts parts)
{
    uint64_t sampled[receipt_sampled_max];
    uint64_t depths[receipt_depth_max];

    receipt.sampled_count = 0;
    receipt.depth_count = 0;
    for (uint32_t i = 0; prompt != NULL && i < prompt->block_count; i++) {
        if (prompt->keys[i] % receipt_sample == 0 && receipt.sampled_count < receipt_sampled_max) {
            sampled[receipt.sampled_count++] = prompt->keys[i];
        }
        if (i + 1 == 1U << receipt.depth_count && receipt.depth_count < receipt_depth_max) {
            depths[receipt.depth_count++] = prompt->keys[i];
        }
    }
    parts.sampled = sampled;
    parts.depths = depths;
    receipt.id_hash = hash_bytes(parts.id, 0);
    receipt.id_size = (uint16_t)parts.id.size;
    receipt.model_size = (uint16_t)parts.model.size;
    receipt.url_size = (uint16_t)parts.url.size;
    receipt.path_size = (uint16_t)parts.path.size;
    ASSERT(receipt_size(&receipt) <= sizeof(to->bytes));
    receipt_write(&receipt, &parts, to->bytes);
    return (const struct receipt *)to->bytes;
}
