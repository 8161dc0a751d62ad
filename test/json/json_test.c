// SPDX-License-Identifier: Apache-2.0
//
// Cases a reader would argue about first; then random documents and their mutations against the
// simple twin, against cJSON, and with nothing mapped behind the last byte.

#include "json/json.h"

#include "base/rng.h"
#include "json/json_twin.h"
#include "test.h"

#include <cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

struct sample {
    const char *text;
    size_t size;
};
#define SAMPLE(literal)                                                                            \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

static enum status verdict(struct slice text)
{
    struct json json = json_open(text);
    return json_close(&json);
}

static void check_all(const struct sample *samples, size_t count, enum status expected)
{
    for (size_t i = 0; i < count; i++) {
        enum status actual = verdict(slice_of(samples[i].text, samples[i].size));
        if (actual != expected) {
            test_fail(__FILE__, __LINE__, "<%s>: %s, expected %s", samples[i].text,
                      status_text(actual), status_text(expected));
        }
    }
}

TEST(all_that_the_grammar_allows_is_accepted)
{
    static const struct sample samples[] = {
        SAMPLE("{}"),
        SAMPLE("[]"),
        SAMPLE("null"),
        SAMPLE("true"),
        SAMPLE(" \t\r\nfalse \t\r\n"),
        SAMPLE("\"\""),
        SAMPLE("0"),
        SAMPLE("-0"),
        SAMPLE("-0.0e-0"),
        SAMPLE("10"),
        SAMPLE("1.5"),
        SAMPLE("1e5"),
        SAMPLE("1E+05"),
        SAMPLE("123456789012345678901234567890123456789012345678901234567890.5e-999"),
        SAMPLE("1e999999999999999999"),
        SAMPLE("[1,[2,[3]],{\"a\":{\"b\":[]}}]"),
        SAMPLE("{\"a\":1,\"a\":2}"),
        SAMPLE("{\"\":0}"),
        SAMPLE("{ \"a\" : 1 , \"b\" : [ 1 , 2 ] }"),
        SAMPLE("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uABCD\\uabcd\""),
        SAMPLE("\"\\ud83d\\ude00\""),
        SAMPLE("\"\x7f\""),
        SAMPLE("\"\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf\""),
        SAMPLE("\"\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf\""),
        SAMPLE("\"\xef\xbb\xbf inside a string a byte order mark is a character\""),
        // Grammatical; whether they mean something is asked when decoding.
        SAMPLE("\"\\ud800\""),
        SAMPLE("\"\\udc00\\ud800\""),
    };
    check_all(samples, ARRAY_COUNT(samples), STATUS_OK);
}

TEST(refuses_broken_structure)
{
    static const struct sample samples[] = {
        SAMPLE(""),           SAMPLE(" "),          SAMPLE("{"),
        SAMPLE("["),          SAMPLE("}"),          SAMPLE("]"),
        SAMPLE("[}"),         SAMPLE("{]"),         SAMPLE("[1"),
        SAMPLE("[1,"),        SAMPLE("[1,]"),       SAMPLE("[,1]"),
        SAMPLE("[1,,2]"),     SAMPLE("[1 2]"),      SAMPLE("[1;2]"),
        SAMPLE("[1:2]"),      SAMPLE("{\"a\"}"),    SAMPLE("{\"a\":}"),
        SAMPLE("{\"a\":1,}"), SAMPLE("{,\"a\":1}"), SAMPLE("{\"a\":1 \"b\":2}"),
        SAMPLE("{\"a\",1}"),  SAMPLE("{\"a\"::1}"), SAMPLE("{a:1}"),
        SAMPLE("{'a':1}"),    SAMPLE("{1:1}"),      SAMPLE("{null:1}"),
        SAMPLE("{\"a\":1}}"), SAMPLE("[1]]"),       SAMPLE("{} {}"),
        SAMPLE("1 2"),        SAMPLE("null,"),      SAMPLE("\"a\" x"),
        SAMPLE("{}\0"),       SAMPLE("[\0]"),       SAMPLE("/**/1"),
        SAMPLE("1//x"),       SAMPLE("[1,#\n2]"),   SAMPLE("\xef\xbb\xbf{}"),
        SAMPLE("\xa0"),       SAMPLE("\f1"),        SAMPLE("\v1"),
    };
    check_all(samples, ARRAY_COUNT(samples), STATUS_MALFORMED);
}

TEST(refuses_broken_numbers_and_literals)
{
    static const struct sample samples[] = {
        SAMPLE("01"),    SAMPLE("-01"),      SAMPLE("00"),        SAMPLE("-"),     SAMPLE("+1"),
        SAMPLE(".5"),    SAMPLE("-.5"),      SAMPLE("1."),        SAMPLE("1.e5"),  SAMPLE("1e"),
        SAMPLE("1e+"),   SAMPLE("1E-"),      SAMPLE("1e5.5"),     SAMPLE("1.2.3"), SAMPLE("0x10"),
        SAMPLE("1_000"), SAMPLE("--1"),      SAMPLE("1-"),        SAMPLE("1a"),    SAMPLE("NaN"),
        SAMPLE("nan"),   SAMPLE("Infinity"), SAMPLE("-Infinity"), SAMPLE("True"),  SAMPLE("tru"),
        SAMPLE("truex"), SAMPLE("fals"),     SAMPLE("nul"),       SAMPLE("nulll"), SAMPLE("[-]"),
        SAMPLE("[1.]"),  SAMPLE("[0 1]"),    SAMPLE("[012]"),     SAMPLE("[tr]"),  SAMPLE("-\0"),
    };
    check_all(samples, ARRAY_COUNT(samples), STATUS_MALFORMED);
}

TEST(refuses_broken_strings)
{
    static const struct sample samples[] = {
        SAMPLE("\""),
        SAMPLE("\"a"),
        SAMPLE("\"\\\""),
        SAMPLE("\"\\"),
        SAMPLE("\"\\a\""),
        SAMPLE("\"\\'\""),
        SAMPLE("\"\\0\""),
        SAMPLE("\"\\\0\""),
        SAMPLE("\"\\x41\""),
        SAMPLE("\"\\\xc3\xa9\""),
        SAMPLE("\"\\U0041\""),
        SAMPLE("\"\\u\""),
        SAMPLE("\"\\u004\""),
        SAMPLE("\"\\u004g\""),
        SAMPLE("\"\\u-041\""),
        SAMPLE("\"\\u 041\""),
        SAMPLE("\"\\u004"),
        SAMPLE("\"\n\""),
        SAMPLE("\"\t\""),
        SAMPLE("\"\0\""),
        SAMPLE("\"sixteen bytes ok\x1f\""),
        SAMPLE("'a'"),
        SAMPLE("{\"a\n\":1}"),
        SAMPLE("{\"a"),
        SAMPLE("{\"a\\q\":1}"),
    };
    check_all(samples, ARRAY_COUNT(samples), STATUS_MALFORMED);
}

TEST(refuses_invalid_utf8)
{
    static const struct sample samples[] = {
        SAMPLE("\"\x80\""),             // a continuation without a lead
        SAMPLE("\"\xbf\""),             //
        SAMPLE("\"\xc0\x80\""),         // NUL, overlong
        SAMPLE("\"\xc1\xbf\""),         // overlong
        SAMPLE("\"\xe0\x9f\xbf\""),     // overlong
        SAMPLE("\"\xf0\x8f\xbf\xbf\""), // overlong
        SAMPLE("\"\xed\xa0\x80\""),     // U+D800
        SAMPLE("\"\xed\xbf\xbf\""),     // U+DFFF
        SAMPLE("\"\xf4\x90\x80\x80\""), // U+110000
        SAMPLE("\"\xf5\x80\x80\x80\""), //
        SAMPLE("\"\xf8\x88\x80\x80\x80\""),
        SAMPLE("\"\xfe\""),
        SAMPLE("\"\xff\""),
        SAMPLE("\"\xc3\""), // cut short by the quote
        SAMPLE("\"\xe2\x82\""),
        SAMPLE("\"\xf0\x9f\x98\""),
        SAMPLE("\"\xc3"), // cut short by the end
        SAMPLE("\"\xe2\x82"),
        SAMPLE("\"\xf0\x9f\x98"),
        SAMPLE("\"\xe2\x28\xa1\""),
        SAMPLE("\"\xe2\x82\x28\""),
        SAMPLE("\"\xf0\x9f\x98\x28\""),
        SAMPLE("\"caf\xe9 in Latin-1\""),
        SAMPLE("{\"\xe9\":1}"),
    };
    check_all(samples, ARRAY_COUNT(samples), STATUS_MALFORMED);
}

TEST(nesting_has_a_limit_of_its_own)
{
    char text[2 * json_depth_max + 8];

    for (size_t depth = json_depth_max - 1; depth <= json_depth_max + 2; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        CHECK_EQ(verdict(slice_of(text, 2 * depth)),
                 depth <= json_depth_max ? STATUS_OK : STATUS_TOO_LARGE);
        CHECK_EQ(verdict(slice_of(text, depth)),
                 depth <= json_depth_max ? STATUS_MALFORMED : STATUS_TOO_LARGE);
    }
    // Siblings are not nesting.
    char bytes[3000];
    struct text siblings = text_over(bytes, sizeof(bytes));
    text_add_str(&siblings, "[[]");
    for (int i = 0; i < 2 * json_depth_max; i++) {
        text_add_str(&siblings, ",[{}]");
    }
    text_add_str(&siblings, "]");
    CHECK(!siblings.overflow);
    CHECK_EQ(verdict(text_slice(&siblings)), STATUS_OK);
}

TEST(an_empty_slice_without_bytes_is_malformed_and_not_a_crash)
{
    CHECK_EQ(verdict((struct slice){0}), STATUS_MALFORMED);
    CHECK(json_string_is((struct slice){0}, ""));
    CHECK(!json_string_is((struct slice){0}, "a"));
    struct slice out = {0};
    CHECK_EQ(json_string_decode((struct slice){0}, NULL, 0, &out), STATUS_OK);
    CHECK_EQ(out.size, 0);
}

TEST(walks_members_and_elements_and_returns_to_the_level_above)
{
    struct json json = json_open(slice_str("{\"a\": [10, {\"x\": []}, 20], \"b\": {}, \"c\": 3}"));
    struct json_item item;

    CHECK(json_next(&json, &item) && item.value.kind == JSON_OBJECT);
    json_enter(&json);
    CHECK(json_next(&json, &item) && slice_is(item.key, "a") && item.value.kind == JSON_ARRAY);
    json_enter(&json);
    CHECK(json_next(&json, &item) && slice_is(item.value.raw, "10") && item.key.size == 0);
    CHECK(json_next(&json, &item) && item.value.kind == JSON_OBJECT); // not entered
    CHECK(json_next(&json, &item) && slice_is(item.value.raw, "20"));
    CHECK(!json_next(&json, &item));
    CHECK(json_next(&json, &item) && slice_is(item.key, "b") && item.value.kind == JSON_OBJECT);
    json_enter(&json);
    CHECK(!json_next(&json, &item));
    CHECK(json_next(&json, &item) && slice_is(item.key, "c") && slice_is(item.value.raw, "3"));
    CHECK(!json_next(&json, &item));
    CHECK(!json_next(&json, &item));
    CHECK_EQ(json_close(&json), STATUS_OK);
    CHECK(!json_next(&json, &item));
}

TEST(skipping_yields_the_whole_text_of_a_container)
{
    struct json json = json_open(slice_str(" [ {\"a\":[1,\"]\"]} , [ ] , 7 ] "));
    struct json_item item;

    CHECK(json_next(&json, &item));
    json_enter(&json);
    CHECK(json_next(&json, &item) && json_skip(&json, &item.value));
    CHECK(slice_is(item.value.raw, "{\"a\":[1,\"]\"]}"));
    CHECK(json_next(&json, &item) && json_skip(&json, &item.value));
    CHECK(slice_is(item.value.raw, "[ ]"));
    CHECK(json_next(&json, &item) && json_skip(&json, &item.value));
    CHECK(slice_is(item.value.raw, "7"));
    CHECK(!json_next(&json, &item));
    CHECK_EQ(json_close(&json), STATUS_OK);
}

TEST(skipping_ids_counts_them_and_leaves_the_last_one)
{
    char bytes[1000];
    struct text text = text_over(bytes, sizeof(bytes));
    text_add_str(&text, "{\"prompt\":[");
    for (uint64_t id = 0; id < 100; id++) {
        text_add_u64(&text, id * 1000);
        text_add_str(&text, ",");
    }
    text_add_str(&text, "7],\"n\":1}");
    struct json json = json_open(text_slice(&text));
    struct json_item item;
    uint64_t count = 0;

    CHECK_EQ(json_skip_ids(&json), 0);
    CHECK(json_next(&json, &item));
    CHECK_EQ(json_skip_ids(&json), 0); // neither entered
    json_enter(&json);
    CHECK(json_next(&json, &item));
    CHECK_EQ(json_skip_ids(&json), 0);
    json_enter(&json);
    CHECK_EQ(json_skip_ids(&json), 0); // nor at an element
    while (json_next(&json, &item)) {
        count += 1 + json_skip_ids(&json);
    }
    CHECK_EQ(count, 101);
    CHECK(slice_is(item.value.raw, "7"));
    CHECK(json_next(&json, &item) && slice_is(item.key, "n"));
    CHECK_EQ(json_skip_ids(&json), 0); // numbers of an object are no elements
    CHECK_EQ(json_close(&json), STATUS_OK);
    CHECK_EQ(json_skip_ids(&json), 0);
}

// An array of ids in which `element` has `distance` elements behind it, read with skipping.
static enum status verdict_of_ids_around(const char *element, size_t distance)
{
    char bytes[1000];
    struct text text = text_over(bytes, sizeof(bytes));
    struct json_item item;

    text_add_str(&text, "[5");
    for (size_t left = 160; left > 0; left--) {
        text_add_str(&text, ",");
        text_add_str(&text, left == distance + 1 ? element : "12");
    }
    text_add_str(&text, "]");
    struct json json = json_open(text_slice(&text));
    ASSERT(json_next(&json, &item));
    json_enter(&json);
    while (json_next(&json, &item)) {
        json_skip_ids(&json);
    }
    return json_close(&json);
}

// At every distance from the end of a block.
TEST(skipping_ids_hides_nothing_that_is_wrong)
{
    static const char *const wrong[] = {"01", "", "1 2", "-", "1.", "x", "\"1\"\"", "1]", "{,}"};
    static const char *const right[] = {"0", " 1", "1 ", "-1", "1.5", "1e9", "12345678901", "{}"};

    for (size_t i = 0; i < 80 * ARRAY_COUNT(wrong); i++) {
        CHECK_EQ(verdict_of_ids_around(wrong[i / 80], i % 80), STATUS_MALFORMED);
    }
    for (size_t i = 0; i < 80 * ARRAY_COUNT(right); i++) {
        CHECK_EQ(verdict_of_ids_around(right[i / 80], i % 80), STATUS_OK);
    }
}

TEST(an_error_sticks_at_every_level)
{
    struct json json = json_open(slice_str("{\"a\":[1,2,oops],\"b\":1}"));
    struct json_item item;

    CHECK(json_next(&json, &item));
    json_enter(&json);
    CHECK(json_next(&json, &item));
    json_enter(&json);
    CHECK(json_next(&json, &item));
    CHECK(json_next(&json, &item));
    for (int i = 0; i < 5; i++) {
        CHECK(!json_next(&json, &item));
    }
    CHECK_EQ(json_close(&json), STATUS_MALFORMED);
    CHECK_EQ(json_close(&json), STATUS_MALFORMED);

    json = json_open(slice_str("[[1,}]"));
    CHECK(json_next(&json, &item));
    json_enter(&json);
    CHECK(json_next(&json, &item));
    CHECK(!json_skip(&json, &item.value));
    CHECK_EQ(json_close(&json), STATUS_MALFORMED);
}

TEST(finds_top_level_fields_and_only_those)
{
    static const char *const names[] = {"model", "user", "stream", "messages"};
    struct json_value found[4];

    CHECK_EQ(
        json_find(slice_str("{\"messages\":[{\"role\":\"user\",\"model\":\"no\",\"content\":"
                            "\"\\\"model\\\":\\\"no\\\"\"}],\"model\":\"llama\",\"stream\":true,"
                            "\"models\":1,\"mode\":1,\"Model\":1}"),
                  names, 4, found),
        STATUS_OK);
    CHECK(found[0].kind == JSON_STRING && slice_is(found[0].raw, "llama"));
    CHECK(found[1].kind == JSON_ABSENT);
    CHECK(json_is_true(&found[2]));
    CHECK(found[3].kind == JSON_ARRAY && found[3].raw.bytes[found[3].raw.size - 1] == ']');
    CHECK_EQ(verdict(found[3].raw), STATUS_OK);
}

TEST(of_duplicate_fields_of_any_kind_the_last_wins)
{
    static const char *const names[] = {"model"};
    struct json_value found;

    CHECK_EQ(json_find(slice_str("{\"model\":\"a\",\"x\":1,\"model\":\"b\"}"), names, 1, &found),
             STATUS_OK);
    CHECK(slice_is(found.raw, "b"));
    CHECK_EQ(json_find(slice_str("{\"model\":\"a\",\"mod\\u0065l\":[1]}"), names, 1, &found),
             STATUS_OK);
    CHECK(found.kind == JSON_ARRAY && slice_is(found.raw, "[1]"));
}

TEST(finding_fails_when_anything_after_the_field_is_malformed)
{
    static const char *const names[] = {"model"};
    struct json_value found = {.kind = JSON_NUMBER};

    CHECK_EQ(json_find(slice_str("{\"model\":\"a\"} x"), names, 1, &found), STATUS_MALFORMED);
    CHECK_EQ(json_find(slice_str("{\"model\":\"a\",\"b\":[01]}"), names, 1, &found),
             STATUS_MALFORMED);
    CHECK_EQ(json_find(slice_str("{\"model\":[1,}"), names, 1, &found), STATUS_MALFORMED);
    CHECK_EQ(found.kind, JSON_NUMBER);
}

TEST(a_document_other_than_an_object_has_no_fields)
{
    static const char *const names[] = {"model"};
    static const char *const texts[] = {"[\"model\",\"a\"]", "\"model\"", "null",
                                        "[{\"model\":1}]"};

    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct json_value found = {.kind = JSON_NUMBER};
        CHECK_EQ(json_find(slice_str(texts[i]), names, 1, &found), STATUS_OK);
        CHECK_EQ(found.kind, JSON_ABSENT);
    }
}

TEST(compares_strings_as_they_read_unescaped)
{
    CHECK(json_string_is(slice_str("model"), "model"));
    CHECK(json_string_is(slice_str("\\u006d\\u006F\\u0064el"), "model"));
    CHECK(json_string_is(slice_str("a\\/b\\n"), "a/b\n"));
    CHECK(json_string_is(slice_str("\\ud83d\\ude00!"), "\xf0\x9f\x98\x80!"));
    CHECK(!json_string_is(slice_str("model"), "mode"));
    CHECK(!json_string_is(slice_str("mode"), "model"));
    CHECK(!json_string_is(slice_str("mod\\u0065"), "model"));
    CHECK(!json_string_is(slice_str("mod\\u0065ls"), "model"));
    CHECK(!json_string_is(slice_str("model\\u0000"), "model"));
    CHECK(!json_string_is(slice_str("\\ud83dmodel"), "model"));
}

static bool decodes_to(const char *raw, struct slice expected)
{
    uint8_t buffer[64];
    struct slice out;
    return json_string_decode(slice_str(raw), buffer, sizeof(buffer), &out) == STATUS_OK &&
           slice_equal(out, expected);
}

TEST(decodes_every_escape)
{
    CHECK(decodes_to("\\\"\\\\\\/\\b\\f\\n\\r\\t", slice_of("\"\\/\b\f\n\r\t", 8)));
    CHECK(decodes_to("x\\u0000y", slice_of("x\0y", 3)));
    CHECK(decodes_to("\\u007f\\u0080\\u07ff\\u0800\\uFFFF",
                     slice_str("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf")));
    CHECK(
        decodes_to("\\ud800\\udc00\\uDBFF\\uDFFF", slice_str("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf")));
    CHECK(decodes_to("caf\xc3\xa9 \\u00e9", slice_str("caf\xc3\xa9 \xc3\xa9")));
}

// The character of one to three bytes at the start of `text`, or -1 when that is not all of it.
static int32_t only_character(struct slice text)
{
    const uint8_t *at = text.bytes;
    switch (text.size) {
    case 1:
        return at[0];
    case 2:
        return (at[0] & 0x1f) << 6 | (at[1] & 0x3f);
    case 3:
        return (at[0] & 0x0f) << 12 | (at[1] & 0x3f) << 6 | (at[2] & 0x3f);
    default:
        return -1;
    }
}

TEST(decodes_every_number_in_either_case)
{
    for (uint32_t unit = 0; unit < 0x20000; unit++) {
        char raw[7];
        uint8_t buffer[6];
        struct slice out = {0};
        bool surrogate = (unit & 0xf800) == 0xd800;
        snprintf(raw, sizeof(raw), unit < 0x10000 ? "\\u%04x" : "\\u%04X", unit & 0xffff);
        enum status status = json_string_decode(slice_str(raw), buffer, sizeof(buffer), &out);
        CHECK_EQ(status, surrogate ? STATUS_MALFORMED : STATUS_OK);
        CHECK(surrogate || only_character(out) == (int32_t)(unit & 0xffff));
    }
}

TEST(refuses_to_decode_half_a_surrogate_pair)
{
    static const char *const raws[] = {
        "\\ud800",         "\\udc00",         "\\ud800x",       "\\ud800\\n", "\\ud800\\ud800",
        "\\ud800\\u0041x", "\\udc00\\ud800x", "ok \\udbff ok ", "\\udfff",    "\\udc00\\udc00",
    };
    for (size_t i = 0; i < ARRAY_COUNT(raws); i++) {
        uint8_t buffer[64];
        struct slice out = slice_str("untouched");
        CHECK_EQ(json_string_decode(slice_str(raws[i]), buffer, sizeof(buffer), &out),
                 STATUS_MALFORMED);
        CHECK(slice_is(out, "untouched"));
    }
}

TEST(decoding_copies_only_strings_with_escapes_and_never_past_the_buffer)
{
    struct slice raw = slice_str("nothing to unescape");
    struct slice out;
    CHECK_EQ(json_string_decode(raw, NULL, 0, &out), STATUS_OK);
    CHECK(out.bytes == raw.bytes && out.size == raw.size);

    uint8_t buffer[8] = "#######";
    raw = slice_str("ab\\ud83d\\ude00"); // six bytes
    for (size_t capacity = 0; capacity < 6; capacity++) {
        CHECK_EQ(json_string_decode(raw, buffer, capacity, &out), STATUS_TOO_LARGE);
        CHECK_EQ(buffer[capacity], '#');
    }
    CHECK_EQ(json_string_decode(raw, buffer, 6, &out), STATUS_OK);
    CHECK(out.bytes == buffer && slice_is(out, "ab\xf0\x9f\x98\x80"));
    CHECK_EQ(buffer[6], '#');
}

TEST(reads_whole_numbers_and_no_others)
{
    static const char *const others[] = {"-1", "-0", "1.0", "1e3", "18446744073709551616", "0.0"};
    struct json_value value = {.kind = JSON_NUMBER, .raw = slice_str("18446744073709551615")};
    uint64_t number = 7;

    CHECK(json_uint(&value, &number));
    CHECK(number == UINT64_MAX);
    value.raw = slice_str("0");
    CHECK(json_uint(&value, &number));
    CHECK_EQ(number, 0);

    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        value.raw = slice_str(others[i]);
        CHECK(!json_uint(&value, &number));
    }
    value = (struct json_value){.kind = JSON_STRING, .raw = slice_str("5")};
    CHECK(!json_uint(&value, &number));
    CHECK_EQ(number, 0);
    CHECK(!json_is_true(&(struct json_value){.kind = JSON_STRING, .raw = slice_str("true")}));
    CHECK(!json_is_true(&(struct json_value){.kind = JSON_BOOL, .raw = slice_str("false")}));
}

TEST(a_number_is_finite_or_nan)
{
    struct json_value value = {.kind = JSON_NUMBER, .raw = slice_str("-1.5e3")};
    CHECK(json_number(&value) == -1500);
    value.raw = slice_str("1e999");
    CHECK(isnan(json_number(&value)));
    value.kind = JSON_STRING;
    value.raw = slice_str("1");
    CHECK(isnan(json_number(&value)));
}

TEST(a_member_is_found_by_name_or_absent)
{
    struct json_value object = {.kind = JSON_OBJECT, .raw = slice_str("{\"a\":1,\"b\":2,\"a\":3}")};
    struct json_value a = json_member(&object, "a");
    CHECK(json_number(&a) == 3);
    CHECK_EQ(json_member(&object, "c").kind, JSON_ABSENT);
    object.kind = JSON_ARRAY;
    CHECK_EQ(json_member(&object, "a").kind, JSON_ABSENT);
}

enum { document_size_max = 4096, trace_size_max = 4 * document_size_max };

static void add_random_string(struct text *text, struct rng *rng)
{
    static const char *const pieces[] = {
        "\\n",     "\\\"",     "\\\\",         "\\u0041",          "\\u00e9", "\\ud83d\\ude00",
        "\\u20AC", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\x7f",    "]},:",
    };
    text_add_str(text, "\"");
    for (uint32_t left = rng_below(rng, 4); left > 0; left--) {
        // Runs of every length around the width of a vector.
        for (uint32_t plain = rng_below(rng, 40); plain > 0; plain--) {
            text_add(text, slice_of(&"abc xyz.0123[{"[rng_below(rng, 14)], 1));
        }
        text_add_str(text, pieces[rng_below(rng, ARRAY_COUNT(pieces))]);
    }
    text_add_str(text, "\"");
}

static void add_random_space(struct text *text, struct rng *rng)
{
    static const char *const spaces[] = {"", "", "", "", " ", "\n", "\t\r\n  "};
    text_add_str(text, spaces[rng_below(rng, ARRAY_COUNT(spaces))]);
}

static void add_random_ids(struct text *text, struct rng *rng)
{
    static const char *const separators[] = {",", ",", ", ", " , ", ",-", ",1."};
    const char *separator = separators[rng_below(rng, ARRAY_COUNT(separators))];

    text_add_str(text, "[");
    for (uint32_t i = 0, count = rng_below(rng, 60); i < count; i++) {
        static const uint32_t bounds[] = {1, 10, 1000, 150000, UINT32_MAX};
        text_add_str(text, i > 0 ? separator : "");
        text_add_u64(text, rng_below(rng, bounds[rng_below(rng, ARRAY_COUNT(bounds))]));
    }
    text_add_str(text, "]");
}

static void add_random_value(struct text *text, struct rng *rng, uint32_t depth)
{
    static const char *const scalars[] = {
        "null", "true", "false", "0", "-1", "3.25", "1e3", "-12.5E-2", "123456789012", "1.7e+300",
    };
    uint32_t kind = rng_below(rng, depth > 0 ? 10 : 6);

    add_random_space(text, rng);
    if (kind < 3) {
        text_add_str(text, scalars[rng_below(rng, ARRAY_COUNT(scalars))]);
    } else if (kind < 6) {
        add_random_string(text, rng);
    } else if (rng_below(rng, 8) == 0) {
        add_random_ids(text, rng);
    } else {
        bool object = kind < 8;
        text_add_str(text, object ? "{" : "[");
        for (uint32_t i = 0, count = rng_below(rng, 4); i < count; i++) {
            text_add_str(text, i > 0 ? "," : "");
            add_random_space(text, rng);
            if (object) {
                add_random_string(text, rng);
                add_random_space(text, rng);
                text_add_str(text, ":");
            }
            add_random_value(text, rng, depth - 1);
        }
        add_random_space(text, rng);
        text_add_str(text, object ? "}" : "]");
    }
    add_random_space(text, rng);
}

// Returns the size of a document in `buffer`, which holds document_size_max bytes.
static size_t random_document(uint8_t *buffer, struct rng *rng)
{
    for (;;) {
        struct text text = text_over(buffer, document_size_max);
        add_random_value(&text, rng, 1 + rng_below(rng, 4));
        if (!text.overflow) {
            return text.size;
        }
    }
}

static size_t mutate(uint8_t *bytes, size_t size, struct rng *rng)
{
    static const char alphabet[] =
        "\"\\{}[]:,0189-+.eEunltf \n\t\x01\x1f\x7f\x80\xbf\xc2\xe0\xed\xf4";
    size_t at = size > 0 ? rng_below(rng, (uint32_t)size) : 0;
    uint8_t byte = (uint8_t)alphabet[rng_below(rng, sizeof(alphabet))];

    switch (size > 0 ? rng_below(rng, 5) : 0) {
    case 0: // one byte more
        if (size < document_size_max) {
            memmove(bytes + at + 1, bytes + at, size - at);
            bytes[at] = byte;
            size++;
        }
        break;
    case 1: // one less
        memmove(bytes + at, bytes + at + 1, size - at - 1);
        size--;
        break;
    case 2: // cut
        size = at;
        break;
    case 3: // one bit
        bytes[at] ^= (uint8_t)(1 << rng_below(rng, 8));
        break;
    default:
        bytes[at] = byte;
    }
    return size;
}

static bool agrees_with_twin(struct slice text)
{
    static uint8_t twin_bytes[trace_size_max];
    static uint8_t scan_bytes[trace_size_max];
    struct text twin_trace = text_over(twin_bytes, sizeof(twin_bytes));
    struct text scan_trace = text_over(scan_bytes, sizeof(scan_bytes));

    enum status twin = twin_read(text, &twin_trace);
    enum status scan = scan_read(text, &scan_trace);
    ASSERT(!twin_trace.overflow && !scan_trace.overflow);
    if (twin != scan || verdict(text) != twin) {
        return false;
    }
    // Before an error the two traces may end at different points.
    return twin != STATUS_OK || slice_equal(text_slice(&twin_trace), text_slice(&scan_trace));
}

TEST(random_documents_are_accepted_and_read_as_the_twin_reads_them)
{
    static uint8_t document[document_size_max];
    struct rng rng = {.state = 1};

    for (int round = 0; round < 5000; round++) {
        struct slice text = slice_of(document, random_document(document, &rng));
        CHECK_EQ(verdict(text), STATUS_OK);
        CHECK(agrees_with_twin(text));
    }
}

TEST(mutated_documents_are_judged_as_the_twin_judges_them)
{
    static uint8_t document[document_size_max];
    struct rng rng = {.state = 2};
    uint32_t accepted = 0;
    uint32_t refused = 0;

    for (int round = 0; round < 30000; round++) {
        size_t size = random_document(document, &rng);
        for (uint32_t left = 1 + rng_below(&rng, 3); left > 0; left--) {
            size = mutate(document, size, &rng);
        }
        CHECK(agrees_with_twin(slice_of(document, size)));
        bool good = verdict(slice_of(document, size)) == STATUS_OK;
        accepted += good;
        refused += !good;
    }
    CHECK(accepted > 1000 && refused > 1000); // neither side of the comparison ran empty
}

// Every byte value at every place of a string longer than two vectors, at every alignment.
TEST(each_byte_at_each_place_of_a_string_is_judged_as_the_twin_judges_it)
{
    uint8_t buffer[80];

    for (uint32_t i = 0; i < 40 * 256; i++) {
        uint8_t *text = buffer + i % 16;
        memset(text, 'x', 42);
        text[0] = '"';
        text[41] = '"';
        text[1 + i / 256] = (uint8_t)i;
        CHECK(agrees_with_twin(slice_of(text, 42)));
    }
}

// Walks at will: enters, skips, passes over and leaves off at random.  The verdict is the same.
static enum status wander(struct slice text, struct rng *rng)
{
    struct json json = json_open(text);
    struct json_item item;

    for (int step = 0; step < 200 && rng_below(rng, 30) != 0; step++) {
        if (rng_below(rng, 4) == 0) {
            json_skip_ids(&json);
        }
        if (!json_next(&json, &item)) {
            continue;
        }
        bool container = item.value.kind == JSON_OBJECT || item.value.kind == JSON_ARRAY;
        uint32_t choice = rng_below(rng, 3);
        if (choice == 0 && container) {
            json_enter(&json);
        } else if (choice == 1 && json_skip(&json, &item.value) && container &&
                   verdict(item.value.raw) != STATUS_OK) {
            return STATUS_IO; // which the scanner never says
        }
    }
    return json_close(&json);
}

TEST(the_verdict_does_not_depend_on_the_way_taken_through_the_text)
{
    static uint8_t document[document_size_max];
    struct rng rng = {.state = 3};

    for (int round = 0; round < 20000; round++) {
        size_t size = random_document(document, &rng);
        if (round % 2 == 0) {
            size = mutate(document, size, &rng);
        }
        struct slice text = slice_of(document, size);
        CHECK_EQ(wander(text, &rng), verdict(text));
    }
}

// cJSON ends strings at the first NUL.
static bool same_string(struct slice raw, const char *theirs)
{
    static uint8_t buffer[document_size_max];
    struct slice ours;
    if (json_string_decode(raw, buffer, sizeof(buffer), &ours) != STATUS_OK) {
        return false;
    }
    size_t size = strlen(theirs);
    return size <= ours.size && memcmp(ours.bytes, theirs, size) == 0 &&
           (size == ours.size || ours.bytes[size] == '\0');
}

static bool same_scalar(const struct json_value *ours, const cJSON *theirs)
{
    char number[64];

    switch (ours->kind) {
    case JSON_NULL:
        return cJSON_IsNull(theirs);
    case JSON_BOOL:
        return cJSON_IsBool(theirs) && json_is_true(ours) == (bool)cJSON_IsTrue(theirs);
    case JSON_NUMBER:
        snprintf(number, sizeof(number), "%.*s", (int)ours->raw.size,
                 (const char *)ours->raw.bytes);
        return cJSON_IsNumber(theirs) && strtod(number, NULL) == theirs->valuedouble;
    case JSON_STRING:
        return cJSON_IsString(theirs) && same_string(ours->raw, theirs->valuestring);
    default:
        return false;
    }
}

// Walks the tree and the text side by side.
static bool same_tree(struct slice text, const cJSON *root)
{
    const cJSON *parents[json_depth_max + 1] = {NULL};
    const cJSON *theirs = root;
    uint32_t depth = 0;
    struct json json = json_open(text);
    struct json_item item;

    for (;;) {
        if (!json_next(&json, &item)) {
            if (theirs != NULL && theirs != root) {
                return false; // they have more
            }
            if (depth == 0) {
                return json_close(&json) == STATUS_OK;
            }
            const cJSON *ended = parents[depth--];
            theirs = ended->next;
            continue;
        }
        if (theirs == NULL || (theirs->string != NULL && !same_string(item.key, theirs->string))) {
            return false;
        }
        bool object = item.value.kind == JSON_OBJECT;
        if (object || item.value.kind == JSON_ARRAY) {
            if (object ? !cJSON_IsObject(theirs) : !cJSON_IsArray(theirs)) {
                return false;
            }
            json_enter(&json);
            parents[++depth] = theirs;
            theirs = theirs->child;
        } else if (!same_scalar(&item.value, theirs)) {
            return false;
        } else {
            theirs = theirs->next;
        }
    }
}

static bool is_decodable(struct slice raw)
{
    static uint8_t buffer[document_size_max];
    struct slice out;
    return json_string_decode(raw, buffer, sizeof(buffer), &out) == STATUS_OK;
}

// cJSON refuses half surrogate pairs while parsing, and numbers of more than 63 characters.
static bool suits_cjson(struct slice text)
{
    struct json json = json_open(text);
    struct json_item item;
    bool suits = true;

    for (;;) {
        if (!json_next(&json, &item)) {
            if (json.depth == 0 || json.status != STATUS_OK) {
                return suits && json_close(&json) == STATUS_OK;
            }
            continue;
        }
        suits = suits && is_decodable(item.key);
        if (item.value.kind == JSON_OBJECT || item.value.kind == JSON_ARRAY) {
            json_enter(&json);
        } else if (item.value.kind == JSON_STRING) {
            suits = suits && is_decodable(item.value.raw);
        } else {
            suits = suits && item.value.raw.size <= 63;
        }
    }
}

// One way only: cJSON also accepts much that is not JSON (leading zeros, control characters, broken
// UTF-8, trailing garbage), for which the twin is the judge.
TEST(cjson_reads_accepted_documents_as_we_do)
{
    static uint8_t document[document_size_max];
    struct rng rng = {.state = 4};
    uint32_t compared = 0;

    for (int round = 0; round < 20000; round++) {
        size_t size = random_document(document, &rng);
        if (round % 2 == 0) {
            size = mutate(document, size, &rng);
        }
        struct slice text = slice_of(document, size);
        if (!suits_cjson(text)) {
            continue;
        }
        const char *end = NULL;
        cJSON *tree = cJSON_ParseWithLengthOpts((const char *)document, size, &end, 0);
        bool same = tree != NULL && same_tree(text, tree);
        cJSON_Delete(tree);
        CHECK(same);
        compared++;
    }
    CHECK(compared > 10000);
}

// Ids are passed over many at a time, but only where they are elements.
TEST(refuses_members_without_names_however_many)
{
    char bytes[1000];
    struct text text = text_over(bytes, sizeof(bytes));
    text_add_str(&text, "{\"a\":1");
    for (int i = 0; i < 100; i++) {
        text_add_str(&text, ",12");
    }
    text_add_str(&text, ",\"long enough that vectors would go on up to here\":"
                        "\"and no number would be left for a closer look\"}");
    CHECK_EQ(verdict(text_slice(&text)), STATUS_MALFORMED);
    CHECK(agrees_with_twin(text_slice(&text)));
}

// With an unmapped page behind the last byte, reading one too many is a crash.
TEST(nothing_is_read_past_the_end)
{
    const size_t page = 4096;
    static uint8_t document[document_size_max];
    static const char *const names[] = {"model"};
    uint8_t *pages =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK_EQ(mprotect(pages + page, page, PROT_NONE), 0);
    struct rng rng = {.state = 5};
    uint32_t refused = 0;

    for (int round = 0; round < 300; round++) {
        // First one with the longest items that are read in one go.
        static const char longest[] = "{\"a\": 0, \"123456789012345\": \"123456789012345\", "
                                      "\"123456789012345\": 1234567, \"1\": false, \"2\": null}";
        memcpy(document, longest, sizeof(longest));
        size_t whole = round == 0 ? sizeof(longest) - 1 : random_document(document, &rng);
        for (size_t size = 0; size <= whole; size++) {
            uint8_t *copy = pages + page - size;
            memcpy(copy, document, size);
            struct json_value found;
            refused += verdict(slice_of(copy, size)) != STATUS_OK;
            refused += json_find(slice_of(copy, size), names, 1, &found) != STATUS_OK;
        }
    }
    CHECK(refused > 1000);
    CHECK_EQ(munmap(pages, 2 * page), 0);
}
