// SPDX-License-Identifier: Apache-2.0

#include "admin/decision_list.h"

#include "admin/keeper_scene.h"
#include "admin/told_scribe.h"
#include "json/json_writer.h"
#include "test.h"

static struct scene scene;
static struct scribe scribe;
static struct scribe *there;
static char bytes[65536];
static struct decision_list listed;

static void set_up(void)
{
    scene_open(&scene, "'http://10.0.0.1'");
    scribe = (struct scribe){0};
    there = &scribe;
    scene.options.scribe = &there;
}

static uint32_t list(uint64_t since, uint32_t limit)
{
    struct text text = text_over(bytes, sizeof(bytes) - 1);
    struct json_writer json = json_writer_over(&text);
    struct decision_query query = {.since = since, .limit = limit};
    ASSERT(decision_list_put(&scene.options, &query, &listed, &json));
    bytes[text.size] = '\0';
    ASSERT(!scribe.is_locked);
    return listed.count;
}

TEST(decisions_come_newest_first_up_to_the_limit)
{
    set_up();
    told_add_named(&scribe.chronicle, "one");
    told_add_named(&scribe.chronicle, "two");
    told_add_named(&scribe.chronicle, "three");
    CHECK_EQ(list(0, 100), 3);
    CHECK_EQ(listed.serial, 3);
    CHECK_EQ(strncmp(bytes, "{\"serial\":3,\"decisions\":[{\"serial\":3,\"id\":\"three\"", 48), 0);
    CHECK(strstr(bytes, "\"two\"") < strstr(bytes, "\"one\""));
    CHECK_EQ(list(0, 2), 2);
    CHECK(strstr(bytes, "\"one\"") == NULL);
    CHECK_EQ(list(2, 100), 1);
    CHECK(strstr(bytes, "\"two\"") == NULL && strstr(bytes, "\"three\"") != NULL);
    scene_close(&scene);
}

TEST(an_empty_list_still_has_the_newest_serial)
{
    set_up();
    CHECK_EQ(list(0, 100), 0);
    CHECK_STR(bytes, "{\"serial\":0,\"decisions\":[]}");
    told_add_named(&scribe.chronicle, "one");
    CHECK_EQ(list(1, 100), 0);
    CHECK_STR(bytes, "{\"serial\":1,\"decisions\":[]}");
    CHECK_EQ(list(4711, 100), 0); // of a life before this one
    CHECK_STR(bytes, "{\"serial\":1,\"decisions\":[]}");
    scene_close(&scene);
}

TEST(a_decision_is_found_by_its_request_id)
{
    set_up();
    told_add_named(&scribe.chronicle, "one");
    told_add_named(&scribe.chronicle, "two");
    struct text text = text_over(bytes, sizeof(bytes) - 1);
    struct json_writer json = json_writer_over(&text);
    CHECK(decision_list_find(&scene.options, slice_str("one"), &json));
    bytes[text.size] = '\0';
    CHECK_EQ(strncmp(bytes, "{\"serial\":1,\"id\":\"one\"", 22), 0);
    text = text_over(bytes, sizeof(bytes) - 1);
    CHECK(!decision_list_find(&scene.options, slice_str("three"), &json));
    CHECK_EQ(text.size, 0);
    CHECK(!scribe.is_locked);
    scene_close(&scene);
}

TEST(without_a_scribe_the_list_is_empty)
{
    set_up();
    struct text text = text_over(bytes, sizeof(bytes) - 1);
    struct json_writer json = json_writer_over(&text);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(list(0, 100), 0);
        CHECK_STR(bytes, "{\"serial\":0,\"decisions\":[]}");
        CHECK(!decision_list_find(&scene.options, slice_str("one"), &json));
        there = NULL;
        scene.options.scribe = i == 0 ? &there : NULL;
    }
    scene_close(&scene);
}
