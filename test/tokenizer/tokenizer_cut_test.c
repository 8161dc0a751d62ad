// SPDX-License-Identifier: Apache-2.0
//
// Places by hand, then random texts: the ids of the whole are those of the parts, at every place
// that is said to be one.

#include "base/rng.h"
#include "test.h"
#include "tokenizer/tokenizer_fixture.h"

#define MARK "\xe2\x96\x81"
#define SPACE_AND_MARK " \xe2\x96\x81"

// The text with a bar at each place.
static const char *cuts_of(const struct fixture_parts *parts, const char *string)
{
    static char space[256];
    struct tokenizer *tokenizer = fixture_load(parts);
    struct text out = text_over(space, sizeof(space) - 1);
    struct slice text = slice_str(string);
    size_t begin = 0;
    while (begin < text.size) {
        size_t end = tokenizer_cut(tokenizer, text, begin + 1);
        text_add(&out, slice_of(text.bytes + begin, end - begin));
        if (end < text.size) {
            text_add_str(&out, "|");
        }
        begin = end;
    }
    ASSERT(!out.overflow);
    space[out.size] = '\0';
    tokenizer_destroy(&tokenizer);
    return space;
}

TEST(a_text_is_cut_after_lines_and_before_single_spaces)
{
    const struct fixture_parts parts = {.pre_tokenizer = FIXTURE_LIKE_LLAMA3};
    CHECK_STR(cuts_of(&parts, "ab c  d\ne\n f\n\ng h "), "ab| c  d\n|e\n f\n\n|g| h ");
    CHECK_STR(cuts_of(&parts, " a\n"), " a\n");
    CHECK_STR(cuts_of(&parts, "a\xc2\xa0 b \xe3\x80\x80"), "a\xc2\xa0 b \xe3\x80\x80");
    CHECK_STR(cuts_of(&parts, "\xc3\xa9 \xc3\xa9\n/"), "\xc3\xa9| \xc3\xa9\n|/");
    CHECK_STR(cuts_of(&parts, ""), "");
}

TEST(gpt2_is_cut_before_spaces_alone)
{
    const struct fixture_parts parts = {.pre_tokenizer = FIXTURE_LIKE_GPT2};
    CHECK_STR(cuts_of(&parts, "a b\nc d"), "a| b\nc| d");
}

TEST(no_place_is_inside_an_added_token)
{
    struct fixture_parts parts = {
        .pre_tokenizer = FIXTURE_LIKE_LLAMA3,
        .added = FIXTURE_ADDED(265, "<a b>", FIXTURE_PLAIN),
    };
    CHECK_STR(cuts_of(&parts, "a b\nc"), "a b\n|c");
    parts.added = FIXTURE_ADDED(265, "<a ", FIXTURE_PLAIN); // a word may follow
    CHECK_STR(cuts_of(&parts, "a b\nc"), "a b\n|c");
    parts.added = FIXTURE_ADDED(265, "<a\\nb>", FIXTURE_NORMALIZED);
    CHECK_STR(cuts_of(&parts, "a b\nc"), "a| b\nc");
    parts.added = FIXTURE_ADDED(265, "  ", FIXTURE_NORMALIZED) "," //
        FIXTURE_ADDED(266, "\\n\\n", FIXTURE_PLAIN);
    CHECK_STR(cuts_of(&parts, "a b\nc"), "a| b\n|c");
}

TEST(cuts_of_invalid_utf8_stay_within_the_text)
{
    const struct fixture_parts parts = {.pre_tokenizer = FIXTURE_LIKE_LLAMA3};
    CHECK_STR(cuts_of(&parts, "a\n\xf0"), "a\n\xf0");
    CHECK_STR(cuts_of(&parts, "\xf0 \xf8"), "\xf0 \xf8");
    CHECK_STR(cuts_of(&parts, "\xf7\xbf\xbf\xbf a"), "\xf7\xbf\xbf\xbf a");
}

TEST(where_gaps_get_a_space_no_cut_follows_the_last_byte_of_an_added_token)
{
    struct fixture_parts parts = {
        .pre_tokenizer = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":true}",
        .added = FIXTURE_ADDED(265, "<a>", FIXTURE_PLAIN),
    };
    CHECK_STR(cuts_of(&parts, "a b> c d"), "a| b> c| d");
}

// Texts that are likely to go wrong, in any order.
static const char *const bits[] = {
    "a",
    "b",
    "hell",
    "he",
    "o",
    " ",
    " ",
    "  ",
    "\n",
    "\n\n",
    "\r",
    "\t",
    "/",
    "1",
    "11",
    "'s",
    "!",
    ">",
    "</s>",
    "<s>",
    "<",
    " wo",
    "x",
    "o x",
    MARK,
    SPACE_AND_MARK,
    "\xc3\xa9",
    "e\xcc\x81",
    "\xcc\x81",
    "\xe3\x80\x80",
    "e",
    "<a b>",
    "\xe6\x97\xa5",
    "\xf0\x9f\x98\x80",
    "\xc2\xa0",
    "<n>",
    "l",
    "\xe0\xa5\x98",
    "A",
    "\xc2\x85",
};

static struct slice random_text(struct rng *rng, uint8_t *space, size_t capacity)
{
    struct text text = text_over(space, capacity);
    uint32_t count = rng_below(rng, 24);
    for (uint32_t i = 0; i < count; i++) {
        text_add_str(&text, bits[rng_below(rng, ARRAY_COUNT(bits))]);
    }
    return text_slice(&text);
}

enum { ids_max = 1024 };

static size_t encode_at_random_cuts(const struct tokenizer *tokenizer,
                                    struct tokenizer_scratch *scratch, struct slice text,
                                    struct rng *rng, uint32_t *ids)
{
    size_t count = 0;
    size_t begin = 0;
    do {
        size_t end = tokenizer_cut(tokenizer, text, begin + 1 + rng_below(rng, 8));
        const struct tokenizer_input part = {
            .text = slice_of(text.bytes + begin, end - begin),
            .adds_special = true,
            .continues = begin > 0,
            .is_continued = end < text.size,
        };
        size_t part_count = 0;
        enum status status =
            tokenizer_encode(tokenizer, scratch, &part, ids + count, ids_max - count, &part_count);
        ASSERT(status == STATUS_OK);
        count += part_count;
        begin = end;
    } while (begin < text.size);
    return count;
}

static void check_parts(const struct fixture_parts *parts)
{
    struct tokenizer *tokenizer = fixture_load(parts);
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(tokenizer);
    struct rng rng = {.state = 5};

    for (uint32_t round = 0; round < 4000; round++) {
        uint8_t space[512];
        uint32_t whole_ids[ids_max];
        uint32_t part_ids[ids_max];
        size_t whole_count = 0;
        struct slice text = random_text(&rng, space, sizeof(space));
        const struct tokenizer_input whole = {.text = text, .adds_special = true};

        CHECK_EQ(tokenizer_encode(tokenizer, scratch, &whole, whole_ids, ids_max, &whole_count),
                 STATUS_OK);
        size_t part_count = encode_at_random_cuts(tokenizer, scratch, text, &rng, part_ids);
        if (whole_count != part_count ||
            memcmp(whole_ids, part_ids, whole_count * sizeof(*whole_ids)) != 0) {
            test_fail(__FILE__, __LINE__, "<%.*s> has other ids in parts", (int)text.size,
                      (const char *)text.bytes);
            break;
        }
    }
    tokenizer_scratch_destroy(&scratch);
    tokenizer_destroy(&tokenizer);
}

#define TWO_ADDED                                                                                  \
    FIXTURE_ADDED(265, "<s>", FIXTURE_PLAIN) "," FIXTURE_ADDED(266, "<n>", FIXTURE_NORMALIZED)
#define BERT(cls, sep)                                                                             \
    "{\"type\":\"BertProcessing\",\"sep\":[\"\"," #sep "],\"cls\":[\"\"," #cls "]}"

TEST(the_parts_have_the_ids_of_the_whole_between_bytes)
{
    check_parts(&(struct fixture_parts){.pre_tokenizer = FIXTURE_LIKE_LLAMA3,
                                        .added = TWO_ADDED,
                                        .post_processor = BERT(265, 266)});
    check_parts(&(struct fixture_parts){.normalizer = "{\"type\":\"NFC\"}",
                                        .pre_tokenizer = FIXTURE_LIKE_LLAMA3,
                                        .added = TWO_ADDED});
    check_parts(&(struct fixture_parts){.pre_tokenizer = FIXTURE_LIKE_GPT2, .added = TWO_ADDED});
    check_parts(&(struct fixture_parts){
        .pre_tokenizer = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", .added = TWO_ADDED});
    check_parts(&(struct fixture_parts){.pre_tokenizer = FIXTURE_LIKE_LLAMA3,
                                        .added = FIXTURE_ADDED(265, "<a b>", FIXTURE_PLAIN) "," //
                                        FIXTURE_ADDED(266, "  ", FIXTURE_NORMALIZED)});
}

#define PIECES_ADDED                                                                               \
    FIXTURE_ADDED(1, "<s>", FIXTURE_PLAIN) "," FIXTURE_ADDED(2, "</s>", FIXTURE_NORMALIZED)

TEST(the_parts_have_the_ids_of_the_whole_between_characters)
{
    check_parts(&(struct fixture_parts){.normalizer = FIXTURE_LIKE_LLAMA2,
                                        .added = PIECES_ADDED,
                                        .post_processor = BERT(1, 2),
                                        .is_sentence_piece = true});
    check_parts(&(struct fixture_parts){.normalizer = FIXTURE_LIKE_LLAMA2,
                                        .added = FIXTURE_ADDED(2, "</s>", FIXTURE_PLAIN),
                                        .is_sentence_piece = true});
    check_parts(&(struct fixture_parts){.normalizer = FIXTURE_REPLACE,
                                        .added = FIXTURE_ADDED(286, "\\n", FIXTURE_PLAIN),
                                        .is_sentence_piece = true});
    check_parts(&(struct fixture_parts){.normalizer = FIXTURE_LIKE_LLAMA2,
                                        .added = FIXTURE_ADDED(286, "\\n", FIXTURE_PLAIN),
                                        .is_sentence_piece = true});
    check_parts(&(struct fixture_parts){.pre_tokenizer = FIXTURE_METASPACE("first", "false"),
                                        .added = PIECES_ADDED,
                                        .is_sentence_piece = true});
    check_parts(&(struct fixture_parts){.pre_tokenizer = FIXTURE_METASPACE("always", "true"),
                                        .added = PIECES_ADDED,
                                        .is_sentence_piece = true});
    check_parts(&(struct fixture_parts){.pre_tokenizer = FIXTURE_METASPACE("always", "false"),
                                        .added = PIECES_ADDED,
                                        .is_sentence_piece = true});
}
