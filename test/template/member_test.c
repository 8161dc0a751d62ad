// SPDX-License-Identifier: Apache-2.0

#include "template/member.h"

#include "test.h"

static struct member_name member_of(const char *name)
{
    struct member_name member;
    member_init(&member, slice_str(name));
    return member;
}

static bool has_bit(uint16_t bits, enum value_kind kind)
{
    return (bits & 1u << kind) != 0;
}

TEST(methods_belong_to_kinds)
{
    struct member_name items = member_of("items");
    CHECK(items.methods[VALUE_DICT] != NULL);
    CHECK(items.methods[VALUE_LIST] == NULL);
    CHECK(items.methods[VALUE_STRING] == NULL);
    CHECK_EQ(items.refused, 0);
    CHECK(member_of("strip").methods[VALUE_STRING] != NULL);
}

TEST(methods_that_change_a_value_are_hidden)
{
    CHECK(has_bit(member_of("append").hidden, VALUE_LIST));
    CHECK(has_bit(member_of("pop").hidden, VALUE_LIST));
    CHECK(has_bit(member_of("pop").hidden, VALUE_DICT));
    CHECK(has_bit(member_of("update").hidden, VALUE_DICT));
    CHECK(!has_bit(member_of("update").hidden, VALUE_LIST));
    CHECK_EQ(member_of("get").hidden, 0);
}

TEST(attributes_that_only_python_has_are_refused)
{
    CHECK(has_bit(member_of("real").refused, VALUE_INT));
    CHECK(has_bit(member_of("imag").refused, VALUE_BOOL));
    CHECK(has_bit(member_of("translate").refused, VALUE_STRING));
    CHECK(has_bit(member_of("fromkeys").refused, VALUE_DICT));
    CHECK(!has_bit(member_of("translate").refused, VALUE_DICT));
}

static bool has_methods(const struct member_name *member)
{
    for (int kind = 0; kind < value_kind_count; kind++) {
        if (member->methods[kind] != NULL) {
            return true;
        }
    }
    return false;
}

TEST(other_names_are_keys_only)
{
    static const char *const names[] = {"role", "content", "item", "tems", "pop ", "", "s", " "};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct member_name member = member_of(names[i]);
        CHECK_EQ(member.refused | member.hidden, 0);
        CHECK(!has_methods(&member));
    }
}
