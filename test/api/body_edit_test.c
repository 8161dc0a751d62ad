// SPDX-License-Identifier: Apache-2.0

#include "api/body_edit.h"

#include "base/text.h"
#include "test.h"

// The edited body as one text.
static bool becomes(const struct body_edits *edits, const char *body, const char *expected)
{
    char space[128];
    struct text out = text_over(space, sizeof(space));
    struct slice parts[body_part_max];
    uint32_t count = body_edits_parts(edits, slice_str(body), parts);

    for (uint32_t i = 0; i < count; i++) {
        text_add(&out, parts[i]);
    }
    return slice_is(text_slice(&out), expected) &&
           body_edits_size(edits, strlen(body)) == strlen(expected);
}

TEST(a_body_without_edits_stays_as_it_is)
{
    struct body_edits edits = {0};
    CHECK(becomes(&edits, "", ""));
    CHECK(becomes(&edits, "{\"a\":1}", "{\"a\":1}"));
}

TEST(texts_are_inserted_and_replace_others_wherever_they_stand)
{
    struct body_edits edits = {0};
    body_edits_add(&edits, 5, 1, slice_str("[1,2]"));
    CHECK(becomes(&edits, "{\"a\":1}", "{\"a\":[1,2]}"));
    body_edits_add(&edits, 1, 0, slice_str("\"b\":2,"));
    CHECK(becomes(&edits, "{\"a\":1}", "{\"b\":2,\"a\":[1,2]}"));
    body_edits_add(&edits, 7, 0, slice_str(" "));
    CHECK(becomes(&edits, "{\"a\":1}", "{\"b\":2,\"a\":[1,2]} "));
}

TEST(of_two_insertions_at_one_place_the_first_added_comes_first)
{
    struct body_edits edits = {0};
    body_edits_add(&edits, 1, 0, slice_str("b"));
    body_edits_add(&edits, 1, 0, slice_str("c"));
    body_edits_add(&edits, 1, 2, slice_str("d"));
    CHECK(becomes(&edits, "axye", "abcde"));
}

TEST(the_text_of_an_edit_may_be_empty)
{
    struct body_edits edits = {0};
    body_edits_add(&edits, 1, 2, slice_str(""));
    CHECK(becomes(&edits, "axyb", "ab"));
}
