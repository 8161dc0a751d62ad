// SPDX-License-Identifier: Apache-2.0
//
// The expected values were computed by Python 3.11.

#include "template/builtin/builtin_fixture.h"

TEST(percent_formats_as_python_does)
{
    static const struct {
        const char *format;
        const char *operand;
        const char *expected;
    } rows[] = {
        {"%s and %r", "{\"$\": [\"a'b\", \"a'b\"]}", "'a\\'b and \"a\\'b\"'"},
        {"%d%%", "5", "'5%'"},
        {"%s", "[1, \"a\"]", "\"[1, 'a']\""},
        {"%s", "{\"a\": 1}", "\"{'a': 1}\""},
        {"%(a)s-%(b)05d", "{\"a\": null, \"b\": -42}", "'None--0042'"},
        {"%5s|%-5s|", "{\"$\": [\"\\u00e9\", \"\\u65e5\\u672c\"]}",
         "'    \xc3\xa9|\xe6\x97\xa5\xe6\x9c\xac   |'"},
        {"%.2s", "{\"$\": [\"\\u65e5\\u672c\\u8a9e\"]}", "'\xe6\x97\xa5\xe6\x9c\xac'"},
        {"%05d|%+d|% d|%x|%#x|%X|%o|%#o", "{\"$\": [42, 42, 42, 255, -255, 255, 8, 8]}",
         "'00042|+42| 42|ff|-0xff|FF|10|0o10'"},
        {"%.3f|%8.2f|%-8.2f|%e|%g|%G", "{\"$\": [3.14159, 2.5, 2.5, 12345.678, 1e-07, 1e+20]}",
         "'3.142|    2.50|2.50    |1.234568e+04|1e-07|1E+20'"},
        {"%d", "3.99", "'3'"},
        {"%d", "true", "'1'"},
        {"%d", "10000000000000000000000000", "'10000000000000000000000000'"},
        {"%5.1d", "{\"$\": [7]}", "'    7'"},
        {"%*d|%-*d|", "{\"$\": [5, 42, 4, 7]}", "'   42|7   |'"},
        {"%.*f", "{\"$\": [2, 3.14159]}", "'3.14'"},
        {"%c%c", "{\"$\": [\"\\u00e9\", 26085]}", "'\xc3\xa9\xe6\x97\xa5'"},
        {"%i %u", "{\"$\": [1, 2]}", "'1 2'"},
        {"%s", "{\"$\": [null]}", "'None'"},
        {"%08.3f", "{\"$\": [-3.14159]}", "'-003.142'"},
        {"%f", "{\"$\": [1e+300]}",
         "'1000000000000000052504760255204420248704468581108159154915854115511802457988908195786371"
         "37508044786404370444383288387817694252323536043057564479218478670698284838720092657580373"
         "78302337947880900593689532349707999450811190389676408800746527427801424945792587888200568"
         "42838115669472196386865459400540160.000000'"},
        {"%F %f", "{\"$\": [1.5, 2]}", "'1.500000 2.000000'"},
        {"%d", "1e+20", "'100000000000000000000'"},
        {"no fields", "[1]", "'no fields'"},
        {"no fields", "{\"a\": 1}", "'no fields'"},
        {"%s %s", "{\"$\": [\"a\"]}", "not enough arguments for format string"},
        {"%s", "{\"$\": [\"a\", \"b\"]}", "not all arguments converted during string formatting"},
        {"x", "5", "not all arguments converted during string formatting"},
        {"%d", "\"x\"", "%d format: a number is required, not str"},
        {"%(a)s", "{\"b\": 1}", "a key of the format is missing"},
        {"%(a)s", "5", "format requires a mapping"},
        {"%", "{\"$\": []}", "incomplete format"},
        {"%a", "{\"$\": [\"x\"]}", "the format 'a' is not implemented"},
        {"%z", "{\"$\": [1]}", "the format 'z' is not implemented"},
        {"%99999d", "{\"$\": [1]}", "a width of a format is too large"},
        {"%(a)s%s", "{\"a\": 1}", "not enough arguments for format string"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        fresh_room();
        struct value operand = with_tuples(from_json(rows[i].operand));
        struct value out = value_format_percent(&fixture_room, slice_str(rows[i].format), &operand);
        CHECK_STR(fixture_room.status == STATUS_OK ? repr_of(&out) : fixture_room.error,
                  rows[i].expected);
    }
}

TEST(braces_format_as_python_does)
{
    static const struct builtin_row rows[] = {
        {"format", "\"{} {}\"", "[\"a\", 1]", NULL, "'a 1'"},
        {"format", "\"{1} {0}\"", "[\"a\", \"b\"]", NULL, "'b a'"},
        {"format", "\"{x}\"", NULL, "{\"x\": null}", "'None'"},
        {"format", "\"{{}}\"", NULL, NULL, "'{}'"},
        {"format", "\"{!r} {!s}\"", "[\"a\", \"b\"]", NULL, "\"'a' b\""},
        {"format", "\"{:>5}|{:<5}|{:^5}|\"", "[\"a\", 1, \"b\"]", NULL, "'    a|1    |  b  |'"},
        {"format", "\"{:5}|{:5}|\"", "[\"a\", 1]", NULL, "'a    |    1|'"},
        {"format", "\"{:*^7}\"", "[\"\\u00e9\"]", NULL, "'***\xc3\xa9***'"},
        {"format", "\"{:05d} {:+d}\"", "[42, 7]", NULL, "'00042 +7'"},
        {"format", "\"{:.2f}\"", "[3.14159]", NULL, "'3.14'"},
        {"format", "\"{:.2}\"", "[\"\\u65e5\\u672c\\u8a9e\"]", NULL, "'\xe6\x97\xa5\xe6\x9c\xac'"},
        {"format", "\"{:>6}\"", "[true]", NULL, "'     1'"},
        {"format", "\"{}\"", "[[1, \"x\"]]", NULL, "\"[1, 'x']\""},
        {"format", "\"{}\"", "[1.0]", NULL, "'1.0'"},
        {"format", "\"{:8.1f}|\"", "[2.25]", NULL, "'     2.2|'"},
        {"format", "\"{:d}\"", "[100000000000000000000]", NULL, "'100000000000000000000'"},
        {"format", "\"{}\"", NULL, NULL,
         "Replacement index 0 out of range for positional args tuple"},
        {"format", "\"{} {0}\"", "[1]", NULL,
         "cannot switch between automatic and manual field numbering"},
        {"format", "\"}\"", NULL, NULL, "Single '}' encountered in format string"},
        {"format", "\"{a}\"", NULL, NULL, "a name of the format is missing"},
        {"format", "\"{\"", NULL, NULL,
         "Replacement index 0 out of range for positional args tuple"},
        {"format", "\"{0\"", "[1]", NULL,
         "a field of the format has no end, or is not implemented"},
        {"format", "\"{0.real}\"", "[1]", NULL,
         "attributes and indices in format fields are not implemented"},
        {"format", "\"{:,}\"", "[1000]", NULL,
         "this format of a value of type int is not implemented"},
        {"format", "\"{:>5}\"", "[null]", NULL,
         "this format of a value of type NoneType is not implemented"},
        {"format", "\"{:x}\"", "[255]", NULL,
         "this format of a value of type int is not implemented"},
    };
    check_methods(rows, ARRAY_COUNT(rows));
}

TEST(undefined_values_format_as_empty_strings)
{
    fresh_room();
    struct value operand = value_undefined(slice_str("x"));
    struct value out = value_format_percent(&fixture_room, slice_str("<%s>"), &operand);
    CHECK_STR(repr_of(&out), "'<>'");
    CHECK_EQ(fixture_room.status, STATUS_OK);
    (void)value_format_percent(&fixture_room, slice_str("<%d>"), &operand);
    CHECK_STR(fixture_room.error, "%d format: a number is required, not Undefined");
}

TEST(a_format_that_does_not_fit_into_the_memory_is_too_large)
{
    for (size_t size = 0; size < 200; size++) {
        fresh_room();
        struct value operand =
            with_tuples(from_json("{\"$\": [[1, 2, \"\xe6\x97\xa5\"], \"abc\", 7]}"));
        size_t used = fixture_arena.used;
        fixture_arena.size = used + size;
        struct value out =
            value_format_percent(&fixture_room, slice_str("%30s|%-20r|%010d"), &operand);
        CHECK_EQ(fixture_room.status, out.string.size > 0 ? STATUS_OK : STATUS_TOO_LARGE);
        CHECK(fixture_arena.used <= used + size);
    }
}
