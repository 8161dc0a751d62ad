// SPDX-License-Identifier: Apache-2.0

#include "template/value/value.h"

#include "test.h"

#include <math.h>

static _Alignas(16) uint8_t memory[1 << 20];
static struct arena arena;
static struct value_room room;

static struct value_room *fresh(void)
{
    arena = arena_over(memory, sizeof(memory));
    room = (struct value_room){.arena = &arena, .steps_left = 1000000};
    return &room;
}

static struct value str(const char *text)
{
    return value_string(slice_str(text));
}

static struct value big(const char *digits)
{
    return (struct value){.kind = VALUE_BIG_INT, .string = slice_str(digits)};
}

static struct value list_of(enum value_kind kind, const struct value *items, uint32_t count)
{
    struct value_list *list = value_list_new(&room, count);
    for (uint32_t i = 0; i < count; i++) {
        list->items[i] = items[i];
    }
    return (struct value){.kind = kind, .list = list};
}
#define LIST(...)                                                                                  \
    list_of(VALUE_LIST, (const struct value[]){__VA_ARGS__},                                       \
            sizeof((const struct value[]){__VA_ARGS__}) / sizeof(struct value))
#define TUPLE(...)                                                                                 \
    list_of(VALUE_TUPLE, (const struct value[]){__VA_ARGS__},                                      \
            sizeof((const struct value[]){__VA_ARGS__}) / sizeof(struct value))

static bool equal(struct value a, struct value b)
{
    bool forward = value_equal(&a, &b);
    ASSERT(value_equal(&b, &a) == forward);
    return forward;
}

static int order(struct value a, struct value b)
{
    int forward = 9;
    int backward = 9;
    ASSERT(value_compare(&room, &a, &b, &forward) && value_compare(&room, &b, &a, &backward));
    ASSERT(forward == -backward);
    return forward;
}

TEST(numbers_are_equal_by_their_exact_value_across_kinds)
{
    fresh();
    CHECK(equal(value_int(1), value_bool(true)));
    CHECK(equal(value_int(1), value_float(1.0)));
    CHECK(equal(value_float(0.0), value_float(-0.0)));
    CHECK(!equal(value_int((1LL << 53) + 1), value_float(0x1p53)));
    CHECK(equal(big("10000000000000000000000"), value_float(1e22)));
    CHECK(!equal(big("10000000000000000000001"), value_float(1e22)));
    CHECK(!equal(value_float(NAN), value_float(NAN)));
    CHECK(!equal(value_int(0), value_none()));
    CHECK(!equal(value_int(0), str("0")));
}

TEST(numbers_are_ordered_by_their_exact_value_across_kinds)
{
    fresh();
    CHECK_EQ(order(value_int((1LL << 53) + 1), value_float(0x1p53)), 1);
    CHECK_EQ(order(value_int(-3), value_float(-2.5)), -1);
    CHECK_EQ(order(value_int(-2), value_float(-2.5)), 1);
    CHECK_EQ(order(value_int(INT64_MAX), value_float(0x1p63)), -1);
    CHECK_EQ(order(value_int(INT64_MIN), value_float(-0x1p63)), 0);
    CHECK_EQ(order(big("9223372036854775808"), value_int(INT64_MAX)), 1);
    CHECK_EQ(order(big("-9223372036854775809"), value_float(-0x1p63)), -1);
    CHECK_EQ(order(big("99999999999999999999"), big("100000000000000000000")), -1);
    CHECK_EQ(order(big("-99999999999999999999"), big("-100000000000000000000")), 1);
    CHECK_EQ(order(big("100000000000000000000"), value_float(INFINITY)), -1);
}

TEST(strings_are_ordered_by_code_point_and_lists_by_the_first_difference)
{
    fresh();
    CHECK_EQ(order(str("\xef\xbf\xbd"), str("\xf0\x9f\x98\x80")), -1);
    CHECK_EQ(order(str("ab"), str("abc")), -1);
    CHECK_EQ(order(LIST(value_int(1), value_int(2)), LIST(value_int(1), value_int(3))), -1);
    CHECK_EQ(order(LIST(value_int(1), str("a")), LIST(value_float(1.0))), 1);
    CHECK_EQ(order(LIST(value_none(), value_int(1)), LIST(value_none(), value_int(2))), -1);
}

TEST(what_has_no_order_says_so_as_python_does)
{
    int out = 0;
    struct value a = str("x");
    struct value b = value_int(1);
    CHECK(!value_compare(fresh(), &a, &b, &out));
    CHECK_EQ(room.status, STATUS_MALFORMED);
    CHECK_STR(room.error, "'<' not supported between instances of 'str' and 'int'");
}

TEST(lists_and_tuples_differ_and_undefined_equals_itself_only)
{
    fresh();
    CHECK(!equal(LIST(value_int(1)), TUPLE(value_int(1))));
    CHECK(equal(LIST(value_int(1), LIST(str("a"))), LIST(value_float(1), LIST(str("a")))));
    CHECK(equal(value_undefined(slice_str("a")), value_undefined(slice_str("b"))));
    CHECK(!equal(value_undefined(slice_str("a")), value_none()));
}

TEST(values_that_are_nested_too_deep_or_shared_too_often_end)
{
    fresh();
    struct value a = LIST(value_int(1));
    struct value b = LIST(value_int(1));
    for (int i = 0; i < 40; i++) {
        a = LIST(a, a);
        b = LIST(b, b);
    }
    bool out = false;
    CHECK(!value_equals(&room, &a, &b, &out));
    CHECK_EQ(room.status, STATUS_TOO_LARGE);

    fresh();
    a = b = value_int(1);
    for (int i = 0; i < 1000; i++) {
        a = LIST(a);
        b = LIST(b);
    }
    CHECK(!value_equals(&room, &a, &b, &out));
    CHECK_EQ(room.status, STATUS_TOO_LARGE);
    CHECK(!value_compare(fresh(), &a, &b, &(int){0}));
    CHECK_EQ(room.status, STATUS_TOO_LARGE);
}

static struct value sample_dict(void)
{
    struct value_dict *dict = value_dict_new(&room, 3);
    dict->members[0] = (struct value_member){str("a"), value_int(1)};
    dict->members[1] = (struct value_member){value_int(1), str("one")};
    dict->members[2] = (struct value_member){TUPLE(value_int(1), str("x")), value_none()};
    return (struct value){.kind = VALUE_DICT, .dict = dict};
}

TEST(keys_that_are_equal_are_one_and_lists_are_none)
{
    fresh();
    struct value dict = sample_dict();
    const struct value *found = NULL;
    CHECK(value_dict_find(&room, dict.dict, &(struct value){.kind = VALUE_BOOL, .boolean = true},
                          &found));
    CHECK(found != NULL && equal(*found, str("one")));
    struct value tuple = TUPLE(value_float(1.0), str("x"));
    CHECK(value_dict_find(&room, dict.dict, &tuple, &found));
    CHECK(found != NULL && found->kind == VALUE_NONE);
    CHECK(value_dict_get(dict.dict, slice_str("b")) == NULL);
    struct value list = LIST(value_int(1));
    CHECK(!value_dict_find(&room, dict.dict, &list, &found));
    CHECK_STR(room.error, "unhashable type: 'list'");
}

static bool contains(struct value haystack, struct value needle)
{
    bool out = false;
    return value_contains(&room, &haystack, &needle, &out) && out;
}

TEST(in_looks_into_strings_lists_keys_and_nothing)
{
    fresh();
    CHECK(contains(str("abc"), str("bc")));
    CHECK(contains(str(""), str("")));
    CHECK(!contains(str("abc"), str("ac")));
    CHECK(contains(LIST(value_int(1), str("a")), value_float(1.0)));
    CHECK(contains(sample_dict(), str("a")));
    CHECK(!contains(sample_dict(), value_none()));
    CHECK(!contains(value_undefined(slice_str("x")), str("a")));
    CHECK_EQ(room.status, STATUS_OK);
    CHECK(!contains(str("abc"), value_int(1)));
    CHECK_STR(room.error, "'in <string>' requires string as left operand, not int");
    fresh();
    CHECK(!contains(value_none(), value_int(1)));
    CHECK_STR(room.error, "argument of type 'NoneType' is not iterable");
}

TEST(views_are_looked_into_and_not_compared)
{
    fresh();
    struct value keys;
    CHECK(value_view_new(&room, "dict_keys", LIST(str("a"), value_int(1)).list, &keys));
    CHECK(contains(keys, value_float(1.0)));
    CHECK(!contains(keys, str("b")));
    CHECK_EQ(room.status, STATUS_OK);
    CHECK(!contains(keys, LIST(value_int(1))));
    CHECK_STR(room.error, "unhashable type: 'list'");
    fresh();
    struct value others;
    bool out = false;
    CHECK(value_view_new(&room, "dict_keys", LIST(str("a")).list, &keys));
    CHECK(value_view_new(&room, "dict_keys", LIST(str("a")).list, &others));
    CHECK(value_equals(&room, &keys, &keys, &out) && out);
    CHECK(!value_equals(&room, &keys, &others, &out));
    CHECK_STR(room.error, "'dict_keys' == 'dict_keys' is not implemented");
}

TEST(a_generator_is_true_and_gone_through_once)
{
    fresh();
    struct value empty = {.kind = VALUE_LIST, .list = value_list_new(&room, 0)};
    struct value generator;
    CHECK(value_generator_new(&room, empty.list, &generator));
    CHECK(value_is_true(&generator));
    CHECK(!value_is_true(&empty));

    struct value list = LIST(value_int(1), value_int(2));
    CHECK(value_generator_new(&room, list.list, &generator));
    const struct value_list *items = NULL;
    CHECK(value_iterate(&room, &generator, &items));
    CHECK_EQ(items->count, 2);
    CHECK(value_iterate(&room, &generator, &items));
    CHECK_EQ(items->count, 0);
    uint32_t length = 0;
    CHECK(!value_length(&room, &generator, &length));
    CHECK_STR(room.error, "object of type 'generator' has no len()");
}

enum { character_count = 3000 };

struct characters {
    uint8_t bytes[4 * character_count];
    size_t starts[character_count + 1];
};

// Of one to four bytes each.
static struct slice mixed_characters(struct characters *out)
{
    static const char *const kinds[] = {"a", "\xc3\xa9", "\xe6\x97\xa5", "\xf0\x9f\x98\x80"};
    size_t size = 0;
    for (size_t i = 0; i < character_count; i++) {
        struct slice character = slice_str(kinds[i * i / 7 % 4]);
        out->starts[i] = size;
        memcpy(out->bytes + size, character.bytes, character.size);
        size += character.size;
    }
    out->starts[character_count] = size;
    return slice_of(out->bytes, size);
}

TEST(strings_count_code_points)
{
    static struct characters characters;
    struct slice string = mixed_characters(&characters);
    const size_t *starts = characters.starts;
    CHECK_EQ(value_string_length(string), character_count);
    for (size_t i = 0; i < 10000; i++) {
        size_t from = i * 7 % character_count;
        size_t to = from + 1 + i * 131 % (character_count - from);
        struct slice part = value_string_part(string, from, to);
        CHECK_EQ(part.bytes - characters.bytes, starts[from]);
        CHECK_EQ(part.size, starts[to] - starts[from]);
    }
    CHECK_EQ(value_string_part(string, 5, 5).size, 0);
}

TEST(what_does_not_fit_is_too_large_and_the_first_failure_stays)
{
    fresh();
    CHECK(value_bytes_new(&room, sizeof(memory) + 1) == NULL);
    CHECK_EQ(room.status, STATUS_TOO_LARGE);
    (void)value_fail(&room, STATUS_MALFORMED, "later");
    CHECK_EQ(room.status, STATUS_TOO_LARGE);
    CHECK_STR(room.error, "the template takes too much memory");
}
