// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe.h"

#include "base/base.h"
#include "tokenizer/bpe_internal.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>

enum { symbol_max = tokenizer_piece_max + 1 }; // extra_space

static uint32_t merge_text(const struct bpe *bpe, struct bpe_room *room, struct slice text,
                           bool extra_space, uint32_t *ids)
{
    uint32_t count = bpe_symbols_write(&bpe->symbols, text, extra_space, ids);
    return bpe_merge(&bpe->table, room, ids, count);
}

// Which tokens are what merging makes of their bytes.
static bool find_own_tokens(struct bpe *bpe)
{
    size_t size_max = 0;
    for (uint32_t id = 0; id < bpe->vocab.count; id++) {
        size_t size = bpe_vocab_text(&bpe->vocab, id).size;
        size_max = size > size_max ? size : size_max;
    }
    struct bpe_room *room = bpe_room_create(bpe->table.order_count, (uint32_t)size_max + 1);
    uint32_t *ids = malloc(sizeof(uint32_t) * (size_max + 1));
    bool has_memory = room != NULL && ids != NULL;
    for (uint32_t id = 0; has_memory && id < bpe->vocab.count; id++) {
        struct slice text = bpe_vocab_text(&bpe->vocab, id);
        if (text.size == 0) {
            continue;
        }
        bool is_own = merge_text(bpe, room, text, false, ids) == 1 && ids[0] == id;
        if (is_own || bpe->ignore_merges) {
            bpe_vocab_add(&bpe->vocab, id, is_own);
        }
    }
    free(ids);
    bpe_room_destroy(&room);
    return has_memory;
}

struct bpe *bpe_create(const struct bpe_options *options)
{
    ASSERT(options->token_count <= bpe_token_max && options->merge_count <= bpe_merge_max);
    struct bpe *bpe = calloc(1, sizeof(*bpe));
    if (bpe == NULL) {
        return NULL;
    }
    bpe->ignore_merges = options->ignore_merges;
    if (!bpe_table_init(&bpe->table, options->merges, options->merge_count) ||
        !bpe_symbols_init(&bpe->symbols, options) || !bpe_vocab_init(&bpe->vocab, options) ||
        !find_own_tokens(bpe)) {
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
        free(*bpe);
    }
    *bpe = NULL;
}

size_t bpe_memory(const struct bpe *bpe)
{
    return sizeof(*bpe) + bpe_table_memory(&bpe->table) + bpe_symbols_memory(&bpe->symbols) +
           bpe_vocab_memory(&bpe->vocab);
}

struct bpe_scratch *bpe_scratch_create(const struct bpe *bpe)
{
    struct bpe_scratch *scratch = calloc(1, sizeof(*scratch));
    if (scratch == NULL) {
        return NULL;
    }
    scratch->bpe = bpe;
    scratch->room = bpe_room_create(bpe->table.order_count, symbol_max);
    if (scratch->room == NULL) {
        bpe_scratch_destroy(&scratch);
    }
    return scratch;
}

void bpe_scratch_destroy(struct bpe_scratch **scratch)
{
    if (*scratch != NULL) {
        bpe_room_destroy(&(*scratch)->room);
        free(*scratch);
    }
    *scratch = NULL;
}

size_t bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch,
                  const struct bpe_pieces *pieces, uint32_t *ids)
{
    ASSERT(scratch->bpe == bpe);
    size_t count = 0;
    uint32_t begin = pieces->begin;
    for (uint32_t i = 0; i < pieces->count; i++) {
        struct slice piece = slice_of(pieces->text.bytes + begin, pieces->ends[i] - begin);
        ASSERT(piece.size <= tokenizer_piece_max);
        bool extra_space = pieces->extra_space && i == 0;
        begin = pieces->ends[i];
        uint32_t id =
            bpe->vocab.odd_count == 0
                ? (uint32_t)bpe_no_id
                : bpe_vocab_find_odd(&bpe->vocab, piece, extra_space, (uint8_t *)(ids + count));
        if (id != bpe_no_id) {
            ids[count++] = id;
        } else {
            count += merge_text(bpe, scratch->room, piece, extra_space, ids + count);
        }
    }
    return count;
}

bool bpe_can_cut(const struct bpe *bpe, uint32_t before, uint32_t after)
{
    (void)bpe;
    (void)before;
    (void)after;
    return false;
}
