// SPDX-License-Identifier: Apache-2.0
//
// Texts are looked up in batches: all keys are made and their cache lines prefetched, then all are
// looked up.  Only unknown texts are merged.

#include "base/base.h"
#include "tokenizer/bpe/bpe_internal.h"
#include "tokenizer/tokenizer.h"

// Progress through the pieces.
struct piece_walk {
    const struct bpe *bpe;
    struct bpe_scratch *scratch;
    const struct bpe_pieces *pieces;
    uint32_t next;  // piece
    uint32_t begin; // of it, or of the rest of the one before
    uint32_t end;   // of the one before
};

static inline void set_item_key(struct bpe_item *item, const struct piece_walk *walk,
                                uint32_t begin, uint32_t end)
{
    const struct word_cache *cache = &walk->scratch->cache;
    item->begin = begin;
    item->size = end - begin;
    item->key = word_key_none;
    if (__builtin_expect(item->size <= word_size_max, 1)) {
        item->key = word_key_of(walk->pieces->text, begin, item->size);
        item->set = word_set_of(cache, item->key);
        __builtin_prefetch(&cache->sets[item->set]);
    }
}

static struct slice walk_text(const struct piece_walk *walk, uint32_t begin, uint32_t end)
{
    return slice_of(walk->pieces->text.bytes + begin, end - begin);
}

// The token that the whole text is although merging does not give it.
static uint32_t find_odd_token(const struct piece_walk *walk, struct slice text)
{
    const struct bpe_vocab *vocab = &walk->bpe->vocab;
    return vocab->odd.count == 0 ? (uint32_t)bpe_no_id : bpe_vocab_find_odd(vocab, text);
}

// Cuts the rest of a long piece into parts.  Returns how many.
static uint32_t read_parts(struct piece_walk *walk, struct bpe_item *items, uint32_t capacity)
{
    uint32_t count = 0;
    while (walk->begin < walk->end && count < capacity) {
        uint32_t end =
            bpe_cuts_next(&walk->bpe->cuts, walk->pieces->text.bytes, walk->begin, walk->end);
        set_item_key(&items[count], walk, walk->begin, end);
        items[count++].is_whole = false;
        walk->begin = end;
    }
    return count;
}

// At most a batch; 0 at the end.
static uint32_t read_items(struct piece_walk *walk)
{
    const struct bpe_pieces *pieces = walk->pieces;
    struct bpe_item *items = walk->scratch->items;
    uint32_t count = read_parts(walk, items, bpe_batch);
    while (walk->next < pieces->count && count < bpe_batch) {
        walk->end = pieces->ends[walk->next++];
        uint32_t size = walk->end - walk->begin;
        ASSERT(size <= tokenizer_piece_max);
        if (size <= word_size_max ||
            find_odd_token(walk, walk_text(walk, walk->begin, walk->end)) != bpe_no_id) {
            set_item_key(&items[count], walk, walk->begin, walk->end);
            items[count].is_whole = true;
            count += size != 0;
            walk->begin = walk->end;
        } else {
            count += read_parts(walk, items + count, bpe_batch - count);
        }
    }
    return count;
}

// A whole piece may be a token that merging does not make of it, and a part may not: such texts are
// not remembered, so that an entry holds for both.
static void remember_item(const struct piece_walk *walk, const struct bpe_item *item,
                          const uint32_t *ids, uint32_t count)
{
    struct slice text = walk_text(walk, item->begin, item->begin + item->size);
    if (text.size > phrase_size_max || count > phrase_ids_max ||
        find_odd_token(walk, text) != bpe_no_id) {
        return;
    }
    if (text.size <= word_size_max && count <= word_ids_max) {
        word_put(&walk->scratch->cache.sets[item->set], item->key, ids, count);
    } else {
        phrase_put(&walk->scratch->cache, text, ids, count);
    }
}

// Encodes a text that is not among the words.  Returns how many ids.
static uint32_t encode_item(const struct piece_walk *walk, const struct bpe_item *item,
                            uint32_t *ids)
{
    const struct bpe *bpe = walk->bpe;
    struct slice text = walk_text(walk, item->begin, item->begin + item->size);
    uint32_t id = item->is_whole ? find_odd_token(walk, text) : (uint32_t)bpe_no_id;
    if (id != bpe_no_id) {
        ids[0] = id;
        return 1;
    }
    const struct phrase *phrase =
        text.size <= phrase_size_max ? phrase_find(&walk->scratch->cache, text) : NULL;
    if (phrase != NULL) {
        memcpy(ids, phrase->ids, phrase->count * sizeof(ids[0]));
        return phrase->count;
    }
    id = text.size <= bpe->vocab.size_max ? bpe_vocab_find(&bpe->vocab, text) : (uint32_t)bpe_no_id;
    uint32_t count = 1;
    if (id != bpe_no_id) {
        ids[0] = id;
    } else {
        count = bpe_merge_text(bpe, walk->scratch->room, text, false, ids);
    }
    remember_item(walk, item, ids, count);
    return count;
}

// `end` is that of the room for ids.
static uint32_t *look_up_items(const struct piece_walk *walk, uint32_t item_count, uint32_t *ids,
                               const uint32_t *end)
{
    const struct bpe_item *items = walk->scratch->items;
    const struct word_set *sets = walk->scratch->cache.sets;
    for (uint32_t i = 0; i < item_count; i++) {
        const struct word_slot *slot = word_find(&sets[items[i].set], items[i].key);
        if (slot == NULL) {
            ids += encode_item(walk, &items[i], ids);
        } else if (end - ids >= word_ids_max) {
            // Copies all four in one step; the next ids overwrite the unused ones.
            memcpy(ids, slot->ids, sizeof(slot->ids));
            ids += word_ids_of(slot);
        } else {
            uint32_t count = word_ids_of(slot);
            memcpy(ids, slot->ids, count * sizeof(ids[0]));
            ids += count;
        }
    }
    return ids;
}

// The first piece, with "▁" before it, up to its first cut.  Returns how many ids.
static uint32_t encode_spaced(struct piece_walk *walk, uint32_t *ids)
{
    const struct bpe_pieces *pieces = walk->pieces;
    walk->end = pieces->count != 0 ? pieces->ends[0] : pieces->begin;
    walk->next = pieces->count != 0;
    uint32_t end = walk->begin < walk->end
                       ? bpe_cuts_next(&walk->bpe->cuts, pieces->text.bytes, walk->begin, walk->end)
                       : walk->end;
    ASSERT(walk->begin <= end && end <= walk->end);
    struct slice part = walk_text(walk, walk->begin, end);
    walk->begin = end;
    return bpe_merge_text(walk->bpe, walk->scratch->room, part, true, ids);
}

size_t bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch,
                  const struct bpe_pieces *pieces, uint32_t *ids)
{
    ASSERT(scratch->bpe == bpe && pieces->begin <= pieces->text.size);
    struct piece_walk walk = {
        .bpe = bpe,
        .scratch = scratch,
        .pieces = pieces,
        .begin = pieces->begin,
        .end = pieces->begin,
    };
    uint32_t size = pieces->count != 0 ? pieces->ends[pieces->count - 1] - pieces->begin : 0;
    const uint32_t *end = ids + size + pieces->extra_space;
    uint32_t *at = ids;
    if (pieces->extra_space) {
        at += encode_spaced(&walk, at);
    }
    for (uint32_t count; (count = read_items(&walk)) != 0;) {
        at = look_up_items(&walk, count, at, end);
        ASSERT(at <= end);
    }
    ASSERT(walk.next == pieces->count && walk.begin == walk.end);
    return (size_t)(at - ids);
}
