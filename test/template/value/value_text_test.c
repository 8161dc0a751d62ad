// SPDX-License-Identifier: Apache-2.0
//
// The expected values were computed by Python 3.11.

#include "template/value/value_text.h"

#include "base/utf8.h"
#include "template/value/value_fixture.h"

static const char *cased(const char *text, enum value_text_case to)
{
    static char buffer[256];
    struct text out = text_over(buffer, sizeof(buffer) - 1);
    value_text_add_case(slice_str(text), to, &out);
    buffer[out.size] = '\0';
    return buffer;
}

TEST(case_is_mapped_in_full)
{
    CHECK_STR(cased("stra\xc3\x9f"
                    "e \xc3\xa9 \xef\xac\x80 \xc7\x86",
                    VALUE_TEXT_UPPER),
              "STRASSE \xc3\x89 FF \xc7\x84");
    CHECK_STR(cased("\xc4\xb0 \xc3\x89 \xe2\x84\xaa ABC", VALUE_TEXT_LOWER),
              "i\xcc\x87 \xc3\xa9 k abc");
    CHECK_STR(cased("\xc7\x84 \xef\xac\x81x they're 3rd \xc3\x9f", VALUE_TEXT_TITLE),
              "\xc7\x85 Fix They'Re 3Rd Ss");
    CHECK_STR(cased("\xc7\x86"
                    "AB cD",
                    VALUE_TEXT_CAPITALIZE),
              "\xc7\x85"
              "ab cd");
}

TEST(a_sigma_at_the_end_of_a_word_is_final)
{
    CHECK_STR(cased("\xce\x9f\xce\x94\xce\x9f\xce\xa3 \xce\xa3", VALUE_TEXT_LOWER),
              "\xce\xbf\xce\xb4\xce\xbf\xcf\x82 \xcf\x83");
    CHECK_STR(cased("A\xce\xa3'\xcc\x81"
                    "B A\xce\xa3'",
                    VALUE_TEXT_LOWER),
              "a\xcf\x83'\xcc\x81"
              "b a\xcf\x82'");
}

// The sum over all characters of something that differs when any class or mapping does.
static uint64_t sum_of_classes(void)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xd800 && c <= 0xdfff) {
            continue;
        }
        uint8_t bytes[4];
        struct slice one = slice_of(bytes, utf8_write(c, bytes));
        unsigned bits =
            (unsigned)value_text_is_space(c) | (unsigned)value_text_is_printable(c) << 1 |
            (unsigned)value_text_is_alphabetic(c) << 2 | (unsigned)value_text_is_digit(c) << 3 |
            (unsigned)value_text_is_numeric(c) << 4 | (unsigned)value_text_is_upper(one) << 5 |
            (unsigned)value_text_is_lower(one) << 6;
        sum = (sum * 31 + bits) % 1000000007;
    }
    return sum;
}

static uint64_t sum_of_case(enum value_text_case to)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xd800 && c <= 0xdfff) {
            continue;
        }
        uint8_t bytes[10] = {'a'};
        unsigned size = 1;
        size += utf8_write(c, bytes + size);
        size += utf8_write(0x3a3, bytes + size);
        bytes[size++] = 'x';
        uint8_t space[64];
        struct text out = text_over(space, sizeof(space));
        value_text_add_case(slice_of(bytes + (c & 1), size - (c & 1) - (c >> 1 & 1)), to, &out);
        for (size_t i = 0; i < out.size; i++) {
            sum = (sum * 31 + space[i]) % 1000000007;
        }
    }
    return sum;
}

// By Python, with s = 'a' + c + '\u03a3x', cut as above.
TEST(every_character_is_as_in_python)
{
    CHECK_EQ(sum_of_classes(), 666329258);
    CHECK_EQ(sum_of_case(VALUE_TEXT_LOWER), 583081898);
    CHECK_EQ(sum_of_case(VALUE_TEXT_UPPER), 519653060);
    CHECK_EQ(sum_of_case(VALUE_TEXT_TITLE), 624904079);
    CHECK_EQ(sum_of_case(VALUE_TEXT_CAPITALIZE), 306425251);
}

TEST(white_space_is_that_of_python)
{
    struct slice text = slice_str("\x1c\xc2\x85\xe3\x80\x80 x\xe2\x80\x8b \t\x1f");
    CHECK_EQ(value_text_space_before(text), 7);
    CHECK_EQ(value_text_space_after(text), 3);
    struct slice space = slice_str(" \n\xc2\xa0");
    CHECK_EQ(value_text_space_before(space), 4);
    CHECK_EQ(value_text_space_after(space), 4);
    CHECK_EQ(value_text_space_after(slice_of(NULL, 0)), 0);
}

TEST(a_string_has_a_case_when_all_its_letters_have_it)
{
    CHECK(value_text_is_upper(slice_str("A1 \xc3\x89")));
    CHECK(!value_text_is_upper(slice_str("1")));
    CHECK(!value_text_is_upper(slice_str("A\xc7\x85")));
    CHECK(value_text_is_lower(slice_str("a b\xc3\x9f")));
    CHECK(!value_text_is_lower(slice_str("aB")));
    CHECK(!value_text_is_lower(slice_str("")));
}
