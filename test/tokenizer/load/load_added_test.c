// SPDX-License-Identifier: Apache-2.0

#include "test.h"
#include "tokenizer/tokenizer_fixture.h"

#define BYTES .pre_tokenizer = FIXTURE_LIKE_GPT2

static const char *refusal_of(const char *added)
{
    return fixture_refusal(&(struct fixture_parts){BYTES, .added = added});
}

TEST(ids_are_those_of_words_or_follow_the_count_of_words)
{
    CHECK_STR(refusal_of(FIXTURE_ADDED(265, "<a>", FIXTURE_PLAIN)), "");
    CHECK_STR(refusal_of(FIXTURE_ADDED(265, "<a>", FIXTURE_PLAIN) "," //
                         FIXTURE_ADDED(266, "<b>", FIXTURE_PLAIN)),
              "");
    CHECK_STR(refusal_of(FIXTURE_ADDED(259, "hello", FIXTURE_PLAIN) "," //
                         FIXTURE_ADDED(265, "<b>", FIXTURE_PLAIN)),
              "");
    CHECK_STR(refusal_of(FIXTURE_ADDED(50, "<a>", FIXTURE_PLAIN)),
              "added token \"<a>\" would get another id than the file says: export the file again");
    CHECK_STR(refusal_of(FIXTURE_ADDED(265, "<a>", FIXTURE_PLAIN) "," //
                         FIXTURE_ADDED(267, "<b>", FIXTURE_PLAIN)),
              "added token \"<b>\" would get another id than the file says: export the file again");
    CHECK_STR(refusal_of(FIXTURE_ADDED(300, "hello", FIXTURE_PLAIN)),
              "added token \"hello\" would get another id than the file says: export the file "
              "again");
}

TEST(ids_follow_the_highest_added_one_where_the_vocabulary_has_holes)
{
    const struct fixture_parts parts = {
        BYTES,
        .more_words = ",\"<a>\":400",
        .added = FIXTURE_ADDED(400, "<a>", FIXTURE_PLAIN) "," //
        FIXTURE_ADDED(401, "<b>", FIXTURE_PLAIN),
    };
    CHECK_STR(fixture_refusal(&parts), "");
    CHECK_STR(fixture_ids_of(&parts, "<a>h<b>"), "400 104 401");
}

TEST(a_token_without_text_is_ignored)
{
    CHECK_STR(refusal_of(FIXTURE_ADDED(265, "", FIXTURE_PLAIN) "," //
                         FIXTURE_ADDED(265, "<b>", FIXTURE_PLAIN)),
              "");
}

TEST(a_token_is_listed_once)
{
    CHECK_STR(refusal_of(FIXTURE_ADDED(265, "<a>", FIXTURE_PLAIN) "," //
                         FIXTURE_ADDED(265, "<a>", FIXTURE_NORMALIZED)),
              "added token \"<a>\" is listed twice");
}

TEST(every_flag_must_be_there)
{
    CHECK_STR(refusal_of("{\"id\":265,\"content\":\"<a>\",\"lstrip\":false,\"rstrip\":false,"
                         "\"normalized\":false}"),
              "an added token has no single_word");
    CHECK_STR(refusal_of("{\"id\":265,\"content\":\"<a>\",\"single_word\":false,\"lstrip\":false,"
                         "\"rstrip\":false}"),
              "an added token has no normalized");
    CHECK_STR(refusal_of("{\"id\":265}"), "the content of an added token is not a string");
    CHECK_STR(refusal_of("7"), "an added token is not an object");
    CHECK_STR(refusal_of("\"a\""), "an added token is not an object");
}
