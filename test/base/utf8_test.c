// SPDX-License-Identifier: Apache-2.0

#include "base/utf8.h"

#include "base/rng.h"
#include "test.h"

struct sample {
    const char *bytes;
    size_t size;
    bool is_valid;
};
#define SAMPLE(literal, valid)                                                                     \
    {                                                                                              \
        literal, sizeof(literal) - 1, valid                                                        \
    }

static const struct sample samples[] = {
    SAMPLE("", true),
    SAMPLE("a", true),
    SAMPLE("\0", true),
    SAMPLE("\x7f", true),
    SAMPLE("\x80", false),
    SAMPLE("\xbf", false),
    SAMPLE("\xc0\x80", false), // overlong
    SAMPLE("\xc1\xbf", false),
    SAMPLE("\xc2\x80", true),
    SAMPLE("\xc2", false),
    SAMPLE("\xc2\x7f", false),
    SAMPLE("\xdf\xbf", true),
    SAMPLE("\xe0\x9f\xbf", false), // overlong
    SAMPLE("\xe0\xa0\x80", true),
    SAMPLE("\xe0\xa0", false),
    SAMPLE("\xed\x9f\xbf", true),
    SAMPLE("\xed\xa0\x80", false), // a surrogate
    SAMPLE("\xed\xbf\xbf", false),
    SAMPLE("\xee\x80\x80", true),
    SAMPLE("\xef\xbf\xbf", true),
    SAMPLE("\xf0\x8f\xbf\xbf", false), // overlong
    SAMPLE("\xf0\x90\x80\x80", true),
    SAMPLE("\xf0\x90\x80", false),
    SAMPLE("\xf4\x8f\xbf\xbf", true),
    SAMPLE("\xf4\x90\x80\x80", false), // above U+10FFFF
    SAMPLE("\xf5\x80\x80\x80", false),
    SAMPLE("\xff", false),
};

TEST(only_what_rfc_3629_allows_is_valid)
{
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        if (utf8_is_valid(slice_of(samples[i].bytes, samples[i].size)) != samples[i].is_valid) {
            test_fail(__FILE__, __LINE__, "sample %zu is not judged as it should be", i);
        }
    }
}

// Whether all are judged alike with so many bytes before them, and some behind.
static bool stand_well_at(size_t before)
{
    bool are_well = true;
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        uint8_t text[160];
        size_t size = samples[i].size;
        memset(text, 'x', sizeof(text));
        memcpy(text + before, samples[i].bytes, size);
        are_well &= utf8_is_valid(slice_of(text, before + size)) == samples[i].is_valid;
        are_well &= utf8_is_valid(slice_of(text, before + size + 40)) == samples[i].is_valid;
    }
    return are_well;
}

TEST(the_verdict_does_not_depend_on_where_the_bytes_stand)
{
    for (size_t before = 0; before < 70; before++) {
        CHECK(stand_well_at(before));
    }
}

TEST(every_scalar_value_is_written_read_and_valid)
{
    for (uint32_t character = 0; character < 0x110000; character++) {
        uint8_t bytes[4];
        unsigned size;
        if (character >= 0xd800 && character < 0xe000) {
            continue;
        }
        unsigned written = utf8_write(character, bytes);
        CHECK(utf8_is_valid(slice_of(bytes, written)));
        CHECK(!utf8_is_valid(slice_of(bytes, written - 1)) || written == 1);
        CHECK_EQ(utf8_read(bytes, &size), character);
        CHECK_EQ(size, written);
        CHECK_EQ(utf8_size_of_lead(bytes[0]), written);
        CHECK(utf8_back(bytes, bytes + written) == bytes);
    }
}

// Whether it differs only where a byte of no character was.
static bool is_tamed(struct slice text, struct slice tamed)
{
    bool is_good = utf8_is_valid(tamed) && tamed.size == text.size &&
                   (tamed.bytes == text.bytes) == utf8_is_valid(text);
    for (size_t i = 0; i < text.size && is_good; i++) {
        is_good =
            tamed.bytes[i] == text.bytes[i] || (tamed.bytes[i] == '?' && text.bytes[i] >= 0x80);
    }
    return is_good;
}

TEST(tamed_text_is_valid_equally_long_and_otherwise_the_same)
{
    // Few kinds of bytes, so that characters come about.
    static const uint8_t kinds[] = {'a', 0x80, 0xbf, 0xc3, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0xff};
    struct rng rng = {.state = 7};

    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[24];
        uint8_t space[sizeof(bytes)];
        size_t size = rng_below(&rng, sizeof(bytes) + 1);
        for (size_t i = 0; i < size; i++) {
            bytes[i] = kinds[rng_below(&rng, sizeof(kinds))];
        }
        struct slice text = slice_of(bytes, size);
        CHECK(is_tamed(text, utf8_tamed(text, space)));
    }
}

TEST(only_bytes_of_no_character_are_replaced)
{
    uint8_t space[16];
    CHECK(slice_is(utf8_tamed(slice_str("gr\xc3\xbc\xc3"), space), "gr\xc3\xbc?"));
    CHECK(slice_is(utf8_tamed(slice_str("\xe2\x82\xac\xe2\x82"), space), "\xe2\x82\xac??"));
    CHECK(slice_is(utf8_tamed(slice_str("caf\xe9 \xff"), space), "caf? ?"));
}

TEST(text_is_cut_between_characters)
{
    static const struct {
        const char *text;
        size_t size;
        const char *start;
    } cases[] = {
        {"", 0, ""},
        {"abc", 3, "abc"},
        {"abc", 2, "ab"},
        {"gr\xc3\xbcn", 4, "gr\xc3\xbc"},
        {"gr\xc3\xbcn", 3, "gr"},
        {"a\xf0\x9f\x98\x80", 5, "a\xf0\x9f\x98\x80"},
        {"a\xf0\x9f\x98\x80", 4, "a"},
        {"\xf0\x9f\x98\x80", 3, ""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK(slice_is(utf8_cut(slice_str(cases[i].text), cases[i].size), cases[i].start));
    }
}
