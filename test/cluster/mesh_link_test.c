// SPDX-License-Identifier: Apache-2.0

#include "cluster/mesh_link.h"

#include "cluster/mesh_scene.h"
#include "test.h"

static struct scene scene;
static struct scene_router *const a = &scene.routers[0];
static struct scene_router *const b = &scene.routers[1];
static struct scene_router *const c = &scene.routers[2];

static bool send_text(struct scene_router *from, uint64_t to, const char *text)
{
    return link_send(from->link, to, slice_str(text));
}

TEST(two_routers_exchange_frames_in_order)
{
    char text[32];
    scene_start(&scene);
    scene_open(&scene, 0, NULL, 0);
    scene_open(&scene, 1, (uint32_t[]){0}, 1);
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    CHECK_STR(a->last_name, "router-2");
    CHECK_STR(b->last_name, "router-1");
    CHECK_STR(a->last_hello, "shape");
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof(text), "frame %d", i);
        CHECK(send_text(a, 2, text));
        CHECK(send_text(b, 0, text));
    }
    SCENE_UNTIL(&scene, a->frame_count == 100 && b->frame_count == 100);
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof(text), "frame %d", i);
        CHECK_STR(a->frames[i], text);
        CHECK_STR(b->frames[i], text);
    }
    CHECK_EQ(a->came_count, 1);
    CHECK_EQ(a->left_count, 0);
    scene_stop(&scene);
}

TEST(three_routers_that_dial_each_other_have_one_connection_for_each_pair)
{
    scene_start(&scene);
    scene_reserve(&scene, 3);
    scene_open(&scene, 0, (uint32_t[]){1, 2}, 2);
    scene_open(&scene, 1, (uint32_t[]){0, 2}, 2);
    scene_open(&scene, 2, (uint32_t[]){0, 1}, 2);
    SCENE_UNTIL(&scene, a->there == 6 && b->there == 5 && c->there == 3);
    CHECK(send_text(a, 0, "to both"));
    SCENE_UNTIL(&scene, b->frame_count == 1 && c->frame_count == 1);
    CHECK_EQ(b->last_from, 1);
    CHECK(send_text(c, 2, "to one"));
    SCENE_UNTIL(&scene, b->frame_count == 2);
    CHECK_EQ(b->last_from, 3);
    CHECK(!send_text(c, 4, "to nobody"));
    scene_turn_for(&scene, 1500);
    CHECK_EQ(a->frame_count, 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(scene.routers[i].came_count, 2);
        CHECK_EQ(scene.routers[i].left_count, 0);
        CHECK_EQ(scene_status(&scene, i)->peer_count, 2);
    }
    scene_stop(&scene);
}
