// SPDX-License-Identifier: Apache-2.0

#include "admin/pushed_events.h"

#include "admin/keeper_scene.h"
#include "base/text.h"
#include "test.h"

#include <stdlib.h>

// The documents that were handed on, and the status that the receiver returns.
static struct {
    uint64_t ids[64];
    char text[512];
    uint32_t count;
    uint32_t room; // for how many there is
    enum status status;
} follower;

static enum status push(void *owner, uint64_t backend_id, struct slice json)
{
    (void)owner;
    if (follower.count == follower.room) {
        return follower.status;
    }
    snprintf(follower.text, sizeof(follower.text), "%.*s", (int)json.size,
             (const char *)json.bytes);
    follower.ids[follower.count++] = backend_id;
    return STATUS_OK;
}

static struct pushed_events_refusal why;

// Whether it was taken; `quoted` has ' for ".
static bool take(struct scene *scene, const char *quoted)
{
    char document[4096];
    size_t size = strlen(quoted);

    ASSERT(size < sizeof(document));
    for (size_t i = 0; i <= size; i++) {
        document[i] = quoted[i];
        if (quoted[i] == '\'') {
            document[i] = '"';
        }
    }
    why = (struct pushed_events_refusal){0};
    follower.count = 0;
    return pushed_events_take(&scene->options, slice_of(document, size), &why);
}

static void add_rank(struct scene *scene, uint32_t rank)
{
    char url[64];
    snprintf(url, sizeof(url), "http://10.0.0.9:8000#rank=%u", rank);
    struct backend *backend =
        fleet_add(scene->options.fleet, &(struct fleet_spec){.url = url,
                                                             .host = "10.0.0.9",
                                                             .port = 8000,
                                                             .weight = 1,
                                                             .address = {.size = 16},
                                                             .rank = rank,
                                                             .rank_count = 32});
    ASSERT(backend != NULL);
}

// Two backends by themselves, and two ranks of a third.
static void open_all(struct scene *scene)
{
    scene_open(scene, "'http://10.0.0.1:8000/', 'http://10.0.0.2:8000'");
    add_rank(scene, 0);
    add_rank(scene, 1);
    scene->options.push_events = push;
    follower.room = ARRAY_COUNT(follower.ids);
}

static uint64_t id_at(const struct scene *scene, uint32_t position)
{
    return fleet_at(scene->fleet, position)->id;
}

TEST(a_document_goes_as_it_is_to_the_backend_that_it_names)
{
    struct scene scene;
    open_all(&scene);
    CHECK(take(&scene, "{'backend':'http://10.0.0.2:8000','events':[{'type':'cleared'}]}"));
    CHECK_EQ(follower.count, 1);
    CHECK_EQ(follower.ids[0], id_at(&scene, 1));
    CHECK_STR(follower.text,
              "{\"backend\":\"http://10.0.0.2:8000\",\"events\":[{\"type\":\"cleared\"}]}");
    CHECK(take(&scene, "{'backend':'http://10.0.0.2:8000/','events':[]}"));
    CHECK_EQ(follower.ids[0], id_at(&scene, 1));
    CHECK(take(&scene, "{'backend':'http://10.0.0.1:8000','events':[]}"));
    CHECK_EQ(follower.ids[0], id_at(&scene, 0));
    char document[64];
    snprintf(document, sizeof(document), "{'backend':%lu,'events':[]}",
             (unsigned long)id_at(&scene, 3));
    CHECK(take(&scene, document));
    CHECK_EQ(follower.ids[0], id_at(&scene, 3));
    scene_close(&scene);
}

TEST(a_rank_is_named_by_its_number_or_its_whole_url)
{
    struct scene scene;
    open_all(&scene);
    CHECK(take(&scene, "{'backend':'http://10.0.0.9:8000','rank':1,'events':[]}"));
    CHECK_EQ(follower.ids[0], id_at(&scene, 3));
    CHECK(take(&scene, "{'backend':'http://10.0.0.9:8000#rank=0','events':[]}"));
    CHECK_EQ(follower.ids[0], id_at(&scene, 2));
    CHECK(!take(&scene, "{'backend':'http://10.0.0.9:8000','events':[]}"));
    CHECK_EQ(why.problem, HTTP_PROBLEM_BAD_EVENTS);
    CHECK_STR(why.detail,
              "several backends have that URL: give the rank as well, or the id instead");
    CHECK(!take(&scene, "{'backend':'http://10.0.0.9:8000','rank':2,'events':[]}"));
    CHECK_EQ(why.problem, HTTP_PROBLEM_NOT_FOUND);
    char document[64];
    snprintf(document, sizeof(document), "{'backend':%lu,'rank':0,'events':[]}",
             (unsigned long)id_at(&scene, 3));
    CHECK(!take(&scene, document));
    CHECK_EQ(why.problem, HTTP_PROBLEM_NOT_FOUND);
    scene_close(&scene);
}

TEST(backends_that_are_not_there_are_not_found)
{
    static const char *const documents[] = {
        "{'backend':'http://10.0.0.1:80','events':[]}",
        "{'backend':'http://10.0.0.1:8000/v1','events':[]}",
        "{'backend':'http://10.0.0','events':[]}",
        "{'backend':99999,'events':[]}",
        "{'events':[{'event':'evicted','prefix_hash':'ab','backend_id':99999}]}",
    };
    struct scene scene;
    open_all(&scene);
    for (size_t i = 0; i < ARRAY_COUNT(documents); i++) {
        CHECK(!take(&scene, documents[i]));
        CHECK_EQ(why.problem, HTTP_PROBLEM_NOT_FOUND);
        CHECK_EQ(follower.count, 0);
    }
    scene_close(&scene);
}

// The last event is wrong, and the first is not taken either.
TEST(a_document_counts_as_a_whole_or_not_at_all)
{
    static const struct {
        const char *document;
        const char *detail;
    } cases[] = {
        {"{'backend':'http://10.0.0.2:8000','events':[{'type':'cleared'},{'type':'removed'}]}",
         "events[1]: block_hashes is not a list"},
        {"{'backend':'http://10.0.0.2:8000','events':[{'type':'cleared'},{'type':'clared'}]}",
         "events[1]: its type is not known"},
        {"{'backend':'http://10.0.0.2:8000','events':[{'type':'cleared'}", "it is not JSON"},
        {"{'backend':'http://10.0.0.2:8000'}", "events is missing or not a list"},
        {"{'events':[]}", "it names no backend"},
        {"[]", "it names no backend"},
        {"{'events':[{'type':'cleared','backend_id':1}]}",
         "events[0]: neither it nor the document names a backend"},
        {"{'events':[{'event':'evicted','prefix_hash':'ab'}]}",
         "events[0]: neither it nor the document names a backend"},
        {"{'backend':'http://10.0.0.2:8000','events':[{'type':'cleared'},"
         "{'event':'evicted','prefix_hash':'ab','backend_id':99999}]}",
         "events[1]: it names another backend than the document"},
    };
    struct scene scene;
    open_all(&scene);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK(!take(&scene, cases[i].document));
        CHECK_STR(why.detail, cases[i].detail);
        CHECK_EQ(why.problem, HTTP_PROBLEM_BAD_EVENTS);
        CHECK_EQ(follower.count, 0);
    }
    scene_close(&scene);
}

TEST(evictions_may_be_of_several_backends)
{
    struct scene scene;
    char document[512];
    open_all(&scene);
    unsigned long first = (unsigned long)id_at(&scene, 0);
    unsigned long second = (unsigned long)id_at(&scene, 1);
    snprintf(document, sizeof(document),
             "{'type':'cache_event','version':1,'events':["
             "{'event':'evicted','prefix_hash':'a1','timestamp_ms':1,'backend_id':%lu},"
             "{'event':'loaded','prefix_hash':'a2','timestamp_ms':2,'backend_id':%lu},"
             "{'event':'evicted','prefix_hash':'a3','timestamp_ms':3,'backend_id':%lu}]}",
             first, second, first);
    CHECK(take(&scene, document));
    CHECK_EQ(follower.count, 2);
    CHECK_EQ(follower.ids[0], first);
    CHECK_EQ(follower.ids[1], second);
    follower.room = 1;
    follower.status = STATUS_EXHAUSTED;
    CHECK(!take(&scene, document));
    CHECK_EQ(why.problem, HTTP_PROBLEM_OVERLOADED);
    scene_close(&scene);
}

TEST(backends_of_one_document_are_few)
{
    static char document[4096];
    struct scene scene;
    open_all(&scene);
    struct fleet *crowd = fleet_create(
        &(struct fleet_limits){.backend_count_max = 32, .pool_count = 1}, &scene.reclaim);
    ASSERT(crowd != NULL);
    scene.options.fleet = crowd;
    struct text text = text_over(document, sizeof(document) - 1);
    text_add_str(&text, "{'events':[");
    for (uint32_t i = 0; i <= pushed_events_backends_max; i++) {
        add_rank(&scene, i);
        text_add_format(&text, "%s{'event':'evicted','prefix_hash':'a','backend_id':%lu}",
                        i > 0 ? "," : "", (unsigned long)fleet_at(crowd, i)->id);
    }
    text_add_str(&text, "]}");
    document[text.size] = '\0';
    CHECK(!take(&scene, document));
    CHECK_STR(why.detail, "events[16]: this is the 17th backend; the limit is 16");
    CHECK_EQ(follower.count, 0);
    fleet_destroy(&crowd);
    scene_close(&scene);
}

TEST(the_status_of_the_receiver_decides_the_response)
{
    static const char document[] = "{'backend':'http://10.0.0.2:8000','events':[]}";
    struct scene scene;
    open_all(&scene);
    follower.room = 0;
    follower.status = STATUS_EXHAUSTED;
    CHECK(!take(&scene, document));
    CHECK_EQ(why.problem, HTTP_PROBLEM_OVERLOADED);
    follower.status = STATUS_CLOSED;
    CHECK(!take(&scene, document));
    CHECK_EQ(why.problem, HTTP_PROBLEM_CONFLICT);
    scene.options.push_events = NULL;
    CHECK(!take(&scene, document));
    CHECK_EQ(why.problem, HTTP_PROBLEM_CONFLICT);
    scene_close(&scene);
}
