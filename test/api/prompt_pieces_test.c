// SPDX-License-Identifier: Apache-2.0
//
// Pieces become bytes: what each looks like, what escapes stand for, and what happens without room.

#include "api/prompt.h"
#include "api/prompt_internal.h"
#include "base/rng.h"
#include "base/text.h"
#include "json/json.h"
#include "test.h"

// A block larger than what is added shows it.
static struct slice bytes_of(const struct prefix_chain *chain)
{
    ASSERT(chain->size == chain->pending);
    return slice_of(chain->block, chain->pending);
}

static struct prefix_chain chain_new(void)
{
    static uint64_t keys[1];
    struct prefix_chain chain = {0};
    prefix_chain_begin(&chain, 0, prefix_block_size_max, keys, 1);
    return chain;
}

static struct prompt_pieces *pieces_new(void)
{
    static struct prompt_pieces pieces;
    pieces.count = 0;
    pieces.limit = prompt_piece_max;
    return &pieces;
}

TEST(a_string_is_hashed_as_the_text_it_stands_for)
{
    static const struct {
        const char *raw;
        const char *text;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"\\n", "\n"},
        {"a\\\"b\\\\c\\/d\\b\\f\\n\\r\\te", "a\"b\\c/d\b\f\n\r\te"},
        {"\\\\n", "\\n"},
        {"\\u0041\\u00e9\\u4F60\\uffff", "A\xc3\xa9\xe4\xbd\xa0\xef\xbf\xbf"},
        {"\\ud83d\\ude00", "\xf0\x9f\x98\x80"},
        {"\\uD83D\\uDE00!", "\xf0\x9f\x98\x80!"},
        // Half a pair stays as it is written.
        {"\\ud83d", "\\ud83d"},
        {"\\ud83dx", "\\ud83dx"},
        {"\\ude00\\ud83d", "\\ude00\\ud83d"},
        {"\\ud83d\\n", "\\ud83d\n"},
        {"\\ud83d\\u0041", "\\ud83dA"},
        {"\\ud83d\\ue000", "\\ud83d\xee\x80\x80"},
        {"\\ud83d\\ud83d\\ude00", "\\ud83d\xf0\x9f\x98\x80"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct prefix_chain chain = chain_new();
        prompt_add_string(&chain, slice_str(cases[i].raw));
        if (!slice_is(bytes_of(&chain), cases[i].text)) {
            test_fail(__FILE__, __LINE__, "<%s> is <%.*s>", cases[i].raw, (int)chain.pending,
                      (const char *)chain.block);
        }
    }
}

TEST(a_zero_escape_is_a_zero_byte)
{
    struct prefix_chain chain = chain_new();
    prompt_add_string(&chain, slice_str("a\\u0000b"));
    CHECK(slice_equal(bytes_of(&chain), slice_of("a\0b", 3)));
}

// A string of everything a string may have, up to `max` bytes.
static struct slice random_string(struct rng *rng, uint8_t *space, size_t max)
{
    static const char *const atoms[] = {"\\n",
                                        "\\u0041",
                                        "\\u00e9",
                                        "\\u4f60",
                                        "\\ud83d\\ude00",
                                        "\\\\",
                                        "\\\"",
                                        "\xc3\xa9",
                                        "long stretch of text ",
                                        "\\u0000",
                                        "x"};
    struct text text = text_over(space, max);
    uint32_t count = rng_below(rng, 200);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t pick = rng_below(rng, ARRAY_COUNT(atoms) + 20);
        for (uint32_t k = rng_below(rng, 8); pick >= ARRAY_COUNT(atoms) && k > 0; k--) {
            text_add_str(&text, "much plain text between escapes, which is how prompts are, ");
        }
        text_add_str(&text, atoms[pick < ARRAY_COUNT(atoms) ? pick : 10]);
    }
    return text_slice(&text);
}

TEST(strings_agree_with_the_other_decoder_and_with_the_size_that_was_promised)
{
    static uint8_t space[1 << 17];
    static uint8_t decoded[1 << 17];
    static uint64_t keys[2][4096];
    struct prompt_pieces *pieces = pieces_new();
    struct rng rng = {.state = 4};

    for (int round = 0; round < 1000; round++) {
        struct slice raw = random_string(&rng, space, sizeof(space));
        struct slice text;
        struct prefix_chain chains[2];
        struct prompt_list list = {0};
        uint32_t block = 16 + rng_below(&rng, 100);
        CHECK(json_string_decode(raw, decoded, sizeof(decoded), &text) == STATUS_OK);
        for (int i = 0; i < 2; i++) {
            prefix_chain_begin(&chains[i], 1, block, keys[i], 4096);
        }
        prefix_chain_add(&chains[0], text);
        prompt_add_string(&chains[1], raw);
        CHECK_EQ(chains[1].size, text.size);
        CHECK_EQ(chains[1].key_count, chains[0].key_count);
        CHECK(memcmp(keys[0], keys[1], chains[0].key_count * sizeof(keys[0][0])) == 0);
        CHECK_EQ(chains[0].pending, chains[1].pending);
        CHECK(memcmp(chains[0].block, chains[1].block, chains[0].pending) == 0);

        pieces->count = 0;
        pieces->limit = 1;
        prompt_note(pieces, &list, PIECE_TEXT, raw);
        CHECK_EQ(list.size, text.size);
    }
}

TEST(escapes_at_the_same_place_of_every_vector_are_all_counted)
{
    static uint8_t space[16 * 1000];
    struct prompt_pieces *pieces = pieces_new();
    struct text text = text_over(space, sizeof(space));

    for (size_t count = 1; count <= 1000; count++) {
        struct prompt_list list = {0};
        text_add_str(&text, "\\nfourteen bytes");
        pieces->count = 0;
        prompt_note(pieces, &list, PIECE_TEXT, text_slice(&text));
        CHECK_EQ(list.size, count * 15);
    }
}

TEST(marks_are_bytes_that_no_text_has)
{
    for (int mark = MARK_TOOLS; mark <= MARK_MEDIA; mark++) {
        char text[4] = {'"', (char)mark, '"', 0};
        struct json json = json_open(slice_of(text, 3));
        CHECK_EQ(json_close(&json), STATUS_MALFORMED);
    }
}

TEST(an_answer_is_marked_as_a_turn_of_the_assistant_is)
{
    struct prefix_chain chain = chain_new();
    prompt_begin_answer(&chain);
    prompt_add_string(&chain, slice_str("Hi\\n"));
    prompt_begin_tool_call(&chain, slice_str("f\\u0067"));
    prompt_add_string(&chain, slice_str("{\\\"a\\\":"));
    prompt_add_string(&chain, slice_str("1}"));

    uint8_t expected[64];
    struct text text = text_over(expected, sizeof(expected));
    text_add_format(&text, "%cassistant%cHi\n%cfg%c{\"a\":1}", MARK_TURN, MARK_CONTENT, MARK_CALL,
                    MARK_ARGUMENTS);
    CHECK(slice_equal(bytes_of(&chain), text_slice(&text)));
}

TEST(lists_join_in_order_and_empty_ones_do_not_matter)
{
    struct prompt_pieces *pieces = pieces_new();
    struct prompt_list lists[5] = {0};
    static const char *const texts[] = {"", "b", "c", "", "d"};
    struct prompt_list whole = {0};
    struct prefix_chain chain = chain_new();

    for (int i = 4; i >= 0; i--) {
        if (texts[i][0] != '\0') {
            prompt_note(pieces, &lists[i], PIECE_TEXT, slice_str(texts[i]));
            prompt_note(pieces, &lists[i], PIECE_TEXT, slice_str("."));
        }
    }
    for (int i = 0; i < 5; i++) {
        prompt_join(pieces, &whole, &lists[i]);
    }
    prompt_note(pieces, &whole, PIECE_TEXT, slice_str("!"));
    prompt_hash_list(pieces, &whole, &chain);
    CHECK(slice_is(bytes_of(&chain), "b.c.d.!"));
    CHECK_EQ(whole.size, chain.size);
}

TEST(without_room_a_list_ends_and_its_size_does_not)
{
    struct prompt_pieces *pieces = pieces_new();
    struct prompt_list head = {0};
    struct prompt_list tail = {0};
    struct prompt_list early = {0};
    struct prefix_chain chain = chain_new();
    pieces->limit = 4;

    prompt_note(pieces, &early, PIECE_TEXT, slice_str("e"));
    for (int i = 0; i < 6; i++) {
        prompt_note(pieces, i < 2 ? &head : &tail, PIECE_TEXT, slice_str("x"));
    }
    CHECK(!head.cut);
    CHECK(tail.cut);
    prompt_join(pieces, &head, &tail);
    // Here the text has a gap, so what has room cannot follow either.
    prompt_join(pieces, &head, &early);
    CHECK_EQ(head.size, 7);
    prompt_hash_list(pieces, &head, &chain);
    CHECK(slice_is(bytes_of(&chain), "xxx"));
}

TEST(a_member_is_found_by_its_name_however_it_is_written)
{
    static const struct prompt_member table[] = {{.name = PROMPT_NAME("role")},
                                                 {.name = PROMPT_NAME("content")}};
    CHECK(prompt_member_find(table, 2, slice_str("role")) == &table[0]);
    CHECK(prompt_member_find(table, 2, slice_str("content")) == &table[1]);
    CHECK(prompt_member_find(table, 2, slice_str("c\\u006fntent")) == &table[1]);
    CHECK(prompt_member_find(table, 2, slice_str("roles")) == NULL);
    CHECK(prompt_member_find(table, 2, slice_str("rol\\u0066")) == NULL);
    CHECK(prompt_member_find(table, 2, slice_str("")) == NULL);
    CHECK(prompt_member_find(table, 2, slice_str("\\ud800")) == NULL);
}
