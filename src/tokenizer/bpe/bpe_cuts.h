// SPDX-License-Identifier: Apache-2.0
//
// bpe_cuts.h -- pairs of characters that no merge joins.
//
// A merge joins a token that ends before a place with one that begins there.  So a text may be cut
// between two characters without changing its ids, if no merge has a left side that could end with
// the one and a right side that could begin with the other:
//
//     left side     ... 中   or only the last bytes of it       (no first byte in it)
//     right side        国 ...   or only the first bytes of it
//
// Whole characters are kept as pairs: ASCII exactly, others as bits at hashed places, where a
// collision only costs a cut.  Merges with broken characters are few.  Characters that they could
// touch have marks; two neighbours with a common mark are never cut apart.
#pragma once

#include "base/utf8.h"
#include "tokenizer/bpe/bpe.h"
#include "tokenizer/bpe/bpe_symbols.h"

enum {
    bpe_cuts_pair_bits = 20,
    bpe_cuts_mark_count = 1 << 16, // characters above can have none
};

struct bpe_cuts {
    bool is_off;      // no cuts anywhere
    bool is_narrow;   // no cuts beside characters that cannot have marks
    bool folds_space; // "▁" is a space
    uint8_t *before;  // marks of a character as the first of two
    uint8_t *behind;  // as the second
    uint64_t *pairs;
    uint64_t ascii[128][2]; // bit b of row a: whether a cut is allowed between them
};

// False when out of memory; call bpe_cuts_fini in any case.
bool bpe_cuts_init(struct bpe_cuts *cuts, const struct bpe_options *options,
                   const struct bpe_symbols *symbols);
void bpe_cuts_fini(struct bpe_cuts *cuts);
size_t bpe_cuts_memory(void);

// Without the table for ASCII.
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
