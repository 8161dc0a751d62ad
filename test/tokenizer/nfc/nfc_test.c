// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/nfc/nfc.h"

#include "base/rng.h"
#include "base/utf8.h"
#include "test.h"
#include "tokenizer/nfc/nfc_internal.h"

#include <stdlib.h>

enum { point_max = 256, text_max = 4 * point_max };

// The result as text; static.
static const char *normalized(const char *text)
{
    static char buffer[4096];
    struct slice out;
    if (nfc_normalize(slice_str(text), buffer, sizeof(buffer) - 1, &out) != STATUS_OK) {
        return "(no result)";
    }
    memmove(buffer, out.bytes, out.size);
    buffer[out.size] = 0;
    return buffer;
}

// Whether *out was the text itself.
static bool stays(const char *text)
{
    char buffer[4096];
    struct slice out;
    return nfc_normalize(slice_str(text), buffer, sizeof(buffer), &out) == STATUS_OK &&
           out.bytes == (const uint8_t *)text && out.size == strlen(text);
}

TEST(letters_and_marks_become_letters)
{
    CHECK_STR(normalized("e\u0301"), "\u00e9");
    CHECK_STR(normalized("cafe\u0301 au lait"), "caf\u00e9 au lait");
    CHECK_STR(normalized("A\u030a"), "\u00c5");
    CHECK_STR(normalized("\u0438\u0306"), "\u0439");
    CHECK_STR(normalized("\u304b\u3099"), "\u304c");
    CHECK_STR(normalized("a\u0302\u0301 e\u0302\u0323"), "\u1ea5 \u1ec7");
}

TEST(one_way_characters_become_their_decomposition)
{
    CHECK_STR(normalized("\u212b"), "\u00c5"); // angstrom
    CHECK_STR(normalized("\u2126"), "\u03a9"); // ohm
    CHECK_STR(normalized("\uf900"), "\u8c48");
    CHECK_STR(normalized("\u037e"), ";");
    CHECK_STR(normalized("a\u0340"), "\u00e0");
    CHECK_STR(normalized("\U0002f81a"), "\u51ac");
}

TEST(excluded_characters_are_decomposed_and_not_composed)
{
    CHECK_STR(normalized("\u0958"), "\u0915\u093c");
    CHECK_STR(normalized("\u0915\u093c"), "\u0915\u093c");
    CHECK_STR(normalized("\u2adc"), "\u2add\u0338");
    CHECK_STR(normalized("\ufb1d"), "\u05d9\u05b4");
    CHECK_STR(normalized("\U0001d160"), "\U0001d158\U0001d165\U0001d16e");
}

TEST(hangul_is_composed_by_arithmetic)
{
    CHECK_STR(normalized("\u1100\u1161"), "\uac00");
    CHECK_STR(normalized("\u1100\u1161\u11a8"), "\uac01");
    CHECK_STR(normalized("\uac00\u11a8"), "\uac01");
    CHECK_STR(normalized("\u1112\u1175\u11c2"), "\ud7a3");
    CHECK_STR(normalized("\uac01\u11a8"), "\uac01\u11a8");             // has a trail already
    CHECK_STR(normalized("\uac00\u11a7"), "\uac00\u11a7");             // stands for none
    CHECK_STR(normalized("\u1100\u0301\u1161"), "\u1100\u0301\u1161"); // a mark between them
    CHECK_STR(normalized("\u1161\u11a8"), "\u1161\u11a8");
    CHECK_STR(normalized("\u1100\u1100\u1161"), "\u1100\uac00");
}

TEST(marks_are_ordered_by_class_and_kept_in_order_within_one)
{
    CHECK_STR(normalized("x\u0301\u0323"), "x\u0323\u0301");
    CHECK_STR(normalized("q\u0307\u0323"), "q\u0323\u0307");
    CHECK_STR(normalized("x\u0301\u0300"), "x\u0301\u0300");
    CHECK_STR(normalized("\u0301\u0323"), "\u0323\u0301"); // no starter at all
    CHECK_STR(normalized("x\u0315\u0301\u0334\u0323"), "x\u0334\u0323\u0301\u0315");
    CHECK_STR(normalized("\u05d0\u05b8\u05b0"), "\u05d0\u05b0\u05b8"); // neither may compose
}

TEST(a_mark_composes_over_lower_classes_and_not_over_its_own)
{
    CHECK_STR(normalized("a\u0316\u0301"), "\u00e1\u0316");
    CHECK_STR(normalized("a\u0305\u0301"), "a\u0305\u0301");
    CHECK_STR(normalized("\u00e1\u0316"), "\u00e1\u0316");
    CHECK_STR(normalized("\u00e1\u0323"), "\u1ea1\u0301");
    CHECK_STR(normalized("\u1e69"), "\u1e69");
    CHECK_STR(normalized("s\u0307\u0323"), "\u1e69");
}

TEST(starters_compose_where_nothing_stands_between)
{
    CHECK_STR(normalized("\u09c7\u09be"), "\u09cb");
    CHECK_STR(normalized("\u09c7\u09cd\u09be"), "\u09c7\u09cd\u09be");
    CHECK_STR(normalized("\U00011099\U000110ba"), "\U0001109a");
}

// Without this tokens would differ from those of the library, which has old tables.
TEST(characters_younger_than_unicode_9_stay)
{
    CHECK(stays("\U00011938\U00011935\U00011930"));                  // compose since 13.0
    CHECK(stays("\U00011938"));                                      // decomposes since 13.0
    CHECK(stays("a\u0301\U00010eab\u0323") == false);                // for a reason that is old
    CHECK_STR(normalized("x\U00010eab\u0323"), "x\U00010eab\u0323"); // a mark since 13.0
    CHECK_STR(normalized("x\u0301\u0af3"), "x\u0301\u0af3");
}

TEST(text_in_normal_form_is_not_copied)
{
    CHECK(stays(""));
    CHECK(stays("plain"));
    CHECK(stays("\u00e9t\u00e9 \u043d\u0438\u0439 \u4e2d\u6587 \ud55c\uad6d\uc5b4 \U0001f600"));
    CHECK(stays("\u0e17\u0e35\u0e48 \u0928\u092e\u0938\u094d\u0924\u0947"));
    CHECK(stays("\u0430\u0301")); // may compose, and does not
    CHECK(!stays("e\u0301"));
}

TEST(a_clean_prefix_ends_before_the_character_that_may_change)
{
    CHECK_EQ(nfc_clean_prefix(slice_str("")), 0);
    CHECK_EQ(nfc_clean_prefix(slice_str("all of it")), 9);
    CHECK_EQ(nfc_clean_prefix(slice_str("caf\u00e9 \u4e2d\uac00")), 12);
    CHECK_EQ(nfc_clean_prefix(slice_str("cafe\u0301 au lait")), 3);
    CHECK_EQ(nfc_clean_prefix(slice_str("abc\uac00\u11a8")), 3);
    CHECK_EQ(nfc_clean_prefix(slice_str("ab\u0e33x\u0e48\u0e38")), 5); // order: 107 and then 103
    CHECK_EQ(nfc_clean_prefix(slice_str("\u0301")), 0);
}

// Whatever the bytes are: the last ones lie at the end of a block of their own, for the sanitizer.
TEST(a_clean_prefix_reads_nothing_behind_its_text)
{
    struct rng rng = {.state = 3};
    for (unsigned i = 0; i < 200000; i++) {
        static const uint8_t leads[] = {0x61, 0x80, 0xcc, 0xe0, 0xea, 0xf0, 0xff, 0xbf, 0xed, 0xcd};
        size_t size = rng_below(&rng, i % 100 == 0 ? 300 : 6);
        uint8_t *bytes = malloc(size + (size == 0));
        CHECK(bytes != NULL);
        for (size_t k = 0; k < size; k++) {
            bytes[k] = size > 6 && k + 4 < size ? 'a' : leads[rng_below(&rng, sizeof(leads))];
        }
        size_t clean = nfc_clean_prefix(slice_of(bytes, size));
        free(bytes);
        CHECK(clean <= size);
    }
}

TEST(text_that_does_not_fit_is_too_large)
{
    char buffer[64];
    struct slice out = {.size = 77};
    struct slice text = slice_str("\U0001d160\U0001d160");
    CHECK_EQ(nfc_bound(text.size), 24);
    CHECK_EQ(nfc_normalize(text, buffer, 23, &out), STATUS_TOO_LARGE);
    CHECK_EQ(out.size, 77);
    CHECK_EQ(nfc_normalize(text, buffer, 24, &out), STATUS_OK);
    CHECK_EQ(out.size, 24);
    CHECK_EQ(nfc_normalize(slice_str("e\u0301 and so on"), buffer, 11, &out), STATUS_TOO_LARGE);
}

// The rules as the standard writes them: everything apart, everything in order, everything
// together.  The tables are the same; tools/check_nfc.py compares with a library that has its own.
struct twin {
    uint32_t points[8 * point_max];
    uint32_t count;
};

static uint32_t twin_class(uint32_t point)
{
    uint16_t value = nfc_value(point);
    return (value & NFC_DECOMPOSES) != 0 ? 0 : value & NFC_CLASS_MASK;
}

static void twin_take_apart(struct twin *twin, uint32_t point)
{
    uint16_t value = nfc_value(point);
    if (point >= 0xac00 && point <= 0xd7a3) {
        uint32_t syllable = point - 0xac00;
        twin->points[twin->count++] = 0x1100 + syllable / 588;
        twin->points[twin->count++] = 0x1161 + syllable % 588 / 28;
        if (syllable % 28 != 0) {
            twin->points[twin->count++] = 0x11a7 + syllable % 28;
        }
    } else if ((value & NFC_DECOMPOSES) != 0) {
        for (unsigned i = 0; i <= (value >> NFC_LENGTH_SHIFT & NFC_LENGTH_MASK); i++) {
            twin->points[twin->count++] = nfc_points[(value & NFC_POINT_MASK) + i];
        }
    } else {
        twin->points[twin->count++] = point;
    }
}

static void twin_order(struct twin *twin)
{
    for (uint32_t i = 1; i < twin->count; i++) {
        for (uint32_t k = i; k > 0; k--) {
            uint32_t before = twin_class(twin->points[k - 1]);
            uint32_t after = twin_class(twin->points[k]);
            if (after == 0 || before <= after) {
                break;
            }
            uint32_t point = twin->points[k];
            twin->points[k] = twin->points[k - 1];
            twin->points[k - 1] = point;
        }
    }
}

static uint32_t twin_whole(uint32_t first, uint32_t second)
{
    if (first >= 0x1100 && first <= 0x1112 && second >= 0x1161 && second <= 0x1175) {
        return 0xac00 + ((first - 0x1100) * 21 + second - 0x1161) * 28;
    }
    if (first >= 0xac00 && first <= 0xd7a3 && (first - 0xac00) % 28 == 0 && second >= 0x11a8 &&
        second <= 0x11c2) {
        return first + second - 0x11a7;
    }
    for (uint32_t i = 0; i < nfc_pair_count; i++) {
        if (nfc_pairs[i] == ((uint64_t)first << 32 | second)) {
            return nfc_wholes[i];
        }
    }
    return 0;
}

// For each character, the last starter before it, unless something between them blocks it.
static void twin_compose(struct twin *twin)
{
    for (uint32_t i = 1; i < twin->count; i++) {
        uint32_t class = twin_class(twin->points[i]);
        uint32_t starter = i - 1;
        while (starter > 0 && twin_class(twin->points[starter]) != 0) {
            starter--;
        }
        bool is_blocked = twin_class(twin->points[starter]) != 0 ||
                          (starter != i - 1 && twin_class(twin->points[i - 1]) >= class);
        uint32_t whole = is_blocked ? 0 : twin_whole(twin->points[starter], twin->points[i]);
        if (whole != 0) {
            twin->points[starter] = whole;
            memmove(&twin->points[i], &twin->points[i + 1],
                    (twin->count - i - 1) * sizeof(twin->points[0]));
            twin->count--;
            i--;
        }
    }
}

static size_t twin_normalize(struct slice text, uint8_t *out)
{
    static struct twin twin;
    twin.count = 0;
    for (size_t at = 0; at < text.size;) {
        unsigned size;
        twin_take_apart(&twin, utf8_read(text.bytes + at, &size));
        at += size;
    }
    twin_order(&twin);
    twin_compose(&twin);
    size_t size = 0;
    for (uint32_t i = 0; i < twin.count; i++) {
        size += utf8_write(twin.points[i], out + size);
    }
    return size;
}

// Any character; more often one that matters.
static uint32_t some_point(struct rng *rng)
{
    static const uint32_t chosen[] = {'a',    'o',    'x',    ' ',     0x1100, 0x1161,
                                      0x11a8, 0xac00, 0xac01, 0x09c7,  0x09be, 0x0301,
                                      0x0323, 0x0315, 0x0334, 0x1d160, 0x4e2d, 0x10ffff};
    uint32_t point;
    switch (rng_below(rng, 8)) {
    case 0:
    case 1:
        return chosen[rng_below(rng, ARRAY_COUNT(chosen))];
    case 2:
        return 0x300 + rng_below(rng, 0x70);
    case 3:
        return (uint32_t)(nfc_pairs[rng_below(rng, nfc_pair_count)] >> 32);
    case 4:
        return (uint32_t)nfc_pairs[rng_below(rng, nfc_pair_count)];
    case 5:
        return nfc_wholes[rng_below(rng, nfc_pair_count)];
    case 6:
        do {
            point = rng_below(rng, nfc_end);
        } while (nfc_value(point) == 0);
        return point;
    default:
        point = rng_below(rng, 0x110000);
        return point >= 0xd800 && point < 0xe000 ? ' ' : point;
    }
}

static size_t some_text(struct rng *rng, uint32_t count, uint8_t *out)
{
    size_t size = 0;
    while (count-- > 0) {
        // Plain stretches are long enough for whole vectors.
        if (rng_below(rng, 40) == 0 && count > 70) {
            memset(out + size, 'p', 70);
            size += 70;
            count -= 70;
        }
        size += utf8_write(some_point(rng), out + size);
    }
    return size;
}

TEST(texts_become_the_same_as_by_the_plain_rules)
{
    struct rng rng = {.state = 1};
    for (unsigned i = 0; i < 60000; i++) {
        uint8_t text[text_max];
        uint8_t expected[3 * text_max];
        uint8_t buffer[3 * text_max];
        uint32_t count = rng_below(&rng, i % 50 == 0 ? point_max : 12);
        struct slice given = slice_of(text, some_text(&rng, count, text));
        size_t expected_size = twin_normalize(given, expected);
        struct slice out;
        CHECK_EQ(nfc_normalize(given, buffer, nfc_bound(given.size), &out), STATUS_OK);
        CHECK(slice_equal(out, slice_of(expected, expected_size)));
        CHECK_EQ(out.bytes == text, slice_equal(out, given));
        size_t clean = nfc_clean_prefix(given);
        CHECK(clean <= out.size && memcmp(out.bytes, text, clean) == 0);
        // The rest can be normalized without it.
        expected_size = twin_normalize(slice_of(text + clean, given.size - clean), expected);
        CHECK(slice_equal(slice_of(out.bytes + clean, out.size - clean),
                          slice_of(expected, expected_size)));
    }
}

// Half a million marks, the worst order there is.
TEST(a_text_of_marks_takes_no_longer_than_another)
{
    enum { mark_count = 1 << 19, size = 1 + 2 * mark_count };
    static uint8_t text[size];
    static uint8_t buffer[3 * size];
    text[0] = 'a';
    for (size_t i = 0; i < mark_count; i++) {
        utf8_write(i % 2 == 0 ? 0x301 : 0x316, text + 1 + 2 * i);
    }
    struct slice out;
    CHECK_EQ(nfc_normalize(slice_of(text, size), buffer, sizeof(buffer), &out), STATUS_OK);
    CHECK_EQ(out.size, size - 1); // one accent is in the letter
    CHECK(memcmp(out.bytes, "\u00e1\u0316\u0316", 6) == 0);
    CHECK(memcmp(out.bytes + out.size - 4, "\u0301\u0301", 4) == 0);
}
