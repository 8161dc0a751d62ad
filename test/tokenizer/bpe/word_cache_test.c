// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/word_cache.h"

#include "base/rng.h"
#include "test.h"

static struct word_key key_of(const char *text)
{
    return word_key_of(slice_str(text), 0, (uint32_t)strlen(text));
}

TEST(a_word_is_found_with_its_ids_and_others_are_not)
{
    struct word_cache cache;
    CHECK(word_cache_init(&cache,
                          &(struct word_cache_options){.set_count = 4, .phrase_set_count = 1}));
    const uint32_t ids[] = {7, 8, 9, 10};
    for (uint32_t count = 0; count <= word_ids_max; count++) {
        struct word_key key = key_of((const char *[]){"a", "ab", "abc", "abcd", "abcde"}[count]);
        struct word_set *set = &cache.sets[word_set_of(&cache, key)];
        CHECK(word_find(set, key) == NULL);
        word_put(set, key, ids, count);
        const struct word_slot *slot = word_find(set, key);
        CHECK(slot != NULL);
        CHECK_EQ(word_ids_of(slot), count);
        CHECK(memcmp(slot->ids, ids, count * sizeof(ids[0])) == 0);
    }
    word_cache_fini(&cache);
}

TEST(size_is_part_of_a_key)
{
    // Bytes of zero are bytes like others.
    static const uint8_t zeros[16];
    for (uint32_t pair = 0; pair < 225; pair++) {
        struct word_slot slot = {.key = word_key_of(slice_of(zeros, 16), 0, 1 + pair / 15)};
        struct word_key key = word_key_of(slice_of(zeros, 16), 0, 1 + pair % 15);
        CHECK_EQ(word_is(&slot, key), pair / 15 == pair % 15);
    }
}

TEST(every_byte_is_part_of_a_key_and_none_behind_it)
{
    static const uint8_t zeros[16];
    for (uint32_t pair = 0; pair < 240; pair++) {
        uint32_t size = 1 + pair / 16;
        uint8_t bytes[16] = {0};
        bytes[pair % 16] = 1;
        struct word_slot slot = {.key = word_key_of(slice_of(zeros, 16), 0, size)};
        CHECK_EQ(word_is(&slot, word_key_of(slice_of(bytes, 16), 0, size)), pair % 16 >= size);
    }
}

TEST(a_key_is_the_same_wherever_the_text_lies)
{
    const char *text = "0123456789abcdefghijklmnopqrstuv";
    for (uint32_t pair = 0; pair < 240; pair++) {
        uint32_t begin = pair / 12;
        uint32_t size = 1 + pair % 12;
        struct word_key within = word_key_of(slice_str(text), begin, size);
        struct word_key at_end = word_key_of(slice_of(text, begin + size), begin, size);
        CHECK(within.low == at_end.low && within.high == at_end.high);
    }
}

TEST(the_older_of_two_words_makes_room)
{
    struct word_cache cache;
    CHECK(word_cache_init(&cache,
                          &(struct word_cache_options){.set_count = 1, .phrase_set_count = 1}));
    struct word_key keys[] = {key_of("a"), key_of("b"), key_of("c")};
    for (uint32_t i = 0; i < 3; i++) {
        word_put(cache.sets, keys[i], &i, 1);
    }
    CHECK(word_find(cache.sets, keys[0]) == NULL);
    CHECK_EQ(word_find(cache.sets, keys[1])->ids[0], 1);
    CHECK_EQ(word_find(cache.sets, keys[2])->ids[0], 2);
    word_put_if_free(cache.sets, keys[0], &(uint32_t){5}, 1);
    CHECK(word_find(cache.sets, keys[0]) == NULL);
    word_cache_fini(&cache);
}

// Puts it there if it is not; whether all is as it was put.
static bool is_kept(struct word_cache *cache, struct slice text, uint32_t *found)
{
    uint32_t ids[phrase_ids_max];
    for (uint32_t i = 0; i < phrase_ids_max; i++) {
        ids[i] = text.bytes[i % text.size] + (uint32_t)text.size;
    }
    const struct phrase *phrase = phrase_find(cache, text);
    *found += phrase != NULL;
    if (phrase == NULL) {
        phrase_put(cache, text, ids, phrase_ids_max);
        phrase = phrase_find(cache, text);
    }
    return phrase != NULL && phrase->count == phrase_ids_max &&
           memcmp(phrase->ids, ids, sizeof(ids)) == 0;
}

TEST(phrases_are_found_by_all_their_bytes)
{
    struct word_cache cache;
    CHECK(word_cache_init(&cache,
                          &(struct word_cache_options){.set_count = 1, .phrase_set_count = 64}));
    struct rng rng = {.state = 1};
    uint32_t found = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        uint8_t bytes[phrase_size_max];
        uint64_t bits = rng_next(&rng);
        for (uint32_t at = 0; at < sizeof(bytes); at++) {
            bytes[at] = bits >> at & 1;
        }
        uint32_t size = 1 + rng_below(&rng, rng_below(&rng, 2) == 0 ? 4 : phrase_size_max);
        CHECK(is_kept(&cache, slice_of(bytes, size), &found));
    }
    CHECK(found > 0);
    word_cache_fini(&cache);
}
