// SPDX-License-Identifier: Apache-2.0

#include "admin/query.h"

#include "base/base.h"
#include "test.h"

static bool found_is(const char *target, const char *name, const char *value)
{
    struct slice found;
    return query_find(slice_str(target), name, &found) && slice_is(found, value);
}

TEST(a_value_is_found_by_its_whole_name)
{
    CHECK(found_is("/a?id=1", "id", "1"));
    CHECK(found_is("/a?x=2&id=1&y", "id", "1"));
    CHECK(found_is("/a?id=1&id=2", "id", "1"));
    CHECK(found_is("/a?id=a=b", "id", "a=b"));
    CHECK(found_is("/a?id=a?b", "id", "a?b"));
    CHECK(found_is("/a?&&id=1", "id", "1"));
    CHECK(found_is("/a?id", "id", ""));
    CHECK(found_is("/a?id=", "id", ""));
}

TEST(an_absent_name_is_not_found)
{
    static const char *const targets[] = {
        "", "/a", "/a?", "/id=1", "/a?ids=1", "/a?xid=1", "/a?x=id=1", "/a?x=1&ID=1", "?", "&id=1"};
    struct slice found;
    for (size_t i = 0; i < ARRAY_COUNT(targets); i++) {
        CHECK(!query_find(slice_str(targets[i]), "id", &found));
    }
    CHECK(!query_find((struct slice){0}, "id", &found));
}

TEST(a_number_is_one_or_absent_or_wrong)
{
    uint64_t number;
    CHECK(query_number(slice_str("/a?n=12"), "n", 7, &number) && number == 12);
    CHECK(query_number(slice_str("/a"), "n", 7, &number) && number == 7);
    CHECK(!query_number(slice_str("/a?n=-1"), "n", 7, &number));
    CHECK(!query_number(slice_str("/a?n="), "n", 7, &number));
    CHECK(!query_number(slice_str("/a?n=18446744073709551616"), "n", 7, &number));
}

TEST(percent_signs_are_decoded_once)
{
    uint8_t space[8];
    struct slice out;
    CHECK(query_decode(slice_str("a%2Fb%2f"), space, sizeof(space), &out));
    CHECK(slice_is(out, "a/b/"));
    CHECK(query_decode(slice_str("%2541"), space, sizeof(space), &out));
    CHECK(slice_is(out, "%41"));
    CHECK(query_decode(slice_str("a+b"), space, sizeof(space), &out));
    CHECK(slice_is(out, "a+b"));
    CHECK(query_decode((struct slice){0}, space, sizeof(space), &out));
    CHECK_EQ(out.size, 0);
}

TEST(bad_percent_signs_and_long_values_are_refused)
{
    static const char *const wrong[] = {"%", "%4", "%4g", "%g4", "a%", "123456789"};
    uint8_t space[8];
    struct slice out;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        CHECK(!query_decode(slice_str(wrong[i]), space, sizeof(space), &out));
    }
    CHECK(query_decode(slice_str("12345678"), space, sizeof(space), &out));
}
