// SPDX-License-Identifier: Apache-2.0
//
// A stand-in backend in the loop of the watcher, and a clock that is pushed from one question to
// the next.
// Intervals after responses are tested with the prober, the scraper and the poller, which use them.

#include "feed/watcher.h"

#include "base/reclaim.h"
#include "config/config.h"
#include "fleet/fleet.h"
#include "net/stub_server.h"
#include "sys/log.h"
#include "sys/pushed_clock.h"
#include "test.h"

enum { interval_ms = 1000 };

struct scene {
    struct reclaim reclaim;
    struct loop *loop;
    struct fleet *fleet;
    struct watcher *watcher;
    struct stub_server server;
    struct stub_route *page;
    struct stub_route *other;
    const char *path;
    enum watcher_next next;
    uint32_t heard_count;
    uint16_t status; // heard last
    bool forgets;    // on hearing
};

static const struct config plain = {0};

static const char *scene_path(void *owner, const struct backend *backend)
{
    const struct scene *scene = owner;
    (void)backend;
    return scene->path;
}

static enum watcher_next scene_heard(void *owner, struct backend *backend,
                                     const struct fetch_result *result)
{
    struct scene *scene = owner;
    enum watcher_next next = scene->next;
    scene->heard_count++;
    scene->status = result->status;
    if (next == WATCHER_NOW) {
        scene->path = "/other";
        scene->next = WATCHER_AGAIN;
    }
    if (scene->forgets) {
        watcher_forget(scene->watcher, backend);
    }
    return next;
}

static void scene_schedule(struct scene *scene, uint32_t time_ms, bool is_anew)
{
    watcher_set_schedule(
        scene->watcher,
        &(struct watcher_schedule){.config = &plain, .interval_ms = time_ms, .timeout_ms = 5000},
        is_anew);
}

static void scene_open(struct scene *scene, bool asks_at_once)
{
    static const char ok[] = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    *scene = (struct scene){.path = "/page"};
    log_set_level(LOG_LEVEL_ERROR);
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    reclaim_init(&scene->reclaim, 0);
    scene->fleet = fleet_create(&(struct fleet_limits){.backend_count_max = 4, .pool_count = 1},
                                &scene->reclaim);
    scene->watcher = watcher_create(&(struct watcher_options){.loop = scene->loop,
                                                              .slot_count = 4,
                                                              .asks_at_once = asks_at_once,
                                                              .path = scene_path,
                                                              .heard = scene_heard,
                                                              .owner = scene});
    ASSERT(scene->fleet != NULL && scene->watcher != NULL);
    scene_schedule(scene, interval_ms, false);
    stub_start(&scene->server, scene->loop);
    scene->page = &scene->server.routes[0];
    scene->other = &scene->server.routes[1];
    *scene->page = (struct stub_route){.path = "/page", .answer = slice_str(ok)};
    *scene->other = (struct stub_route){.path = "/other", .answer = slice_str(ok)};
}

static void scene_close(struct scene *scene)
{
    watcher_destroy(&scene->watcher);
    ASSERT(scene->watcher == NULL);
    stub_stop(&scene->server);
    fleet_destroy(&scene->fleet);
    loop_destroy(&scene->loop);
}

static struct backend *scene_add(struct scene *scene, uint32_t rank, uint64_t server)
{
    struct backend *backend =
        fleet_add(scene->fleet, &(struct fleet_spec){.url = "http://engine",
                                                     .host = "localhost",
                                                     .port = scene->server.port,
                                                     .weight = 1,
                                                     .address = scene->server.address,
                                                     .server = server,
                                                     .rank = rank,
                                                     .rank_count = 2});
    ASSERT(backend != NULL);
    watcher_watch(scene->watcher, backend);
    return backend;
}

static void turn_often(struct scene *scene)
{
    for (int i = 0; i < 20; i++) {
        loop_turn(scene->loop, 1);
    }
}

static void turn_until_heard(struct scene *scene, uint32_t count)
{
    for (int i = 0; scene->heard_count != count && i < 4000; i++) {
        loop_turn(scene->loop, 5);
    }
    ASSERT(scene->heard_count == count);
}

TEST(the_first_question_is_asked_at_once_or_within_an_interval)
{
    for (int i = 0; i < 2; i++) {
        struct scene scene;
        scene_open(&scene, i == 0);
        scene_add(&scene, 0, 0);
        if (i == 1) {
            clock_push_ms(interval_ms);
        }
        turn_until_heard(&scene, 1);
        CHECK_EQ(scene.status, 200);
        scene_close(&scene);
    }
}

TEST(the_other_path_is_asked_at_once)
{
    struct scene scene;
    scene_open(&scene, true);
    scene.next = WATCHER_NOW;
    scene_add(&scene, 0, 0);
    turn_until_heard(&scene, 2);
    CHECK_EQ(scene.page->count, 1);
    CHECK_EQ(scene.other->count, 1);
    scene_close(&scene);
}

TEST(all_are_heard_when_each_has_responded_or_timed_out)
{
    struct scene scene;
    scene_open(&scene, true);
    CHECK(watcher_has_heard_all(scene.watcher));
    scene.page->answer = slice_str("");
    scene_add(&scene, 0, 0);
    turn_often(&scene);
    CHECK(!watcher_has_heard_all(scene.watcher));
    clock_push_ms(5000);
    turn_until_heard(&scene, 1);
    CHECK_EQ(scene.status, 0);
    CHECK(watcher_has_heard_all(scene.watcher));
    scene_close(&scene);
}

TEST(asking_leaves_a_question_in_flight_and_asking_anew_replaces_it)
{
    struct scene scene;
    scene_open(&scene, true);
    scene.page->answer = slice_str("");
    struct backend *backend = scene_add(&scene, 0, 0);
    turn_often(&scene);
    watcher_ask(scene.watcher, backend);
    turn_often(&scene);
    CHECK_EQ(scene.server.accepted_count, 1);
    watcher_ask_anew(scene.watcher, backend);
    turn_often(&scene);
    CHECK_EQ(scene.server.accepted_count, 2);
    CHECK_EQ(scene.server.open_count, 1);
    CHECK_EQ(scene.heard_count, 0);
    scene_close(&scene);
}

TEST(a_schedule_that_asks_anew_replaces_the_question_in_flight)
{
    struct scene scene;
    scene_open(&scene, true);
    struct slice ok = scene.page->answer;
    scene.page->answer = slice_str("");
    scene_add(&scene, 0, 0);
    turn_often(&scene);
    CHECK_EQ(scene.server.open_count, 1);
    scene.page->answer = ok;
    scene_schedule(&scene, interval_ms, true);
    clock_push_ms(interval_ms);
    turn_until_heard(&scene, 1);
    CHECK_EQ(scene.status, 200);
    scene_close(&scene);
}

TEST(an_interval_of_zero_stops_and_another_one_starts_again)
{
    struct scene scene;
    scene_open(&scene, true);
    struct backend *backend = scene_add(&scene, 0, 0);
    turn_until_heard(&scene, 1);
    scene_schedule(&scene, 0, false);
    watcher_ask(scene.watcher, backend);
    clock_push_ms(60000);
    turn_often(&scene);
    CHECK_EQ(scene.heard_count, 1);
    scene_schedule(&scene, interval_ms, false);
    clock_push_ms(interval_ms);
    turn_until_heard(&scene, 2);
    scene_close(&scene);
}

TEST(a_backend_may_be_forgotten_while_its_response_is_heard)
{
    struct scene scene;
    scene_open(&scene, true);
    scene.forgets = true;
    scene_add(&scene, 0, 0);
    turn_until_heard(&scene, 1);
    clock_push_ms(60000);
    turn_often(&scene);
    CHECK_EQ(scene.heard_count, 1);
    scene_close(&scene);
}

TEST(the_first_rank_is_asked_for_all_ranks_of_its_server)
{
    struct scene scene;
    uint32_t slot = 0;
    scene_open(&scene, true);
    struct backend *other = scene_add(&scene, 0, 0);
    struct backend *first = scene_add(&scene, 0, 0);
    struct backend *second = scene_add(&scene, 1, first->id);
    turn_until_heard(&scene, 2);
    turn_often(&scene);
    CHECK_EQ(scene.server.accepted_count, 2);
    CHECK(watcher_next_rank(scene.watcher, first, &slot) == first);
    CHECK(watcher_next_rank(scene.watcher, first, &slot) == second);
    CHECK(watcher_next_rank(scene.watcher, first, &slot) == NULL);
    slot = 0;
    CHECK(watcher_next_rank(scene.watcher, other, &slot) == other);
    CHECK(watcher_next_rank(scene.watcher, other, &slot) == NULL);
    scene_close(&scene);
}
