// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe_vocab.h"

#include "base/base.h"
#include "base/hash.h"

#include <stdlib.h>

static const uint8_t space_mark[3] = {0xe2, 0x96, 0x81};

// As it is in a text.  Returns how many bytes; 0 when no text has it.
static size_t write_text(struct slice token, bool by_character, uint8_t *out)
{
    if (!by_character) {
        memcpy(out, token.bytes, token.size);
        return token.size;
    }
    size_t size = 0;
    for (size_t i = 0; i < token.size; i++) {
        if (token.bytes[i] == ' ') {
            return 0; // every space of a text is a "▁"
        }
        if (token.size - i >= sizeof(space_mark) &&
            memcmp(token.bytes + i, space_mark, sizeof(space_mark)) == 0) {
            out[size++] = ' ';
            i += sizeof(space_mark) - 1;
        } else {
            out[size++] = token.bytes[i];
        }
    }
    return size;
}

bool bpe_vocab_init(struct bpe_vocab *vocab, const struct bpe_options *options)
{
    size_t size = 0;
    for (uint32_t i = 0; i < options->token_count; i++) {
        size += options->tokens[i].size;
    }
    uint32_t bits = 4;
    while ((1U << bits) < options->token_count + options->token_count / 2) {
        bits++;
    }
    *vocab = (struct bpe_vocab){
        .mask = (1U << bits) - 1,
        .count = options->token_count,
        .by_character = options->by_character,
    };
    vocab->bytes = malloc(size + 1);
    vocab->ends = malloc(sizeof(uint32_t) * (options->token_count + 1));
    vocab->slots = malloc(sizeof(uint32_t) << bits);
    vocab->owns = calloc(options->token_count / 64 + 1, sizeof(uint64_t));
    if (vocab->bytes == NULL || vocab->ends == NULL || vocab->slots == NULL ||
        vocab->owns == NULL || size > UINT32_MAX) {
        return false;
    }
    memset(vocab->slots, 0xff, sizeof(uint32_t) << bits);
    uint32_t end = 0;
    for (uint32_t i = 0; i < options->token_count; i++) {
        vocab->ends[i] = end;
        if (options->tokens[i].size != 0) {
            end +=
                (uint32_t)write_text(options->tokens[i], options->by_character, vocab->bytes + end);
        }
    }
    vocab->ends[options->token_count] = end;
    for (uint32_t i = 0; i < vocab->count; i++) {
        uint32_t text_size = (uint32_t)bpe_vocab_text(vocab, i).size;
        vocab->size_max = text_size > vocab->size_max ? text_size : vocab->size_max;
    }
    return true;
}

void bpe_vocab_fini(struct bpe_vocab *vocab)
{
    free(vocab->bytes);
    free(vocab->ends);
    free(vocab->slots);
    free(vocab->owns);
    *vocab = (struct bpe_vocab){0};
}

size_t bpe_vocab_memory(const struct bpe_vocab *vocab)
{
    return vocab->ends[vocab->count] + sizeof(uint32_t) * (vocab->count + 1) +
           sizeof(uint32_t) * (vocab->mask + (size_t)1) + vocab->count / 8;
}

// The slot that has the text, or the empty one where it belongs.
static uint32_t *find_slot(const struct bpe_vocab *vocab, struct slice text)
{
    uint32_t at = (uint32_t)hash_bytes(text, 0);
    for (;; at++) {
        uint32_t *slot = &vocab->slots[at & vocab->mask];
        if (*slot == bpe_no_id || slice_equal(bpe_vocab_text(vocab, *slot), text)) {
            return slot;
        }
    }
}

void bpe_vocab_add(struct bpe_vocab *vocab, uint32_t id, bool is_own)
{
    struct slice text = bpe_vocab_text(vocab, id);
    ASSERT(text.size != 0);
    uint32_t *slot = find_slot(vocab, text);
    ASSERT(*slot == bpe_no_id);
    *slot = id;
    vocab->owns[id / 64] |= (uint64_t)is_own << id % 64;
    if (!is_own) {
        vocab->odd_count++;
        uint32_t size = (uint32_t)text.size;
        vocab->odd_size_max = size > vocab->odd_size_max ? size : vocab->odd_size_max;
    }
}

uint32_t bpe_vocab_find(const struct bpe_vocab *vocab, struct slice text)
{
    return *find_slot(vocab, text);
}

// With spaces for "▁".  Returns how many bytes.
static size_t write_spaces(struct slice text, bool extra_space, uint8_t *out)
{
    size_t size = 0;
    if (extra_space) {
        out[size++] = ' ';
    }
    for (size_t i = 0; i < text.size; i++) {
        bool is_mark = text.size - i >= sizeof(space_mark) &&
                       memcmp(text.bytes + i, space_mark, sizeof(space_mark)) == 0;
        out[size++] = is_mark ? ' ' : text.bytes[i];
        i += is_mark ? sizeof(space_mark) - 1 : 0;
    }
    return size;
}

size_t bpe_vocab_room(const struct bpe_vocab *vocab)
{
    return (size_t)vocab->odd_size_max * sizeof(space_mark) + 1; // and a space before it
}

uint32_t bpe_vocab_find_odd(const struct bpe_vocab *vocab, struct slice text, bool extra_space,
                            uint8_t *room)
{
    if (text.size > vocab->odd_size_max * sizeof(space_mark)) {
        return bpe_no_id;
    }
    if (vocab->by_character) {
        text = slice_of(room, write_spaces(text, extra_space, room));
    }
    uint32_t id = bpe_vocab_find(vocab, text);
    return id == bpe_no_id || bpe_vocab_is_own(vocab, id) ? (uint32_t)bpe_no_id : id;
}
