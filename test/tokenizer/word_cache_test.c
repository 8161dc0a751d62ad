// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/word_cache.h"

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

TEST(size_and_every_byte_are_part_of_a_key)
{
    // Bytes of zero are bytes like others.
    static const uint8_t zeros[16];
    uint8_t bytes[16] = {0};
    for (uint32_t size = 1; size <= word_size_max; size++) {
        struct word_key key = word_key_of(slice_of(zeros, 16), 0, size);
        struct word_slot slot = {.key = key};
        for (uint32_t other = 1; other <= word_size_max; other++) {
            CHECK_EQ(word_is(&slot, word_key_of(slice_of(bytes, 16), 0, other)), other == size);
        }
        for (uint32_t at = 0; at < 16; at++) {
            bytes[at] = 1;
            CHECK_EQ(word_is(&slot, word_key_of(slice_of(bytes, 16), 0, size)), at >= size);
            bytes[at] = 0;
        }
    }
}

TEST(a_key_is_the_same_wherever_the_text_lies)
{
    const char *text = "0123456789abcdefghijklmnopqrstuv";
    for (uint32_t begin = 0; begin < 20; begin++) {
        for (uint32_t size = 1; size <= 12; size++) {
            struct word_key within = word_key_of(slice_str(text), begin, size);
            struct word_key at_end = word_key_of(slice_of(text, begin + size), begin, size);
            CHECK(within.low == at_end.low && within.high == at_end.high);
        }
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

TEST(phrases_are_found_by_all_their_bytes)
{
    struct word_cache cache;
    CHECK(word_cache_init(&cache,
                          &(struct word_cache_options){.set_count = 1, .phrase_set_count = 64}));
    uint8_t bytes[phrase_size_max];
    uint32_t ids[phrase_ids_max];
    struct rng rng = {.state = 1};
    uint32_t found = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        for (uint32_t at = 0; at < sizeof(bytes); at++) {
            bytes[at] = (uint8_t)rng_below(&rng, 2);
        }
        for (uint32_t at = 0; at < phrase_ids_max; at++) {
            ids[at] = bytes[at] + 10 * bytes[phrase_size_max - 1];
        }
        struct slice text = slice_of(bytes, 1 + rng_below(&rng, phrase_size_max));
        const struct phrase *phrase = phrase_find(&cache, text);
        found += phrase != NULL;
        CHECK(phrase == NULL || memcmp(phrase->bytes, bytes, text.size) == 0);
        if (phrase == NULL) {
            phrase_put(&cache, text, ids, phrase_ids_max);
            phrase = phrase_find(&cache, text);
            CHECK(phrase != NULL && phrase->count == phrase_ids_max);
            CHECK(memcmp(phrase->ids, ids, sizeof(ids)) == 0);
        }
    }
    CHECK(found > 0);
    word_cache_fini(&cache);
}
