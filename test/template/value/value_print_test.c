// SPDX-License-Identifier: Apache-2.0
//
// The expected values were printed by Python 3.11.

#include "base/rng.h"
#include "template/value/value_fixture.h"

#include <math.h>
#include <stdlib.h>

static const char *float_text(double number)
{
    struct value value = value_float(number);
    return repr_of(&value);
}

TEST(floats_are_the_shortest_digits_that_read_back)
{
    CHECK_STR(float_text(0.1), "0.1");
    CHECK_STR(float_text(0.1 + 0.2), "0.30000000000000004");
    CHECK_STR(float_text(1e22), "1e+22");
    CHECK_STR(float_text(5e-324), "5e-324");
    CHECK_STR(float_text(1.7976931348623157e308), "1.7976931348623157e+308");
    CHECK_STR(float_text(2.2250738585072014e-308), "2.2250738585072014e-308");
    CHECK_STR(float_text(2.225073858507201e-308), "2.225073858507201e-308");
    CHECK_STR(float_text(4.9406564584124654e-310), "4.94065645841247e-310");
    CHECK_STR(float_text(1.23e-320), "1.23e-320");
    CHECK_STR(float_text(0x1p-1050), "8.289046e-317");
    CHECK_STR(float_text(0x1p-1070), "8e-323");
    CHECK_STR(float_text(0x1p-44), "5.684341886080802e-14");
    CHECK_STR(float_text(9007199254740993.0), "9007199254740992.0");
}

TEST(floats_have_an_exponent_where_python_prints_one)
{
    CHECK_STR(float_text(1e16), "1e+16");
    CHECK_STR(float_text(1e15), "1000000000000000.0");
    CHECK_STR(float_text(123456789012345678.0), "1.2345678901234568e+17");
    CHECK_STR(float_text(0.0001), "0.0001");
    CHECK_STR(float_text(0.00001), "1e-05");
    CHECK_STR(float_text(0.00012345), "0.00012345");
    CHECK_STR(float_text(1.5e-7), "1.5e-07");
    CHECK_STR(float_text(1.0), "1.0");
    CHECK_STR(float_text(-0.0), "-0.0");
    CHECK_STR(float_text(-12.5), "-12.5");
    CHECK_STR(float_text(INFINITY), "inf");
    CHECK_STR(float_text(-INFINITY), "-inf");
    CHECK_STR(float_text(NAN), "nan");
}

TEST(any_float_reads_back_as_itself)
{
    struct rng rng = {.state = 1};
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = rng_next(&rng);
        double number;
        memcpy(&number, &bits, sizeof(number));
        CHECK(!isfinite(number) || strtod(float_text(number), NULL) == number);
    }
}

TEST(strings_choose_their_quotes_and_escape_unprintable_characters)
{
    static const struct {
        const char *text;
        const char *repr;
    } samples[] = {
        {"", "''"},
        {"a\"b", "'a\"b'"},
        {"it's", "\"it's\""},
        {"it's \"x\"", "'it\\'s \"x\"'"},
        {"a\\b\n\t\r\x01\x7f", "'a\\\\b\\n\\t\\r\\x01\\x7f'"},
        {"\xc2\x85\xc2\xa0\xc2\xad", "'\\x85\\xa0\\xad'"},
        {"\xe2\x80\x8b\xe2\x80\xa8\xef\xbb\xbf", "'\\u200b\\u2028\\ufeff'"},
        {"\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80", "'\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80'"},
        {"\xf4\x8f\xbf\xbf\xee\x80\x80", "'\\U0010ffff\\ue000'"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        struct value value = str(samples[i].text);
        CHECK_STR(repr_of(&value), samples[i].repr);
    }
}

TEST(containers_print_as_in_python)
{
    fresh_room();
    struct value value = from_json("{\"a\": [1, 2.0, true, null, \"x\"], \"b\": {}, \"c\": [],"
                                   " \"d\": 123456789012345678901234567890}");
    CHECK_STR(repr_of(&value), "{'a': [1, 2.0, True, None, 'x'], 'b': {}, 'c': [], 'd': "
                               "123456789012345678901234567890}");
    value = from_json("[[1], [1, 2], []]");
    struct value_list *list = value_list_new(&fixture_room, 3);
    for (uint32_t i = 0; i < 3; i++) {
        list->items[i] = value.list->items[i];
        list->items[i].kind = VALUE_TUPLE;
    }
    value.list = list;
    CHECK_STR(repr_of(&value), "[(1,), (1, 2), ()]");
}

TEST(views_namespaces_and_safe_strings_print_their_names)
{
    fresh_room();
    struct value inner = from_json("[\"a\"]");
    struct value value = value_view(VALUE_DICT_KEYS, inner.list);
    CHECK_STR(repr_of(&value), "dict_keys(['a'])");
    struct value_dict *dict = value_dict_new(&fixture_room, 1);
    dict->members[0] = (struct value_member){str("x"), value_int(1)};
    struct value_space space = {.dict = dict, .capacity = 1};
    value = (struct value){.kind = VALUE_NAMESPACE, .space = &space};
    CHECK_STR(repr_of(&value), "<Namespace {'x': 1}>");
    value = (struct value){.kind = VALUE_STRING, .markup = true, .string = slice_str("x")};
    CHECK_STR(repr_of(&value), "Markup('x')");
}

TEST(str_of_a_string_is_itself_and_of_undefined_is_empty)
{
    fresh_room();
    char buffer[16];
    struct text text = text_over(buffer, sizeof(buffer));
    struct value value = str("it's");
    value_print(&value, &text);
    value = value_undefined(slice_str("x"));
    value_print(&value, &text);
    CHECK(slice_is(text_slice(&text), "it's"));
    CHECK_STR(repr_of(&value), "Undefined");
    value = value_bool(true);
    CHECK(slice_is(value_to_string(&fixture_room, &value), "True"));
}

TEST(values_that_contain_themselves_or_have_an_address_do_not_print)
{
    fresh_room();
    struct value_dict *dict = value_dict_new(&fixture_room, 1);
    struct value_space space = {.dict = dict, .capacity = 1};
    struct value value = {.kind = VALUE_NAMESPACE, .space = &space};
    dict->members[0] = (struct value_member){str("self"), value};
    CHECK_EQ(value_to_string(&fixture_room, &value).size, 0);
    CHECK_EQ(fixture_room.status, STATUS_TOO_LARGE);
    fresh_room();
    value = value_generator_new(&fixture_room, &value_no_items);
    CHECK_EQ(value_to_string(&fixture_room, &value).size, 0);
    CHECK_EQ(fixture_room.status, STATUS_TOO_LARGE);
}
