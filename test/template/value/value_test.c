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
    int forward = value_compare(&room, &a, &b);
    ASSERT(value_compare(&room, &b, &a) == -forward && room.status == STATUS_OK);
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

TEST(comparing_values_without_an_order_fails_as_in_python)
{
    struct value a = str("x");
    struct value b = value_int(1);
    CHECK_EQ(value_compare(fresh(), &a, &b), 0);
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

TEST(comparing_values_that_are_too_deep_or_shared_too_often_fails)
{
    fresh();
    struct value a = LIST(value_int(1));
    struct value b = LIST(value_int(1));
    for (int i = 0; i < 40; i++) {
        a = LIST(a, a);
        b = LIST(b, b);
    }
    CHECK(!value_equals(&room, &a, &b));
    CHECK_EQ(room.status, STATUS_TOO_LARGE);

    fresh();
    a = b = value_int(1);
    for (int i = 0; i < 1000; i++) {
        a = LIST(a);
        b = LIST(b);
    }
    CHECK(!value_equals(&room, &a, &b));
    CHECK_EQ(room.status, STATUS_TOO_LARGE);
    CHECK_EQ(value_compare(fresh(), &a, &b), 0);
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

TEST(equal_keys_are_one_key_and_lists_cannot_be_keys)
{
    fresh();
    struct value dict = sample_dict();
    struct value yes = value_bool(true);
    const struct value *found = value_dict_find(&room, dict.dict, &yes);
    CHECK(found != NULL && equal(*found, str("one")));
    struct value tuple = TUPLE(value_float(1.0), str("x"));
    found = value_dict_find(&room, dict.dict, &tuple);
    CHECK(found != NULL && found->kind == VALUE_NONE);
    CHECK(value_dict_get(dict.dict, slice_str("b")) == NULL);
    CHECK_EQ(room.status, STATUS_OK);
    struct value list = LIST(value_int(1));
    CHECK(value_dict_find(&room, dict.dict, &list) == NULL);
    CHECK_STR(room.error, "unhashable type: 'list'");
}

static bool contains(struct value haystack, struct value needle)
{
    return value_contains(&room, &haystack, &needle);
}

TEST(in_searches_strings_lists_keys_and_undefined_values)
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

TEST(views_have_members_and_cannot_be_compared)
{
    fresh();
    struct value keys = value_view(VALUE_DICT_KEYS, LIST(str("a"), value_int(1)).list);
    CHECK(contains(keys, value_float(1.0)));
    CHECK(!contains(keys, str("b")));
    CHECK_EQ(room.status, STATUS_OK);
    CHECK(!contains(keys, LIST(value_int(1))));
    CHECK_STR(room.error, "unhashable type: 'list'");
    fresh();
    keys = value_view(VALUE_DICT_KEYS, LIST(str("a")).list);
    struct value others = value_view(VALUE_DICT_KEYS, LIST(str("a")).list);
    CHECK(value_equals(&room, &keys, &keys));
    CHECK(!value_equals(&room, &keys, &others));
    CHECK_STR(room.error, "'dict_keys' == 'dict_keys' is not implemented");
}

TEST(a_generator_is_true_and_iterated_once)
{
    fresh();
    struct value empty = value_of_list(value_list_new(&room, 0));
    struct value generator = value_generator_new(&room, empty.list);
    CHECK(value_is_true(&generator));
    CHECK(!value_is_true(&empty));

    generator = value_generator_new(&room, LIST(value_int(1), value_int(2)).list);
    CHECK_EQ(value_iterate(&room, &generator)->count, 2);
    CHECK_EQ(value_iterate(&room, &generator)->count, 0);
    CHECK_EQ(room.status, STATUS_OK);
    CHECK_EQ(value_length(&room, &generator), 0);
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

TEST(memory_that_does_not_fit_is_too_large_and_the_first_failure_stays)
{
    fresh();
    CHECK(value_bytes_new(&room, sizeof(memory) + 1) == NULL);
    CHECK_EQ(room.status, STATUS_TOO_LARGE);
    (void)value_fail(&room, STATUS_MALFORMED, "later");
    CHECK_EQ(room.status, STATUS_TOO_LARGE);
    CHECK_STR(room.error, "the template takes too much memory");
}

TEST(no_steps_are_left_after_a_failure)
{
    fresh();
    CHECK(value_step(&room, 1));
    CHECK(!value_raise(&room, "wrong"));
    CHECK(!value_step(&room, 1));
    CHECK_STR(room.error, "wrong");
}
