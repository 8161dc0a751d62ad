// SPDX-License-Identifier: Apache-2.0

#include "admin/document/truth_json.h"

#include "json/json_writer.h"
#include "test.h"

static struct truth truth;
static char space[16384];

static const char *written(bool has_histogram, uint64_t now_ms)
{
    struct text text = text_over(space, sizeof(space) - 1);
    struct json_writer json = json_writer_over(&text);
    json_begin_object(&json, NULL);
    truth_json_put(&truth, now_ms, has_histogram, &json);
    ASSERT(!text.overflow);
    space[text.size] = '\0';
    return space + strlen("{\"truth\":");
}

TEST(a_kind_without_predictions_is_null)
{
    truth = (struct truth){0};
    CHECK_STR(written(true, 0), "{\"by_events\":null,\"believed\":null}");
    CHECK_STR(written(false, 0), "{\"by_events\":null,\"believed\":null}");
}

TEST(figures_cover_all_predictions_the_recent_ones_and_the_last)
{
    truth = (struct truth){0};
    truth_note(&truth, TRUTH_BY_EVENTS, 0, 512, 1000);
    truth_note(&truth, TRUTH_BY_EVENTS, 512, 512, 1000 + 2 * truth_half_ms);
    CHECK_STR(written(true, 1000 + 2 * truth_half_ms),
              "{\"by_events\":{\"all\":{\"count\":2,\"equal\":1,\"equal_share\":0.5,\"p1\":-512,"
              "\"p50\":0,\"p99\":0,\"wrong_percent\":50,\"predicted_tokens\":512,"
              "\"actual_tokens\":1024},\"recent\":{\"count\":1,\"equal\":1,\"equal_share\":1,"
              "\"p1\":0,\"p50\":0,\"p99\":0,\"wrong_percent\":0,\"predicted_tokens\":512,"
              "\"actual_tokens\":512},\"last\":{\"predicted\":512,\"actual\":512},"
              "\"histogram\":[[-512,1],[0,1]]},\"believed\":null}");
}

TEST(the_histogram_is_optional)
{
    truth = (struct truth){0};
    truth_note(&truth, TRUTH_BELIEVED, 16, 16, 1000);
    CHECK(strstr(written(true, 1000), "\"histogram\":[[0,1]]") != NULL);
    CHECK(strstr(written(false, 1000), "histogram") == NULL);
    CHECK(strstr(space, "\"last\":{\"predicted\":16,\"actual\":16}}}") != NULL);
}

TEST(recent_figures_without_a_sample_are_null)
{
    truth = (struct truth){0};
    truth_note(&truth, TRUTH_BELIEVED, 16, 16, 1000);
    CHECK(strstr(written(false, 1000 + 2 * truth_half_ms), "\"recent\":null,") != NULL);
}

TEST(a_percentage_of_zero_tokens_is_null)
{
    truth = (struct truth){0};
    truth_note(&truth, TRUTH_BELIEVED, 16, 0, 1000);
    CHECK(strstr(written(false, 1000), "\"wrong_percent\":null") != NULL);
}
