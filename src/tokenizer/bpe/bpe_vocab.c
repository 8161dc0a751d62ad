// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/bpe_vocab.h"

#include "base/base.h"
#include "base/hash.h"
#include "tokenizer/space_mark.h"

#include <stdlib.h>

// Writes a token as it is in a text.  Returns how many bytes; 0 when no text has it.
static size_t write_token_text(struct slice token, bool by_character, uint8_t *out)
{
    if (token.size == 0 || (by_character && memchr(token.bytes, ' ', token.size) != NULL)) {
        return 0; // every space of a text is a "▁"
    }
    if (by_character) {
        return space_marks_undo(token, out);
    }
    memcpy(out, token.bytes, token.size);
    return token.size;
}

bool bpe_vocab_init(struct bpe_vocab *vocab, const struct bpe_options *options)
{
    size_t size = 0;
    for (uint32_t i = 0; i < options->token_count; i++) {
        size += options->tokens[i].size;
    }
    *vocab = (struct bpe_vocab){
        .count = options->token_count,
        .bytes = malloc(size + 1),
        .ends = malloc(sizeof(uint32_t) * (options->token_count + 1)),
        .own_bits = calloc(options->token_count / 64 + 1, sizeof(uint64_t)),
    };
    if (vocab->bytes == NULL || vocab->ends == NULL || vocab->own_bits == NULL ||
        size > UINT32_MAX) {
        return false;
    }
    uint32_t end = 0;
    vocab->ends[0] = 0;
    for (uint32_t i = 0; i < options->token_count; i++) {
        uint32_t text_size = (uint32_t)write_token_text(options->tokens[i], options->by_character,
                                                        vocab->bytes + end);
        vocab->size_max = text_size > vocab->size_max ? text_size : vocab->size_max;
        end += text_size;
        vocab->ends[i + 1] = end;
    }
    return true;
}

void bpe_vocab_fini(struct bpe_vocab *vocab)
{
    free(vocab->bytes);
    free(vocab->ends);
    free(vocab->own_bits);
    free(vocab->own.slots);
    free(vocab->odd.slots);
    *vocab = (struct bpe_vocab){0};
}

size_t bpe_vocab_memory(const struct bpe_vocab *vocab)
{
    return vocab->ends[vocab->count] + vocab->count / 8 +
           sizeof(uint32_t) * ((size_t)vocab->count + vocab->own.mask + vocab->odd.mask + 3);
}

static bool id_set_init(struct bpe_id_set *set, uint32_t count)
{
    uint32_t size = 16;
    while (size < count + count / 2) {
        size *= 2;
    }
    ASSERT(count <= bpe_token_max);
    *set = (struct bpe_id_set){.slots = malloc(sizeof(uint32_t) * size), .mask = size - 1};
    if (set->slots != NULL) {
        memset(set->slots, 0xff, sizeof(uint32_t) * size);
    }
    return set->slots != NULL;
}

static void id_set_add(struct bpe_id_set *set, struct slice text, uint32_t id)
{
    uint32_t at = (uint32_t)hash_bytes(text, 0) & set->mask;
    while (set->slots[at] != bpe_no_id) {
        at = (at + 1) & set->mask;
    }
    set->slots[at] = id;
    set->count++;
    ASSERT(set->count <= set->mask); // a free slot ends every search
}

static uint32_t id_set_find(const struct bpe_id_set *set, const struct bpe_vocab *vocab,
                            struct slice text)
{
    for (uint32_t at = (uint32_t)hash_bytes(text, 0);; at++) {
        uint32_t id = set->slots[at & set->mask];
        if (id == bpe_no_id || slice_equal(bpe_vocab_text(vocab, id), text)) {
            return id;
        }
    }
}

bool bpe_vocab_index(struct bpe_vocab *vocab, bool has_odd)
{
    ASSERT(vocab->own.slots == NULL);
    uint32_t own = 0;
    uint32_t odd = 0;
    for (uint32_t id = 0; id < vocab->count; id++) {
        bool is_own = bpe_vocab_is_own(vocab, id);
        own += is_own;
        odd += has_odd && !is_own;
    }
    if (!id_set_init(&vocab->own, own) || !id_set_init(&vocab->odd, odd)) {
        return false;
    }
    for (uint32_t id = 0; id < vocab->count; id++) {
        struct slice text = bpe_vocab_text(vocab, id);
        if (bpe_vocab_is_own(vocab, id)) {
            id_set_add(&vocab->own, text, id);
        } else if (has_odd && text.size != 0) {
            id_set_add(&vocab->odd, text, id);
            uint32_t size = (uint32_t)text.size;
            vocab->odd_size_max = size > vocab->odd_size_max ? size : vocab->odd_size_max;
        }
    }
    return true;
}

uint32_t bpe_vocab_find(const struct bpe_vocab *vocab, struct slice text)
{
    return id_set_find(&vocab->own, vocab, text);
}

uint32_t bpe_vocab_find_odd(const struct bpe_vocab *vocab, struct slice text)
{
    return text.size <= vocab->odd_size_max ? id_set_find(&vocab->odd, vocab, text)
                                            : (uint32_t)bpe_no_id;
}
