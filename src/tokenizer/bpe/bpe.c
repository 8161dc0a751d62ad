// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/bpe.h"

#include "base/base.h"
#include "tokenizer/bpe/bpe_internal.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>

enum { symbol_max = tokenizer_piece_max + 1 }; // extra_space

// 4 MB of words, half a megabyte of longer texts.
static const struct word_cache_options usual_sizes = {
    .set_count = 1 << 16,
    .phrase_set_count = 1 << 11,
};

// Finds the tokens that merging makes of their bytes, which takes most of the time of loading.
// Unless merges are ignored, long tokens and those that no cache would be seeded with are left out:
// the first text that has one merges it.
static bool find_own_tokens(struct bpe *bpe, bool ignore_merges)
{
    ASSERT(bpe->vocab.count <= bpe_token_max);
    uint32_t size_max = ignore_merges ? bpe->vocab.size_max : word_size_max;
    uint32_t left = ignore_merges ? UINT32_MAX : 2 * usual_sizes.set_count;
    struct bpe_room *room = bpe_room_create(bpe->table.order_count, size_max + 1);
    uint32_t *ids = malloc(sizeof(uint32_t) * (size_max + 1));
    bool has_memory = room != NULL && ids != NULL;
    for (uint32_t id = 0; has_memory && id < bpe->vocab.count && left > 0; id++) {
        struct slice text = bpe_vocab_text(&bpe->vocab, id);
        if (text.size == 0 || text.size > size_max) {
            continue;
        }
        left--;
        if (bpe_merge_text(bpe, room, text, false, ids) == 1 && ids[0] == id) {
            bpe_vocab_set_own(&bpe->vocab, id);
        }
    }
    free(ids);
    bpe_room_destroy(&room);
    return has_memory;
}

struct bpe *bpe_create(const struct bpe_options *options)
{
    ASSERT(options->token_count <= bpe_token_max && options->merge_count <= bpe_merge_max);
    ASSERT(!options->by_character || !options->ignore_merges);
    struct bpe *bpe = calloc(1, sizeof(*bpe));
    if (bpe == NULL) {
        return NULL;
    }
    if (!bpe_table_init(&bpe->table, options->merges, options->merge_count) ||
        !bpe_symbols_init(&bpe->symbols, options) || !bpe_vocab_init(&bpe->vocab, options) ||
        !bpe_cuts_init(&bpe->cuts, options, &bpe->symbols) ||
        !find_own_tokens(bpe, options->ignore_merges) ||
        !bpe_vocab_index(&bpe->vocab, options->ignore_merges)) {
        bpe_destroy(&bpe);
    }
    return bpe;
}

void bpe_destroy(struct bpe **bpe)
{
    if (*bpe != NULL) {
        bpe_table_fini(&(*bpe)->table);
        bpe_symbols_fini(&(*bpe)->symbols);
        bpe_vocab_fini(&(*bpe)->vocab);
        bpe_cuts_fini(&(*bpe)->cuts);
        free(*bpe);
    }
    *bpe = NULL;
}

size_t bpe_memory(const struct bpe *bpe)
{
    return sizeof(*bpe) + bpe_table_memory(&bpe->table) + bpe_symbols_memory(&bpe->symbols) +
           bpe_vocab_memory(&bpe->vocab) + bpe_cuts_memory();
}

bool bpe_can_cut(const struct bpe *bpe, uint32_t before, uint32_t after)
{
    return bpe_cuts_between(&bpe->cuts, before, after);
}

// Low ids are the common ones, so they come first and stay.  After as many tries as there are
// places, most of the others would not find a place.
static void seed_word_cache(struct bpe_scratch *scratch)
{
    const struct bpe_vocab *vocab = &scratch->bpe->vocab;
    uint32_t left = 2 * (scratch->cache.mask + 1);
    for (uint32_t id = 0; id < vocab->count && left > 0; id++) {
        struct slice text = bpe_vocab_text(vocab, id);
        if (text.size > word_size_max || !bpe_vocab_is_own(vocab, id)) {
            continue;
        }
        struct word_key key = word_key_of(text, 0, (uint32_t)text.size);
        left--;
        word_put_if_free(&scratch->cache.sets[word_set_of(&scratch->cache, key)], key, &id, 1);
    }
}

struct bpe_scratch *bpe_scratch_create_sized(const struct bpe *bpe,
                                             const struct word_cache_options *sizes)
{
    struct bpe_scratch *scratch = calloc(1, sizeof(*scratch));
    if (scratch == NULL) {
        return NULL;
    }
    scratch->bpe = bpe;
    scratch->room = bpe_room_create(bpe->table.order_count, symbol_max);
    if (!word_cache_init(&scratch->cache, sizes) || scratch->room == NULL) {
        bpe_scratch_destroy(&scratch);
        return NULL;
    }
    seed_word_cache(scratch);
    return scratch;
}

struct bpe_scratch *bpe_scratch_create(const struct bpe *bpe)
{
    return bpe_scratch_create_sized(bpe, &usual_sizes);
}

void bpe_scratch_destroy(struct bpe_scratch **scratch)
{
    if (*scratch != NULL) {
        word_cache_fini(&(*scratch)->cache);
        bpe_room_destroy(&(*scratch)->room);
        free(*scratch);
    }
    *scratch = NULL;
}
