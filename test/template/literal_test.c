// SPDX-License-Identifier: Apache-2.0

#include "template/literal.h"

#include "test.h"

static const char *decoded(const char *text)
{
    static char out[100];
    uint8_t bytes[100];
    struct slice result;
    if (!literal_string(slice_str(text), bytes, &result)) {
        return "refused";
    }
    (void)snprintf(out, sizeof(out), "%.*s", (int)result.size, result.bytes);
    return out;
}

TEST(escapes_are_those_of_python)
{
    CHECK_STR(decoded("plain \xc3\xa9"), "plain \xc3\xa9");
    CHECK_STR(decoded("\\n\\t\\r\\a\\b\\f\\v\\\\\\'\\\""), "\n\t\r\a\b\f\v\\'\"");
    CHECK_STR(decoded("\\x41\\xe9\\u00e9\\u20ac\\U0001F600"), "A\xc3\xa9\xc3\xa9€😀");
    CHECK_STR(decoded("\\101\\7x\\777"), "A\ax\xc7\xbf");
    CHECK_STR(decoded("\\q\\{ \\d"), "\\q\\{ \\d");
    CHECK_STR(decoded("a\\\nb"), "ab");
}

TEST(broken_escapes_are_refused)
{
    static const char *const samples[] = {"\\x4",    "\\u12",      "\\xzz",     "\\U00110000",
                                          "\\ud83d", "\\U0001F60", "\\N{DASH}", "\\udc00\\ud800"};
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        CHECK_STR(decoded(samples[i]), "refused");
    }
}

TEST(whole_numbers_have_bases_and_underscores)
{
    static const struct {
        const char *text;
        int64_t value;
    } samples[] = {
        {"0", 0},     {"007", 7},    {"1_000", 1000},
        {"0x1F", 31}, {"0X_1f", 31}, {"0b101", 5},
        {"0o17", 15}, {"0B1_1", 3},  {"9223372036854775807", INT64_MAX},
    };
    uint8_t bytes[40];
    struct value value;
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        CHECK_EQ(literal_integer(slice_str(samples[i].text), 0, bytes, &value), STATUS_OK);
        CHECK_EQ(value.kind, VALUE_INT);
        CHECK_EQ(value.integer, samples[i].value);
    }
    CHECK_EQ(literal_integer(slice_str("9_223372036854775808"), 10, bytes, &value), STATUS_OK);
    CHECK_EQ(value.kind, VALUE_BIG_INT);
    CHECK(slice_is(value.string, "9223372036854775808"));
    CHECK_EQ(literal_integer(slice_str("0x10000000000000000"), 0, bytes, &value), STATUS_TOO_LARGE);
}

TEST(integers_have_signs_bases_and_single_underscores)
{
    static const struct {
        const char *text;
        unsigned base;
        enum status status;
        int64_t value;
    } samples[] = {
        {"-12", 10, STATUS_OK, -12},       {"+7", 10, STATUS_OK, 7},
        {"zz", 36, STATUS_OK, 1295},       {"0x1f", 16, STATUS_OK, 31},
        {"1f", 16, STATUS_OK, 31},         {"-9223372036854775808", 10, STATUS_OK, INT64_MIN},
        {"0x1f", 10, STATUS_MALFORMED, 0}, {"1__0", 10, STATUS_MALFORMED, 0},
        {"_1", 10, STATUS_MALFORMED, 0},   {"1_", 10, STATUS_MALFORMED, 0},
        {"", 10, STATUS_MALFORMED, 0},     {"-", 10, STATUS_MALFORMED, 0},
        {"12", 2, STATUS_MALFORMED, 0},    {"0x", 0, STATUS_MALFORMED, 0},
    };
    uint8_t bytes[40];
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        struct value value = value_int(0);
        CHECK_EQ(literal_integer(slice_str(samples[i].text), samples[i].base, bytes, &value),
                 samples[i].status);
        CHECK_EQ(value.integer, samples[i].value);
    }
}

TEST(floats_are_read_to_the_nearest)
{
    struct value value;
    CHECK(literal_float(slice_str("1_0.2_5"), &value));
    CHECK(value.kind == VALUE_FLOAT && value.number == 10.25);
    CHECK(literal_float(slice_str("1e-3"), &value));
    CHECK(value.number == 0.001);
    char text[100];
    memset(text, '1', sizeof(text));
    CHECK(!literal_float(slice_of(text, sizeof(text)), &value));
}
