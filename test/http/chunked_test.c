// SPDX-License-Identifier: Apache-2.0

#include "http/chunked.h"

#include "test.h"

static const char body[] = "5;a=b\r\nhello\r\n00006\r\n world\r\n0;z\r\nT: 1\r\nU: 2\r\n\r\n";
static const char rest[] = "GET /next";

// Feeds `text` in portions of `portion` bytes; what is kept goes to `out`.
static enum status scan(enum chunked_keep keep, struct slice text, size_t portion, char *out,
                        size_t *used_in_all)
{
    struct chunked chunked;
    enum status status = STATUS_AGAIN;
    size_t out_size = 0;
    chunked_start(&chunked, keep);
    *used_in_all = 0;
    while (status == STATUS_AGAIN && *used_in_all < text.size) {
        uint8_t window[256];
        size_t size = text.size - *used_in_all < portion ? text.size - *used_in_all : portion;
        memcpy(window, text.bytes + *used_in_all, size);
        size_t used = 0;
        size_t kept = 0;
        status = chunked_scan(&chunked, window, size, &used, &kept);
        memcpy(out + out_size, window, kept);
        out_size += kept;
        *used_in_all += used;
    }
    out[out_size] = '\0';
    return status;
}

TEST(keeps_the_wanted_bytes_in_portions_of_any_size)
{
    static const char *const expected[] = {
        [CHUNKED_KEEP_FRAMED] = "5\r\nhello\r\n00006\r\n world\r\n0\r\nT: 1\r\nU: 2\r\n\r\n",
        [CHUNKED_KEEP_DATA] = "hello world",
        [CHUNKED_KEEP_DATA_AND_TRAILERS] = "hello worldT: 1\r\nU: 2\r\n",
    };
    char text[sizeof(body) + sizeof(rest)];
    snprintf(text, sizeof(text), "%s%s", body, rest);
    for (size_t i = 0; i < 3 * strlen(text); i++) {
        enum chunked_keep keep = (enum chunked_keep)(i % 3);
        char out[256];
        size_t used = 0;
        CHECK_EQ(scan(keep, slice_str(text), 1 + i / 3, out, &used), STATUS_OK);
        CHECK_EQ(used, strlen(body));
        CHECK_STR(out, expected[keep]);
    }
}

TEST(refuses_every_spelling_but_the_plain_one)
{
    static const char *const bad[] = {
        "\r\nhello",
        "+5\r\nhello",
        "-5\r\nhello",
        "0x5\r\nhello",
        " 5\r\nhello",
        "5 \r\nhello",
        "5\nhello\r\n",
        "5\rhello",
        "5\r\nhelloo\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "10000000000000000\r\n",
        "5;a\nb\r\n",
        "5;a\x01\r\n",
        "0\r\nT\r\n\r\n",
        "0\r\n: x\r\n\r\n",
        "0\r\nT : x\r\n\r\n",
        "0\r\n T: x\r\n\r\n",
        "0\r\nT: x\n\r\n",
        "0\r\nT: \x7f\r\n\r\n",
        "g\r\n",
        "0\r\nT: x\r\n y\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        for (size_t portion = 1; portion <= strlen(bad[i]); portion++) {
            char out[256];
            size_t used = 0;
            if (scan(CHUNKED_KEEP_FRAMED, slice_str(bad[i]), portion, out, &used) !=
                STATUS_MALFORMED) {
                test_fail(__FILE__, __LINE__, "let through: %s", bad[i]);
            }
        }
    }
}

TEST(an_unfinished_body_asks_for_more)
{
    for (size_t size = 1; size < strlen(body); size++) {
        char out[256];
        size_t used = 0;
        CHECK_EQ(scan(CHUNKED_KEEP_DATA, slice_of(body, size), 7, out, &used), STATUS_AGAIN);
        CHECK_EQ(used, size);
    }
}

TEST(knows_when_another_chunk_could_be_put_in)
{
    struct chunked chunked;
    uint8_t bytes[] = "3\r\nabc\r\n";
    chunked_start(&chunked, CHUNKED_KEEP_FRAMED);
    struct slice ending;
    CHECK(chunked_ending(&chunked, &ending) && ending.size == 0);
    // After each byte: what it takes to end the chunk, if few bytes do.
    static const char *const expected[] = {NULL, NULL, NULL, NULL, NULL, "\r\n", "\n", ""};
    for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
        size_t used;
        size_t kept;
        CHECK_EQ(chunked_scan(&chunked, bytes + i, 1, &used, &kept), STATUS_AGAIN);
        CHECK_EQ(chunked_ending(&chunked, &ending), expected[i] != NULL);
        CHECK(expected[i] == NULL || slice_is(ending, expected[i]));
    }
    CHECK_EQ(chunked.data_size, 3);
}

TEST(extensions_and_trailers_are_bounded)
{
    struct chunked chunked;
    uint8_t open[] = "5;";
    size_t used;
    size_t kept;
    chunked_start(&chunked, CHUNKED_KEEP_FRAMED);
    CHECK_EQ(chunked_scan(&chunked, open, 2, &used, &kept), STATUS_AGAIN);
    enum status status = STATUS_AGAIN;
    int count = 0;
    while (status == STATUS_AGAIN && count < 1000000) {
        uint8_t byte = 'a';
        status = chunked_scan(&chunked, &byte, 1, &used, &kept);
        count++;
    }
    CHECK_EQ(status, STATUS_TOO_LARGE);
}
