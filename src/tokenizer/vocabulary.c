// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "base/hash.h"
#include "tokenizer/vocabulary_internal.h"

#include <stdlib.h>

enum { first_capacity = 1024 };

void vocabulary_fini(struct vocabulary *vocabulary)
{
    free(vocabulary->bytes);
    free(vocabulary->words);
    free(vocabulary->slots);
    *vocabulary = (struct vocabulary){0};
}

uint8_t *vocabulary_room(struct vocabulary *vocabulary, size_t size)
{
    size_t capacity = vocabulary->capacity > 0 ? vocabulary->capacity : first_capacity;

    while (capacity - vocabulary->size < size) {
        capacity *= 2;
    }
    if (capacity > vocabulary->capacity) {
        uint8_t *bytes = realloc(vocabulary->bytes, capacity);
        if (bytes == NULL) {
            return NULL;
        }
        vocabulary->bytes = bytes;
        vocabulary->capacity = capacity;
    }
    return vocabulary->bytes + vocabulary->size;
}

static uint32_t word_hash(struct slice word)
{
    return (uint32_t)hash_bytes(word, 0);
}

static void vocabulary_put_slot(struct vocabulary_slot *slots, uint32_t mask,
                                struct vocabulary_slot slot)
{
    uint32_t at = slot.hash & mask;
    while (slots[at].word != no_word) {
        at = (at + 1) & mask;
    }
    slots[at] = slot;
}

static bool vocabulary_grow(struct vocabulary *vocabulary)
{
    uint32_t word_capacity = vocabulary->word_capacity * 2;
    if (word_capacity == 0) {
        word_capacity = first_capacity;
    }
    uint32_t slot_count = word_capacity * 2;
    struct vocabulary_word *words =
        realloc(vocabulary->words, word_capacity * sizeof(*vocabulary->words));
    if (words == NULL) {
        return false;
    }
    vocabulary->words = words;
    struct vocabulary_slot *slots = malloc(slot_count * sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    memset(slots, 0xff, slot_count * sizeof(*slots)); // no_word everywhere
    for (uint32_t i = 0; i < vocabulary->slot_count; i++) {
        if (vocabulary->slots[i].word != no_word) {
            vocabulary_put_slot(slots, slot_count - 1, vocabulary->slots[i]);
        }
    }
    ASSERT(slot_count >= 2 * vocabulary->count);
    free(vocabulary->slots);
    vocabulary->slots = slots;
    vocabulary->slot_count = slot_count;
    vocabulary->word_capacity = word_capacity;
    return true;
}

bool vocabulary_add(struct vocabulary *vocabulary, struct slice word, uint32_t id)
{
    ASSERT(word.size <= word_size_max && id < id_limit);
    if (vocabulary->count == vocabulary->word_capacity && !vocabulary_grow(vocabulary)) {
        return false;
    }
    bool is_there = vocabulary->bytes != NULL && word.bytes == vocabulary->bytes + vocabulary->size;
    uint8_t *room = vocabulary_room(vocabulary, is_there ? 0 : word.size);
    if (room == NULL) {
        return false;
    }
    if (!is_there && word.size > 0) {
        memcpy(room, word.bytes, word.size);
    }
    // Offsets have 32 bits.
    if (vocabulary->size + word.size > UINT32_MAX) {
        return false;
    }
    vocabulary->words[vocabulary->count] = (struct vocabulary_word){
        .begin = (uint32_t)vocabulary->size,
        .size = (uint32_t)word.size,
        .id = id,
    };
    vocabulary_put_slot(vocabulary->slots, vocabulary->slot_count - 1,
                        (struct vocabulary_slot){
                            .hash = word_hash(slice_of(room, word.size)),
                            .word = vocabulary->count,
                        });
    vocabulary->size += word.size;
    vocabulary->count++;
    ASSERT(vocabulary->size <= vocabulary->capacity);
    return true;
}

static uint32_t vocabulary_find_hashed(const struct vocabulary *vocabulary, struct slice word,
                                       uint32_t hash)
{
    uint32_t mask = vocabulary->slot_count - 1;

    for (uint32_t at = hash & mask;; at = (at + 1) & mask) {
        const struct vocabulary_slot *slot = &vocabulary->slots[at];
        if (slot->word == no_word) {
            return no_word;
        }
        if (slot->hash == hash && slice_equal(vocabulary_text(vocabulary, slot->word), word)) {
            return slot->word;
        }
    }
}

uint32_t vocabulary_find(const struct vocabulary *vocabulary, struct slice word)
{
    return vocabulary->slot_count > 0 ? vocabulary_find_hashed(vocabulary, word, word_hash(word))
                                      : no_word;
}

void vocabulary_find_all(const struct vocabulary *vocabulary, const struct slice *words,
                         uint32_t count, uint32_t *out)
{
    uint32_t hashes[vocabulary_find_max];

    ASSERT(count <= vocabulary_find_max);
    for (uint32_t i = 0; i < count && vocabulary->slot_count > 0; i++) {
        hashes[i] = word_hash(words[i]);
        __builtin_prefetch(&vocabulary->slots[hashes[i] & (vocabulary->slot_count - 1)]);
    }
    for (uint32_t i = 0; i < count; i++) {
        out[i] = vocabulary->slot_count > 0
                     ? vocabulary_find_hashed(vocabulary, words[i], hashes[i])
                     : no_word;
    }
}
