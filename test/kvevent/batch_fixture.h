// SPDX-License-Identifier: Apache-2.0
//
// batch_fixture.h -- batches as an engine would send them, and the keys of their blocks.
//
// Block `name` begins a prompt by itself and has the hash `name`; its tokens are made of its name.
#pragma once

#include "base/base.h"
#include "base/hash.h"
#include "base/text.h"
#include "prefix/prefix_chain.h"
#include "prefix/prefix_ledger.h"
#include "sim/engine/kv_event_writer.h"

#include <stdbool.h>

enum { batch_size_max = 2048, batch_block_tokens = 4, batch_hit_max = 64 };

struct batch {
    uint8_t bytes[batch_size_max];
    uint8_t event_bytes[batch_size_max];
    struct text events;
    uint32_t event_count;
    int32_t rank;
};

static inline void batch_tokens(uint64_t name, uint32_t tokens[batch_block_tokens])
{
    for (uint32_t i = 0; i < batch_block_tokens; i++) {
        tokens[i] = (uint32_t)(name * batch_block_tokens + i);
    }
}

static inline void batch_begin(struct batch *batch)
{
    batch->events = text_over(batch->event_bytes, sizeof(batch->event_bytes));
    batch->event_count = 0;
    batch->rank = 0;
}

// Block `name` behind block `parent`; 0: behind none.
static inline void batch_add(struct batch *batch, enum kv_event_kind kind, uint64_t name,
                             uint64_t parent)
{
    uint32_t tokens[batch_block_tokens];

    batch_tokens(name, tokens);
    kv_event_write((struct kv_hash_form){.format = kv_event_format_find("vllm-0.24")},
                   &(struct kv_event){.kind = kind,
                                      .hashes = &name,
                                      .hash_count = kind == KV_EVENT_CLEARED ? 0 : 1,
                                      .has_parent = parent != 0,
                                      .parent = parent,
                                      .tokens = tokens,
                                      .token_count = batch_block_tokens,
                                      .block_tokens = batch_block_tokens,
                                      .medium = "GPU"},
                   &batch->events);
    batch->event_count++;
}

static inline struct slice batch_end(struct batch *batch)
{
    struct text text = text_over(batch->bytes, sizeof(batch->bytes));

    kv_batch_write(kv_event_format_find("vllm-0.24"),
                   &(struct kv_batch){.events = text_slice(&batch->events),
                                      .event_count = batch->event_count,
                                      .rank = batch->rank},
                   &text);
    ASSERT(!text.overflow && !batch->events.overflow);
    return text_slice(&text);
}

// A batch of one event.
static inline struct slice batch_write(struct batch *batch, enum kv_event_kind kind, uint64_t name,
                                       uint64_t parent)
{
    batch_begin(batch);
    batch_add(batch, kind, name, parent);
    return batch_end(batch);
}

// The key of a block behind the one with key `previous`; 0: behind none.
static inline uint64_t batch_key(uint64_t name, uint64_t previous)
{
    uint32_t tokens[batch_block_tokens];
    batch_tokens(name, tokens);
    return hash_bytes(slice_of(tokens, sizeof(tokens)),
                      previous != 0 ? previous : prefix_seed(&(struct prefix_space){0}));
}

// How many of these blocks, from the first, the backend holds by the ledger.
static inline uint32_t batch_match(const struct prefix_ledger *ledger, uint32_t backend,
                                   const uint64_t *keys, uint32_t key_count)
{
    struct prefix_hit hits[batch_hit_max];
    uint32_t hit_count = prefix_ledger_match(ledger, keys, key_count, hits, batch_hit_max);
    for (uint32_t i = 0; i < hit_count; i++) {
        if (hits[i].backend == backend) {
            return hits[i].blocks;
        }
    }
    return 0;
}
