// SPDX-License-Identifier: Apache-2.0
//
// vocabulary_internal.h -- words and their ids while a tokenizer is being loaded.
//
// Words lie one behind the other in one block; a table of hashes finds them.  All of it is freed
// when the tokenizer is ready.
//
// Threads: one owner.  Memory: grows with the file, which is limited: words of at most
// word_size_max bytes, ids below id_limit.
#pragma once

#include "base/slice.h"

#include <stdint.h>

enum {
    // Files have words of up to some hundred bytes (runs of spaces or dashes).
    word_size_max = 4096,
    // Vocabularies of today end near 2^18.
    id_limit = 1 << 21,
    no_word = UINT32_MAX,
};

struct vocabulary_word {
    uint32_t begin;
    uint32_t size;
    uint32_t id;
};

struct vocabulary_slot {
    uint32_t hash;
    uint32_t word; // no_word: free
};

struct vocabulary {
    uint8_t *bytes;
    size_t size;
    size_t capacity;
    struct vocabulary_word *words;
    uint32_t count;
    uint32_t word_capacity;
    struct vocabulary_slot *slots;
    uint32_t slot_count; // a power of two, at least twice `count`; or 0
};

void vocabulary_fini(struct vocabulary *vocabulary);

// Room for a word of that many bytes behind the last one; NULL when out of memory.  vocabulary_add
// makes it a word: its `word` may lie there.
uint8_t *vocabulary_room(struct vocabulary *vocabulary, size_t size);

// The word is new, at most word_size_max bytes, and its id is below id_limit.
// False when out of memory.
bool vocabulary_add(struct vocabulary *vocabulary, struct slice word, uint32_t id);

// Its number, or no_word.
uint32_t vocabulary_find(const struct vocabulary *vocabulary, struct slice word);

// The same for up to vocabulary_find_max words, whose cache misses overlap.
enum { vocabulary_find_max = 4 };
void vocabulary_find_all(const struct vocabulary *vocabulary, const struct slice *words,
                         uint32_t count, uint32_t *out);

static inline struct slice vocabulary_text(const struct vocabulary *vocabulary, uint32_t word)
{
    const struct vocabulary_word *found = &vocabulary->words[word];
    return slice_of(vocabulary->bytes + found->begin, found->size);
}
