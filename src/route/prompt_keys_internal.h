// SPDX-License-Identifier: Apache-2.0
//
// prompt_keys_internal.h -- the keys of a prompt: one for each prefix that ends with a block.
//
// If the tokenizer and the chat template of the model are known, the blocks are those of the
// engine, cut from token ids.  Otherwise they are pieces of text of a fixed size.
//
//     reading -> encode (token ids, where they can be known) -> hash -> keys
#pragma once

#include "api/prompt.h"
#include "route/route.h"

struct traffic;

// Groups whose block sizes are cached.
enum { prompt_keys_groups = 16 };

// The block sizes of the engines of one group.
struct block_sizes {
    uint64_t generation; // of the view
    uint64_t wall_s;
    uint32_t first; // of the group
    uint32_t count; // at least 1
    uint32_t tokens[route_size_max];
};

struct prompt_keys {
    uint32_t text_block;  // bytes of a block of text
    uint32_t token_block; // tokens of a block, where no engine reports its size
    bool has_events;      // engines report blocks by token ids alone, without the model
    const struct dialect_set *dialects;
    struct token_reader *token_reader; // NULL: without dialects
    size_t token_text_max;
    struct prompt_reader *own_reader;
    struct prompt_reader *reader; // of the present prompt: ours, or that of its reading
    struct prompt prompt;         // the present one, as are chain and keys
    struct prefix_chain chain;
    uint64_t *keys; // for blocks of the first size, and behind them for the other sizes
    struct block_sizes sizes[prompt_keys_groups];
};

// False: memory is short; prompt_keys_fini still has to be called.
bool prompt_keys_init(struct prompt_keys *keys, const struct route_options *options);
void prompt_keys_fini(struct prompt_keys *keys);

// Takes the prompt from the input's reading, or reads the body.  Begins `out`.
void prompt_keys_read(struct prompt_keys *keys, const struct route_input *input,
                      struct route_request *out);

// Computes the token ids of a prompt that came as text, if its model has a dialect.
void prompt_keys_encode(struct prompt_keys *keys, const struct route_input *input,
                        struct route_request *out);

// Writes the keys, and how many tokens the prompt has.
void prompt_keys_hash(struct prompt_keys *keys, const struct fleet_view *view,
                      const struct fleet_group *group, const struct traffic *traffic,
                      const struct route_input *input, struct route_request *out);
