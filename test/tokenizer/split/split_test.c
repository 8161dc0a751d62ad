// SPDX-License-Identifier: Apache-2.0
//
// The table of kinds.  Each scanner has a test of its own.

#include "tokenizer/split/split.h"

#include "split_twin.h"

static bool finds(struct slice text, enum split_kind *kind)
{
    return split_find(&text, 1, kind);
}

TEST(a_pattern_is_known_byte_for_byte_or_not_at_all)
{
    const char *text = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
                       "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    enum split_kind kind = SPLIT_NONE;
    CHECK(finds(slice_str(text), &kind));
    CHECK_EQ(kind, SPLIT_LLAMA3);
    kind = SPLIT_NONE;
    CHECK(!finds(slice_of(text, strlen(text) - 1), &kind));
    CHECK(!finds(slice_of(text + 1, strlen(text) - 1), &kind));
    CHECK(!finds(slice_str(""), &kind));
    CHECK_EQ(kind, SPLIT_NONE);
}

TEST(a_sequence_is_known_as_a_whole)
{
    struct slice texts[] = {
        slice_str("\\p{N}{1,3}"),
        slice_str("[一-龥\u3040-ゟ゠-ヿ]+"),
        slice_str("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
                  "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                  "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"),
    };
    enum split_kind kind = SPLIT_NONE;
    CHECK(split_find(texts, 3, &kind));
    CHECK_EQ(kind, SPLIT_DSV3);
    CHECK(!split_find(texts, 0, &kind));
    CHECK(!split_find(texts, 1, &kind));
    CHECK(!split_find(texts, 2, &kind));
    texts[0] = texts[1];
    CHECK(!split_find(texts, 3, &kind));
}

TEST(files_of_ranks_name_their_pattern)
{
    enum split_kind kind = SPLIT_NONE;
    CHECK(split_find_name(slice_str("gpt2"), &kind));
    CHECK_EQ(kind, SPLIT_GPT2);
    CHECK(split_find_name(slice_str("cl100k"), &kind));
    CHECK_EQ(kind, SPLIT_CL100K_TIKTOKEN);
    CHECK(split_find_name(slice_str("o200k"), &kind));
    CHECK_EQ(kind, SPLIT_O200K);
    CHECK(split_find_name(slice_str("kimi"), &kind));
    CHECK_EQ(kind, SPLIT_KIMI);
    CHECK(!split_find_name(slice_str("cl100k_base"), &kind));
    CHECK(!split_find_name(slice_str(""), &kind));
}

TEST(an_empty_gap_has_no_pieces)
{
    for (int kind = 0; kind < SPLIT_COUNT; kind++) {
        size_t at = 0;
        uint32_t end = 7;
        CHECK_EQ(split_pieces((enum split_kind)kind, (struct slice){0}, &at, &end, 1), 0);
        CHECK_EQ(at, 0);
    }
}

TEST(without_a_pattern_a_gap_is_one_piece)
{
    CHECK_PIECES(SPLIT_NONE, "one piece, 2\n", "one piece, 2\n");
}

TEST(without_room_there_are_zero_pieces)
{
    for (int kind = 0; kind < SPLIT_COUNT; kind++) {
        size_t at = 0;
        CHECK_EQ(split_pieces((enum split_kind)kind, slice_str("a b"), &at, NULL, 0), 0);
        CHECK_EQ(at, 0);
    }
}

// A text may be cut where kinds say so: the pieces of the parts are those of the whole.
static bool may_cut(enum split_kind kind, const struct twin_text *text, size_t at)
{
    struct split_cuts cuts = split_cuts(kind);
    uint32_t before = text->points[at - 1];
    uint32_t here = text->points[at];
    bool is_white_here = (char_class(here) & CHAR_WS) != 0;
    if (before == '\n' && !is_white_here) {
        return here == '/' ? cuts.after_line_before_slash : cuts.after_line;
    }
    return cuts.before_space && here == ' ' && (char_class(before) & CHAR_WS) == 0 &&
           at + 1 < text->count && (char_class(text->points[at + 1]) & CHAR_WS) == 0;
}

static bool parts_are_the_whole(enum split_kind kind, const struct twin_text *text,
                                struct slice gap)
{
    static uint32_t whole[twin_text_max];
    static uint32_t parts[twin_text_max];
    uint32_t whole_count = twin_scan(kind, gap, whole, 256);
    for (size_t i = 1; i < text->count; i++) {
        if (!may_cut(kind, text, i)) {
            continue;
        }
        uint32_t cut = text->offsets[i];
        uint32_t count = twin_scan(kind, slice_of(gap.bytes, cut), parts, 256);
        uint32_t first = count;
        count += twin_scan(kind, slice_of(gap.bytes + cut, gap.size - cut), parts + count, 256);
        for (uint32_t k = first; k < count; k++) {
            parts[k] += cut;
        }
        if (count != whole_count || memcmp(whole, parts, count * sizeof(*parts)) != 0) {
            return false;
        }
    }
    return true;
}

static void draw_text(struct rng *rng, struct twin_text *text)
{
    text->count = 2 + rng_below(rng, 30);
    for (size_t i = 0; i < text->count; i++) {
        uint32_t kind = rng_below(rng, 4);
        text->points[i] = kind == 0 ? ' ' : kind == 1 ? '\n' : twin_random_char(rng);
    }
}

TEST(the_pieces_of_parts_are_those_of_the_whole)
{
    static struct twin_text text;
    struct twin_page page = twin_page_map();
    struct rng rng = {.state = 11};
    bool agree = true;
    for (int i = 0; i < 3000; i++) {
        draw_text(&rng, &text);
        struct slice gap = twin_encode(&text, page);
        for (int kind = 0; kind < SPLIT_COUNT; kind++) {
            agree = agree && parts_are_the_whole((enum split_kind)kind, &text, gap);
        }
    }
    twin_page_unmap(page);
    CHECK(agree);
}

// A sign, a line end and a slash are one piece; in gpt2 line ends are one piece only at the end of
// a text.
TEST(cuts_that_are_not_allowed_would_change_pieces)
{
    CHECK(!split_cuts(SPLIT_O200K).after_line_before_slash);
    CHECK(!split_cuts(SPLIT_TEKKEN).after_line_before_slash);
    CHECK(split_cuts(SPLIT_KIMI).after_line_before_slash);
    CHECK_PIECES(SPLIT_O200K, ";\n/", ";\n/");
    CHECK(!split_cuts(SPLIT_GPT2).after_line);
    CHECK(!split_cuts(SPLIT_DIGITS_GPT2).after_line);
    CHECK_PIECES(SPLIT_GPT2, "a\n\nb", "a|\n|\n|b");
    CHECK_PIECES(SPLIT_GPT2, "a\n\n", "a|\n\n");
    CHECK(!split_cuts(SPLIT_NONE).after_line && !split_cuts(SPLIT_NONE).before_space);
}
