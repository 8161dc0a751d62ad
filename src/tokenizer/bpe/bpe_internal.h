// SPDX-License-Identifier: Apache-2.0
//
// bpe_internal.h -- the model, and the scratch of a thread.
#pragma once

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/bpe/bpe_cuts.h"
#include "tokenizer/bpe/bpe_merge.h"
#include "tokenizer/bpe/bpe_symbols.h"
#include "tokenizer/bpe/bpe_table.h"
#include "tokenizer/bpe/bpe_vocab.h"
#include "tokenizer/bpe/word_cache.h"

struct bpe {
    struct bpe_table table;
    struct bpe_symbols symbols;
    struct bpe_vocab vocab;
    struct bpe_cuts cuts;
};

// A text to look up: a piece, or a part of one.
struct bpe_item {
    struct word_key key; // word_key_none when the text is too long
    uint32_t set;
    uint32_t begin;
    uint32_t size;
    bool is_whole; // a piece
};

// Items looked up at a time: enough to overlap cache misses, few enough to stay in the cache.
enum { bpe_batch = 256 };

struct bpe_scratch {
    const struct bpe *bpe;
    struct bpe_room *room;
    struct word_cache cache;
    struct bpe_item items[bpe_batch];
};

// With a cache of another size than usual.
struct bpe_scratch *bpe_scratch_create_sized(const struct bpe *bpe,
                                             const struct word_cache_options *sizes);

// The symbols of a text, merged.  `ids` has room for one for each byte, and one more with
// `extra_space`.
static inline uint32_t bpe_merge_text(const struct bpe *bpe, struct bpe_room *room,
                                      struct slice text, bool extra_space, uint32_t *ids)
{
    uint32_t count = bpe_symbols_write(&bpe->symbols, text, extra_space, ids);
    return bpe_merge(&bpe->table, room, ids, count);
}
