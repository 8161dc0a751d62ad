// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/word_cache.h"

#include "base/base.h"
#include "base/hash.h"

#include <stdlib.h>

_Static_assert(sizeof(struct word_set) == 64, "a line");
_Static_assert(sizeof(struct phrase) == 128, "two lines");

#define LOW(size) ((size) >= 8 ? UINT64_MAX : (UINT64_C(1) << (size) % 8 * 8) - 1)
#define HIGH(size) ((size) <= 8 ? 0 : (UINT64_C(1) << (size) % 8 * 8) - 1)
#define MASK(size) [size] = {.low = LOW(size), .high = HIGH(size)}

const struct word_key word_masks[word_size_max + 1] = {
    MASK(0), MASK(1), MASK(2),  MASK(3),  MASK(4),  MASK(5),  MASK(6),  MASK(7),
    MASK(8), MASK(9), MASK(10), MASK(11), MASK(12), MASK(13), MASK(14), MASK(15),
};

static bool is_power_of_two(uint32_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

bool word_cache_init(struct word_cache *cache, const struct word_cache_options *options)
{
    ASSERT(is_power_of_two(options->set_count) && is_power_of_two(options->phrase_set_count));
    size_t size = options->set_count * sizeof(struct word_set);
    size_t phrase_size = (size_t)options->phrase_set_count * 2 * sizeof(struct phrase);
    *cache = (struct word_cache){
        .sets = aligned_alloc(64, size),
        .mask = options->set_count - 1,
        .phrases = aligned_alloc(64, phrase_size),
        .phrase_mask = options->phrase_set_count - 1,
    };
    if (cache->sets == NULL || cache->phrases == NULL) {
        return false;
    }
    // An entry of size 0 is free: no text has that size.
    memset(cache->sets, 0, size);
    memset(cache->phrases, 0, phrase_size);
    return true;
}

void word_cache_fini(struct word_cache *cache)
{
    free(cache->sets);
    free(cache->phrases);
    *cache = (struct word_cache){0};
}

static void fill_word_slot(struct word_slot *slot, struct word_key key, const uint32_t *ids,
                           uint32_t count)
{
    ASSERT(count <= word_ids_max);
    *slot = (struct word_slot){
        .key = {.low = key.low, .high = key.high | (uint64_t)count << 61},
    };
    memcpy(slot->ids, ids, count * sizeof(ids[0]));
}

void word_put(struct word_set *set, struct word_key key, const uint32_t *ids, uint32_t count)
{
    set->slots[1] = set->slots[0];
    fill_word_slot(&set->slots[0], key, ids, count);
}

void word_put_if_free(struct word_set *set, struct word_key key, const uint32_t *ids,
                      uint32_t count)
{
    for (unsigned i = 0; i < ARRAY_COUNT(set->slots); i++) {
        if (set->slots[i].key.high == 0) {
            fill_word_slot(&set->slots[i], key, ids, count);
            return;
        }
    }
}

static struct phrase *phrase_set_of(const struct word_cache *cache, struct slice text)
{
    ASSERT(text.size >= 1 && text.size <= phrase_size_max);
    return &cache->phrases[(hash_bytes(text, 0) & cache->phrase_mask) * 2];
}

const struct phrase *phrase_find(const struct word_cache *cache, struct slice text)
{
    const struct phrase *set = phrase_set_of(cache, text);
    for (unsigned i = 0; i < 2; i++) {
        if (set[i].size == text.size && memcmp(set[i].bytes, text.bytes, text.size) == 0) {
            return &set[i];
        }
    }
    return NULL;
}

void phrase_put(struct word_cache *cache, struct slice text, const uint32_t *ids, uint32_t count)
{
    ASSERT(count <= phrase_ids_max);
    struct phrase *set = phrase_set_of(cache, text);
    set[1] = set[0];
    set[0].size = (uint8_t)text.size;
    set[0].count = (uint8_t)count;
    memcpy(set[0].bytes, text.bytes, text.size);
    memcpy(set[0].ids, ids, count * sizeof(ids[0]));
}
