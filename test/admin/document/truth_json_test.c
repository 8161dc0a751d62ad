// SPDX-License-Identifier: Apache-2.0

#include "admin/document/truth_json.h"

#include "test.h"

static struct truth truth;
static char space[16384];

static const char *written(void (*add)(const struct truth *, uint64_t, struct text *),
                           uint64_t now_ms)
{
    struct text json = text_over(space, sizeof(space) - 1);
    add(&truth, now_ms, &json);
    ASSERT(!json.overflow);
    space[json.size] = '\0';
    return space;
}

TEST(what_was_never_predicted_is_null)
{
    truth_init(&truth);
    CHECK_STR(written(truth_json_add, 0), "{\"exact\":null,\"believed\":null}");
    CHECK_STR(written(truth_json_add_brief, 0), "{\"exact\":null,\"believed\":null}");
}

TEST(figures_of_all_and_of_late_and_the_last_pair)
{
    truth_init(&truth);
    truth_note(&truth, TRUTH_EXACT, 0, 512, 1000);
    truth_note(&truth, TRUTH_EXACT, 512, 512, 1000 + 2 * truth_half_ms);
    CHECK_STR(written(truth_json_add, 1000 + 2 * truth_half_ms),
              "{\"exact\":{\"all\":{\"count\":2,\"equal\":1,\"equal_share\":0.5,\"p1\":-512,"
              "\"p50\":0,\"p99\":0,\"wrong_percent\":50,\"predicted_tokens\":512,"
              "\"actual_tokens\":1024},\"recent\":{\"count\":1,\"equal\":1,\"equal_share\":1,"
              "\"p1\":0,\"p50\":0,\"p99\":0,\"wrong_percent\":0,\"predicted_tokens\":512,"
              "\"actual_tokens\":512},\"last\":{\"predicted\":512,\"actual\":512},"
              "\"histogram\":[[-512,1],[0,1]]},\"believed\":null}");
}

TEST(a_brief_one_has_no_histogram)
{
    truth_init(&truth);
    truth_note(&truth, TRUTH_BELIEVED, 16, 16, 1000);
    CHECK(strstr(written(truth_json_add, 1000), "\"histogram\":[[0,1]]") != NULL);
    CHECK(strstr(written(truth_json_add_brief, 1000), "histogram") == NULL);
    CHECK(strstr(space, "\"last\":{\"predicted\":16,\"actual\":16}}}") != NULL);
}

TEST(where_nothing_is_recent_there_are_no_figures_of_it)
{
    truth_init(&truth);
    truth_note(&truth, TRUTH_BELIEVED, 16, 16, 1000);
    CHECK(strstr(written(truth_json_add_brief, 1000 + 2 * truth_half_ms), "\"recent\":null,") !=
          NULL);
}

TEST(a_percentage_of_nothing_is_null)
{
    truth_init(&truth);
    truth_note(&truth, TRUTH_BELIEVED, 16, 0, 1000);
    CHECK(strstr(written(truth_json_add_brief, 1000), "\"wrong_percent\":null") != NULL);
}
