// SPDX-License-Identifier: Apache-2.0

#include "feed/stats_json.h"

#include "base/text.h"
#include "feed/exposition.h"
#include "test.h"

static void note(void *owner, struct slice name, double value)
{
    text_add_format(owner, "%.*s=%g ", (int)name.size, (const char *)name.bytes, value);
}

static const char *read_rank(const char *page, uint32_t rank)
{
    static char space[256];
    struct text text = text_over(space, sizeof(space) - 1);
    stats_json_read(slice_str(page), rank, note, &text);
    ASSERT(!text.overflow);
    space[text.size] = '\0';
    return space;
}

static const char *read_page(const char *page)
{
    return read_rank(page, exposition_all_ranks);
}

TEST(only_the_last_of_a_list_of_steps_is_read)
{
    CHECK_STR(
        read_page("[{\"a\":1},{\"a\":2,\"b\":\"x\",\"kvCacheStats\":{\"c\":3},\"d\":{\"e\":4}}]"),
        "a=2 c=3 ");
    CHECK_STR(read_page("[{\"a\":1},7]"), "a=1 ");
}

TEST(every_rank_is_read)
{
    CHECK_STR(read_page("{\"z\":9,\"loads\":[{\"a\":1},{\"a\":2}]}"), "a=1 a=2 ");
}

TEST(the_wanted_rank_is_read_and_objects_without_a_rank)
{
    static const char page[] = "{\"loads\":[{\"dp_rank\":0,\"a\":1},{\"a\":2,\"dp_rank\":1},"
                               "{\"a\":3},{\"dp_rank\":\"1\",\"a\":4},{\"dp_rank\":2,\"a\":5}]}";
    CHECK_STR(read_rank(page, 1), "a=2 dp_rank=1 a=3 a=4 ");
    CHECK_STR(read_rank(page, 7), "a=3 a=4 ");
}

TEST(one_object_is_read_as_it_is)
{
    CHECK_STR(read_page(" {\"a\":1.5,\"b\":-1,\"c\":null}"), "a=1.5 ");
}

TEST(a_document_that_is_not_valid_to_its_end_is_ignored)
{
    CHECK_STR(read_page(""), "");
    CHECK_STR(read_page("7"), "");
    CHECK_STR(read_page("[]"), "");
    CHECK_STR(read_page("[{\"a\":1}"), "");
    CHECK_STR(read_page("{\"a\":1} x"), "");
}
