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
    CHECK(builtin_filter(slice_str("d"))->call == builtin_filter(slice_str("default"))->call);
}

TEST(what_jinja_has_and_we_do_not_is_known_by_name_only)
{
    CHECK(builtin_is_filter_name(slice_str("groupby")));
    CHECK(builtin_filter(slice_str("groupby")) == NULL);
    CHECK(builtin_is_filter_name(slice_str("upper")));
    CHECK(!builtin_is_filter_name(slice_str("nothing")));
}

static const struct signature signature = {"f", 1, 3, {"a", "b", ""}};

static struct value values[4];

static bool bind(uint32_t count, uint32_t named_count, const char *first_name,
                 const struct value **out)
{
    static struct slice names[4];
    names[0] = slice_str(first_name);
    struct call_arguments arguments = {values, count, names, named_count};
    fresh_room();
    return builtin_bind(&fixture_room, &signature, &arguments, out);
}

TEST(arguments_find_their_parameters_by_place_and_by_name)
{
    const struct value *out[3];
    CHECK(bind(2, 1, "b", out));
    CHECK(out[0] == &values[0] && out[1] == &values[1] && out[2] == NULL);
    CHECK(bind(3, 0, "", out));
    CHECK(out[2] == &values[2]);
    CHECK(!bind(1, 1, "b", out));
    CHECK_STR(fixture_room.error, "f() misses an argument");
    CHECK(!bind(2, 1, "a", out));
    CHECK_STR(fixture_room.error, "f() got multiple values for argument 'a'");
    CHECK(!bind(2, 1, "", out));
    CHECK_STR(fixture_room.error, "f() got an unexpected keyword argument ''");
    CHECK(!bind(4, 0, "", out));
    CHECK_STR(fixture_room.error, "f() takes at most 3 arguments (4 given)");
}

static const char *attribute(const char *item, const char *name, const char *otherwise)
{
    struct value value = from_json(item);
    struct value path = from_json(name);
    struct value other = otherwise != NULL ? from_json(otherwise) : value_none();
    struct value out;
    if (!builtin_attribute(&fixture_room, &value, &path, &other, &out)) {
        return fixture_room.error;
    }
    return repr_of(&out);
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
    // Digits are a number, and there is no such key.
    CHECK_STR(attribute(item, "\"0\"", NULL), "Undefined");
    CHECK_STR(attribute("[1, 2]", "-1", NULL), "2");
    CHECK_STR(attribute(item, "null", NULL), "{'a': {'b': [10, 20]}, '0': 1, 's': '\xc3\xa9x'}");
    CHECK_STR(attribute(item, "\"zz.b\"", NULL), "'zz' is undefined");
    fresh_room();
    CHECK_STR(attribute(item, "\"__class__\"", NULL),
              "attribute '__class__' of 'dict' is not implemented");
}
