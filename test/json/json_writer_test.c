// SPDX-License-Identifier: Apache-2.0

#include "json/json_writer.h"

#include "json/json.h"
#include "test.h"

#include <math.h>

static char space[1024];
static struct text text;

static struct json_writer writer(void)
{
    text = text_over(space, sizeof(space));
    return json_writer_over(&text);
}

static const char *written(void)
{
    text_add(&text, slice_of("", 1));
    return text.overflow ? "(overflow)" : space;
}

TEST(commas_stand_between_items_and_nowhere_else)
{
    struct json_writer json = writer();

    json_begin_object(&json, NULL);
    json_begin_array(&json, "empty");
    json_end(&json);
    json_begin_array(&json, "ids");
    json_put_u64(&json, NULL, 1);
    json_put_u64(&json, NULL, UINT64_MAX);
    json_begin_object(&json, NULL);
    json_end(&json);
    json_end(&json);
    json_put_null(&json, "none");
    json_put_bool(&json, "yes", true);
    json_put_bool(&json, "no", false);
    json_end(&json);
    CHECK_STR(written(), "{\"empty\":[],\"ids\":[1,18446744073709551615,{}],\"none\":null,"
                         "\"yes\":true,\"no\":false}");
}

TEST(numbers_have_the_digits_that_were_asked_for)
{
    struct json_writer json = writer();

    json_begin_array(&json, NULL);
    json_put_number(&json, NULL, 1234567.8, 6);
    json_put_number(&json, NULL, 0.5, 6);
    json_put_fixed(&json, NULL, 0.5, 3);
    json_put_i64(&json, NULL, INT64_MIN);
    json_put_number(&json, NULL, (double)NAN, 6);
    json_put_fixed(&json, NULL, (double)INFINITY, 3);
    json_end(&json);
    CHECK_STR(written(), "[1.23457e+06,0.5,0.500,-9223372036854775808,null,null]");
}

TEST(strings_are_escaped_and_those_of_peers_become_valid)
{
    struct json_writer json = writer();

    json_begin_array(&json, NULL);
    json_put_string(&json, NULL, slice_str("a\"\\\n\x01\xc3\xa9"));
    json_put_str(&json, NULL, NULL);
    json_put_foreign(&json, NULL, slice_str("\xff\"\xc3\xa9\xc3"));
    json_put_foreign(&json, NULL, slice_str("whole"));
    json_put_format(&json, NULL, "%04x", 0xabU);
    json_begin_string(&json, NULL);
    text_add_escaped(&text, slice_str("two\t"));
    text_add_escaped(&text, slice_str("pieces"));
    json_end_string(&json);
    json_end(&json);
    CHECK_STR(written(), "[\"a\\\"\\\\\\n\\u0001\xc3\xa9\",null,\"?\\\"\xc3\xa9?\",\"whole\","
                         "\"00ab\",\"two\\u0009pieces\"]");
    struct json check = json_open(slice_str(space));
    CHECK_EQ(json_close(&check), STATUS_OK);
}

TEST(a_document_for_people_has_spaces_and_lines)
{
    struct json_writer json = writer();

    json = json_writer_spaced(&text);
    json_begin_object(&json, NULL);
    json_break_line(&json, 2);
    json_put_u64(&json, "seed", 1);
    json_put_u64(&json, "runs", 2);
    json_break_line(&json, 2);
    json_begin_array(&json, "points");
    json_break_line(&json, 4);
    json_put_u64(&json, NULL, 3);
    json_break_line(&json, 2);
    json_end(&json);
    json_break_line(&json, 0);
    json_end(&json);
    CHECK_STR(written(), "{\n  \"seed\": 1, \"runs\": 2,\n  \"points\": [\n    3\n  ]\n}");
}

TEST(a_caller_may_take_the_bytes_away_in_between)
{
    struct json_writer json = writer();

    json_begin_array(&json, NULL);
    json_put_u64(&json, NULL, 1);
    text.size = 0;
    json_put_u64(&json, NULL, 2);
    json_end(&json);
    CHECK_STR(written(), ",2]");
}

TEST(a_document_that_does_not_fit_says_so)
{
    char small[8];
    struct text few = text_over(small, sizeof(small));
    struct json_writer json = json_writer_over(&few);

    json_begin_object(&json, NULL);
    json_put_str(&json, "name", "too long for this");
    json_end(&json);
    CHECK(few.overflow);
}

TEST(the_deepest_nesting_keeps_its_brackets_apart)
{
    struct json_writer json = writer();

    for (unsigned i = 0; i < json_writer_depth_max; i++) {
        if (i % 2 == 0) {
            json_begin_object(&json, NULL);
        } else {
            json_begin_array(&json, "a");
        }
    }
    for (unsigned i = 0; i < json_writer_depth_max; i++) {
        json_end(&json);
    }
    struct json check = json_open(slice_str(written()));
    CHECK_EQ(json_close(&check), STATUS_OK);
}
