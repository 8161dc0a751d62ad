// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/bpe_cuts.h"

#include "base/base.h"

#include <stdlib.h>

enum {
    // A left side ends with the whole first character, and a right side begins with the first bytes
    // of the second.
    MARK_BROKEN_SECOND = 1,
    // A left side is the last bytes of the first character, and a right side behind such bytes
    // begins with the second, whole or broken.
    MARK_BROKEN_FIRST = 2,
    // Characters without a symbol vanish or are fused: no cut beside them.
    MARK_LOST_FIRST = 4,
    MARK_LOST_SECOND = 8,
    MARK_ALL = 15,
};

// One side of a place between two characters: a whole character, or some bytes of it.
struct side {
    bool is_whole;
    uint32_t character;
    uint8_t bytes[4];
    uint8_t size;
};

// Broken characters in merges: bits for those of one and of two bytes.  Characters of which a merge
// has three bytes have all marks anyway.
struct broken {
    uint64_t one[4];
    uint64_t two[1024];
};

struct cuts_reading {
    struct bpe_cuts *cuts;
    struct broken ends;               // of first characters
    struct broken begins;             // of second ones, behind a whole one
    struct broken begins_behind_ends; // behind an end
};

static void broken_add(struct broken *broken, const struct side *side)
{
    if (side->size == 1) {
        broken->one[side->bytes[0] >> 6] |= UINT64_C(1) << (side->bytes[0] & 63);
    } else if (side->size == 2) {
        uint32_t both = (uint32_t)side->bytes[0] << 8 | side->bytes[1];
        broken->two[both >> 6] |= UINT64_C(1) << (both & 63);
    }
}

static bool broken_has(const struct broken *broken, const uint8_t *bytes, unsigned size)
{
    uint32_t both = size == 2 ? (uint32_t)bytes[0] << 8 | bytes[1] : 0;
    return size == 1 ? (broken->one[bytes[0] >> 6] >> (bytes[0] & 63) & 1) != 0
                     : (broken->two[both >> 6] >> (both & 63) & 1) != 0;
}

// "▁" and the space are one.
static uint32_t fold_space(const struct bpe_cuts *cuts, uint32_t character)
{
    return character == space_mark && cuts->folds_space ? ' ' : character;
}

static void cuts_read_whole(const struct bpe_cuts *cuts, const uint8_t *at, struct side *out)
{
    unsigned size;
    *out = (struct side){.is_whole = true, .character = fold_space(cuts, utf8_read(at, &size))};
}

// The last character of a left side.  False when no character of a text ends like that.
static bool cuts_read_end(const struct bpe_cuts *cuts, struct slice token, struct side *out)
{
    size_t size = 1;
    while (size < token.size && utf8_is_tail(token.bytes[token.size - size])) {
        size++;
    }
    const uint8_t *at = token.bytes + token.size - size;
    if (!utf8_is_tail(at[0])) {
        cuts_read_whole(cuts, at, out);
        return utf8_size_of_lead(at[0]) == size && out->character < 0x110000;
    }
    *out = (struct side){.size = (uint8_t)(size < 4 ? size : 4)};
    memcpy(out->bytes, at, out->size);
    return size < 4;
}

// The first character of a right side, likewise.
static bool cuts_read_begin(const struct bpe_cuts *cuts, struct slice token, struct side *out)
{
    size_t size = utf8_size_of_lead(token.bytes[0]);
    if (utf8_is_tail(token.bytes[0])) {
        return false;
    }
    if (size <= token.size) {
        cuts_read_whole(cuts, token.bytes, out);
        return out->character < 0x110000;
    }
    *out = (struct side){.size = (uint8_t)token.size};
    memcpy(out->bytes, token.bytes, token.size);
    return true;
}

static uint32_t pair_place_of(uint32_t first, uint32_t second)
{
    uint64_t pair = (uint64_t)first << 32 | second;
    return (uint32_t)(pair * 0x9e3779b97f4a7c15 >> (64 - bpe_cuts_pair_bits));
}

static void mark_side(uint8_t *marks, const struct side *side, uint8_t bit)
{
    if (side->is_whole && side->character < bpe_cuts_mark_count) {
        marks[side->character] |= bit;
    }
}

static void cuts_read_merge(struct cuts_reading *reading, struct slice left, struct slice right)
{
    struct bpe_cuts *cuts = reading->cuts;
    struct side end;
    struct side begin;
    if (left.size == 0 || right.size == 0 || !cuts_read_end(cuts, left, &end) ||
        !cuts_read_begin(cuts, right, &begin)) {
        return;
    }
    if (end.is_whole && begin.is_whole) {
        uint32_t place = pair_place_of(end.character, begin.character);
        cuts->pairs[place >> 6] |= UINT64_C(1) << (place & 63);
    } else if (end.is_whole) {
        mark_side(cuts->before, &end, MARK_BROKEN_SECOND);
        broken_add(&reading->begins, &begin);
    } else {
        broken_add(&reading->ends, &end);
        mark_side(cuts->behind, &begin, MARK_BROKEN_FIRST);
        if (!begin.is_whole) {
            broken_add(&reading->begins_behind_ends, &begin);
        }
    }
}

// The marks of characters that could be broken in a way that merges have.
static void mark_broken(struct cuts_reading *reading)
{
    for (uint32_t character = 0x80; character < bpe_cuts_mark_count; character++) {
        uint8_t bytes[4];
        unsigned size = utf8_write(character, bytes);
        for (unsigned part = 1; part < size; part++) {
            if (broken_has(&reading->ends, bytes + size - part, part)) {
                reading->cuts->before[character] |= MARK_BROKEN_FIRST;
            }
            if (broken_has(&reading->begins, bytes, part)) {
                reading->cuts->behind[character] |= MARK_BROKEN_SECOND;
            }
            if (broken_has(&reading->begins_behind_ends, bytes, part)) {
                reading->cuts->behind[character] |= MARK_BROKEN_FIRST;
            }
        }
    }
}

static void mark_lost(struct bpe_cuts *cuts, const struct bpe_symbols *symbols)
{
    for (uint32_t character = 0; character < bpe_cuts_mark_count; character++) {
        bool is_lost = bpe_symbols_of(symbols, character) == bpe_no_id;
        cuts->before[character] |= MARK_LOST_SECOND | (is_lost ? MARK_LOST_FIRST : 0);
        cuts->behind[character] |= MARK_LOST_FIRST | (is_lost ? MARK_LOST_SECOND : 0);
    }
}

// Whether a merge has a symbol that stands for a byte or for unknown characters.
static bool merges_strangers(const struct bpe_options *options, const struct bpe_symbols *symbols)
{
    uint64_t *strangers = calloc(bpe_token_max / 64, sizeof(uint64_t));
    if (strangers == NULL) {
        return true; // only costs cuts
    }
    for (uint32_t byte = 0; byte < 256 && symbols->has_bytes; byte++) {
        strangers[symbols->byte_ids[byte] / 64] |= UINT64_C(1) << symbols->byte_ids[byte] % 64;
    }
    if (symbols->unknown_id != bpe_no_id) {
        strangers[symbols->unknown_id / 64] |= UINT64_C(1) << symbols->unknown_id % 64;
    }
    bool has_any = false;
    for (uint32_t i = 0; i < options->merge_count && !has_any; i++) {
        uint32_t left = options->merges[i].left;
        uint32_t right = options->merges[i].right;
        has_any =
            ((strangers[left / 64] >> left % 64 | strangers[right / 64] >> right % 64) & 1) != 0;
    }
    free(strangers);
    return has_any;
}

static void cuts_fill_ascii(struct bpe_cuts *cuts)
{
    for (uint32_t first = 0; first < 128; first++) {
        for (uint32_t second = 0; second < 128; second++) {
            bool is_cut = bpe_cuts_between_any(cuts, first, second);
            cuts->ascii[first][second >> 6] |= (uint64_t)is_cut << (second & 63);
        }
    }
}

bool bpe_cuts_init(struct bpe_cuts *cuts, const struct bpe_options *options,
                   const struct bpe_symbols *symbols)
{
    *cuts = (struct bpe_cuts){
        .is_off = options->by_character && merges_strangers(options, symbols),
        .is_narrow = !symbols->has_bytes,
        .folds_space = options->by_character,
        .before = calloc(bpe_cuts_mark_count, 1),
        .behind = calloc(bpe_cuts_mark_count, 1),
        .pairs = calloc(1U << (bpe_cuts_pair_bits - 6), sizeof(uint64_t)),
    };
    struct cuts_reading *reading = calloc(1, sizeof(*reading));
    bool is_made =
        cuts->before != NULL && cuts->behind != NULL && cuts->pairs != NULL && reading != NULL;
    ASSERT(options->merge_count <= bpe_merge_max);
    if (is_made && !cuts->is_off) {
        reading->cuts = cuts;
        for (uint32_t i = 0; i < options->merge_count; i++) {
            cuts_read_merge(reading, options->tokens[options->merges[i].left],
                            options->tokens[options->merges[i].right]);
        }
        mark_broken(reading);
        if (options->by_character && !symbols->has_bytes) {
            mark_lost(cuts, symbols);
        }
        cuts_fill_ascii(cuts);
    }
    free(reading);
    return is_made;
}

void bpe_cuts_fini(struct bpe_cuts *cuts)
{
    free(cuts->before);
    free(cuts->behind);
    free(cuts->pairs);
    *cuts = (struct bpe_cuts){0};
}

size_t bpe_cuts_memory(void)
{
    return (size_t)2 * bpe_cuts_mark_count + (1U << (bpe_cuts_pair_bits - 3));
}

bool bpe_cuts_between_any(const struct bpe_cuts *cuts, uint32_t first, uint32_t second)
{
    first = fold_space(cuts, first);
    second = fold_space(cuts, second);
    if (cuts->is_off) {
        return false;
    }
    if ((first | second) < bpe_cuts_mark_count ? (cuts->before[first] & cuts->behind[second]) != 0
                                               : cuts->is_narrow) {
        return false;
    }
    uint32_t place = pair_place_of(first, second);
    return (cuts->pairs[place >> 6] >> (place & 63) & 1) == 0;
}

uint32_t bpe_cuts_next(const struct bpe_cuts *cuts, const uint8_t *bytes, uint32_t begin,
                       uint32_t end)
{
    ASSERT(begin < end);
    if (cuts->is_off) {
        return end;
    }
    unsigned size;
    uint32_t first = utf8_read(bytes + begin, &size);
    for (uint32_t at = begin + size; at < end; at += size) {
        uint32_t second = utf8_read(bytes + at, &size);
        if (bpe_cuts_between(cuts, first, second)) {
            return at;
        }
        first = second;
    }
    return end;
}
