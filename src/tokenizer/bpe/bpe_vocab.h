// SPDX-License-Identifier: Apache-2.0
//
// bpe_vocab.h -- the tokens that a whole text can be, found by their bytes.
//
// A token is its own when merging its bytes gives it back.  The other tokens, called odd, are found
// only if the model ignores merges, and then only a whole piece may be one.
//
// Bytes are those of a text: "▁" is a space here.
#pragma once

#include "base/slice.h"
#include "tokenizer/bpe/bpe.h"

// Tokens by the hashes of their texts.
struct bpe_id_set {
    uint32_t *slots;
    uint32_t mask;
    uint32_t count;
};

struct bpe_vocab {
    uint32_t count;
    uint32_t size_max; // of a text
    uint32_t odd_size_max;
    uint8_t *bytes;
    uint32_t *ends; // by id: token i is between ends[i] and ends[i + 1]
    uint64_t *own_bits;
    struct bpe_id_set own;
    struct bpe_id_set odd; // few; every long piece is looked up in it
};

// Copies the tokens; bpe_vocab_index makes them found.  False when out of memory; call
// bpe_vocab_fini in any case.
bool bpe_vocab_init(struct bpe_vocab *vocab, const struct bpe_options *options);
void bpe_vocab_fini(struct bpe_vocab *vocab);
size_t bpe_vocab_memory(const struct bpe_vocab *vocab);

// The bytes of a token; empty when no text can become it.
static inline struct slice bpe_vocab_text(const struct bpe_vocab *vocab, uint32_t id)
{
    return slice_of(vocab->bytes + vocab->ends[id], vocab->ends[id + 1] - vocab->ends[id]);
}

static inline bool bpe_vocab_is_own(const struct bpe_vocab *vocab, uint32_t id)
{
    return (vocab->own_bits[id / 64] >> id % 64 & 1) != 0;
}

static inline void bpe_vocab_set_own(struct bpe_vocab *vocab, uint32_t id)
{
    vocab->own_bits[id / 64] |= UINT64_C(1) << id % 64;
}

// From now on tokens are found: those that are their own, and with `has_odd` the others.  False
// when out of memory.
bool bpe_vocab_index(struct bpe_vocab *vocab, bool has_odd);

// The token, its own, with this text; bpe_no_id when no token has it.
uint32_t bpe_vocab_find(const struct bpe_vocab *vocab, struct slice text);

// The odd token with this text; bpe_no_id when no token has it.
uint32_t bpe_vocab_find_odd(const struct bpe_vocab *vocab, struct slice text);
