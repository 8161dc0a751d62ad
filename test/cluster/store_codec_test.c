// SPDX-License-Identifier: Apache-2.0

#include "cluster/store_codec.h"

#include "base/base.h"
#include "base/text.h"
#include "test.h"

static const struct store_codec_bounds small = {
    .bulk_size_max = 16,
    .reply_size_max = 64,
    .node_count_max = 8,
};
static struct store_codec *codec;
static struct store_reply *reply;

static void begin(void)
{
    store_reply_free(&reply);
    store_codec_destroy(&codec);
    ASSERT(store_codec_create(&small, &codec) == STATUS_OK);
}

static void end(void)
{
    store_reply_free(&reply);
    store_codec_destroy(&codec);
}

// The first reply of a new codec.
static enum status read_text(const char *text)
{
    begin();
    enum status status = store_codec_feed(codec, slice_str(text));
    return status == STATUS_OK ? store_codec_next(codec, &reply) : status;
}

TEST(each_kind_of_reply_is_read)
{
    CHECK_EQ(read_text("+OK\r\n"), STATUS_OK);
    CHECK_EQ(store_reply_kind(reply), STORE_REPLY_STATUS);
    CHECK(slice_is(store_reply_text(reply), "OK"));
    CHECK_EQ(store_reply_count(reply), 0);
    CHECK_EQ(read_text("-ERR x\r\n"), STATUS_OK);
    CHECK_EQ(store_reply_kind(reply), STORE_REPLY_ERROR);
    CHECK(slice_is(store_reply_text(reply), "ERR x"));
    CHECK_EQ(read_text(":-17\r\n"), STATUS_OK);
    CHECK_EQ(store_reply_kind(reply), STORE_REPLY_NUMBER);
    CHECK_EQ(store_reply_number(reply), -17);
    CHECK_EQ(store_reply_text(reply).size, 0);
    CHECK_EQ(read_text("$3\r\na\r\n\r\n"), STATUS_OK);
    CHECK_EQ(store_reply_kind(reply), STORE_REPLY_STRING);
    CHECK(slice_is(store_reply_text(reply), "a\r\n"));
    CHECK_EQ(read_text("$0\r\n\r\n"), STATUS_OK);
    CHECK_EQ(store_reply_kind(reply), STORE_REPLY_STRING);
    CHECK_EQ(read_text("$-1\r\n"), STATUS_OK);
    CHECK_EQ(store_reply_kind(reply), STORE_REPLY_NIL);
    CHECK_EQ(read_text("*-1\r\n"), STATUS_OK);
    CHECK_EQ(store_reply_kind(reply), STORE_REPLY_NIL);
    CHECK_EQ(read_text("*0\r\n"), STATUS_OK);
    CHECK_EQ(store_reply_kind(reply), STORE_REPLY_ARRAY);
    CHECK_EQ(read_text("*2\r\n*1\r\n:1\r\n$1\r\nx\r\n"), STATUS_OK);
    CHECK_EQ(store_reply_count(reply), 2);
    CHECK_EQ(store_reply_number(store_reply_at(store_reply_at(reply, 0), 0)), 1);
    CHECK(slice_is(store_reply_text(store_reply_at(reply, 1)), "x"));
    end();
}

TEST(replies_may_come_in_any_pieces_and_several_at_a_time)
{
    static const char text[] = "*2\r\n*1\r\n:1\r\n$4\r\nx\r\ny\r\n+OK\r\n";
    begin();
    for (size_t at = 0; text[at] != '\0'; at++) {
        CHECK_EQ(store_codec_next(codec, &reply), STATUS_AGAIN);
        CHECK_EQ(store_codec_feed(codec, slice_of(text + at, 1)), STATUS_OK);
        bool is_whole = text[at + 1] == '+';
        CHECK(!is_whole || store_codec_next(codec, &reply) == STATUS_OK);
        CHECK(!is_whole || store_reply_count(reply) == 2);
        store_reply_free(&reply);
    }
    CHECK_EQ(store_codec_next(codec, &reply), STATUS_OK);
    CHECK(slice_is(store_reply_text(reply), "OK"));
    begin();
    CHECK_EQ(store_codec_feed(codec, slice_str("+a\r\n+b\r\n:1")), STATUS_OK);
    CHECK_EQ(store_codec_next(codec, &reply), STATUS_OK);
    store_reply_free(&reply);
    CHECK_EQ(store_codec_next(codec, &reply), STATUS_OK);
    CHECK(slice_is(store_reply_text(reply), "b"));
    store_reply_free(&reply);
    CHECK_EQ(store_codec_next(codec, &reply), STATUS_AGAIN);
    end();
}

TEST(every_bound_is_kept_at_its_edge_and_counts_anew_for_each_reply)
{
    static const struct {
        const char *text;
        enum status status;
    } rows[] = {
        {"$16\r\n0123456789abcdef\r\n", STATUS_OK},
        {"$17\r\n", STATUS_TOO_LARGE},
        {"$99999999999999999\r\n", STATUS_TOO_LARGE},
        {"*7\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", STATUS_OK},
        {"*8\r\n", STATUS_TOO_LARGE},
        {"*2147483648\r\n", STATUS_TOO_LARGE},
        {"*4\r\n*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n*2\r\n", STATUS_TOO_LARGE},
        {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", STATUS_OK},
        {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", STATUS_TOO_LARGE},
        {"*3\r\n$16\r\n0123456789abcdef\r\n$16\r\n0123456789abcdef\r\n$14\r\n", STATUS_TOO_LARGE},
        {"+0123456789012345678901234567890123456789012345678901234567890123\r\n", STATUS_TOO_LARGE},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        enum status status = read_text(rows[i].text);
        if (status != rows[i].status) {
            test_fail(__FILE__, __LINE__, "%s: %s", rows[i].text, status_text(status));
        }
    }
    begin();
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(store_codec_feed(codec, slice_str("*2\r\n:1\r\n$16\r\n0123456789abcdef\r\n")),
                 STATUS_OK);
        CHECK_EQ(store_codec_next(codec, &reply), STATUS_OK);
        store_reply_free(&reply);
    }
    end();
}

TEST(bytes_of_another_form_are_malformed)
{
    static const char *const texts[] = {
        "\r\n",     "OK\r\n",  "?1\r\n", "%1\r\n",
        "_\r\n",    "$\r\n",   "$x\r\n", "$-2\r\n",
        "$01\r\nx", "$1 \r\n", "*\r\n",  "*-2\r\n",
        "*1x\r\n",  "$+1\r\n", ":x\r\n", "$18446744073709551617\r\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        enum status status = read_text(texts[i]);
        if (status != STATUS_MALFORMED) {
            test_fail(__FILE__, __LINE__, "%s: %s", texts[i], status_text(status));
        }
    }
    end();
}

TEST(a_command_is_a_list_of_words_of_any_bytes)
{
    char space[64];
    struct text text = text_over(space, sizeof(space));
    struct slice words[] = {slice_str("SET"), slice_str("a b\r\n"), {0}};
    CHECK_EQ(store_codec_write(words, 3, &text), STATUS_OK);
    CHECK(slice_is(text_slice(&text), "*3\r\n$3\r\nSET\r\n$5\r\na b\r\n\r\n$0\r\n\r\n"));
    CHECK(!text.overflow);
    text = text_over(space, 29);
    CHECK_EQ(store_codec_write(words, 3, &text), STATUS_OK);
    CHECK(text.overflow);
}
