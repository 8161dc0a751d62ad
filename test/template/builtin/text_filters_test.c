// SPDX-License-Identifier: Apache-2.0
//
// The expected values were computed by Jinja 3.1.6 with Python 3.11.

#include "template/builtin/builtin_fixture.h"

TEST(case_filters_take_printed_values)
{
    static const struct builtin_row rows[] = {
        {"upper", "\"stra\\u00dfe\"", NULL, NULL, "'STRASSE'"},
        {"lower", "\"\\u00c0\\u00c9\"", NULL, NULL, "'\xc3\xa0\xc3\xa9'"},
        {"capitalize", "\"hELLO wORLD\"", NULL, NULL, "'Hello world'"},
        {"upper", "true", NULL, NULL, "'TRUE'"},
        {"lower", "[\"A\"]", NULL, NULL, "\"['a']\""},
        {"upper", NULL, NULL, NULL, "''"},
        {"title", "\"they're e-mail (foo) <bar>  baz\"", NULL, NULL,
         "\"They're E-Mail (Foo) <Bar>  Baz\""},
        {"title", "\"\\u0391\\u03a3 \\u03a3\\u03a3\"", NULL, NULL,
         "'\xce\x91\xcf\x83 \xce\xa3\xcf\x83'"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(trim_removes_white_space_as_python_defines_it)
{
    static const struct builtin_row rows[] = {
        {"trim", "\" \\n\\u001c\\u0085\\u3000x \\u200b\\t\"", NULL, NULL, "'x \\u200b'"},
        {"trim", "\"xxaxx\"", "[\"x\"]", NULL, "'a'"},
        {"trim", "\"\\u00e9a\\u00e9\\u65e5\"", "[\"\\u65e5\\u00e9\"]", NULL, "'a'"},
        {"trim", "\"  a  \"", "[null]", NULL, "'a'"},
        {"trim", "\" a \"", "[\"\"]", NULL, "' a '"},
        {"trim", "12", NULL, NULL, "'12'"},
        {"trim", NULL, NULL, NULL, "''"},
        {"trim", "\"\"", NULL, NULL, "''"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(the_filter_replace_is_that_of_strings)
{
    static const struct builtin_row rows[] = {
        {"replace", "\"aaa\"", "[\"a\", \"b\"]", NULL, "'bbb'"},
        {"replace", "\"aaa\"", "[\"a\", \"b\", 2]", NULL, "'bba'"},
        {"replace", "\"ab\"", "[\"\", \"-\"]", NULL, "'-a-b-'"},
        {"replace", "\"ab\"", "[\"\", \"-\", 2]", NULL, "'-a-b'"},
        {"replace", "\"\\u00e9\\u65e5\"", "[\"\\u65e5\", \"x\"]", NULL, "'\xc3\xa9x'"},
        {"replace", "123", "[2, 9]", NULL, "'193'"},
        {"replace", "\"aXbX\"", "[\"X\", \"\"]", NULL, "'ab'"},
        {"replace", "\"a\"", "[\"b\", \"c\", 0]", NULL, "'a'"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(indent_leaves_the_first_line_and_empty_ones)
{
    static const struct builtin_row rows[] = {
        {"indent", "\"a\\nb\\n\\nc\"", NULL, NULL, "'a\\n    b\\n\\n    c'"},
        {"indent", "\"a\\nb\\n\\nc\"", "[2, true]", NULL, "'  a\\n  b\\n\\n  c'"},
        {"indent", "\"a\\n\\nb\"", "[2]", "{\"blank\": true}", "'a\\n  \\n  b'"},
        {"indent", "\"a\\r\\nb\\u000bc\\u2028d\\n\"", "[\"> \"]", NULL, "'a\\n> b\\n> c\\n> d\\n'"},
        {"indent", "\"\"", NULL, NULL, "''"},
        {"indent", "\"\\n\"", "[2, true, true]", NULL, "'  \\n  '"},
        {"indent", "\"a\\nb\"", "[-1]", NULL, "'a\\nb'"},
        {"indent", "5", NULL, NULL, "must be str, not int"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(truncate_cuts_at_words)
{
    static const struct builtin_row rows[] = {
        {"truncate", "\"foo bar baz qux\"", "[9]", NULL, "'foo...'"},
        {"truncate", "\"foo bar baz qux\"", "[9, true]", NULL, "'foo ba...'"},
        {"truncate", "\"foo bar baz qux\"", "[11]", NULL, "'foo bar baz qux'"},
        {"truncate", "\"foo bar baz qux\"", "[11, false, \"...\", 0]", NULL, "'foo bar...'"},
        {"truncate", "\"\\u65e5\\u672c\\u8a9e\\u65e5\\u672c\\u8a9e\"", "[4, false, \"\", 0]", NULL,
         "'\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5'"},
        {"truncate", "\"x\"", "[1]", NULL, "expected length >= 3, and leeway >= 0"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(string_prints_values_and_center_pads_them)
{
    static const struct builtin_row rows[] = {
        {"string", "1.0", NULL, NULL, "'1.0'"},
        {"string", "[1, \"a\"]", NULL, NULL, "\"[1, 'a']\""},
        {"string", "null", NULL, NULL, "'None'"},
        {"center", "\"ab\"", "[5]", NULL, "'  ab '"},
        {"center", "\"ab\"", "[6]", NULL, "'  ab  '"},
        {"center", "\"\\u00e9\"", "[3]", NULL, "' \xc3\xa9 '"},
        {"center", "\"abc\"", "[1]", NULL, "'abc'"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(tojson_writes_as_transformers_does)
{
    static const struct builtin_row rows[] = {
        {"tojson", "{\"b\": \"\\u00e9<>\", \"a\": [1, 1.0, null]}", NULL, NULL,
         "'{\"b\": \"\xc3\xa9<>\", \"a\": [1, 1.0, null]}'"},
        {"tojson", "{\"b\": 1, \"a\": []}", NULL, "{\"indent\": 2}",
         "'{\\n  \"b\": 1,\\n  \"a\": []\\n}'"},
        {"tojson", "\"\\u00e9\"", NULL, "{\"ensure_ascii\": true}", "'\"\\\\u00e9\"'"},
        {"tojson", "{\"b\": 1, \"a\": 2}", NULL,
         "{\"sort_keys\": true, \"separators\": {\"$\": [\",\", \":\"]}}", "'{\"a\":2,\"b\":1}'"},
        {"tojson", "[1, 2]", NULL, "{\"indent\": -1}", "'[\\n1,\\n2\\n]'"},
        {"tojson", "[1, {\"a\": 2}]", NULL, "{\"separators\": {\"$\": [\"\", \"\"]}}",
         "'[1{\"a\"2}]'"},
        {"tojson", "[1, 2]", "[false, 4]", NULL, "'[\\n    1,\\n    2\\n]'"},
        {"tojson", NULL, NULL, NULL, "Object of type Undefined is not JSON serializable"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(from_json_compiles_and_fails_when_it_runs)
{
    static const struct builtin_row rows[] = {
        {"from_json", "\"[1]\"", NULL, NULL, "No filter named 'from_json' found."},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(the_filter_format_is_the_percent_operator)
{
    static const struct builtin_row rows[] = {
        {"format", "\"%s, %s!\"", "[\"a\", 1]", NULL, "'a, 1!'"},
        {"format", "\"%(x)s\"", NULL, "{\"x\": null}", "'None'"},
        {"format", "\"%s\"", NULL, NULL, "not enough arguments for format string"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(urls_are_encoded_and_words_counted)
{
    static const struct builtin_row rows[] = {
        {"urlencode", "\"a b/\\u00e9?&~_.-\"", NULL, NULL, "'a%20b/%C3%A9%3F%26~_.-'"},
        {"wordcount", "\"foo bar-baz \\u00e9_1 \\u65e5\\u672c !?\"", NULL, NULL, "5"},
        {"wordcount", "\"\"", NULL, NULL, "0"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

TEST(unknown_arguments_are_refused)
{
    static const struct builtin_row rows[] = {
        {"replace", "\"a\"", NULL, NULL, "replace() misses an argument"},
        {"trim", "\"a\"", "[1]", NULL, "must be str, not int"},
    };
    check_filters(rows, ARRAY_COUNT(rows));
}

static bool apply(const char *name, const struct value *subject, struct value *out)
{
    struct call_arguments none = {0};
    return builtin_run(builtin_filter(slice_str(name)), &fixture_room, subject, &none, out);
}

TEST(safe_strings_stay_safe_or_are_refused)
{
    fresh_room();
    struct value value = str(" a<b ");
    struct value safe;
    CHECK(apply("safe", &value, &safe));
    CHECK(safe.markup);
    CHECK(apply("trim", &safe, &value));
    CHECK_STR(repr_of(&value), "Markup('a<b')");
    CHECK(apply("length", &safe, &value));
    CHECK_EQ(value.integer, 5);
    CHECK(!apply("indent", &safe, &value));
    CHECK_EQ(fixture_room.status, STATUS_MALFORMED);
}

TEST(filters_that_copy_take_steps_and_memory_within_bounds)
{
    static uint8_t bytes[100000];
    memset(bytes, 'a', sizeof(bytes));
    struct value subject = value_string(slice_of(bytes, sizeof(bytes)));
    struct value out;
    fresh_room();
    fixture_room.steps_left = 100;
    CHECK(!apply("upper", &subject, &out));
    CHECK_EQ(fixture_room.status, STATUS_TOO_LARGE);
    fresh_room();
    fixture_arena.size = 50000;
    CHECK(!apply("upper", &subject, &out));
    CHECK_EQ(fixture_room.status, STATUS_TOO_LARGE);
}
