// SPDX-License-Identifier: Apache-2.0
//
// An outlet and a peer that knows nothing of libzmq: the bytes of both sides are spelled out.

#include "engine/kv_outlet.h"

#include "engine/kv_log.h"
#include "engine/zmtp_client.h"
#include "test.h"

#include <stdlib.h>

struct scene {
    struct loop *loop;
    struct kv_log log;
    struct kv_outlet outlet;
    struct kv_outlet_options options;
    uint64_t next_sequence;
    struct zmtp_client client;
};

static struct scene *scene_open(bool replays_topic, uint32_t message_max)
{
    static struct scene scene;

    scene.next_sequence = 0;
    ASSERT(loop_create(&scene.loop) == STATUS_OK);
    ASSERT(kv_log_init(&scene.log, message_max, 64 << 20) == STATUS_OK);
    scene.options = (struct kv_outlet_options){.loop = scene.loop,
                                               .log = &scene.log,
                                               .host = "127.0.0.1",
                                               .has_replay = true,
                                               .topic = slice_str("kv"),
                                               .replays_topic = replays_topic,
                                               .queue_max = message_max};
    ASSERT(kv_outlet_open(&scene.outlet, &scene.options) == STATUS_OK);
    return &scene;
}

static void scene_close(struct scene *scene)
{
    client_close(&scene->client);
    kv_outlet_close(&scene->outlet);
    kv_log_fini(&scene->log);
    loop_turn(scene->loop, 0);
    loop_destroy(&scene->loop);
}

// Publishes a batch of `size` times that letter.
static void put(struct scene *scene, char letter, uint32_t size)
{
    struct kv_message *message = malloc(sizeof(*message) + size);
    ASSERT(message != NULL);
    *message = (struct kv_message){.sequence = scene->next_sequence++, .size = size};
    memset(message->bytes, letter, size);
    ASSERT(kv_log_append(&scene->log, &message) == STATUS_OK);
    kv_outlet_publish(&scene->outlet, kv_log_at(&scene->log, scene->log.end - 1));
}

// `handshake` is what a peer says before it may speak, `words` comes behind.
static bool subscribe(struct scene *scene, struct slice handshake, struct slice words)
{
    client_open(&scene->client, scene->loop, scene->outlet.live.port);
    client_say(&scene->client, handshake);
    bool is_welcome = client_hears(&scene->client, BYTES(GREETING_1 READY_XPUB));
    client_say(&scene->client, words);
    return is_welcome && client_is_in_step(&scene->client);
}

static bool introduce_dealer(struct scene *scene)
{
    client_open(&scene->client, scene->loop, scene->outlet.replay.port);
    client_say(&scene->client, BYTES(GREETING_1 READY_DEALER));
    return client_hears(&scene->client, BYTES(GREETING_1 READY_ROUTER)) &&
           client_is_in_step(&scene->client);
}

// Turns until there are so many subscribers.
static bool has_subscribers(struct scene *scene, uint32_t count)
{
    for (int i = 0; i < 1000 && scene->outlet.subscriber_count != count; i++) {
        loop_turn(scene->loop, 5);
    }
    return scene->outlet.subscriber_count == count;
}

#define NUMBER(last_byte) "\0\0\0\0\0\0\0" last_byte

TEST(a_subscriber_gets_all_batches_from_then_on)
{
    struct scene *scene = scene_open(false, 100);
    put(scene, 'a', 1);
    CHECK(subscribe(scene, BYTES(GREETING_0 READY_SUB), BYTES("")));
    put(scene, 'b', 1);
    client_say(&scene->client, BYTES("\0\1\1"));
    CHECK(has_subscribers(scene, 1));
    put(scene, 'c', 3);
    put(scene, 'd', 0);
    CHECK(client_hears(&scene->client,
                       BYTES("\1\2kv\1\10" NUMBER("\2") "\0\3ccc"
                                                        "\1\2kv\1\10" NUMBER("\3") "\0\0")));
    client_say(&scene->client, BYTES("\0\1\0"));
    CHECK(has_subscribers(scene, 0));
    put(scene, 'e', 1);
    CHECK(client_is_in_step(&scene->client));
    scene_close(scene);
}

TEST(a_subscriber_of_3_1_uses_commands)
{
    struct scene *scene = scene_open(false, 100);
    CHECK(subscribe(scene, BYTES(GREETING_1 READY_XSUB), BYTES("\4\14\11SUBSCRIBEkv")));
    CHECK(has_subscribers(scene, 1));
    put(scene, 'a', 1);
    CHECK(client_hears(&scene->client, BYTES("\1\2kv\1\10" NUMBER("\0") "\0\1a")));
    client_say(&scene->client, BYTES("\4\11\6CANCELkv"));
    CHECK(has_subscribers(scene, 0));
    scene_close(scene);
}

TEST(a_subscription_is_a_prefix_of_the_topic)
{
    struct scene *scene = scene_open(false, 100);
    // Longer than the topic; another; cancelled before it was there; a prefix.
    CHECK(subscribe(scene, BYTES(GREETING_1 READY_SUB), BYTES("\0\4\1kvx\0\2\1x\0\3\0kv\0\2\1k")));
    CHECK(has_subscribers(scene, 1));
    CHECK(scene->outlet.subscription_count >= 2);
    client_close(&scene->client);
    CHECK(has_subscribers(scene, 0)); // a peer that has left subscribes to nothing
    put(scene, 'a', 1);
    scene_close(scene);
}

TEST(peers_of_another_kind_are_dropped)
{
    const struct {
        bool is_replay;
        struct slice words;
    } cases[] = {
        {false, BYTES(GREETING_1 READY_DEALER)},
        {true, BYTES(GREETING_1 READY_SUB)},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scene *scene = scene_open(false, 100);
        client_open(&scene->client, scene->loop,
                    cases[i].is_replay ? scene->outlet.replay.port : scene->outlet.live.port);
        client_say(&scene->client, cases[i].words);
        CHECK(client_is_dropped(&scene->client));
        scene_close(scene);
    }
    struct scene *scene = scene_open(false, 100);
    // A frame of 1,025 bytes.
    subscribe(scene, BYTES(GREETING_1 READY_SUB), BYTES("\2\0\0\0\0\0\0\4\1"));
    CHECK(client_is_dropped(&scene->client));
    scene_close(scene);
}

enum { flood_count = 20000, flood_size = 4000 };

struct flood {
    uint32_t heard;
    uint32_t gap_count;
    uint32_t next; // sequence number
};

// Takes the whole messages that have come.
static void flood_read(struct flood *flood, struct zmtp_client *client)
{
    enum { frame_size = 4 + 10 + 9 + flood_size, low_bytes_at = 12 };
    for (; client->size >= frame_size; client->size -= frame_size) {
        ASSERT(memcmp(client->bytes, "\1\2kv\1\10", 6) == 0);
        uint32_t sequence =
            (uint32_t)client->bytes[low_bytes_at] << 8 | client->bytes[low_bytes_at + 1];
        flood->gap_count += sequence != flood->next;
        flood->next = sequence + 1;
        flood->heard++;
        memmove(client->bytes, client->bytes + frame_size, client->size - frame_size);
    }
}

TEST(a_slow_subscriber_delays_no_other_and_loses_whole_messages)
{
    struct scene *scene = scene_open(false, 10);
    struct zmtp_client *client = &scene->client;
    struct flood flood = {0};

    CHECK(subscribe(scene, BYTES(GREETING_1 READY_SUB), BYTES("\0\1\1")));
    CHECK(has_subscribers(scene, 1));
    for (uint32_t i = 0; i < flood_count; i++) { // 80 MB: more than the kernel and the queue hold
        put(scene, 'x', flood_size);
    }
    CHECK_EQ(scene->log.end - scene->log.oldest, 10);
    for (int i = 0; i < 20000 && flood.next != flood_count + 1; i++) {
        loop_turn(scene->loop, 1);
        client_hear(client);
        flood_read(&flood, client);
        if (flood.heard > 0 && client->size == 0 && flood.next != flood_count + 1 &&
            i % 100 == 99) {
            scene->next_sequence = flood_count;
            put(scene, 'x', flood_size); // shows the gap
        }
    }
    CHECK(flood.heard > 10 && flood.heard < flood_count);
    CHECK(flood.gap_count >= 1);
    scene_close(scene);
}

#define ASK(last_byte) "\1\0\0\10" NUMBER(last_byte)
#define END_BARE "\1\0\1\10\xff\xff\xff\xff\xff\xff\xff\xff\0\0"
#define END_TOPIC "\1\0\1\0\1\10\xff\xff\xff\xff\xff\xff\xff\xff\0\0"

TEST(a_replay_has_all_from_a_sequence_number_on_and_an_end)
{
    struct scene *scene = scene_open(false, 100);
    CHECK(introduce_dealer(scene));
    put(scene, 'a', 1);
    put(scene, 'b', 2);
    CHECK(client_is_in_step(&scene->client)); // nothing comes unasked
    client_say(&scene->client, BYTES(ASK("\0")));
    CHECK(client_hears(&scene->client,
                       BYTES("\1\0\1\10" NUMBER("\0") "\0\1a"
                                                      "\1\0\1\10" NUMBER("\1") "\0\2bb" END_BARE)));
    client_say(&scene->client, BYTES(ASK("\1") ASK("\2")));
    CHECK(client_hears(&scene->client, BYTES("\1\0\1\10" NUMBER("\1") "\0\2bb" END_BARE END_BARE)));
    CHECK(client_is_in_step(&scene->client));
    scene_close(scene);
}

TEST(a_replay_of_newer_engines_has_the_topic)
{
    struct scene *scene = scene_open(true, 100);
    CHECK(introduce_dealer(scene));
    client_say(&scene->client, BYTES(ASK("\0")));
    CHECK(client_hears(&scene->client, BYTES(END_TOPIC)));
    put(scene, 'a', 1);
    client_say(&scene->client, BYTES(ASK("\0")));
    CHECK(client_hears(&scene->client, BYTES("\1\0\1\2kv\1\10" NUMBER("\0") "\0\1a" END_TOPIC)));
    scene_close(scene);
}

TEST(a_replay_begins_with_the_oldest_batch_that_is_kept)
{
    struct scene *scene = scene_open(false, 2);
    CHECK(introduce_dealer(scene));
    for (int i = 0; i < 5; i++) {
        put(scene, (char)('a' + i), 1);
    }
    client_say(&scene->client, BYTES(ASK("\1")));
    CHECK(client_hears(&scene->client,
                       BYTES("\1\0\1\10" NUMBER("\3") "\0\1d"
                                                      "\1\0\1\10" NUMBER("\4") "\0\1e" END_BARE)));
    scene_close(scene);
}

TEST(other_requests_get_no_response)
{
    struct scene *scene = scene_open(false, 2);
    const struct slice requests[] = {
        BYTES("\0\10" NUMBER("\0")),            // without the empty frame
        BYTES("\1\0\0\7\0\0\0\0\0\0\0"),        // too short
        BYTES("\1\1x\0\10" NUMBER("\0")),       // not empty
        BYTES("\1\0\1\10" NUMBER("\0") "\0\0"), // three frames
        BYTES("\0\0"),                          // one
        BYTES("\1\0\1\0\1\0\1\0\1\0\0\10" NUMBER("\0")),
    };
    CHECK(introduce_dealer(scene));
    for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
        client_say(&scene->client, requests[i]);
        CHECK(client_is_in_step(&scene->client));
    }
    client_say(&scene->client, BYTES(ASK("\0")));
    CHECK(client_hears(&scene->client, BYTES(END_BARE)));
    scene_close(scene);
}

TEST(after_a_close_its_ports_are_free)
{
    struct scene *scene = scene_open(false, 2);
    CHECK(subscribe(scene, BYTES(GREETING_1 READY_SUB), BYTES("\0\1\1")));
    scene->options.port = scene->outlet.live.port;
    scene->options.replay_port = scene->outlet.replay.port;
    struct kv_outlet other;
    CHECK(kv_outlet_open(&other, &scene->options) == STATUS_IO);
    for (int i = 0; i < 10; i++) {
        kv_outlet_close(&scene->outlet);
        CHECK_EQ(scene->outlet.subscriber_count, 0);
        CHECK(client_is_dropped(&scene->client));
        ASSERT(kv_outlet_open(&scene->outlet, &scene->options) == STATUS_OK);
        CHECK_EQ(scene->outlet.live.port, scene->options.port);
        client_close(&scene->client);
        CHECK(subscribe(scene, BYTES(GREETING_1 READY_SUB), BYTES("\0\1\1")));
    }
    scene_close(scene);
}
