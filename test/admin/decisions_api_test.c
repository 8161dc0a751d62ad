// SPDX-License-Identifier: Apache-2.0

#include "admin/decisions_api.h"

#include "admin/api_scene.h"
#include "test.h"

static struct scene scene;
static struct scribe scribe;
static struct scribe *there;

static void set_up(void)
{
    scene_open(&scene, two);
    scribe = (struct scribe){0};
    there = &scribe;
    scene.options.scribe = &there;
    told_add_named(&scribe.chronicle, "one");
    told_add_named(&scribe.chronicle, "a/b c");
    told_add_named(&scribe.chronicle, "three");
}

static int count_of(const char *target)
{
    int status = call(&scene, "GET", target, "");
    return status == 200 ? cJSON_GetArraySize(cJSON_GetObjectItem(answer.json, "decisions"))
                         : -status;
}

TEST(the_last_ones_are_listed_by_limit_and_serial)
{
    set_up();
    CHECK_EQ(count_of("/decisions"), 3);
    CHECK_EQ(number_at(answer.json, "serial"), 3);
    CHECK_EQ(count_of("/decisions?limit=2"), 2);
    CHECK_EQ(count_of("/decisions?limit=1000&since=1"), 2);
    CHECK_EQ(count_of("/decisions?since=3"), 0);
    CHECK_EQ(count_of("/decisions?limit=0"), 0);
    CHECK_EQ(number_at(answer.json, "serial"), 3); // how far it is, for who wants only what comes
    close_all(&scene);
}

TEST(a_limit_or_serial_that_is_none_is_refused)
{
    static const char *const wrong[] = {"/decisions?limit=1001", "/decisions?limit=-1",
                                        "/decisions?limit=", "/decisions?since=x",
                                        "/decisions?limit=18446744073709551615"};
    set_up();
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        CHECK_EQ(count_of(wrong[i]), -400);
    }
    CHECK_STR(answer.message, "The query of the request target is not what this path takes: limit "
                              "is a number up to 1000, since is a serial");
    close_all(&scene);
}

static int serial_of(const char *target)
{
    int status = call(&scene, "GET", target, "");
    return status == 200 ? (int)number_at(answer.json, "serial") : -status;
}

TEST(one_is_shown_by_its_id_however_it_is_spelt)
{
    set_up();
    CHECK_EQ(serial_of("/decisions/one"), 1);
    CHECK_EQ(serial_of("/decisions/%6fne"), 1);
    CHECK_EQ(serial_of("/decisions/a%2Fb%20c"), 2);
    CHECK_EQ(serial_of("/explain?id=three"), 3);
    CHECK_EQ(serial_of("/explain?x=y&id=a/b%20c"), 2);
    close_all(&scene);
}

TEST(one_that_is_not_kept_is_404_and_one_that_is_not_named_400)
{
    static const char *const unknown[] = {"/decisions/two", "/decisions/one%20", "/explain?id=o",
                                          "/decisions/a/b%20c", "/decisions/"};
    static const char *const wrong[] = {"/explain", "/explain?id=", "/explain?ID=one",
                                        "/decisions/%", "/explain?id=%zz"};
    set_up();
    for (size_t i = 0; i < ARRAY_COUNT(unknown); i++) {
        CHECK_EQ(serial_of(unknown[i]), -404);
    }
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        CHECK_EQ(serial_of(wrong[i]), -400);
    }
    close_all(&scene);
}

TEST(where_none_is_kept_the_answer_says_by_which_option)
{
    set_up();
    CHECK_EQ(serial_of("/explain?id=two"), -404);
    CHECK(strstr(answer.message, "of that request id") != NULL);
    scene.config->decisions.keep = 0;
    CHECK_EQ(serial_of("/explain?id=two"), -404);
    CHECK(strstr(answer.message, "decisions.keep") != NULL);
    there = NULL;
    CHECK_EQ(serial_of("/explain?id=two"), -404);
    CHECK(strstr(answer.message, "metrics.enabled") != NULL);
    close_all(&scene);
}
