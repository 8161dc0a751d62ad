// SPDX-License-Identifier: Apache-2.0
//
// An outlet and its peers in one loop.  The bytes of both sides are spelled out.

#include "engine/kv_outlet.h"

#include "base/text.h"
#include "engine/kv_log.h"
#include "engine/zmtp_client.h"
#include "sys/pushed_clock.h"
#include "test.h"

#include <arpa/inet.h>

struct scene {
    struct loop *loop;
    struct kv_log log;
    struct kv_outlet outlet;
    uint16_t port;
    uint64_t next_sequence;
    struct zmtp_client client;
};

static struct scene *scene_open(enum kv_outlet_kind kind, bool replays_topic, uint32_t message_max)
{
    static struct scene scene;
    struct address address;

    scene.next_sequence = 0;
    ASSERT(loop_create(&scene.loop) == STATUS_OK);
    ASSERT(kv_log_init(&scene.log, message_max, 64 << 20) == STATUS_OK);
    ASSERT(address_parse("127.0.0.1:0", &address) == STATUS_OK);
    ASSERT(kv_outlet_open(&scene.outlet,
                          &(struct kv_outlet_options){.loop = scene.loop,
                                                      .log = &scene.log,
                                                      .kind = kind,
                                                      .topic = slice_str("kv"),
                                                      .replays_topic = replays_topic},
                          &address) == STATUS_OK);
    ASSERT(tcp_local(scene.outlet.source.fd, &address) == STATUS_OK);
    scene.port = ntohs(((const struct sockaddr_in *)(const void *)address.bytes)->sin_port);
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

// A message with the topic, a sequence number of one byte, and a payload of that letter.
static void put(struct scene *scene, char letter, uint8_t size)
{
    uint8_t space[300];
    struct text out = text_over(space, sizeof(space));
    uint8_t sequence = (uint8_t)scene->next_sequence;

    text_add(&out, BYTES("\1\2kv\1\1"));
    text_add(&out, slice_of(&sequence, 1));
    text_add(&out, slice_of("\0", 1));
    text_add(&out, slice_of(&size, 1));
    for (uint8_t i = 0; i < size; i++) {
        text_add(&out, slice_of(&letter, 1));
    }
    struct kv_message *message = kv_message_create(out.size);
    ASSERT(message != NULL);
    memcpy(message->bytes, space, out.size);
    message->topic_size = 4;
    message->sequence = scene->next_sequence++;
    ASSERT(kv_log_append(&scene->log, &message) == STATUS_OK);
    kv_outlet_push(&scene->outlet);
}

static bool introduce(struct scene *scene, struct slice greeting, struct slice ready)
{
    bool is_pub = scene->outlet.options.kind == KV_OUTLET_PUB;
    client_open(&scene->client, scene->loop, scene->port);
    client_say(&scene->client, greeting);
    client_say(&scene->client, ready);
    return client_hears(&scene->client, BYTES(GREETING_1)) &&
           client_hears(&scene->client, is_pub ? BYTES(READY_PUB) : BYTES(READY_ROUTER)) &&
           client_is_in_step(&scene->client);
}

TEST(a_subscriber_of_3_0_gets_what_comes_from_then_on)
{
    struct scene *scene = scene_open(KV_OUTLET_PUB, false, 100);
    put(scene, 'a', 1);
    CHECK(introduce(scene, BYTES(GREETING_0), BYTES(READY_SUB)));
    put(scene, 'b', 1);
    CHECK_EQ(scene->outlet.subscriber_count, 0);
    client_say(&scene->client, BYTES("\0\1\1"));
    CHECK(client_is_in_step(&scene->client));
    CHECK_EQ(scene->outlet.subscriber_count, 1);
    put(scene, 'c', 3);
    put(scene, 'd', 0);
    CHECK(client_hears(&scene->client, BYTES("\1\2kv\1\1\2\0\3ccc\1\2kv\1\1\3\0\0")));
    client_say(&scene->client, BYTES("\0\1\0"));
    CHECK(client_is_in_step(&scene->client));
    CHECK_EQ(scene->outlet.subscriber_count, 0);
    put(scene, 'e', 1);
    CHECK(client_is_in_step(&scene->client));
    scene_close(scene);
}

TEST(a_subscriber_of_3_1_uses_commands)
{
    struct scene *scene = scene_open(KV_OUTLET_PUB, false, 100);
    CHECK(introduce(scene, BYTES(GREETING_1), BYTES(READY_XSUB)));
    client_say(&scene->client, BYTES("\4\14\11SUBSCRIBEkv"));
    CHECK(client_is_in_step(&scene->client));
    put(scene, 'a', 1);
    CHECK(client_hears(&scene->client, BYTES("\1\2kv\1\1\0\0\1a")));
    client_say(&scene->client, BYTES("\4\11\6CANCELkv"));
    CHECK(client_is_in_step(&scene->client));
    put(scene, 'b', 1);
    CHECK(client_is_in_step(&scene->client));
    scene_close(scene);
}

TEST(subscriptions_are_a_set_of_beginnings_of_the_topic)
{
    struct scene *scene = scene_open(KV_OUTLET_PUB, false, 100);
    const struct {
        struct slice words;
        uint32_t subscriber_count;
    } steps[] = {
        {BYTES("\0\4\1kvx"), 0}, // longer than the topic
        {BYTES("\0\2\1x"), 0},   // another
        {BYTES("\0\2\0k"), 0},   // cancelled before it was there
        {BYTES("\0\2\1k"), 1},   //
        {BYTES("\0\2\1k"), 1},   // twice
        {BYTES("\0\3\1kv"), 1},  //
        {BYTES("\0\2\0k"), 1},   // once is enough
        {BYTES("\0\3\0kv"), 0},  //
        {BYTES("\0\3\2kv"), 0},  // no subscription at all
        {BYTES("\4\3\2XY"), 0},  // a command of the future
    };
    CHECK(introduce(scene, BYTES(GREETING_1), BYTES(READY_SUB)));
    for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
        client_say(&scene->client, steps[i].words);
        CHECK(client_is_in_step(&scene->client));
        CHECK_EQ(scene->outlet.subscriber_count, steps[i].subscriber_count);
    }
    scene_close(scene);
}

TEST(the_handshake_may_come_byte_by_byte)
{
    static const char words[] = GREETING_1 READY_SUB "\0\1\1";
    struct scene *scene = scene_open(KV_OUTLET_PUB, false, 100);
    client_open(&scene->client, scene->loop, scene->port);
    for (size_t i = 0; i < sizeof(words) - 1; i++) {
        client_say(&scene->client, slice_of(words + i, 1));
    }
    CHECK(client_hears(&scene->client, BYTES(GREETING_1 READY_PUB)));
    CHECK(client_is_in_step(&scene->client));
    CHECK_EQ(scene->outlet.subscriber_count, 1);
    scene_close(scene);
}

TEST(strangers_are_dropped)
{
    const struct {
        enum kv_outlet_kind kind;
        struct slice words;
    } cases[] = {
        {KV_OUTLET_PUB, BYTES("GET / HTTP/1.1\r\n\r\n")},
        {KV_OUTLET_PUB, BYTES(GREETING_1 READY_DEALER)},
        {KV_OUTLET_PUB, BYTES(GREETING_1 READY_PUB)},
        {KV_OUTLET_PUB, BYTES(GREETING_1 "\4\6\5READY")},
        {KV_OUTLET_PUB, BYTES(GREETING_1 "\0\1\1")},
        {KV_OUTLET_PUB, BYTES(GREETING_1 READY_SUB "\2\0\0\0\0\0\0\4\1")},
        {KV_OUTLET_PUB, BYTES(GREETING_1 READY_SUB "\4\7\5ERROR\0")},
        {KV_OUTLET_PUB, BYTES(GREETING_1 READY_SUB "\4\5\4PING")},
        {KV_OUTLET_ROUTER, BYTES(GREETING_1 READY_SUB)},
        {KV_OUTLET_ROUTER, BYTES(GREETING_1 READY_DEALER "\10")},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scene *scene = scene_open(cases[i].kind, false, 100);
        client_open(&scene->client, scene->loop, scene->port);
        client_say(&scene->client, cases[i].words);
        CHECK(client_is_dropped(&scene->client));
        CHECK_EQ(scene->outlet.peer_count, 0);
        scene_close(scene);
    }
}

TEST(who_leaves_is_forgotten)
{
    struct scene *scene = scene_open(KV_OUTLET_PUB, false, 100);
    CHECK(introduce(scene, BYTES(GREETING_1), BYTES(READY_SUB "\0\1\1")));
    CHECK_EQ(scene->outlet.subscriber_count, 1);
    client_close(&scene->client);
    for (int i = 0; i < 1000 && scene->outlet.peer_count > 0; i++) {
        loop_turn(scene->loop, 5);
    }
    CHECK_EQ(scene->outlet.peer_count, 0);
    CHECK_EQ(scene->outlet.subscriber_count, 0);
    put(scene, 'a', 1);
    scene_close(scene);
}

TEST(who_does_not_introduce_itself_in_time_is_dropped)
{
    struct scene *scene = scene_open(KV_OUTLET_PUB, false, 100);
    static struct zmtp_client silent;
    CHECK(introduce(scene, BYTES(GREETING_1), BYTES(READY_SUB)));
    client_open(&silent, scene->loop, scene->port);
    client_say(&silent, BYTES(GREETING_1));
    CHECK(client_hears(&silent, BYTES(GREETING_1 READY_PUB)));
    CHECK_EQ(scene->outlet.peer_count, 2);
    clock_push_ms(kv_outlet_handshake_ms - 1000);
    loop_turn(scene->loop, 1);
    CHECK_EQ(scene->outlet.peer_count, 2);
    clock_push_ms(1000);
    CHECK(client_is_dropped(&silent));
    CHECK(client_is_in_step(&scene->client));
    client_close(&silent);
    scene_close(scene);
}

TEST(there_is_room_for_so_many_peers)
{
    struct scene *scene = scene_open(KV_OUTLET_PUB, false, 100);
    int others[kv_outlet_peer_max];
    struct address address;
    ASSERT(address_from_literal("127.0.0.1", scene->port, &address) == STATUS_OK);
    for (int i = 0; i < kv_outlet_peer_max; i++) {
        CHECK(tcp_connect(&address, &others[i]) == STATUS_OK);
    }
    for (int i = 0; i < 1000 && scene->outlet.peer_count < kv_outlet_peer_max; i++) {
        loop_turn(scene->loop, 5);
    }
    client_open(&scene->client, scene->loop, scene->port);
    CHECK(client_is_dropped(&scene->client));
    CHECK_EQ(scene->client.size, 0);
    CHECK_EQ(scene->outlet.peer_count, kv_outlet_peer_max);
    for (int i = 0; i < kv_outlet_peer_max; i++) {
        tcp_close(&others[i]);
    }
    scene_close(scene);
}

// Far more than kernel and log hold, while nobody reads.  Returns the number of messages.
static uint32_t flood(struct scene *scene)
{
    uint32_t count = 0;
    for (; scene->outlet.skipped_count == 0 && count < 200000; count++) {
        put(scene, 'x', 250);
        if (count % 64 == 0) {
            loop_turn(scene->loop, 0);
        }
    }
    return count;
}

// How many whole messages and PONGs lie there; counts a sequence number that is not the next as a gap.
struct heard {
    uint32_t messages;
    uint32_t pongs;
    uint32_t gaps;
    uint8_t next;
};

static size_t hear_some(struct heard *heard, struct slice bytes)
{
    size_t at = 0;
    while (bytes.size - at >= 9) {
        const uint8_t *here = bytes.bytes + at;
        if (memcmp(here, "\4\7\4PONG", 7) == 0) {
            heard->pongs++;
            at += 9;
            continue;
        }
        ASSERT(memcmp(here, "\1\2kv\1\1", 6) == 0 && here[7] == 0);
        if (bytes.size - at < (size_t)9 + here[8]) {
            break;
        }
        heard->gaps += here[6] != heard->next;
        heard->next = (uint8_t)(here[6] + 1);
        heard->messages++;
        at += (size_t)9 + here[8];
    }
    return at;
}

TEST(a_slow_subscriber_loses_whole_messages_and_hears_words_only_between_them)
{
    struct scene *scene = scene_open(KV_OUTLET_PUB, false, 10);
    struct zmtp_client *client = &scene->client;
    struct heard heard = {0};

    CHECK(introduce(scene, BYTES(GREETING_1), BYTES(READY_SUB "\0\1\1")));
    uint32_t count = flood(scene);
    CHECK(scene->outlet.skipped_count > 0);
    CHECK_EQ(scene->log.end - scene->log.oldest, 10);
    client_say(client, BYTES("\4\11\4PING\0\0hi\4\11\4PING\0\0hi"));
    // All that is not lost comes.
    for (int i = 0; i < 4000 && (heard.pongs < 2 || heard.messages < count - 1); i++) {
        loop_turn(scene->loop, 1);
        client_hear(client);
        size_t taken = hear_some(&heard, slice_of(client->bytes, client->size));
        client->size -= taken;
        memmove(client->bytes, client->bytes + taken, client->size);
    }
    CHECK_EQ(heard.pongs, 2);
    CHECK_EQ(heard.messages + scene->outlet.skipped_count, count);
    CHECK_EQ(heard.gaps, 1);
    CHECK_EQ(client->size, 0);
    CHECK_EQ(heard.next, (uint8_t)count);
    scene_close(scene);
}

TEST(who_never_stops_talking_is_heard_in_turns)
{
    struct scene *scene = scene_open(KV_OUTLET_PUB, false, 100);
    static uint8_t words[3 << 18];
    CHECK(introduce(scene, BYTES(GREETING_1), BYTES(READY_SUB)));
    for (size_t i = 0; i < sizeof(words); i += 3) {
        words[i + 1] = 1;
        words[i + 2] = 1;
    }
    client_say(&scene->client, slice_of(words, sizeof(words)));
    CHECK(client_is_in_step(&scene->client));
    CHECK_EQ(scene->outlet.subscriber_count, 1);
    scene_close(scene);
}

#define ASK(last_byte) "\1\0\0\10\0\0\0\0\0\0\0" last_byte
#define END_BARE "\1\0\1\10\xff\xff\xff\xff\xff\xff\xff\xff\0\0"
#define END_TOPIC "\1\0\1\0\1\10\xff\xff\xff\xff\xff\xff\xff\xff\0\0"

TEST(a_replay_has_all_from_a_sequence_number_on_and_an_end)
{
    struct scene *scene = scene_open(KV_OUTLET_ROUTER, false, 100);
    CHECK(introduce(scene, BYTES(GREETING_1), BYTES(READY_DEALER)));
    put(scene, 'a', 1);
    put(scene, 'b', 2);
    put(scene, 'c', 1);
    CHECK(client_is_in_step(&scene->client)); // nothing comes unasked
    client_say(&scene->client, BYTES(ASK("\0")));
    CHECK(client_hears(&scene->client,
                       BYTES("\1\0\1\1\0\0\1a\1\0\1\1\1\0\2bb\1\0\1\1\2\0\1c" END_BARE)));
    client_say(&scene->client, BYTES(ASK("\2")));
    CHECK(client_hears(&scene->client, BYTES("\1\0\1\1\2\0\1c" END_BARE)));
    client_say(&scene->client, BYTES(ASK("\3")));
    CHECK(client_hears(&scene->client, BYTES(END_BARE)));
    CHECK(client_is_in_step(&scene->client));
    scene_close(scene);
}

TEST(a_replay_of_the_newer_kind_says_the_topic)
{
    struct scene *scene = scene_open(KV_OUTLET_ROUTER, true, 100);
    CHECK(introduce(scene, BYTES(GREETING_0), BYTES(READY_DEALER)));
    client_say(&scene->client, BYTES(ASK("\0")));
    CHECK(client_hears(&scene->client, BYTES(END_TOPIC)));
    put(scene, 'a', 1);
    client_say(&scene->client, BYTES(ASK("\0")));
    CHECK(client_hears(&scene->client, BYTES("\1\0\1\2kv\1\1\0\0\1a" END_TOPIC)));
    CHECK(client_is_in_step(&scene->client));
    scene_close(scene);
}

TEST(a_replay_begins_with_the_oldest_that_is_left)
{
    struct scene *scene = scene_open(KV_OUTLET_ROUTER, false, 2);
    CHECK(introduce(scene, BYTES(GREETING_1), BYTES(READY_DEALER)));
    for (int i = 0; i < 5; i++) {
        put(scene, (char)('a' + i), 1);
    }
    client_say(&scene->client, BYTES(ASK("\1")));
    CHECK(client_hears(&scene->client, BYTES("\1\0\1\1\3\0\1d\1\0\1\1\4\0\1e" END_BARE)));
    scene_close(scene);
}

TEST(other_requests_have_no_answer)
{
    struct scene *scene = scene_open(KV_OUTLET_ROUTER, false, 2);
    const struct slice requests[] = {
        BYTES("\0\10\0\0\0\0\0\0\0\0"),         // without the empty frame
        BYTES("\1\0\0\7\0\0\0\0\0\0\0"),        // too short
        BYTES("\1\1x\0\10\0\0\0\0\0\0\0\0"),    // not empty
        BYTES("\1\0\1\10\0\0\0\0\0\0\0\0\0\0"), // three frames
        BYTES("\0\0"),                          // one
        BYTES("\1\0\1\0\1\0\1\0\1\0\0\10\0\0\0\0\0\0\0\0"),
    };
    CHECK(introduce(scene, BYTES(GREETING_1), BYTES(READY_DEALER)));
    for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
        client_say(&scene->client, requests[i]);
        CHECK(client_is_in_step(&scene->client));
    }
    client_say(&scene->client, BYTES(ASK("\0")));
    CHECK(client_hears(&scene->client, BYTES(END_BARE)));
    scene_close(scene);
}

TEST(requests_are_answered_one_after_the_other)
{
    struct scene *scene = scene_open(KV_OUTLET_ROUTER, false, 10);
    CHECK(introduce(scene, BYTES(GREETING_1), BYTES(READY_DEALER)));
    put(scene, 'a', 1);
    put(scene, 'b', 1);
    client_say(&scene->client, BYTES(ASK("\0") "\4\11\4PING\0\0hi" ASK("\1")));
    CHECK(client_hears(&scene->client, BYTES("\1\0\1\1\0\0\1a\1\0\1\1\1\0\1b" END_BARE)));
    CHECK(client_hears(&scene->client, BYTES("\4\7\4PONGhi")));
    CHECK(client_hears(&scene->client, BYTES("\1\0\1\1\1\0\1b" END_BARE)));
    CHECK(client_is_in_step(&scene->client));
    scene_close(scene);
}
