// SPDX-License-Identifier: Apache-2.0

#include "config/option/nearest.h"

#include "test.h"

static const char *best_of(const char *word, const char *const *candidates, size_t count)
{
    struct config_nearest nearest = {.word = word};
    for (size_t i = 0; i < count; i++) {
        config_nearest_offer(&nearest, candidates[i]);
    }
    return nearest.best != NULL ? nearest.best : "";
}

static const char *const keys[] = {"header_size", "uri_size", "body_size", "body_memory"};

TEST(finds_the_word_with_the_fewest_mistakes)
{
    CHECK_STR(best_of("bdy_size", keys, ARRAY_COUNT(keys)), "body_size");
    CHECK_STR(best_of("body_sizes", keys, ARRAY_COUNT(keys)), "body_size");
    CHECK_STR(best_of("body_sise", keys, ARRAY_COUNT(keys)), "body_size");
    CHECK_STR(best_of("url_size", keys, ARRAY_COUNT(keys)), "uri_size");
}

TEST(a_distant_word_gets_no_suggestion)
{
    CHECK_STR(best_of("timeout", keys, ARRAY_COUNT(keys)), "");
    CHECK_STR(best_of("", keys, ARRAY_COUNT(keys)), "");
    static const char *const short_words[] = {"ab"};
    CHECK_STR(best_of("cd", short_words, 1), "");
    CHECK_STR(best_of("ac", short_words, 1), "ab");
}

TEST(of_two_equally_near_the_first_stays)
{
    static const char *const twins[] = {"rise", "ripe"};
    CHECK_STR(best_of("rime", twins, 2), "rise");
}

static const char *name_at(uint32_t index)
{
    static const char *const names[] = {"warm", "random", NULL};
    return names[index];
}

static const char *explain(const char *word)
{
    static char space[256];
    struct text why = text_over(space, sizeof(space) - 1);
    config_nearest_explain(word, name_at, &why);
    space[why.size] = '\0';
    return space;
}

TEST(a_name_near_to_one_is_suggested_and_else_all_are_listed)
{
    CHECK_STR(explain("warn"), "; did you mean \"warm\"?");
    CHECK_STR(explain("zebra"), "; there are warm, random");
}

TEST(a_word_of_any_length_is_safe)
{
    char word[300];
    memset(word, 'x', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    CHECK_STR(best_of(word, keys, ARRAY_COUNT(keys)), "");
    const char *const itself[] = {word};
    CHECK_STR(best_of("xxxxxxxxx", itself, 1), "");
    word[64] = '\0'; // the longest that is compared
    CHECK_STR(best_of(word, itself, 1), word);
}
