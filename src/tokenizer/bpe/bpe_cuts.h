// SPDX-License-Identifier: Apache-2.0
//
// bpe_cuts.h -- between which characters nothing ever merges.
//
// A merge joins what ends before a place with what begins there.  So a text may be cut between two
// characters, and nothing changes, if no merge has a left side that could end with the one and a right
// side that could begin with the other:
//
//     left side     ... 中   or only the last bytes of it       (no first byte in it)
//     right side        国 ...   or only the first bytes of it
//
// Whole characters are kept as pairs: ASCII exactly, others as bits at hashed places, where a collision
// costs a cut and nothing else.  Merges with broken characters are few; characters that they could touch
// have marks, and where the marks of two neighbours meet there is no cut.
#pragma once

#include "base/utf8.h"
#include "tokenizer/bpe/bpe.h"
#include "tokenizer/bpe/bpe_symbols.h"

enum {
    bpe_cuts_pair_bits = 20,
    bpe_cuts_mark_count = 1 << 16, // characters above can have none
};

struct bpe_cuts {
    bool is_off;      // there is no cut anywhere
    bool is_narrow;   // there is none beside a character that can have no marks
    bool folds_space; // "▁" is a space
    uint8_t *before;  // marks of a character as the first of two
    uint8_t *behind;  // as the second
    uint64_t *pairs;
    uint64_t ascii[128][2]; // bit b of a: whether there is a cut between them
};

// False when memory is short; bpe_cuts_fini is due all the same.
bool bpe_cuts_init(struct bpe_cuts *cuts, const struct bpe_options *options,
                   const struct bpe_symbols *symbols);
void bpe_cuts_fini(struct bpe_cuts *cuts);
size_t bpe_cuts_memory(const struct bpe_cuts *cuts);

// Not for two characters of ASCII.
bool bpe_cuts_between_any(const struct bpe_cuts *cuts, uint32_t first, uint32_t second);

static inline bool bpe_cuts_between(const struct bpe_cuts *cuts, uint32_t first, uint32_t second)
{
    if ((first | second) < 128) {
        return (cuts->ascii[first][second >> 6] >> (second & 63) & 1) != 0;
    }
    return bpe_cuts_between_any(cuts, first, second);
}

// Where the part that begins at `begin` ends: at the first cut, or at `end`, which lies behind it.
uint32_t bpe_cuts_next(const struct bpe_cuts *cuts, const uint8_t *bytes, uint32_t begin,
                       uint32_t end);
