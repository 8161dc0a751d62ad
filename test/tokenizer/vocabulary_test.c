// SPDX-License-Identifier: Apache-2.0

#include "base/text.h"
#include "test.h"
#include "tokenizer/vocabulary_internal.h"

TEST(nothing_is_found_in_an_empty_one)
{
    struct vocabulary vocabulary = {0};
    CHECK_EQ(vocabulary_find(&vocabulary, slice_str("a")), no_word);
    vocabulary_fini(&vocabulary);
}

static struct slice name_of(uint32_t number, uint8_t *space)
{
    struct text text = text_over(space, 32);
    text_add_format(&text, "word %u", (unsigned)number);
    return text_slice(&text);
}

TEST(only_added_words_are_found_each_with_its_id)
{
    enum { count = 20000 };
    struct vocabulary vocabulary = {0};
    uint8_t space[32];

    for (uint32_t i = 0; i < count; i++) {
        CHECK(vocabulary_add(&vocabulary, name_of(i, space), i * 3));
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t word = vocabulary_find(&vocabulary, name_of(i, space));
        CHECK_EQ(word, i);
        CHECK_EQ(vocabulary.words[word].id, i * 3);
        CHECK(slice_equal(vocabulary_text(&vocabulary, word), name_of(i, space)));
        CHECK_EQ(vocabulary_find(&vocabulary, name_of(count + i, space)), no_word);
    }
    CHECK_EQ(vocabulary_find(&vocabulary, slice_str("word ")), no_word);
    vocabulary_fini(&vocabulary);
}

TEST(several_are_found_as_one_by_one)
{
    struct vocabulary vocabulary = {0};
    const struct slice words[] = {slice_str("a"), slice_str("b"), slice_str("c")};
    uint32_t found[3];

    vocabulary_find_all(&vocabulary, words, 3, found);
    CHECK_EQ(found[0], no_word);
    CHECK(vocabulary_add(&vocabulary, words[2], 5));
    CHECK(vocabulary_add(&vocabulary, words[0], 6));
    vocabulary_find_all(&vocabulary, words, 3, found);
    CHECK_EQ(found[0], 1);
    CHECK_EQ(found[1], no_word);
    CHECK_EQ(found[2], 0);
    vocabulary_fini(&vocabulary);
}

TEST(a_word_may_be_written_where_it_will_lie)
{
    struct vocabulary vocabulary = {0};
    for (uint32_t i = 0; i < 3000; i++) {
        uint8_t *room = vocabulary_room(&vocabulary, 32);
        CHECK(room != NULL);
        CHECK(vocabulary_add(&vocabulary, name_of(i, room), i));
    }
    uint8_t space[32];
    CHECK_EQ(vocabulary_find(&vocabulary, name_of(2999, space)), 2999);
    CHECK_EQ(vocabulary_find(&vocabulary, name_of(0, space)), 0);
    vocabulary_fini(&vocabulary);
}

TEST(the_empty_word_is_a_word)
{
    struct vocabulary vocabulary = {0};
    CHECK(vocabulary_add(&vocabulary, (struct slice){0}, 7));
    CHECK_EQ(vocabulary_find(&vocabulary, (struct slice){0}), 0);
    vocabulary_fini(&vocabulary);
}
