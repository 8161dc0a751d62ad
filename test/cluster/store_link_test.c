// SPDX-License-Identifier: Apache-2.0
//
// Links and a real redis-server; store_connection_test.c has scripted ones.

#include "cluster/store_link.h"

#include "cluster/redis_server.h"
#include "cluster/store_scene.h"

static struct redis_server server;

static const char *url_of(const struct redis_server *one)
{
    static char text[128];
    snprintf(text, sizeof(text), "redis://127.0.0.1:%u", one->port);
    return text;
}

static bool begin(uint32_t node_count)
{
    if (!redis_is_installed()) {
        return false;
    }
    server = (struct redis_server){0};
    redis_start(&server);
    scene_begin(url_of(&server));
    for (uint32_t i = 0; i < node_count; i++) {
        scene_open(i);
    }
    return true;
}

static void end(void)
{
    scene_end();
    redis_stop(&server);
}

// Sends until it arrives: frames during trouble may be lost.
#define CHECK_FRAMES_FLOW(from, to)                                                                \
    do {                                                                                           \
        uint32_t flow_before = scene.nodes[to].frame_count;                                        \
        (void)scene_send(from, -1);                                                                \
        TURN_UNTIL(scene.nodes[to].frame_count > flow_before);                                     \
    } while (0)

TEST(two_links_meet_and_exchange_frames_in_order)
{
    if (!begin(2)) {
        return;
    }
    TURN_UNTIL(scene_are_there(2));
    CHECK_EQ(scene.nodes[0].came_count, 1);
    CHECK(scene.nodes[0].came_last == scene.nodes[1].router);
    CHECK_STR(scene.nodes[0].name_last, "node 1");
    CHECK_STR(scene.nodes[0].hello_last, "hello\1");
    for (int i = 0; i < 200; i++) {
        CHECK(scene_send(0, -1));
        CHECK(scene_send(1, -1));
    }
    TURN_UNTIL(scene.nodes[0].frame_count == 200 && scene.nodes[1].frame_count == 200);
    CHECK(!scene.nodes[0].is_out_of_order && !scene.nodes[1].is_out_of_order);
    CHECK_EQ(scene_log_count("connected"), 2);
    CHECK_EQ(scene_log_count("lost"), 0);
    CHECK_EQ(store_link_skipped(scene.nodes[0].link), 0);
    end();
}

TEST(three_links_exchange_frames_to_all_and_to_one_in_one_order)
{
    if (!begin(3)) {
        return;
    }
    TURN_UNTIL(scene_are_there(3));
    for (int i = 0; i < 100; i++) {
        CHECK(scene_send(0, -1));
        CHECK(scene_send(0, 1));
        CHECK(scene_send(0, 1));
        CHECK(scene_send(2, 0));
        if (i % 10 == 0) {
            loop_turn(scene.loop, 1);
        }
    }
    TURN_UNTIL(scene.nodes[1].frame_count == 300 && scene.nodes[2].frame_count == 100 &&
               scene.nodes[0].frame_count == 100);
    for (int i = 0; i < 3; i++) {
        CHECK(!scene.nodes[i].is_out_of_order && !scene.nodes[i].came_late);
    }
    end();
}

TEST(a_link_that_closes_leaves_at_once_and_one_that_dies_within_three_seconds)
{
    if (!begin(3)) {
        return;
    }
    TURN_UNTIL(scene_are_there(3));
    uint64_t start_ms = scene_now_ms();
    scene_close(2);
    TURN_UNTIL(scene.nodes[0].left_count == 1 && scene.nodes[1].left_count == 1);
    CHECK(scene_now_ms() - start_ms < link_silence_ms);
    CHECK(scene.nodes[0].left_last == scene.nodes[2].router);
    scene_open(2);
    TURN_UNTIL(scene_are_there(3));
    CHECK_EQ(scene.nodes[0].came_count, 3);
    end();
}

TEST(keys_expire_and_carry_the_name_of_the_cluster)
{
    if (!begin(2)) {
        return;
    }
    TURN_UNTIL(scene_are_there(2));
    CHECK(scene_send(0, -1) && scene_send(0, 1));
    TURN_UNTIL(scene.nodes[1].frame_count == 2);
    CHECK(strncmp(redis_ask(&server, "EVAL \"local n = 0; for _, k in ipairs(redis.call('KEYS', "
                                     "'*')) do if redis.call('PTTL', k) > 0 and string.find(k, "
                                     "'warmpath:{test}:', 1, true) == 1 then n = n + 1 else n = n "
                                     "+ 100 end end return n\" 0"),
                  ":4\r\n", 4) == 0);
    end();
}
