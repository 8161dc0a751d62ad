// SPDX-License-Identifier: Apache-2.0

#include "feed/kv/kv_socket.h"

#include "feed/kv/zmq_peer.h"
#include "kvevent/kv_notice.h"
#include "sys/loop.h"
#include "test.h"

enum { patience = 1000 }; // turns of 5 ms

struct scene {
    struct loop *loop;
    struct kv_sockets *sockets;
    struct kv_socket *socket;
    struct zmq_peer peer;
    uint32_t ready_count;
    struct kv_frames message;
    char error[kv_socket_error_size];
};

static void note_ready(void *owner)
{
    struct scene *scene = owner;
    scene->ready_count++;
}

static struct scene *scene_open(void)
{
    static struct scene scene;

    scene = (struct scene){0};
    ASSERT(loop_create(&scene.loop) == STATUS_OK);
    ASSERT(kv_sockets_create(scene.loop, &scene.sockets) == STATUS_OK);
    return &scene;
}

static void scene_close(struct scene *scene)
{
    peer_close(&scene->peer);
    kv_socket_close(&scene->socket);
    kv_sockets_destroy(&scene->sockets);
    ASSERT(scene->socket == NULL && scene->sockets == NULL);
    loop_destroy(&scene->loop);
}

static struct kv_socket_options at(struct scene *scene, const char *address, const char *topic)
{
    return (struct kv_socket_options){
        .address = address, .topic = topic, .ready = note_ready, .owner = scene};
}

// Turns until a message is there.
static bool hears(struct scene *scene)
{
    for (uint32_t i = 0; i < patience; i++) {
        if (kv_socket_receive(scene->socket, &scene->message) == STATUS_OK) {
            return true;
        }
        loop_turn(scene->loop, 5);
    }
    return false;
}

static enum kv_socket_news next_news(struct scene *scene)
{
    enum kv_socket_news news = kv_socket_news(scene->socket);
    for (uint32_t i = 0; i < patience && news == KV_SOCKET_NO_NEWS; i++) {
        loop_turn(scene->loop, 5);
        news = kv_socket_news(scene->socket);
    }
    return news;
}

static void publish(struct scene *scene, const char *topic, const char *payload)
{
    const struct slice frames[] = {slice_str(topic), slice_of("\0\0\0\0\0\0\0\7", 8),
                                   slice_str(payload)};
    peer_send(&scene->peer, frames, 3);
}

// A publisher and us, who has subscribed: what is sent from now on arrives.
static bool subscribe(struct scene *scene, const char *topic)
{
    peer_bind(&scene->peer, ZMQ_XPUB, NULL);
    struct kv_socket_options options = at(scene, scene->peer.address, topic);
    char subscription[64];

    if (kv_socket_subscribe(scene->sockets, &options, &scene->socket, scene->error) != STATUS_OK ||
        next_news(scene) != KV_SOCKET_CONNECTED) {
        return false;
    }
    for (uint32_t i = 0; i < patience; i++) {
        if (peer_receive(&scene->peer, subscription, sizeof(subscription)) > 0) {
            return true;
        }
        loop_turn(scene->loop, 5);
    }
    return false;
}

TEST(a_subscriber_hears_messages_whole_and_only_those_of_its_topic)
{
    struct scene *scene = scene_open();
    CHECK(subscribe(scene, "kv@"));
    publish(scene, "other", "no");
    publish(scene, "kv@a", "payload");
    publish(scene, "kv@b", "");
    CHECK(hears(scene));
    CHECK(scene->ready_count > 0);
    CHECK_EQ(scene->message.count, 3);
    CHECK(slice_is(scene->message.frames[0], "kv@a"));
    CHECK(slice_equal(scene->message.frames[1], slice_of("\0\0\0\0\0\0\0\7", 8)));
    CHECK(slice_is(scene->message.frames[2], "payload"));
    CHECK(hears(scene));
    CHECK(slice_is(scene->message.frames[0], "kv@b"));
    CHECK_EQ(scene->message.frames[2].size, 0);
    CHECK_EQ(kv_socket_receive(scene->socket, &scene->message), STATUS_AGAIN);
    scene_close(scene);
}

TEST(without_a_topic_everything_is_heard)
{
    struct scene *scene = scene_open();
    CHECK(subscribe(scene, NULL));
    publish(scene, "", "payload");
    CHECK(hears(scene));
    CHECK_EQ(scene->message.frames[0].size, 0);
    scene_close(scene);
}

TEST(a_message_after_an_empty_socket_calls_ready)
{
    struct scene *scene = scene_open();
    CHECK(subscribe(scene, NULL));
    CHECK(scene->ready_count > 0);
    CHECK_EQ(kv_socket_receive(scene->socket, &scene->message), STATUS_AGAIN);
    for (uint32_t i = 0; i < 200; i++) {
        scene->ready_count = 0;
        publish(scene, "t", "payload");
        for (uint32_t j = 0; j < patience && scene->ready_count == 0; j++) {
            loop_turn(scene->loop, 5);
        }
        CHECK(scene->ready_count > 0);
        CHECK(hears(scene));
        CHECK_EQ(kv_socket_receive(scene->socket, &scene->message), STATUS_AGAIN);
    }
    scene_close(scene);
}

TEST(a_connection_that_opens_or_closes_is_reported)
{
    struct scene *scene = scene_open();
    char address[peer_address_size];
    CHECK(subscribe(scene, NULL));
    memcpy(address, scene->peer.address, sizeof(address));
    CHECK_EQ(kv_socket_news(scene->socket), KV_SOCKET_NO_NEWS);
    peer_close(&scene->peer);
    CHECK_EQ(next_news(scene), KV_SOCKET_DISCONNECTED);
    peer_bind(&scene->peer, ZMQ_PUB, address);
    CHECK_EQ(next_news(scene), KV_SOCKET_CONNECTED);
    CHECK_EQ(kv_socket_news(scene->socket), KV_SOCKET_NO_NEWS);
    scene_close(scene);
}

TEST(a_publisher_may_come_after_its_subscriber)
{
    struct scene *scene = scene_open();
    char address[peer_address_size];
    peer_bind(&scene->peer, ZMQ_PUB, NULL);
    memcpy(address, scene->peer.address, sizeof(address));
    peer_close(&scene->peer);
    struct kv_socket_options options = at(scene, address, NULL);
    CHECK_EQ(kv_socket_subscribe(scene->sockets, &options, &scene->socket, scene->error),
             STATUS_OK);
    loop_turn(scene->loop, 20);
    CHECK_EQ(kv_socket_news(scene->socket), KV_SOCKET_NO_NEWS);
    peer_bind(&scene->peer, ZMQ_PUB, address);
    CHECK_EQ(next_news(scene), KV_SOCKET_CONNECTED);
    scene_close(scene);
}

TEST(publishers_that_connect_find_a_bound_socket)
{
    struct scene *scene = scene_open();
    struct kv_socket_options options = at(scene, "tcp://127.0.0.1:*", NULL);
    char address[kv_socket_address_size];
    CHECK_EQ(kv_socket_bind(scene->sockets, &options, &scene->socket, scene->error), STATUS_OK);
    kv_socket_address(scene->socket, address);
    CHECK(strstr(address, "tcp://127.0.0.1:") == address && strchr(address, '*') == NULL);
    peer_connect(&scene->peer, ZMQ_PUB, address);
    bool is_heard = false;
    // Until our subscription is there, what is published goes nowhere.
    for (uint32_t i = 0; i < patience && !is_heard; i++) {
        publish(scene, "kv@a", "payload");
        loop_turn(scene->loop, 5);
        is_heard = kv_socket_receive(scene->socket, &scene->message) == STATUS_OK;
    }
    CHECK(is_heard);
    CHECK(slice_is(scene->message.frames[2], "payload"));
    CHECK_EQ(kv_socket_news(scene->socket), KV_SOCKET_NO_NEWS);
    scene_close(scene);
}

TEST(a_replay_request_names_the_first_number_and_gets_all_messages)
{
    struct scene *scene = scene_open();
    uint8_t identity[64];
    uint8_t bytes[64];
    int identity_size = -1;
    peer_bind(&scene->peer, ZMQ_ROUTER, NULL);
    struct kv_socket_options options = at(scene, scene->peer.address, NULL);
    CHECK_EQ(
        kv_socket_ask(scene->sockets, &options, 0x0102030405060708, &scene->socket, scene->error),
        STATUS_OK);
    for (uint32_t i = 0; i < patience && identity_size == -1; i++) {
        loop_turn(scene->loop, 5);
        identity_size = peer_receive(&scene->peer, identity, sizeof(identity));
    }
    CHECK(identity_size > 0);
    CHECK_EQ(peer_receive(&scene->peer, bytes, sizeof(bytes)), 0);
    CHECK_EQ(peer_receive(&scene->peer, bytes, sizeof(bytes)), 8);
    CHECK_EQ(memcmp(bytes, "\1\2\3\4\5\6\7\10", 8), 0);
    CHECK_EQ(peer_receive(&scene->peer, bytes, sizeof(bytes)), -1);
    const struct slice answer[] = {slice_of(identity, (size_t)identity_size),
                                   {0},
                                   slice_str("number.."),
                                   slice_str("payload")};
    peer_send(&scene->peer, answer, 4);
    peer_send(&scene->peer, answer, 4);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(hears(scene));
        CHECK_EQ(scene->message.count, 3);
        CHECK_EQ(scene->message.frames[0].size, 0);
        CHECK(slice_is(scene->message.frames[1], "number.."));
        CHECK(slice_is(scene->message.frames[2], "payload"));
    }
    CHECK_EQ(kv_socket_receive(scene->socket, &scene->message), STATUS_AGAIN);
    scene_close(scene);
}

TEST(frames_beyond_the_limit_are_counted_and_leave_the_next_message_alone)
{
    struct scene *scene = scene_open();
    struct slice frames[kv_frame_max + 3];
    CHECK(subscribe(scene, NULL));
    for (uint32_t i = 0; i < ARRAY_COUNT(frames); i++) {
        frames[i] = slice_str("frame");
    }
    peer_send(&scene->peer, frames, ARRAY_COUNT(frames));
    publish(scene, "t", "payload");
    CHECK(hears(scene));
    CHECK_EQ(scene->message.count, ARRAY_COUNT(frames));
    CHECK(slice_is(scene->message.frames[kv_frame_max - 1], "frame"));
    CHECK(hears(scene));
    CHECK_EQ(scene->message.count, 3);
    CHECK(slice_is(scene->message.frames[2], "payload"));
    scene_close(scene);
}

TEST(a_peer_that_sends_more_than_the_limit_is_disconnected)
{
    struct scene *scene = scene_open();
    static uint8_t bytes[kv_payload_max + 1];
    CHECK(subscribe(scene, NULL));
    const struct slice frames[] = {slice_str("t"), slice_of(bytes, sizeof(bytes))};
    peer_send(&scene->peer, frames, 2);
    CHECK_EQ(next_news(scene), KV_SOCKET_DISCONNECTED);
    CHECK_EQ(kv_socket_receive(scene->socket, &scene->message), STATUS_AGAIN);
    scene_close(scene);
}

TEST(an_invalid_address_is_refused_with_a_reason)
{
    struct scene *scene = scene_open();
    struct kv_socket_options options = at(scene, "nonsense", NULL);
    CHECK_EQ(kv_socket_subscribe(scene->sockets, &options, &scene->socket, scene->error),
             STATUS_IO);
    CHECK_STR(scene->error, "nonsense: Invalid argument");
    CHECK_EQ(kv_socket_ask(scene->sockets, &options, 0, &scene->socket, scene->error), STATUS_IO);
    peer_bind(&scene->peer, ZMQ_PUB, NULL);
    options.address = scene->peer.address;
    CHECK_EQ(kv_socket_bind(scene->sockets, &options, &scene->socket, scene->error), STATUS_IO);
    CHECK(strstr(scene->error, "Address already in use") != NULL);
    CHECK(scene->socket == NULL);
    scene_close(scene);
}
