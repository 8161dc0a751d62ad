// SPDX-License-Identifier: Apache-2.0
//
// When routers come and leave, and how their queues and inputs are bounded.

#include "base/rng.h"
#include "cluster/mesh_guest.h"
#include "cluster/mesh_link.h"
#include "test.h"

static struct scene scene;
static struct scene_router *const a = &scene.routers[0];
static struct scene_router *const b = &scene.routers[1];
static struct scene_router *const c = &scene.routers[2];
static struct guest guest;

static const struct tls_peer_options keyed = {.shared_key = scene_key};

static void open_pair(void)
{
    scene_start(&scene);
    scene_open(&scene, 0, (uint32_t[]){1}, 1);
    scene_open(&scene, 1, (uint32_t[]){0}, 1);
}

TEST(idle_routers_stay)
{
    open_pair();
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    uint64_t heard_ms = scene_status(&scene, 0)->peers[0].heard_ms;
    scene_turn_for(&scene, link_silence_ms + 500);
    CHECK_EQ(a->came_count + b->came_count, 2);
    CHECK_EQ(a->left_count + b->left_count, 0);
    CHECK(scene_status(&scene, 0)->peers[0].heard_ms >= heard_ms + link_silence_ms / 2);
    scene_stop(&scene);
}

static void stop_and_start(uint32_t round)
{
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    uint64_t begin_ms = scene_now_ms();
    link_close(&b->link);
    b->there = 0;
    SCENE_UNTIL(&scene, a->left_count == round);
    CHECK(scene_now_ms() - begin_ms < link_silence_ms);
    scene_open(&scene, 1, (uint32_t[]){0}, 1);
}

TEST(a_router_that_stops_leaves_at_once_and_comes_again)
{
    open_pair();
    for (uint32_t round = 1; round <= 5; round++) {
        stop_and_start(round);
    }
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    scene_stop(&scene);
}

TEST(a_router_whose_loop_stands_still_leaves_after_the_silence_and_comes_again)
{
    open_pair();
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    uint64_t heard_ms = scene_status(&scene, 0)->peers[0].heard_ms;
    b->is_still = true;
    SCENE_UNTIL(&scene, a->there == 0);
    CHECK(scene_now_ms() - heard_ms >= link_silence_ms);
    CHECK(scene_has_why(&scene, 0, "heard nothing for 2000 ms"));
    CHECK_EQ(b->left_count, 0); // it does not know yet
    b->is_still = false;
    SCENE_UNTIL(&scene, b->left_count == 1 && a->there == 2 && b->there == 1);
    CHECK(link_send(a->link, 2, slice_str("one")));
    SCENE_UNTIL(&scene, b->frame_count == 1);
    scene_stop(&scene);
}

TEST(a_router_whose_kernel_is_silent_leaves)
{
    scene_start(&scene);
    scene_open(&scene, 0, NULL, 0);
    guest_connect_tls(&guest, a, &keyed);
    GUEST_UNTIL(&scene, &guest, guest_send_hello(&guest, 9));
    GUEST_UNTIL(&scene, &guest, a->there != 0);
    SCENE_UNTIL(&scene, a->there == 0); // the guest sends no beat
    CHECK_EQ(a->left_count, 1);
    guest_close(&guest);
    scene_stop(&scene);
}

TEST(a_killed_router_leaves_by_its_reset)
{
    scene_start(&scene);
    scene_open(&scene, 0, NULL, 0);
    guest_connect_tls(&guest, a, &keyed);
    GUEST_UNTIL(&scene, &guest, guest_send_hello(&guest, 9));
    GUEST_UNTIL(&scene, &guest, a->there != 0);
    tcp_abort_on_close(guest.fd);
    guest_close(&guest);
    SCENE_UNTIL(&scene, a->there == 0);
    // Frames to routers that are not there are dropped.
    CHECK(!link_send(a->link, 9, slice_str("one")));
    CHECK_EQ(link_room(a->link, 9), 0);
    scene_stop(&scene);
}

TEST(a_router_that_does_not_read_loses_frames_and_delays_no_other)
{
    static uint8_t frame[link_frame_size_max];
    scene_start(&scene);
    scene_open(&scene, 0, NULL, 0);
    scene_open(&scene, 1, (uint32_t[]){0}, 1);
    scene_open(&scene, 2, (uint32_t[]){0}, 1);
    SCENE_UNTIL(&scene, a->there == 6);
    SCENE_UNTIL(&scene, b->there == 1 && c->there == 1);
    CHECK_EQ(link_room(a->link, 0), scene_out_size - mesh_frame_head_size);
    b->is_still = true;
    uint32_t sent = 0;
    bool is_dropped = false;
    while (!is_dropped && sent < 2000) {
        is_dropped = !link_send(a->link, 0, slice_of(frame, sizeof(frame)));
        sent++;
        while (c->frame_count < sent && c->there != 0) {
            scene_turn(&scene);
        }
    }
    CHECK(is_dropped);
    CHECK_EQ(c->frame_count, sent);
    CHECK(link_room(a->link, 2) < sizeof(frame));
    CHECK(link_room(a->link, 0) == link_room(a->link, 2));
    CHECK(link_room(a->link, 3) > link_room(a->link, 2));
    CHECK(!link_send(a->link, 2, slice_of(frame, sizeof(frame))));
    CHECK(link_send(a->link, 3, slice_of(frame, sizeof(frame))));
    const struct link_status *status = scene_status(&scene, 0);
    CHECK_EQ(status->peer_count, 2);
    CHECK_EQ(status->frames_dropped, 2);
    CHECK_EQ(status->peers[0].frames_dropped + status->peers[1].frames_dropped, 2);
    CHECK(status->peers[0].frames_dropped == 0 || status->peers[1].frames_dropped == 0);
    printf("# %u frames until the first was dropped\n", sent);
    scene_stop(&scene);
}

// Sends frames of random sizes to an echo, never more than fits; returns the sum of their sizes.
static uint64_t send_flood(uint32_t count)
{
    static char frame[link_frame_size_max];
    struct rng rng = {.state = 3};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count && a->there != 0; i++) {
        uint32_t size = 32 + rng_below(&rng, sizeof(frame) - 32);
        while (a->there != 0 &&
               (link_room(a->link, 2) < size || link_room(b->link, 1) < 2 * sizeof(frame))) {
            scene_turn(&scene);
        }
        snprintf(frame, 32, "frame %u", i);
        bytes += link_send(a->link, 2, slice_of(frame, size)) ? size : 0;
    }
    return bytes;
}

TEST(a_flood_both_ways_arrives_whole_and_in_order)
{
    enum { count = 200 };
    open_pair();
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    b->echoes = true;
    uint64_t bytes = send_flood(count);
    SCENE_UNTIL(&scene, a->frame_bytes == bytes && b->frame_bytes == bytes);
    CHECK_EQ(a->frame_count, count);
    for (uint32_t i = 0; i < count; i++) {
        char text[32];
        snprintf(text, sizeof(text), "frame %u", i);
        CHECK_STR(b->frames[i], text);
        CHECK_STR(a->frames[i], text);
    }
    CHECK_EQ(scene_status(&scene, 0)->frames_dropped, 0);
    scene_stop(&scene);
}

// Sends as much as fits in less than the silence; returns the number of frames.
static uint32_t fill_kernel(uint32_t count_max)
{
    static uint8_t frame[link_frame_size_max];
    uint64_t end_ms = scene_now_ms() + 1000;
    uint32_t sent = 0;
    while (sent < count_max && scene_now_ms() < end_ms) {
        bool has_room = link_room(b->link, 1) >= sizeof(frame);
        sent += has_room && link_send(b->link, 1, slice_of(frame, sizeof(frame)));
        scene_turn(&scene);
    }
    return sent;
}

TEST(one_turn_reads_a_bounded_part_of_a_flood)
{
    open_pair();
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    a->is_still = true;
    uint32_t sent = fill_kernel(40);
    loop_turn(a->loop, 100);
    printf("# %u frames were sent, %u read in one turn\n", sent, a->frame_count);
    // The event, and the timer that goes on.
    CHECK(a->frame_bytes <= 2UL * ((256 << 10) + 3 * link_frame_size_max));
    a->is_still = false;
    SCENE_UNTIL(&scene, a->frame_count == sent);
    scene_stop(&scene);
}

TEST(more_routers_than_the_limit_are_refused)
{
    static struct guest guests[link_peer_count_max + 1];
    scene_start(&scene);
    scene_open(&scene, 0, NULL, 0);
    for (uint32_t i = 0; i < link_peer_count_max; i++) {
        guest_connect_tls(&guests[i], a, &keyed);
    }
    uint64_t end_ms = scene_now_ms() + scene_patience_ms;
    uint64_t all = ((1ULL << link_peer_count_max) - 1) << 1;
    bool has_said[link_peer_count_max] = {0};
    while (a->there != all && scene_now_ms() < end_ms) {
        for (uint32_t i = 0; i < link_peer_count_max; i++) {
            guest_step(&guests[i]);
            has_said[i] = has_said[i] ? guest_send(&guests[i], "\0\0\0\0", 4)
                                      : guest_send_hello(&guests[i], i + 2);
        }
        scene_turn(&scene);
    }
    CHECK_EQ(a->there, all);
    struct guest *last = &guests[link_peer_count_max];
    guest_connect_tls(last, a, &keyed);
    GUEST_UNTIL(&scene, last, guest_send_hello(last, 60));
    GUEST_UNTIL(&scene, last, !last->is_open);
    CHECK_EQ(a->came_count, link_peer_count_max);
    for (uint32_t i = 0; i <= link_peer_count_max; i++) {
        guest_close(&guests[i]);
    }
    SCENE_UNTIL(&scene, a->there == 0);
    scene_stop(&scene);
}
