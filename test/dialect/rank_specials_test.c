// SPDX-License-Identifier: Apache-2.0

#include "dialect/rank_specials.h"

#include "test.h"

static struct rank_specials specials;

static enum status read(const char *json)
{
    return rank_specials_read(slice_str(json), &specials);
}

TEST(ids_are_keys_and_texts_are_contents)
{
    CHECK_EQ(read("{\"x\":1,\"added_tokens_decoder\":{\"163584\":{\"content\":\"[BOS]\"},"
                  "\"7\":{\"special\":true,\"content\":\"a\\u0062\\n\"}}}"),
             STATUS_OK);
    CHECK_EQ(specials.count, 2);
    CHECK_EQ(specials.items[0].id, 163584);
    CHECK(slice_is(specials.items[0].text, "[BOS]"));
    CHECK_EQ(specials.items[1].id, 7);
    CHECK(slice_is(specials.items[1].text, "ab\n"));
    rank_specials_free(&specials);
    CHECK_EQ(specials.count, 0);
}

TEST(a_file_without_the_member_has_no_special_tokens)
{
    CHECK_EQ(read("{}"), STATUS_OK);
    CHECK_EQ(specials.count, 0);
    CHECK_EQ(read("{\"added_tokens_decoder\":null}"), STATUS_OK);
    CHECK_EQ(specials.count, 0);
    CHECK_EQ(read("{\"added_tokens_decoder\":{}}"), STATUS_OK);
    CHECK_EQ(specials.count, 0);
    rank_specials_free(&specials);
}

TEST(malformed_lists_of_tokens_are_refused)
{
    static const char *const files[] = {
        "",
        "{\"added_tokens_decoder\":[]}",
        "{\"added_tokens_decoder\":{\"x\":{\"content\":\"a\"}}}",
        "{\"added_tokens_decoder\":{\"1\":\"a\"}}",
        "{\"added_tokens_decoder\":{\"1\":{}}}",
        "{\"added_tokens_decoder\":{\"1\":{\"content\":7}}}",
        "{\"added_tokens_decoder\":{\"1\":{\"content\":\"\\ud800\"}}}",
        "{\"added_tokens_decoder\":{\"4294967296\":{\"content\":\"a\"}}}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        CHECK_EQ(read(files[i]), STATUS_MALFORMED);
    }
}
