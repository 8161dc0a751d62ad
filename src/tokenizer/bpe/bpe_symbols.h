// SPDX-License-Identifier: Apache-2.0
//
// bpe_symbols.h -- the ids that merging begins with: one for each byte, or each character.
#pragma once

#include "base/slice.h"
#include "tokenizer/bpe/bpe.h"
#include "tokenizer/space_mark.h"

struct bpe_symbols {
    bool by_character;
    bool has_bytes; // characters without a token become bytes
    bool fuse_unknown;
    uint32_t unknown_id;
    uint32_t byte_ids[256];
    // Characters, 128 on a page; page 0 is for characters without a token.
    uint16_t *pages;
    uint32_t (*ids)[128];
    uint32_t page_count;
};

// False when out of memory; call bpe_symbols_fini in any case.
bool bpe_symbols_init(struct bpe_symbols *symbols, const struct bpe_options *options);
void bpe_symbols_fini(struct bpe_symbols *symbols);
size_t bpe_symbols_memory(const struct bpe_symbols *symbols);

// The token that is this character; bpe_no_id when no token is.  A space is "▁".
static inline uint32_t bpe_symbols_of(const struct bpe_symbols *symbols, uint32_t code_point)
{
    return symbols->ids[symbols->pages[code_point >> 7]][code_point & 127];
}

// Writes the symbols of the text, with "▁" before it if `extra_space`: at most one for each byte
// and one more.  Returns how many.
uint32_t bpe_symbols_write(const struct bpe_symbols *symbols, struct slice text, bool extra_space,
                           uint32_t *ids);
