// SPDX-License-Identifier: Apache-2.0
//
// bpe.h -- pieces of text to ids: byte pair encoding.
//
// A piece begins as one symbol for each byte, or each character.  Then, of all neighbours that may
// merge, those of the lowest rank do, the leftmost of equals first, until no neighbours may.  Ranks
// belong to pairs: one token can be made in several ways, which have different ranks.
//
// Most pieces are known: a cache in the scratch maps short pieces to their ids.  It begins with the
// tokens of the vocabulary that merging gives back, as many as fit.  A long piece is cut where no
// merge could reach across, which changes no id, and its parts are looked up like pieces.  Unknown
// parts are merged, in time n log n whatever the piece.
//
// Threads: a model does not change and is shared; a scratch belongs to one thread.
// Memory: taken by bpe_create and bpe_scratch_create; encoding allocates nothing.
#pragma once

#include "base/slice.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct bpe;
struct bpe_scratch;

// `left` and `right` are ids; `merged` is the id of the token with the bytes of both.  Of a pair
// that is listed twice the last counts.  Lower ranks merge first; pairs that become one token may
// share a rank.
struct bpe_merge {
    uint32_t left;
    uint32_t right;
    uint32_t merged;
    uint32_t rank;
};

enum {
    bpe_no_id = UINT32_MAX,
    bpe_token_max = 1 << 21,       // ids are below it
    bpe_merge_max = (1 << 22) - 2, // as many may be listed
};

struct bpe_options {
    // By id: the bytes of each token as they are in a text, no two alike.  Empty: an unused id, or
    // a token that merging cannot use.  Without `by_character`, every byte that occurs in UTF-8 has
    // a token.  With it, a token has "▁" (U+2581) for a space.
    const struct slice *tokens;
    uint32_t token_count;
    const struct bpe_merge *merges;
    uint32_t merge_count;
    // A piece that is a token is that token, whatever the merges say.  Not with `by_character`.
    bool ignore_merges;

    // Symbols are characters, not bytes, and a space is the character "▁" (SentencePiece).
    bool by_character;
    // For characters without a token; "▁" must have one then.  bpe_no_id in [0]: no byte has an id.
    uint32_t byte_ids[256];
    uint32_t unknown_id; // for such characters if bytes have no ids; bpe_no_id: they vanish
    bool fuse_unknown;   // several unknown characters in a row become one id
};

// Copies its input.  NULL when out of memory.
struct bpe *bpe_create(const struct bpe_options *options);
void bpe_destroy(struct bpe **bpe);
size_t bpe_memory(const struct bpe *bpe);

// NULL when out of memory.  Keeps the model.
struct bpe_scratch *bpe_scratch_create(const struct bpe *bpe);
void bpe_scratch_destroy(struct bpe_scratch **scratch);

// Pieces of one text, which is UTF-8, one behind the other.  Piece i ends at text.bytes + ends[i],
// the first begins at `begin`, all between characters, and each is at most tokenizer_piece_max
// long.
struct bpe_pieces {
    struct slice text;
    uint32_t begin;
    const uint32_t *ends;
    uint32_t count;
    bool extra_space; // by_character: the first piece has a "▁" before its first character
};
// Writes the ids of the pieces; `ids` has room for one id for each byte (and one more with
// `extra_space`).  Returns how many.
size_t bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch,
                  const struct bpe_pieces *pieces, uint32_t *ids);

// Whether a piece may be cut between these two characters and its parts encoded alone (the second
// without `extra_space`): no merge joins a token that ends with the one to a token that begins with
// the other.  With `ignore_merges` a piece that is a token must not be cut.
bool bpe_can_cut(const struct bpe *bpe, uint32_t before, uint32_t after);
