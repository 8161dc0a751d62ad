// SPDX-License-Identifier: Apache-2.0
//
// word_cache.h -- short texts and their ids, as many as fit.
//
// A text of up to 15 bytes is two words, and so are up to four ids:
//
//     [ bytes 0..7 ][ bytes 8..14 | ids 3 bits, size 5 bits ][ id id id id ]   32 bytes, two a line
//
// so that a lookup is one cache line, which can be prefetched, two comparisons, and a copy of 16
// bytes.  Longer texts, or more ids, have a second, smaller table with longer entries.
//
// A new text evicts the older of the two that share its line.  Nothing else is evicted, and nothing
// grows.
//
// Threads: one owner.
#pragma once

#include "base/slice.h"

enum {
    word_size_max = 15,
    word_ids_max = 4,
    phrase_size_max = 62,
    phrase_ids_max = 16,
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read as the bytes lie");

struct word_key {
    uint64_t low;
    uint64_t high; // size in the top byte
};

struct word_slot {
    struct word_key key; // with the number of ids in the top three bits
    uint32_t ids[word_ids_max];
};

struct word_set {
    _Alignas(64) struct word_slot slots[2]; // the newer one first
};

struct phrase {
    uint8_t size;
    uint8_t count;
    uint8_t bytes[phrase_size_max];
    uint32_t ids[phrase_ids_max];
};

struct word_cache {
    struct word_set *sets;
    uint32_t mask;
    struct phrase *phrases; // two a set, likewise
    uint32_t phrase_mask;
};

struct word_cache_options {
    uint32_t set_count; // powers of two
    uint32_t phrase_set_count;
};

// False when out of memory; call word_cache_fini in any case.
bool word_cache_init(struct word_cache *cache, const struct word_cache_options *options);
void word_cache_fini(struct word_cache *cache);

extern const struct word_key word_masks[word_size_max + 1];

// A key that no word has.
static const struct word_key word_key_none = {.low = UINT64_MAX, .high = UINT64_MAX};

// The text is `size` bytes at `begin` of `all`, at most word_size_max.
static inline struct word_key word_key_of(struct slice all, size_t begin, uint32_t size)
{
    uint64_t words[2] = {0, 0};
    if (__builtin_expect(all.size - begin >= sizeof(words), 1)) {
        memcpy(words, all.bytes + begin, sizeof(words));
    } else {
        memcpy(words, all.bytes + begin, size);
    }
    return (struct word_key){
        .low = words[0] & word_masks[size].low,
        .high = (words[1] & word_masks[size].high) | (uint64_t)size << 56,
    };
}

// The only set that can have the word.
static inline uint32_t word_set_of(const struct word_cache *cache, struct word_key key)
{
    unsigned __int128 product =
        (unsigned __int128)(key.low ^ 0x9e3779b97f4a7c15) * (key.high ^ 0xd1b54a32d192ed03);
    return (uint32_t)((uint64_t)product ^ (uint64_t)(product >> 64)) & cache->mask;
}

static inline bool word_is(const struct word_slot *slot, struct word_key key)
{
    return ((slot->key.low ^ key.low) | (slot->key.high ^ key.high) << 3) == 0;
}

static inline uint32_t word_ids_of(const struct word_slot *slot)
{
    return (uint32_t)(slot->key.high >> 61);
}

// NULL when it is not there.
static inline const struct word_slot *word_find(const struct word_set *set, struct word_key key)
{
    // Without a branch between the two, which would be unpredictable.
    bool is_first = word_is(&set->slots[0], key);
    const struct word_slot *slot = &set->slots[!is_first];
    return is_first || word_is(slot, key) ? slot : NULL;
}

// The text is not there, and has at most word_ids_max ids.
void word_put(struct word_set *set, struct word_key key, const uint32_t *ids, uint32_t count);

// Only if its set has room.
void word_put_if_free(struct word_set *set, struct word_key key, const uint32_t *ids,
                      uint32_t count);

// A text of up to phrase_size_max bytes.  NULL when it is not there.
const struct phrase *phrase_find(const struct word_cache *cache, struct slice text);

// The text is not there, and has at most phrase_ids_max ids.
void phrase_put(struct word_cache *cache, struct slice text, const uint32_t *ids, uint32_t count);
