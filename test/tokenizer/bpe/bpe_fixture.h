// SPDX-License-Identifier: Apache-2.0
//
// bpe_fixture.h -- small vocabularies, and the rules of merging written down without any thought of
// time.
#pragma once

#include "base/rng.h"
#include "base/utf8.h"
#include "test.h"
#include "tokenizer/bpe/bpe.h"

#include <stdlib.h>

enum {
    vocab_token_max = 1024,
    vocab_merge_max = 512,
    vocab_bytes_max = 1 << 16,
};

struct vocab {
    struct bpe_options options;
    struct slice tokens[vocab_token_max];
    struct bpe_merge merges[vocab_merge_max];
    uint8_t bytes[vocab_bytes_max];
    size_t used;
};

static inline struct vocab *vocab_create(void)
{
    struct vocab *vocab = calloc(1, sizeof(*vocab));
    ASSERT(vocab != NULL);
    vocab->options.tokens = vocab->tokens;
    vocab->options.merges = vocab->merges;
    vocab->options.unknown_id = bpe_no_id;
    memset(vocab->options.byte_ids, 0xff, sizeof(vocab->options.byte_ids));
    return vocab;
}

static inline uint32_t vocab_find(const struct vocab *vocab, struct slice text)
{
    for (uint32_t id = 0; id < vocab->options.token_count; id++) {
        if (slice_equal(vocab->tokens[id], text)) {
            return id;
        }
    }
    return bpe_no_id;
}

static inline uint32_t vocab_add(struct vocab *vocab, struct slice text)
{
    uint32_t id = vocab_find(vocab, text);
    if (id != bpe_no_id) {
        return id;
    }
    ASSERT(vocab->options.token_count < vocab_token_max);
    ASSERT(text.size <= vocab_bytes_max - vocab->used);
    memcpy(vocab->bytes + vocab->used, text.bytes, text.size);
    id = vocab->options.token_count++;
    vocab->tokens[id] = slice_of(vocab->bytes + vocab->used, text.size);
    vocab->used += text.size;
    return id;
}

static inline void vocab_add_bytes(struct vocab *vocab)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        vocab_add(vocab, slice_of(&(uint8_t){(uint8_t)byte}, 1));
    }
}

// Its rank is its place in the list.
static inline void vocab_merge_ids(struct vocab *vocab, uint32_t left, uint32_t right)
{
    uint8_t both[1024];
    struct slice a = vocab->tokens[left];
    struct slice b = vocab->tokens[right];
    ASSERT(a.bytes != NULL && b.bytes != NULL && a.size + b.size <= sizeof(both));
    ASSERT(vocab->options.merge_count < vocab_merge_max);
    memcpy(both, a.bytes, a.size);
    memcpy(both + a.size, b.bytes, b.size);
    uint32_t rank = vocab->options.merge_count++;
    uint32_t merged = vocab_add(vocab, slice_of(both, a.size + b.size));
    vocab->merges[rank] =
        (struct bpe_merge){.left = left, .right = right, .merged = merged, .rank = rank};
}

static inline void vocab_merge(struct vocab *vocab, const char *left, const char *right)
{
    vocab_merge_ids(vocab, vocab_add(vocab, slice_str(left)), vocab_add(vocab, slice_str(right)));
}

// The last one listed; NULL when they do not merge.
static inline const struct bpe_merge *naive_pair(const struct vocab *vocab, uint32_t left,
                                                 uint32_t right)
{
    for (uint32_t i = vocab->options.merge_count; i-- > 0;) {
        if (vocab->merges[i].left == left && vocab->merges[i].right == right) {
            return &vocab->merges[i];
        }
    }
    return NULL;
}

static inline size_t naive_merge(const struct vocab *vocab, uint32_t *ids, size_t count)
{
    for (;;) {
        const struct bpe_merge *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            const struct bpe_merge *merge = naive_pair(vocab, ids[i], ids[i + 1]);
            if (merge != NULL && (best == NULL || merge->rank < best->rank)) {
                best = merge;
                at = i;
            }
        }
        if (best == NULL) {
            return count;
        }
        ids[at] = best->merged;
        memmove(&ids[at + 1], &ids[at + 2], (count - at - 2) * sizeof(ids[0]));
        count--;
    }
}

// One symbol of a text, `size` bytes long.
static inline size_t naive_symbol(const struct vocab *vocab, struct slice symbol, bool was_unknown,
                                  uint32_t *ids)
{
    const struct bpe_options *options = &vocab->options;
    uint32_t id = vocab_find(vocab, symbol);
    if (id != bpe_no_id) {
        ids[0] = id;
        return 1;
    }
    if (options->by_character && options->byte_ids[0] != bpe_no_id) {
        for (size_t i = 0; i < symbol.size; i++) {
            ids[i] = options->byte_ids[symbol.bytes[i]];
        }
        return symbol.size;
    }
    if (options->unknown_id == bpe_no_id || (was_unknown && options->fuse_unknown)) {
        return 0;
    }
    ids[0] = options->unknown_id;
    return 1;
}

// `text` has "▁" for spaces already.
static inline size_t naive_piece(const struct vocab *vocab, struct slice text, uint32_t *ids)
{
    uint32_t whole = vocab_find(vocab, text);
    if (vocab->options.ignore_merges && whole != bpe_no_id) {
        ids[0] = whole;
        return 1;
    }
    size_t count = 0;
    bool was_unknown = false;
    for (size_t i = 0; i < text.size;) {
        size_t size = vocab->options.by_character ? utf8_size_of_lead(text.bytes[i]) : 1;
        struct slice symbol = slice_of(text.bytes + i, size);
        count += naive_symbol(vocab, symbol, was_unknown, ids + count);
        was_unknown = vocab_find(vocab, symbol) == bpe_no_id;
        i += size;
    }
    return naive_merge(vocab, ids, count);
}

// The rules, for pieces as bpe_encode takes them.
static inline size_t naive_encode(const struct vocab *vocab, const struct bpe_pieces *pieces,
                                  uint32_t *ids)
{
    size_t count = 0;
    uint32_t begin = pieces->begin;
    for (uint32_t i = 0; i < pieces->count; i++) {
        size_t size = 0;
        uint8_t *text = malloc(3 * (size_t)(pieces->ends[i] - begin) + 3);
        ASSERT(text != NULL);
        if (i == 0 && pieces->extra_space) {
            size += utf8_write(0x2581, text);
        }
        for (; begin < pieces->ends[i]; begin++) {
            uint8_t byte = pieces->text.bytes[begin];
            bool is_space = byte == ' ' && vocab->options.by_character;
            size += is_space ? utf8_write(0x2581, text + size) : 1;
            if (!is_space) {
                text[size - 1] = byte;
            }
        }
        count += naive_piece(vocab, slice_of(text, size), ids + count);
        free(text);
    }
    return count;
}

// Characters of one to four bytes with bytes in common; "▁" and the space among them.
static inline struct slice any_character(struct rng *rng, uint32_t kinds)
{
    static const char *const characters[] = {"a",  "b", " ", "▁", "é", "è", "中", "丮",
                                             "国", "😀", "😁", "c", "1", "ſ", "の", "\n"};
    ASSERT(kinds <= ARRAY_COUNT(characters));
    return slice_str(characters[rng_below(rng, kinds)]);
}
enum { character_kinds = 16 };

// At least one character, and at most `size_max` bytes.
static inline struct slice any_text(struct rng *rng, uint32_t kinds, uint8_t *out, size_t size_max)
{
    size_t size = 0;
    size_t wanted = 1 + rng_below(rng, (uint32_t)size_max);
    while (size < wanted) {
        struct slice character = any_character(rng, kinds);
        if (size + character.size > size_max) {
            break;
        }
        memcpy(out + size, character.bytes, character.size);
        size += character.size;
    }
    return slice_of(out, size);
}

// Merges two neighbours of a text as it is merged so far; or lists another way to make a token, or
// a pair again.
static inline void add_any_merge(struct vocab *vocab, struct rng *rng, uint32_t kinds)
{
    uint8_t bytes[64];
    uint32_t ids[3 * sizeof(bytes) + 1];
    struct slice text = any_text(rng, kinds, bytes, sizeof(bytes));
    uint32_t end = (uint32_t)text.size;
    bool ignores = vocab->options.ignore_merges;
    vocab->options.ignore_merges = false;
    size_t count =
        naive_encode(vocab, &(struct bpe_pieces){.text = text, .ends = &end, .count = 1}, ids);
    vocab->options.ignore_merges = ignores;
    uint32_t listed = vocab->options.merge_count;
    if (listed != 0 && rng_below(rng, 8) == 0) {
        const struct bpe_merge *again = &vocab->merges[rng_below(rng, listed)];
        vocab_merge_ids(vocab, again->left, again->right);
    } else if (rng_below(rng, 8) == 0) {
        uint32_t token = rng_below(rng, vocab->options.token_count);
        struct slice whole = vocab->tokens[token];
        uint32_t cut = whole.size < 2 ? 0 : 1 + rng_below(rng, (uint32_t)whole.size - 1);
        uint32_t left = vocab_find(vocab, slice_of(whole.bytes, cut));
        uint32_t right = vocab_find(vocab, slice_of(whole.bytes + cut, whole.size - cut));
        if (cut != 0 && left != bpe_no_id && right != bpe_no_id) {
            vocab_merge_ids(vocab, left, right);
        }
    } else if (count >= 2) {
        uint32_t at = rng_below(rng, (uint32_t)count - 1);
        if (ids[at] != vocab->options.unknown_id && ids[at + 1] != vocab->options.unknown_id) {
            vocab_merge_ids(vocab, ids[at], ids[at + 1]);
        }
    }
}

// Every kind of vocabulary that there may be.
static inline struct vocab *any_vocab(struct rng *rng, uint32_t kinds)
{
    struct vocab *vocab = vocab_create();
    vocab->options.by_character = rng_below(rng, 2) == 0;
    vocab->options.ignore_merges = !vocab->options.by_character && rng_below(rng, 2) == 0;
    vocab->options.fuse_unknown = rng_below(rng, 2) == 0;
    bool lacks = rng_below(rng, 4) == 0; // some characters
    if (rng_below(rng, 2) == 0) {
        vocab->options.unknown_id = vocab_add(vocab, slice_str("<unk>"));
    }
    if (vocab->options.by_character) {
        if (!lacks) {
            vocab_add(vocab, slice_str("▁"));
        }
        for (uint32_t i = 0; i < kinds; i++) {
            struct slice character = any_character(rng, kinds);
            vocab_add(vocab, slice_is(character, " ") ? slice_str("▁") : character);
        }
        for (uint32_t byte = 0; !lacks && byte < 256; byte++) {
            char name[8];
            snprintf(name, sizeof(name), "<0x%02X>", byte);
            vocab->options.byte_ids[byte] = vocab_add(vocab, slice_str(name));
        }
    } else {
        vocab_add_bytes(vocab);
    }
    uint32_t merges = rng_below(rng, 200);
    for (uint32_t i = 0; i < merges; i++) {
        add_any_merge(vocab, rng, kinds);
    }
    // Tokens that no merge leads to.
    for (uint32_t i = 0; i < 10; i++) {
        uint8_t bytes[24];
        struct slice text = any_text(rng, kinds, bytes, sizeof(bytes));
        if (memchr(text.bytes, ' ', text.size) == NULL || !vocab->options.by_character) {
            vocab_add(vocab, text);
        }
    }
    return vocab;
}
