// SPDX-License-Identifier: Apache-2.0
//
// Links and a real redis-server; store_connection_test.c has scripted ones.

#include "cluster/store_link.h"

#include "cluster/redis_server.h"
#include "cluster/store_scene.h"
#include "net/certificates.h"

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

TEST(a_link_that_closes_leaves_at_once_and_a_new_one_is_met)
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

// Another process with a link of its own.
static void run_router(void)
{
    ASSERT(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    scene_begin(url_of(&server));
    scene_open(3);
    for (;;) {
        loop_turn(scene.loop, 100);
    }
}

TEST(a_router_that_is_killed_leaves_within_three_seconds)
{
    if (!begin(1)) {
        return;
    }
    TURN_UNTIL(scene_is_up(0));
    fflush(NULL);
    pid_t child = fork();
    ASSERT(child != -1);
    if (child == 0) {
        run_router();
    }
    TURN_UNTIL(scene.nodes[0].came_count == 1);
    ASSERT(kill(child, SIGKILL) == 0);
    ASSERT(waitpid(child, NULL, 0) == child);
    uint64_t start_ms = scene_now_ms();
    TURN_UNTIL(scene.nodes[0].left_count == 1);
    uint64_t took_ms = scene_now_ms() - start_ms;
    CHECK(took_ms >= link_silence_ms - 2 * link_beat_ms && took_ms <= link_silence_ms + 1000);
    // Its hello stays in the store for a while, and is not taken for a sign of life.
    scene_turn_for(600);
    CHECK_EQ(scene.nodes[0].came_count, 1);
    CHECK(strncmp(redis_ask(&server, "HLEN warmpath:{test}:m"), ":2", 2) == 0);
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

static bool is_frame_through(uint32_t from, uint32_t to)
{
    uint32_t before = scene.nodes[to].frame_count;
    return scene_send(from, -1) && (loop_turn(scene.loop, 5), scene.nodes[to].frame_count > before);
}

TEST(a_frame_arrives_within_milliseconds)
{
    enum { frames = 100 };
    uint64_t took[frames];
    if (!begin(2)) {
        return;
    }
    TURN_UNTIL(scene_are_there(2));
    uint64_t best_us = UINT64_MAX;
    for (int i = 0; i < frames; i++) {
        uint32_t before = scene.nodes[1].frame_count;
        uint64_t start_ns = clock_monotonic_ns();
        CHECK(scene_send(0, -1));
        while (scene.nodes[1].frame_count == before) {
            loop_turn(scene.loop, 5);
        }
        took[i] = (clock_monotonic_ns() - start_ns) / 1000;
        best_us = took[i] < best_us ? took[i] : best_us;
    }
    uint32_t quick = 0;
    for (int i = 0; i < frames; i++) {
        quick += took[i] < 2000;
    }
    printf("# best %" PRIu64 " us, %u of %d within 2 ms\n", best_us, quick, frames);
    // A busy machine delays some; a wait for a timer would delay all.
    CHECK(quick > frames / 10);
    end();
}

TEST(a_store_that_is_killed_and_comes_back_empty_is_used_again)
{
    if (!begin(2)) {
        return;
    }
    TURN_UNTIL(scene_are_there(2));
    redis_kill(&server);
    TURN_UNTIL(!scene_is_up(0) && !scene_is_up(1));
    CHECK(!scene_send(0, -1));
    CHECK_EQ(link_room(scene.nodes[0].link, 0), 0);
    uint64_t start_ms = scene_now_ms();
    TURN_UNTIL(scene.nodes[0].left_count == 1 && scene.nodes[1].left_count == 1);
    CHECK(scene_now_ms() - start_ms >= link_silence_ms - 2 * link_beat_ms - 500);
    redis_start(&server);
    TURN_UNTIL(scene_are_there(2));
    CHECK_EQ(scene.nodes[0].came_count, 2);
    TURN_UNTIL(is_frame_through(0, 1) && is_frame_through(1, 0));
    CHECK_EQ(scene_log_count("lost: "), 2);
    CHECK_EQ(scene_log_count(": connected"), 4);
    struct link_status status;
    link_read_status(scene.nodes[0].link, &status);
    CHECK_STR(status.kind, "redis");
    CHECK(status.frames_dropped >= 1 && status.peer_count == 1 && status.bytes_in > 0);
    CHECK_STR(status.peers[0].name, "node 1");
    CHECK_STR(status.why, "");
    end();
}

TEST(a_short_restart_loses_no_member)
{
    if (!begin(2)) {
        return;
    }
    TURN_UNTIL(scene_are_there(2));
    redis_kill(&server);
    redis_start(&server);
    TURN_UNTIL(!scene_is_up(0) && !scene_is_up(1));
    TURN_UNTIL(scene_is_up(0) && scene_is_up(1));
    TURN_UNTIL(is_frame_through(0, 1) && is_frame_through(1, 0));
    CHECK(scene_are_there(2));
    end();
}

TEST(a_store_that_stops_for_three_seconds_is_lost_and_found)
{
    if (!begin(2)) {
        return;
    }
    TURN_UNTIL(scene_are_there(2));
    ASSERT(kill(server.pid, SIGSTOP) == 0);
    for (int i = 0; i < 20; i++) {
        (void)scene_send(0, -1); // waits in buffers
    }
    scene_turn_for(3000);
    CHECK_EQ(scene.nodes[0].left_count, 1);
    CHECK_EQ(scene.nodes[1].left_count, 1);
    CHECK(strstr(scene_log(), "lost: no reply in time") != NULL);
    ASSERT(kill(server.pid, SIGCONT) == 0);
    TURN_UNTIL(scene_are_there(2));
    TURN_UNTIL(is_frame_through(0, 1) && is_frame_through(1, 0));
    CHECK_EQ(scene_log_count("lost: "), 2);
    CHECK_EQ(scene_log_count(": connected"), 4);
    CHECK(!scene.nodes[1].is_out_of_order);
    end();
}

TEST(a_wrong_password_is_told_once_and_mended_without_a_restart)
{
    if (!redis_is_installed()) {
        return;
    }
    char url[128];
    server = (struct redis_server){.words = {"--requirepass", "first"}, .word_count = 2};
    server.password = "first";
    redis_start(&server);
    snprintf(url, sizeof(url), "redis://:s%%65cond@127.0.0.1:%u/3", server.port);
    scene_begin(url);
    scene_open(0);
    scene_open(1);
    TURN_UNTIL(scene_log_count("lost: HELLO: WRONGPASS") == 2);
    CHECK(strncmp(redis_ask(&server, "CONFIG SET requirepass second"), "+OK", 3) == 0);
    server.password = "second";
    TURN_UNTIL(scene_are_there(2));
    CHECK_EQ(scene_log_count("lost: "), 2);
    CHECK(strstr(scene_log(), "second") == NULL);
    CHECK(strstr(scene_log(), "redis://127.0.0.1:") != NULL);
    CHECK(strncmp(redis_ask(&server, "DBSIZE"), ":0", 2) == 0); // ours are in database 3
    end();
}

TEST(a_missing_password_is_told)
{
    if (!redis_is_installed()) {
        return;
    }
    server = (struct redis_server){.words = {"--requirepass", "first"}, .word_count = 2};
    server.password = "first";
    redis_start(&server);
    scene_begin(url_of(&server));
    scene_open(0);
    TURN_UNTIL(scene_log_count("lost: HELLO: NOAUTH") == 1);
    end();
}

TEST(a_user_who_may_not_xadd_is_told_once)
{
    char url[128];
    if (!begin(0)) {
        return;
    }
    CHECK(strncmp(redis_ask(&server, "ACL SETUSER router on >pw ~warmpath:* +hello +auth +select "
                                     "+xread +hset +hgetall +hdel +pexpire +del"),
                  "+OK", 3) == 0);
    snprintf(url, sizeof(url), "redis://router:pw@127.0.0.1:%u", server.port);
    scene.url = url;
    scene_open(0);
    TURN_UNTIL(scene_log_count("lost: ") == 1);
    CHECK(strstr(scene_log(), "lost: XADD: NOPERM") != NULL);
    scene_turn_for(7000);
    CHECK_EQ(scene_log_count("lost: "), 1);
    CHECK_EQ(scene_log_count("connected"), 0);
    CHECK(strncmp(redis_ask(&server, "ACL SETUSER router +xadd"), "+OK", 3) == 0);
    TURN_UNTIL(scene_is_up(0));
    end();
}

TEST(a_user_who_may_not_say_hello_logs_in_with_auth)
{
    char url[128];
    if (!begin(0)) {
        return;
    }
    CHECK(strncmp(redis_ask(&server, "ACL SETUSER router on >pw ~warmpath:* +@all -hello"), "+OK",
                  3) == 0);
    snprintf(url, sizeof(url), "redis://router:pw@localhost:%u/1", server.port);
    scene.url = url;
    scene_open(0);
    scene_open(1);
    TURN_UNTIL(scene_are_there(2));
    end();
}

TEST(a_store_without_memory_is_told_once_and_used_when_it_has_some)
{
    if (!begin(2)) {
        return;
    }
    TURN_UNTIL(scene_are_there(2));
    CHECK(strncmp(redis_ask(&server, "CONFIG SET maxmemory 1mb"), "+OK", 3) == 0);
    TURN_UNTIL(!scene_is_up(0) && !scene_is_up(1));
    CHECK(!scene_send(0, -1));
    TURN_UNTIL(scene.nodes[0].left_count == 1 && scene.nodes[1].left_count == 1);
    scene_turn_for(2500);
    CHECK_EQ(scene_log_count("lost: HSET: OOM"), 2);
    CHECK_EQ(scene_log_count("lost: "), 2);
    CHECK(strncmp(redis_ask(&server, "CONFIG SET maxmemory 0"), "+OK", 3) == 0);
    TURN_UNTIL(scene_are_there(2));
    TURN_UNTIL(is_frame_through(0, 1) && is_frame_through(1, 0));
    CHECK_EQ(scene_log_count(": connected"), 4);
    end();
}

TEST(a_server_that_became_a_replica_is_not_written_to)
{
    if (!begin(1)) {
        return;
    }
    TURN_UNTIL(scene_is_up(0));
    CHECK(strncmp(redis_ask(&server, "REPLICAOF 127.0.0.1 1"), "+OK", 3) == 0);
    TURN_UNTIL(!scene_is_up(0));
    scene_turn_for(1500);
    CHECK_EQ(scene_log_count("lost: "), 1);
    CHECK(strncmp(redis_ask(&server, "REPLICAOF NO ONE"), "+OK", 3) == 0);
    TURN_UNTIL(scene_is_up(0));
    CHECK_EQ(scene_log_count("lost: "), 1);
    CHECK_EQ(scene_log_count(": connected"), 2);
    end();
}

TEST(an_emptied_store_costs_no_member_and_few_frames)
{
    if (!begin(2)) {
        return;
    }
    TURN_UNTIL(scene_are_there(2));
    for (int i = 0; i < 50; i++) {
        CHECK(strncmp(redis_ask(&server, "FLUSHALL"), "+OK", 3) == 0);
        CHECK(scene_send(0, -1) && scene_send(1, 0));
        loop_turn(scene.loop, 2);
    }
    TURN_UNTIL(is_frame_through(0, 1) && is_frame_through(1, 0));
    CHECK(scene_are_there(2));
    CHECK_EQ(scene.nodes[0].left_count, 0);
    CHECK_EQ(scene_log_count("lost: "), 0);
    CHECK(!scene.nodes[0].is_out_of_order && !scene.nodes[1].is_out_of_order);
    end();
}

// One of our keys, by its end.
static const char *key_of(uint32_t from, int to)
{
    static char text[128];
    int size =
        snprintf(text, sizeof(text), "warmpath:{test}:d:%016" PRIx64, scene.nodes[from].router);
    if (to != -1) {
        snprintf(text + size, sizeof(text) - (size_t)size, ":%016" PRIx64, scene.nodes[to].router);
    }
    return text;
}

static void check_foreign_entries(const char *id, const char *fields)
{
    (void)redis_ask(&server, "XADD %s %s %s", key_of(0, -1), id, fields);
    (void)redis_ask(&server, "XADD %s %s %s", key_of(0, 1), id, fields);
    TURN_UNTIL(is_frame_through(0, 1));
    uint32_t before = scene.nodes[1].frame_count;
    TURN_UNTIL((scene_send(0, 1), loop_turn(scene.loop, 5), scene.nodes[1].frame_count > before));
}

TEST(garbage_of_a_third_party_is_skipped_and_removed)
{
    if (!begin(2)) {
        return;
    }
    TURN_UNTIL(scene_are_there(2));
    // Fields and values that are none of ours, and a router that says nothing.
    CHECK(strncmp(redis_ask(&server, "HSET warmpath:{test}:m x y 00000000000000aa zz "
                                     "00000000000000ab \"\\x01\\x01\\x00\""),
                  ":3", 2) == 0);
    TURN_UNTIL(store_link_skipped(scene.nodes[0].link) >= 3);
    CHECK_EQ(scene.nodes[0].came_count, 1);
    // Ids far above ours, entries of other forms, and the highest id of all.
    check_foreign_entries("*", "b nothing");
    check_foreign_entries("*", "a b c d");
    check_foreign_entries("18446744073709551615-18446744073709551615", "b x");
    // Keys of another type.
    (void)redis_ask(&server, "SET %s x", key_of(0, -1));
    (void)redis_ask(&server, "SET %s x", key_of(0, 1));
    (void)redis_ask(&server, "SET %s x", key_of(1, 0));
    (void)redis_ask(&server, "SET warmpath:{test}:m x");
    TURN_UNTIL(is_frame_through(0, 1) && is_frame_through(1, 0));
    CHECK(scene_are_there(2));
    CHECK_EQ(scene.nodes[0].left_count, 0);
    CHECK_EQ(scene_log_count("lost: "), 0);
    CHECK(!scene.nodes[1].is_out_of_order);
    CHECK_EQ(scene_log_count("skipped values"), 1); // in a minute
    end();
}

TEST(replies_beyond_the_bounds_cost_a_reconnection_and_the_key)
{
    if (!begin(2)) {
        return;
    }
    TURN_UNTIL(scene_are_there(2));
    (void)redis_ask(&server,
                    "EVAL \"redis.call('HSET', KEYS[1], 'big', string.rep('x', 70000))\" 1 "
                    "warmpath:{test}:m");
    TURN_UNTIL(scene_log_count("lost: a reply is too large") >= 1);
    TURN_UNTIL(scene_is_up(0) && scene_is_up(1));
    TURN_UNTIL(is_frame_through(0, 1) && is_frame_through(1, 0));
    CHECK(strncmp(redis_ask(&server, "HEXISTS warmpath:{test}:m big"), ":0", 2) == 0);

    (void)redis_ask(&server,
                    "EVAL \"redis.call('XADD', KEYS[1], '*', 'b', string.rep('x', 70000))\" 1 %s",
                    key_of(0, -1));
    uint32_t before = scene_log_count("lost: ");
    TURN_UNTIL(scene_log_count("lost: ") > before);
    TURN_UNTIL(is_frame_through(0, 1) && is_frame_through(1, 0));
    CHECK(!scene.nodes[1].is_out_of_order);
    end();
}

TEST(a_reader_that_falls_behind_loses_old_frames_and_keeps_the_order)
{
    if (!begin(2)) {
        return;
    }
    TURN_UNTIL(scene_are_there(2));
    for (int i = 0; i < 3000; i++) {
        (void)scene_send_sized(0, i % 3 == 0 ? 1 : -1, i % 5 == 0 ? link_frame_size_max : 2000);
        if (i % 100 == 0) {
            loop_turn(scene.loop, 0);
        }
    }
    TURN_UNTIL(is_frame_through(0, 1));
    CHECK(!scene.nodes[1].is_out_of_order);
    CHECK(scene.nodes[1].frame_count > 10);
    end();
}

TEST(a_slow_store_costs_frames_and_never_more_memory_than_allowed)
{
    if (!begin(0)) {
        return;
    }
    scene.out_size_max = 100000;
    scene_open(0);
    scene_open(1);
    TURN_UNTIL(scene_are_there(2));
    ASSERT(kill(server.pid, SIGSTOP) == 0);
    size_t room = link_room(scene.nodes[0].link, 0);
    CHECK(room > 90000 && room <= 100000);
    uint32_t sent = 0;
    while (scene_send_sized(0, -1, link_frame_size_max)) {
        sent++;
        ASSERT(sent < 10000);
    }
    // The kernel took some; our own queue took less than its limit.
    CHECK(link_room(scene.nodes[0].link, 0) < (size_t)link_frame_size_max + 1000);
    struct link_status status;
    link_read_status(scene.nodes[0].link, &status);
    CHECK_EQ(status.frames_dropped, 1);
    CHECK_EQ(status.peers[0].frames_dropped, 1);
    ASSERT(kill(server.pid, SIGCONT) == 0);
    TURN_UNTIL(is_frame_through(0, 1));
    end();
}

static const uint8_t secret_a[link_secret_size] = {1, 2, 3};
static const uint8_t secret_b[link_secret_size] = {1, 2, 4};

TEST(routers_with_one_secret_meet_and_others_stay_strangers)
{
    if (!begin(0)) {
        return;
    }
    scene.secrets[0] = secret_a;
    scene.secrets[1] = secret_a;
    scene.secrets[2] = secret_b;
    for (uint32_t i = 0; i < 4; i++) {
        scene_open(i); // the last one has no secret
    }
    TURN_UNTIL(scene.nodes[0].there == 2 && scene.nodes[1].there == 1);
    for (int i = 0; i < 50; i++) {
        CHECK(scene_send(0, -1) && scene_send(0, 1));
    }
    TURN_UNTIL(scene.nodes[1].frame_count == 100);
    CHECK(!scene.nodes[1].is_out_of_order);
    TURN_UNTIL(store_link_skipped(scene.nodes[2].link) > 4 &&
               store_link_skipped(scene.nodes[0].link) > 4);
    CHECK_EQ(scene.nodes[2].came_count + scene.nodes[3].came_count, 0);
    CHECK_EQ(scene.nodes[0].came_count, 1);
    // Neither the frames nor the name can be read.
    const char *members = redis_ask(&server, "HGETALL warmpath:{test}:m");
    CHECK(memmem(members, 1000, "node 3", 6) != NULL);
    CHECK(memmem(members, redis_reply_size, "node 0", 6) == NULL);
    end();
}

TEST(a_store_under_tls_is_used_if_its_certificate_is_good)
{
    if (!redis_is_installed()) {
        return;
    }
    char url[128];
    char leaf[128];
    char key_file[128];
    make_certificates();
    snprintf(leaf, sizeof(leaf), "%s", file_in_dir("leaf.pem"));
    snprintf(key_file, sizeof(key_file), "%s", file_in_dir("key.pem"));
    server = (struct redis_server){
        .tls_port = redis_free_port(),
        .words = {"--tls-cert-file", leaf, "--tls-key-file", key_file, "--tls-ca-cert-file", leaf,
                  "--tls-auth-clients", "no"},
        .word_count = 8,
    };
    redis_start(&server);
    snprintf(url, sizeof(url), "rediss://127.0.0.1:%u", server.tls_port);
    scene_begin(url);
    scene.verify = true;
    scene.ca = file_in_dir("ca.pem");
    scene_open(0);
    scene_open(1);
    scene.ca = file_in_dir("other_ca.pem");
    scene_open(2);
    TURN_UNTIL(scene.nodes[0].there == 2 && scene.nodes[1].there == 1);
    TURN_UNTIL(is_frame_through(0, 1));
    CHECK(scene_send_sized(0, 1, link_frame_size_max));
    TURN_UNTIL(scene.nodes[1].frames[scene.nodes[1].frame_count - 1].size == link_frame_size_max);
    TURN_UNTIL(strstr(scene_log(), "lost: TLS: ") != NULL);
    CHECK_EQ(scene_log_count("lost: "), 1);
    // Without verification the third one is in, too.
    scene_close(2);
    scene.verify = false;
    scene_open(2);
    TURN_UNTIL(scene_are_there(3));
    redis_kill(&server);
    TURN_UNTIL(!scene_is_up(0));
    redis_start(&server);
    TURN_UNTIL(scene_are_there(3) && is_frame_through(1, 0));
    end();
}
