// SPDX-License-Identifier: Apache-2.0
//
// The expected values were written and read by Python 3.11's json.

#include "template/value/value_fixture.h"

static const char *rewritten(const char *json, const struct value_json_style *style)
{
    static char buffer[8192];
    fresh_room();
    struct value value = from_json(json);
    struct text text = text_over(buffer, sizeof(buffer) - 1);
    if (!value_to_json(&fixture_room, &value, style, &text)) {
        return fixture_room.error;
    }
    buffer[text.size] = '\0';
    return buffer;
}

static const struct value_json_style one_line = {.indent = -1};

TEST(numbers_are_read_and_written_as_python_does)
{
    CHECK_STR(rewritten("[1E5, 1e400, -1e400, -0, -0.0, 1.0, 0.00001, 1e16, 123456789012345678901]",
                        &one_line),
              "[100000.0, Infinity, -Infinity, 0, -0.0, 1.0, 1e-05, 1e+16, 123456789012345678901]");
    CHECK_STR(
        rewritten("[9223372036854775807, -9223372036854775808, 9223372036854775808]", &one_line),
        "[9223372036854775807, -9223372036854775808, 9223372036854775808]");
    fresh_room();
    CHECK_EQ(from_json("-9223372036854775808").kind, VALUE_INT);
    CHECK_EQ(from_json("9223372036854775808").kind, VALUE_BIG_INT);
    CHECK_EQ(from_json("-9223372036854775809").kind, VALUE_BIG_INT);
}

TEST(a_repeated_key_keeps_its_first_place_and_last_value)
{
    CHECK_STR(rewritten("{\"a\": 1, \"b\": 2, \"a\": 3, \"\\u0061\": 4}", &one_line),
              "{\"a\": 4, \"b\": 2}");
    // The same with more keys than are compared one by one.
    static char json[20000];
    struct text text = text_over(json, sizeof(json) - 1);
    text_add_str(&text, "{");
    for (int i = 0; i < 1000; i++) {
        text_add_format(&text, "\"%d\": %d, ", i * 7 % 400, i);
    }
    text_add_str(&text, "\"last\": 0}");
    json[text.size] = '\0';
    fresh_room();
    struct value value = from_json(json);
    CHECK_EQ(value.dict->count, 401);
    for (int i = 0; i < 400; i++) {
        uint64_t written = 0;
        CHECK(slice_parse_u64(value.dict->members[i].key.string, &written));
        CHECK_EQ(written, i * 7 % 400);
        CHECK_EQ(value.dict->members[i].value.integer, i < 200 ? i + 800 : i + 400);
    }
}

TEST(strings_escape_quotes_controls_and_on_request_unicode)
{
    const char *json =
        "\"\\u0000\\b\\f\\n\\r\\t\\u001f \\\"\\\\/ <>&' \x7f \xc3\xa9 \\ud83d\\ude00\"";
    CHECK_STR(rewritten(json, &one_line), "\"\\u0000\\b\\f\\n\\r\\t\\u001f \\\"\\\\/ <>&' \x7f "
                                          "\xc3\xa9 \xf0\x9f\x98\x80\"");
    CHECK_STR(rewritten(json, &(struct value_json_style){.indent = -1, .ensure_ascii = true}),
              "\"\\u0000\\b\\f\\n\\r\\t\\u001f \\\"\\\\/ <>&' \\u007f \\u00e9 \\ud83d\\ude00\"");
}

TEST(an_indent_breaks_lines_but_not_in_empty_containers)
{
    CHECK_STR(rewritten("{\"a\": [1, {}], \"b\": [], \"c\": {\"d\": null}}",
                        &(struct value_json_style){.indent = 2}),
              "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": [],\n  \"c\": {\n    \"d\": null\n  "
              "}\n}");
    CHECK_STR(rewritten("[1, [2]]", &(struct value_json_style){.indent = 0}), "[\n1,\n[\n2\n]\n]");
}

TEST(separators_can_be_set_and_keys_sorted)
{
    struct value_json_style style = {.indent = -1,
                                     .sort_keys = true,
                                     .item_separator = slice_str(","),
                                     .key_separator = slice_str(":")};
    CHECK_STR(rewritten("{\"b\": 1, \"a\": {\"z\": 1, \"Z\": 2}, \"\": 0, \"ab\": []}", &style),
              "{\"\":0,\"a\":{\"Z\":2,\"z\":1},\"ab\":[],\"b\":1}");
    style.key_separator = slice_of("", 0);
    CHECK_STR(rewritten("{\"b\": 1}", &style), "{\"b\"1}");
}

TEST(keys_of_other_kinds_become_strings_or_are_refused)
{
    fresh_room();
    struct value_dict *dict = value_dict_new(&fixture_room, 4);
    dict->members[0] = (struct value_member){value_int(1), value_none()};
    dict->members[1] = (struct value_member){value_bool(true), value_none()};
    dict->members[2] = (struct value_member){value_none(), value_none()};
    dict->members[3] = (struct value_member){value_float(1.5), value_none()};
    struct value value = {.kind = VALUE_DICT, .dict = dict};
    char buffer[100];
    struct text text = text_over(buffer, sizeof(buffer));
    CHECK(value_to_json(&fixture_room, &value, &one_line, &text));
    CHECK(slice_is(text_slice(&text),
                   "{\"1\": null, \"true\": null, \"null\": null, \"1.5\": null}"));
    dict->members[0].key = (struct value){.kind = VALUE_TUPLE, .list = from_json("[1]").list};
    CHECK(!value_to_json(&fixture_room, &value, &one_line, &text));
    CHECK_STR(fixture_room.error, "keys must be str, int, float, bool or None, not tuple");
}

TEST(values_that_json_does_not_have_are_refused)
{
    fresh_room();
    char buffer[100];
    struct text text = text_over(buffer, sizeof(buffer));
    struct value value = value_undefined(slice_str("x"));
    CHECK(!value_to_json(&fixture_room, &value, &one_line, &text));
    CHECK_STR(fixture_room.error, "Object of type Undefined is not JSON serializable");
}

static enum status read_status(struct slice json)
{
    struct value value;
    fresh_room();
    bool read = value_from_json(&fixture_room, json, &value);
    ASSERT(read == (fixture_room.status == STATUS_OK));
    ASSERT(fixture_arena.size == sizeof(fixture_memory));
    return fixture_room.status;
}

TEST(invalid_json_and_invalid_utf8_are_refused)
{
    static const char *const samples[] = {
        "",      "[1,]",        "{\"a\"}",  "NaN",
        "[1] 2", "\"\\ud800\"", "'a'",      "[\"\\udc00\\ud800\"]",
        "01",    "{\"a\": 1,}", "[1, nul]", "\"\xff\""};
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        CHECK_EQ(read_status(slice_str(samples[i])), STATUS_MALFORMED);
    }
}

TEST(reaching_a_limit_fails)
{
    static char deep[1000];
    memset(deep, '[', sizeof(deep));
    CHECK_EQ(read_status(slice_of(deep, sizeof(deep))), STATUS_TOO_LARGE);
    static char digits[4302];
    memset(digits, '1', sizeof(digits));
    CHECK_EQ(read_status(slice_of(digits, 4300)), STATUS_OK);
    CHECK_EQ(read_status(slice_of(digits, 4301)), STATUS_MALFORMED);
}

// It takes a microsecond to print one.
TEST(floats_take_many_steps)
{
    static const struct {
        const char *json;
        uint64_t steps;
        bool suffices;
    } samples[] = {
        {"[1, 2, 3, 4]", 20, true},
        {"[1.5, 2.5, 3.5, 4.5]", 250, false},
        {"[1.5, 2.5, 3.5, 4.5]", 270, true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        char space[100];
        struct text out = text_over(space, sizeof(space));
        struct value value;
        fresh_room();
        fixture_room.steps_left = samples[i].steps;
        CHECK_EQ(value_from_json(&fixture_room, slice_str(samples[i].json), &value),
                 samples[i].suffices);
        fresh_room();
        value = from_json(samples[i].json);
        fixture_room.steps_left = samples[i].steps;
        CHECK_EQ(value_to_json(&fixture_room, &value, &one_line, &out), samples[i].suffices);
    }
}

// Whether what was read, if anything, is all there, in a memory of that size.
static bool fits_or_fails(size_t size)
{
    fresh_room();
    fixture_arena.size = size;
    struct value value;
    const char *json = "[1, [2, 3, {\"a\": \"\\n\"}], [], 1.5, \"x\"]";
    bool read = value_from_json(&fixture_room, slice_str(json), &value);
    ASSERT(fixture_arena.size == size);
    return read ? strcmp(repr_of(&value), "[1, [2, 3, {'a': '\\n'}], [], 1.5, 'x']") == 0
                : fixture_room.status == STATUS_TOO_LARGE;
}

TEST(a_document_is_read_whole_or_not_at_all_at_every_size_of_the_memory)
{
    for (size_t size = 0; size < 1200; size++) {
        CHECK(fits_or_fails(size));
    }
}
