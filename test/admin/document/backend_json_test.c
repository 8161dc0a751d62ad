// SPDX-License-Identifier: Apache-2.0

#include "admin/document/backend_json.h"

#include "admin/keeper_scene.h"
#include "json/json_writer.h"
#include "test.h"

static struct scene scene;
static char bytes[65536];

static void write_first(bool has_histogram)
{
    struct text text = text_over(bytes, sizeof(bytes) - 1);
    struct json_writer json = json_writer_over(&text);
    struct backend_json_request request = {.now_ms = loop_now_ms(scene.loop),
                                           .has_histogram = has_histogram};
    backend_json_put(&scene.options, fleet_at(scene.fleet, 0), &request, &json);
    ASSERT(!text.overflow);
    bytes[text.size] = '\0';
}

TEST(a_new_backend_has_its_identity_and_nulls_for_all_that_is_not_learned)
{
    scene_open(&scene, "{url: 'http://10.0.0.1:8000', weight: 3, models: [m, n]}");
    write_first(false);
    CHECK(strstr(bytes, "\"url\":\"http://10.0.0.1:8000\",") != NULL);
    CHECK(strstr(bytes, "\"address\":\"10.0.0.1:8000\",") != NULL);
    CHECK(strstr(bytes, "\"weight\":3,\"state\":\"") != NULL);
    CHECK(strstr(bytes, "\"models\":[\"m\",\"n\"],") != NULL);
    CHECK(strstr(bytes, "\"load\":{\"queued_tokens\":0,") != NULL);
    CHECK(strstr(bytes, "\"prefill_ms_per_token\":null,\"step_ms\":null,\"cache_tokens\":null},"
                        "\"events\":{\"state\":\"none\",") != NULL);
    CHECK(strstr(bytes, "\"truth\":{\"by_events\":null,\"believed\":null}}") != NULL);
    scene_close(&scene);
}

TEST(the_histogram_is_there_on_request)
{
    scene_open(&scene, "'http://10.0.0.1'");
    truth_note(&fleet_at(scene.fleet, 0)->truth, TRUTH_BY_EVENTS, 16, 16, 1);
    write_first(false);
    CHECK(strstr(bytes, "histogram") == NULL);
    write_first(true);
    CHECK(strstr(bytes, "histogram") != NULL);
    scene_close(&scene);
}
