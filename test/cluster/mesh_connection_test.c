// SPDX-License-Identifier: Apache-2.0
//
// Strangers, and routers with the key that do not follow the protocol.

#include "cluster/mesh_guest.h"
#include "cluster/mesh_link.h"
#include "net/certificates.h"
#include "test.h"

static struct scene scene;
static struct scene_router *const a = &scene.routers[0];
static struct scene_router *const b = &scene.routers[1];
static struct guest guest;

static const struct tls_peer_options keyed = {.shared_key = scene_key};

__attribute__((constructor)) static void set_up(void)
{
    make_certificates();
}

static void open_alone(void)
{
    scene_start(&scene);
    scene_open(&scene, 0, NULL, 0);
}

static void check_stranger_is_ended(const char *bytes)
{
    open_alone();
    guest_connect(&guest, a);
    bool is_sent = false;
    uint64_t begin_ms = scene_now_ms();
    while (guest.is_open && scene_now_ms() - begin_ms < scene_patience_ms) {
        is_sent = is_sent || *bytes == '\0' || guest_send(&guest, bytes, strlen(bytes));
        scene_turn(&scene);
        guest_step(&guest);
    }
    CHECK(!guest.is_open);
    CHECK(guest.in_size <= 7); // an alert, and nothing of ours
    CHECK_EQ(a->came_count, 0);
    CHECK_EQ(scene_status(&scene, 0)->peer_count, 0);
    guest_close(&guest);
    scene_stop(&scene);
}

TEST(a_stranger_learns_nothing_and_is_ended)
{
    check_stranger_is_ended("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    check_stranger_is_ended("what on earth is this, and why is it so long that it must be read");
    check_stranger_is_ended("\x16\x03\x01"); // a record begins
    check_stranger_is_ended("");
}

TEST(a_router_with_half_a_hello_is_ended)
{
    open_alone();
    guest_connect_tls(&guest, a, &keyed);
    GUEST_UNTIL(&scene, &guest, guest_send(&guest, "warmmesh\x01", 9));
    GUEST_UNTIL(&scene, &guest, !guest.is_open);
    CHECK_EQ(a->came_count, 0);
    guest_close(&guest);
    scene_stop(&scene);
}

TEST(an_invalid_hello_ends_the_connection)
{
    static const char *const hellos[] = {"warmpath\x01\0\0\0", "GET / HTTP/1.1",
                                         "warmmesh\x02\0\0\0"};
    for (size_t i = 0; i < ARRAY_COUNT(hellos); i++) {
        open_alone();
        guest_connect_tls(&guest, a, &keyed);
        GUEST_UNTIL(&scene, &guest, guest_send(&guest, hellos[i], 12));
        GUEST_UNTIL(&scene, &guest, !guest.is_open);
        CHECK(guest.in_size >= mesh_hello_head_size); // so that both can name both versions
        CHECK_EQ(a->came_count, 0);
        guest_close(&guest);
        scene_stop(&scene);
    }
}

TEST(a_router_with_a_higher_id_comes_by_its_hello)
{
    open_alone();
    guest_connect_tls(&guest, a, &keyed);
    GUEST_UNTIL(&scene, &guest, guest_send_hello(&guest, 9));
    GUEST_UNTIL(&scene, &guest, a->there == 1 << 8);
    CHECK_STR(a->last_name, "guest");
    GUEST_UNTIL(&scene, &guest, guest.in_size >= mesh_hello_head_size + 4);
    CHECK(guest_send(&guest, "\x03\0\0\0one\0\0\0\0\x03\0", 13));
    CHECK(guest_send(&guest, "\0\0two", 5));
    GUEST_UNTIL(&scene, &guest, a->frame_count == 2);
    CHECK_STR(a->frames[0], "one");
    CHECK_STR(a->frames[1], "two");
    guest_close(&guest);
    SCENE_UNTIL(&scene, a->there == 0);
    scene_stop(&scene);
}

TEST(a_router_with_a_lower_id_comes_by_its_first_beat)
{
    scene_start(&scene);
    scene_open(&scene, 1, NULL, 0);
    guest_connect_tls(&guest, b, &keyed);
    GUEST_UNTIL(&scene, &guest, guest_send_hello(&guest, 1));
    uint64_t end_ms = scene_now_ms() + 100;
    GUEST_UNTIL(&scene, &guest, scene_now_ms() > end_ms);
    CHECK_EQ(b->there, 0);
    CHECK(guest_send(&guest, "\0\0\0\0\x03\0\0\0one", 11));
    GUEST_UNTIL(&scene, &guest, b->frame_count == 1);
    CHECK_EQ(b->there, 1);
    guest_close(&guest);
    SCENE_UNTIL(&scene, b->there == 0);

    guest_connect_tls(&guest, b, &keyed);
    GUEST_UNTIL(&scene, &guest, guest_send_hello(&guest, 1));
    CHECK(guest_send(&guest, "\x03\0\0\0one", 7)); // no beat
    GUEST_UNTIL(&scene, &guest, !guest.is_open);
    CHECK_EQ(b->came_count, 1);
    guest_close(&guest);
    scene_stop(&scene);
}

TEST(an_oversized_frame_ends_the_connection)
{
    open_alone();
    guest_connect_tls(&guest, a, &keyed);
    GUEST_UNTIL(&scene, &guest, guest_send_hello(&guest, 9));
    GUEST_UNTIL(&scene, &guest, a->there != 0);
    CHECK(guest_send(&guest, "\x03\0\0\0one\x01\x80\0\0", 11));
    GUEST_UNTIL(&scene, &guest, !guest.is_open);
    CHECK_EQ(a->frame_count, 1);
    CHECK_EQ(a->left_count, 1);
    guest_close(&guest);
    scene_stop(&scene);
}

TEST(a_second_connection_of_a_router_that_is_there_is_ended)
{
    struct guest second;
    open_alone();
    guest_connect_tls(&guest, a, &keyed);
    GUEST_UNTIL(&scene, &guest, guest_send_hello(&guest, 9));
    GUEST_UNTIL(&scene, &guest, a->there != 0);
    guest_connect_tls(&second, a, &keyed);
    GUEST_UNTIL(&scene, &second, guest_send_hello(&second, 9));
    GUEST_UNTIL(&scene, &second, !second.is_open);
    CHECK_EQ(a->came_count, 1);
    CHECK_EQ(a->left_count, 0);
    CHECK(guest_send(&guest, "\x03\0\0\0one", 7));
    GUEST_UNTIL(&scene, &guest, a->frame_count == 1);
    guest_close(&guest);
    guest_close(&second);
    scene_stop(&scene);
}

TEST(a_newer_connection_takes_the_place_of_a_silent_one)
{
    struct guest second;
    open_alone();
    guest_connect_tls(&guest, a, &keyed);
    GUEST_UNTIL(&scene, &guest, guest_send_hello(&guest, 9));
    GUEST_UNTIL(&scene, &guest, a->there != 0);
    uint64_t come_ms = scene_now_ms();
    guest_connect_tls(&second, a, &keyed);
    GUEST_UNTIL(&scene, &second, tls_handshake(second.tls) == STATUS_OK);
    scene_turn_for(&scene, 1200);
    GUEST_UNTIL(&scene, &second, guest_send_hello(&second, 9));
    GUEST_UNTIL(&scene, &second, a->came_count == 2);
    // Else silence came first, on a machine that stood still.
    CHECK(a->left_count == 1 || scene_now_ms() - come_ms > link_silence_ms);
    CHECK(guest_send(&second, "\x03\0\0\0one", 7));
    GUEST_UNTIL(&scene, &second, a->frame_count == 1);
    guest_close(&guest);
    guest_close(&second);
    scene_stop(&scene);
}

TEST(idle_strangers_do_not_lock_out_a_router)
{
    enum { stranger_count = 150 };
    static struct guest strangers[stranger_count];
    open_alone();
    for (int i = 0; i < stranger_count; i++) {
        guest_connect(&strangers[i], a);
        scene_turn(&scene);
    }
    uint64_t begin_ms = scene_now_ms();
    scene_open(&scene, 1, (uint32_t[]){0}, 1);
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    // Without ending strangers, it would have waited until their time is over.
    printf("# a router came after %u ms\n", (unsigned)(scene_now_ms() - begin_ms));
    int open_count = 0;
    for (int i = 0; i < stranger_count; i++) {
        guest_step(&strangers[i]);
        open_count += strangers[i].is_open;
    }
    CHECK(open_count <= 64);
    uint64_t end_ms = scene_now_ms() + scene_patience_ms;
    while (open_count > 0 && scene_now_ms() < end_ms) {
        scene_turn(&scene);
        open_count = 0;
        for (int i = 0; i < stranger_count; i++) {
            guest_step(&strangers[i]);
            open_count += strangers[i].is_open;
        }
    }
    CHECK_EQ(open_count, 0);
    CHECK_EQ(a->there, 2);
    for (int i = 0; i < stranger_count; i++) {
        guest_close(&strangers[i]);
    }
    scene_stop(&scene);
}

static void open_certified(uint32_t index, const char *certificate, const char *ca)
{
    struct mesh_options options = scene_options(&scene, index);
    const char *peers[] = {scene.routers[1 - index].address};
    options.shared_key = NULL;
    options.certificate = file_in_dir(certificate);
    options.key = file_in_dir("key.pem");
    options.ca = file_in_dir(ca);
    options.peers = peers;
    options.peer_count = 1;
    scene_open_with(&scene, index, &options);
}

TEST(routers_with_certificates_of_one_authority_meet)
{
    scene_start(&scene);
    open_certified(0, "leaf.pem", "ca.pem");
    open_certified(1, "wildcard.pem", "ca.pem");
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    CHECK(link_send(a->link, 2, slice_str("one")));
    SCENE_UNTIL(&scene, b->frame_count == 1);
    scene_stop(&scene);
}

TEST(a_certificate_of_another_authority_is_refused_both_ways)
{
    scene_start(&scene);
    open_certified(0, "leaf.pem", "ca.pem");
    open_certified(1, "self_signed.pem", "ca.pem");
    SCENE_UNTIL(&scene, scene_has_why(&scene, 0, "self-signed certificate"));
    SCENE_UNTIL(&scene, scene_has_why(&scene, 1, "does not trust the authority"));
    CHECK_EQ(a->came_count + b->came_count, 0);
    link_close(&b->link);
    open_certified(1, "leaf.pem", "ca.pem");
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    scene_stop(&scene);
}
