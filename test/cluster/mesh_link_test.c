// SPDX-License-Identifier: Apache-2.0

#include "cluster/mesh_link.h"

#include "cluster/mesh_scene.h"
#include "cluster/mesh_wire.h"
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

TEST(the_largest_frame_arrives)
{
    static uint8_t frame[link_frame_size_max];
    scene_start(&scene);
    scene_open(&scene, 0, NULL, 0);
    scene_open(&scene, 1, (uint32_t[]){0}, 1);
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    CHECK(link_send(a->link, 2, slice_of(frame, sizeof(frame))));
    CHECK(link_send(a->link, 2, slice_of("x", 1)));
    SCENE_UNTIL(&scene, b->frame_count == 2);
    CHECK_EQ(b->frame_bytes, sizeof(frame) + 1);
    const struct link_peer_status *peer = &scene_status(&scene, 0)->peers[0];
    CHECK(peer->is_there);
    CHECK_EQ(peer->router, 2);
    CHECK_STR(peer->name, "router-2");
    CHECK(peer->bytes_out >= sizeof(frame) + 1 + 2UL * mesh_frame_head_size);
    CHECK_EQ(peer->frames_dropped, 0);
    CHECK_STR(scene_status(&scene, 0)->kind, "mesh");
    CHECK(scene_status(&scene, 0)->is_up);
    CHECK(scene_status(&scene, 0)->bytes_out >= sizeof(frame));
    scene_stop(&scene);
}

TEST(frames_sent_right_before_the_link_closes_arrive)
{
    static uint8_t frame[link_frame_size_max]; // two records: some wait in the queue
    scene_start(&scene);
    scene_open(&scene, 0, NULL, 0);
    scene_open(&scene, 1, (uint32_t[]){0}, 1);
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    for (int i = 0; i < 3; i++) {
        CHECK(link_send(b->link, 1, slice_of(frame, sizeof(frame))));
    }
    CHECK(send_text(b, 1, "goodbye"));
    link_close(&b->link);
    SCENE_UNTIL(&scene, a->left_count == 1);
    CHECK_EQ(a->frame_count, 4);
    CHECK_STR(a->frames[3], "goodbye");
    scene_stop(&scene);
}

static void greet_came(void *owner, uint64_t router, const char *name, struct slice hello)
{
    struct scene_router *self = owner;
    scene_came(owner, router, name, hello);
    ASSERT(link_send(self->link, router, slice_str("welcome")));
}

static void greet_left(void *owner, uint64_t router)
{
    struct scene_router *self = owner;
    scene_left(owner, router);
    ASSERT(!link_send(self->link, router, slice_str("are you there?")));
    (void)link_send(self->link, 0, slice_str("it left"));
}

TEST(callbacks_may_send)
{
    static const struct link_events events = {greet_came, greet_left, scene_frame};
    scene_start(&scene);
    for (uint32_t i = 0; i < 3; i++) {
        struct mesh_options options = scene_options(&scene, i);
        const char *peers[] = {a->address, b->address, c->address};
        options.link.events = &events;
        options.peers = peers;
        options.peer_count = 3;
        scene_open_with(&scene, i, &options);
    }
    SCENE_UNTIL(&scene, a->frame_count == 2 && b->frame_count == 2 && c->frame_count == 2);
    CHECK_STR(a->frames[0], "welcome");
    link_close(&c->link);
    SCENE_UNTIL(&scene, a->frame_count == 3 && b->frame_count == 3);
    CHECK_STR(a->frames[2], "it left");
    scene_stop(&scene);
}

TEST(a_link_on_port_0_says_which_port_it_got)
{
    struct address address;
    char text[64] = "";
    scene_start(&scene);
    struct mesh_options options = scene_options(&scene, 0);
    options.listen = "127.0.0.1:0";
    scene_open_with(&scene, 0, &options);
    mesh_link_address(a->link, &address);
    struct text out = text_over(text, sizeof(text) - 1);
    address_format(&address, &out);
    CHECK(strncmp(text, "127.0.0.1:", 10) == 0 && strcmp(text, "127.0.0.1:0") != 0);
    snprintf(a->address, sizeof(a->address), "%s", text);
    scene_open(&scene, 1, (uint32_t[]){0}, 1);
    SCENE_UNTIL(&scene, a->there == 2);
    scene_stop(&scene);
}

static const char *why_not(struct mesh_options options)
{
    static char error[link_error_size];
    struct link *link = NULL;
    enum status status = mesh_link_open(&options, &link, error);
    ASSERT((status == STATUS_OK) == (link != NULL));
    link_close(&link);
    return error;
}

TEST(an_option_that_does_not_fit_is_named)
{
    scene_start(&scene);
    struct mesh_options good = scene_options(&scene, 0);
    CHECK_STR(why_not(good), "");
    CHECK_STR(why_not(good), ""); // the port is free again

    struct mesh_options bad = good;
    bad.shared_key = NULL;
    const char *identity =
        "peers need either a shared key, or a certificate with its key and authority";
    CHECK_STR(why_not(bad), identity);
    bad.certificate = bad.key = "/nowhere/a.pem";
    CHECK_STR(why_not(bad), identity);
    bad.ca = "/nowhere/ca.pem";
    CHECK_STR(why_not(bad), "/nowhere/a.pem: No such file or directory");
    bad.shared_key = scene_key;
    CHECK_STR(why_not(bad), identity);

    bad = good;
    bad.listen = "host:7946";
    CHECK_STR(why_not(bad), "host:7946: expected an address and a port");
    scene_open(&scene, 0, NULL, 0);
    char expected[128];
    snprintf(expected, sizeof(expected), "%s: Address already in use", a->address);
    CHECK_STR(why_not(good), expected);

    static const char *many[65];
    for (size_t i = 0; i < ARRAY_COUNT(many); i++) {
        many[i] = "10.0.0.1:1";
    }
    bad = scene_options(&scene, 1);
    bad.peers = many;
    bad.peer_count = ARRAY_COUNT(many);
    CHECK_STR(why_not(bad), "65 peers; the most are 64");
    bad = scene_options(&scene, 1);
    snprintf(bad.link.name, sizeof(bad.link.name), "line\nbreak");
    CHECK_STR(why_not(bad), "the name of this router is not printable");
    scene_stop(&scene);
}
