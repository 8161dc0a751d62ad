// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/tokenizer.h"

#include "base/base.h"
#include "tokenizer/nfc/nfc.h"
#include "tokenizer/tokenizer_internal.h"

#include <stdlib.h>

void tokenizer_destroy(struct tokenizer **tokenizer)
{
    struct tokenizer *dying = *tokenizer;
    if (dying == NULL) {
        return;
    }
    *tokenizer = NULL;
    added_destroy(&dying->added);
    added_destroy(&dying->normalized);
    bpe_destroy(&dying->bpe);
    free(dying->token_ends);
    free(dying->token_bytes);
    free(dying);
}

uint64_t tokenizer_fingerprint(const struct tokenizer *tokenizer)
{
    return tokenizer->fingerprint;
}

size_t tokenizer_memory(const struct tokenizer *tokenizer)
{
    size_t size = sizeof(*tokenizer) + bpe_memory(tokenizer->bpe);
    if (tokenizer->id_count > 0) {
        size += tokenizer->id_count * sizeof(*tokenizer->token_ends) +
                tokenizer->token_ends[tokenizer->id_count - 1];
    }
    if (tokenizer->added != NULL) {
        size += added_memory(tokenizer->added);
    }
    if (tokenizer->normalized != NULL) {
        size += added_memory(tokenizer->normalized);
    }
    return size;
}

uint32_t tokenizer_id_count(const struct tokenizer *tokenizer)
{
    return tokenizer->id_count;
}

struct slice tokenizer_token(const struct tokenizer *tokenizer, uint32_t id)
{
    if (id >= tokenizer->id_count) {
        return (struct slice){0};
    }
    uint32_t begin = id > 0 ? tokenizer->token_ends[id - 1] : 0;
    ASSERT(begin <= tokenizer->token_ends[id]);
    return slice_of(tokenizer->token_bytes + begin, tokenizer->token_ends[id] - begin);
}

struct tokenizer_scratch *tokenizer_scratch_create(const struct tokenizer *tokenizer)
{
    ASSERT(tokenizer->bpe != NULL);
    struct tokenizer_scratch *scratch = calloc(1, sizeof(*scratch));
    if (scratch == NULL) {
        return NULL;
    }
    scratch->tokenizer = tokenizer;
    scratch->bpe = bpe_scratch_create(tokenizer->bpe);
    scratch->normal = malloc(scratch_text_size);
    scratch->spaced = malloc(scratch_text_size);
    scratch->ids = malloc((tokenizer_piece_max + 1) * sizeof(*scratch->ids));
    if (scratch->bpe == NULL || scratch->normal == NULL || scratch->spaced == NULL ||
        scratch->ids == NULL) {
        tokenizer_scratch_destroy(&scratch);
    }
    return scratch;
}

void tokenizer_scratch_destroy(struct tokenizer_scratch **scratch)
{
    struct tokenizer_scratch *dying = *scratch;
    if (dying == NULL) {
        return;
    }
    *scratch = NULL;
    bpe_scratch_destroy(&dying->bpe);
    free(dying->normal);
    free(dying->spaced);
    free(dying->ids);
    free(dying);
}

size_t tokenizer_bound(const struct tokenizer *tokenizer, size_t text_size)
{
    const struct pipeline *pipeline = &tokenizer->pipeline;
    // At most one id for each byte, and one added space for each gap, which has at least one byte.
    size_t size = pipeline->is_nfc ? nfc_bound(text_size) : text_size;
    size_t spaces = pipeline->space_rule == SPACE_NOWHERE ? 0 : text_size;
    return size + spaces + tokenizer->before.count + tokenizer->behind.count;
}

bool tokenizer_has_cuts(const struct tokenizer *tokenizer)
{
    return tokenizer->text_cuts.after_line || tokenizer->text_cuts.before_space;
}

size_t tokenizer_cut(const struct tokenizer *tokenizer, struct slice text, size_t from)
{
    return tokenizer_find_cut(tokenizer, &tokenizer->text_cuts, text, from);
}
