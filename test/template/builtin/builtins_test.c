// SPDX-License-Identifier: Apache-2.0

#include "template/builtin/builtins_internal.h"
#include "template/value/value_fixture.h"

TEST(names_are_found_among_their_own_kind)
{
    CHECK(builtin_filter(slice_str("tojson")) != NULL);
    CHECK(builtin_filter(slice_str("defined")) == NULL);
    CHECK(builtin_filter(slice_str("")) == NULL);
    CHECK(builtin_test(slice_str("defined")) != NULL);
    CHECK(builtin_test(slice_str("tojson")) == NULL);
    CHECK(builtin_method(VALUE_STRING, slice_str("split")) != NULL);
    CHECK(builtin_method(VALUE_DICT, slice_str("split")) == NULL);
    CHECK(builtin_method(VALUE_DICT, slice_str("items")) != NULL);
    CHECK(builtin_filter(slice_str("d")) != builtin_filter(slice_str("default")));
    CHECK(builtin_filter(slice_str("d"))->run == builtin_filter(slice_str("default"))->run);
}

TEST(filters_that_only_jinja_has_are_known_by_name_only)
{
    CHECK(builtin_is_filter_name(slice_str("groupby")));
    CHECK(builtin_filter(slice_str("groupby")) == NULL);
    CHECK(builtin_is_filter_name(slice_str("upper")));
    CHECK(!builtin_is_filter_name(slice_str("nothing")));
}

static const struct value *bound[3];

static bool keep_bound(const struct builtin_call *call)
{
    memcpy(bound, call->given, sizeof(bound));
    return true;
}

static struct value values[4];

static bool bind(uint32_t count, uint32_t named_count, const char *first_name)
{
    static const struct builtin builtin = {
        .name = {(const uint8_t *)"f", 1},
        .run = keep_bound,
        .required = 1,
        .parameters = {"a", "b", ""},
    };
    static struct slice names[4];
    names[0] = slice_str(first_name);
    struct call_arguments arguments = {values, count, names, named_count};
    struct value subject = value_none();
    struct value out;
    fresh_room();
    return builtin_run(&builtin, &fixture_room, &subject, &arguments, &out);
}

TEST(arguments_find_their_parameters_by_place_and_by_name)
{
    CHECK(bind(2, 1, "b"));
    CHECK(bound[0] == &values[0] && bound[1] == &values[1] && bound[2] == NULL);
    CHECK(bind(3, 0, ""));
    CHECK(bound[2] == &values[2]);
    CHECK(!bind(1, 1, "b"));
    CHECK_STR(fixture_room.error, "f() misses an argument");
    CHECK(!bind(2, 1, "a"));
    CHECK_STR(fixture_room.error, "f() got multiple values for argument 'a'");
    CHECK(!bind(2, 1, ""));
    CHECK_STR(fixture_room.error, "f() got an unexpected keyword argument ''");
    CHECK(!bind(4, 0, ""));
    CHECK_STR(fixture_room.error, "f() takes at most 3 arguments (4 given)");
}

TEST(a_builtin_without_parameters_takes_no_arguments)
{
    struct call_arguments arguments = {.values = values, .count = 1};
    struct value subject = value_string(slice_str("x"));
    struct value out;
    fresh_room();
    CHECK(!builtin_run(builtin_filter(slice_str("upper")), &fixture_room, &subject, &arguments,
                       &out));
    CHECK_STR(fixture_room.error, "upper() takes no arguments (1 given)");
}

TEST(a_safe_string_is_refused_where_it_would_escape_arguments)
{
    struct call_arguments arguments = {0};
    struct value subject = value_string(slice_str("x"));
    struct value out;
    subject.markup = true;
    fresh_room();
    CHECK(
        builtin_run(builtin_filter(slice_str("upper")), &fixture_room, &subject, &arguments, &out));
    CHECK(out.markup);
    CHECK(!builtin_run(builtin_method(VALUE_STRING, slice_str("upper")), &fixture_room, &subject,
                       &arguments, &out));
}

static const char *attribute(const char *item, const char *name, const char *otherwise)
{
    struct value value = from_json(item);
    struct value path = from_json(name);
    struct value other = otherwise != NULL ? from_json(otherwise) : value_none();
    struct value out = builtin_attribute(&fixture_room, &value, &path, &other);
    return fixture_room.status == STATUS_OK ? repr_of(&out) : fixture_room.error;
}

TEST(attributes_are_paths_of_names_and_numbers)
{
    fresh_room();
    const char *item = "{\"a\": {\"b\": [10, 20]}, \"0\": 1, \"s\": \"\xc3\xa9x\"}";
    CHECK_STR(attribute(item, "\"a.b.1\"", NULL), "20");
    CHECK_STR(attribute(item, "\"s.0\"", NULL), "'\xc3\xa9'");
    CHECK_STR(attribute(item, "\"a.b.7\"", NULL), "Undefined");
    CHECK_STR(attribute(item, "\"zz\"", NULL), "Undefined");
    CHECK_STR(attribute(item, "\"zz\"", "5"), "5");
    // Digits are a number, which the dict does not have as a key.
    CHECK_STR(attribute(item, "\"0\"", NULL), "Undefined");
    CHECK_STR(attribute("[1, 2]", "-1", NULL), "2");
    CHECK_STR(attribute(item, "null", NULL), "{'a': {'b': [10, 20]}, '0': 1, 's': '\xc3\xa9x'}");
    CHECK_STR(attribute(item, "\"zz.b\"", NULL), "'zz' is undefined");
    fresh_room();
    CHECK_STR(attribute(item, "\"__class__\"", NULL),
              "attribute '__class__' of 'dict' is not implemented");
}
