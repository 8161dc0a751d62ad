// SPDX-License-Identifier: Apache-2.0
//
// A link and a scripted store: each reply that means trouble, and replies that no honest store
// sends.

#include "cluster/fake_store.h"
#include "cluster/store_link.h"
#include "cluster/store_members.h"
#include "cluster/store_scene.h"
#include "sys/pushed_clock.h"

static struct fake_store fake;
static char url[128];

static void begin(const char *login)
{
    scene_begin(url);
    fake_start(&fake, scene.loop);
    snprintf(url, sizeof(url), "redis://%s127.0.0.1:%u", login, fake.port);
}

static void end(void)
{
    for (uint32_t i = 0; i < node_count_max; i++) {
        scene_close(i);
    }
    fake_stop(&fake);
    scene_end();
}

static const char *why(void)
{
    static struct link_status status;
    link_read_status(scene.nodes[0].link, &status);
    return status.why;
}

TEST(a_new_link_tries_every_command_before_it_is_up)
{
    begin("");
    fake_set(&fake, (struct fake_rule){.command = "XREAD", .reply = NULL});
    scene_open(0);
    TURN_UNTIL(fake_count(&fake, "HGETALL") == 2);
    CHECK(!scene_is_up(0));
    fake_clear(&fake);
    TURN_UNTIL(scene_is_up(0));
    CHECK(fake_count(&fake, "HELLO 2 SETNAME warmpath-") >= 2);
    CHECK(fake_count(&fake, "XADD warmpath:{test}:d:") >= 1);
    CHECK(fake_count(&fake, "XREAD STREAMS warmpath:{test}:d:") >= 1);
    CHECK(fake_count(&fake, "PEXPIRE warmpath:{test}:m 60000") >= 1);
    end();
}

static void check_patience(const char *error, const char *command)
{
    char reply[128];
    char expected[192];
    begin("");
    scene_open(0);
    TURN_UNTIL(scene_is_up(0));
    snprintf(reply, sizeof(reply), "-%s\r\n", error);
    fake_reply(&fake, command, reply);
    if (strcmp(command, "XREAD") == 0 || strcmp(command, "XADD") == 0) {
        fake_reply(&fake, "HSET", reply); // alone, the link uses neither
        command = "HSET";
    }
    TURN_UNTIL(!scene_is_up(0));
    snprintf(expected, sizeof(expected), "%s: %s",
             strcmp(command, "PEXPIRE") == 0 ? "PEXPIRE, DEL or HDEL" : command, error);
    CHECK_STR(why(), expected);
    uint32_t rounds = fake_count(&fake, "HGETALL");
    for (int k = 0; k < 20; k++) {
        clock_push_ms(100);
        loop_turn(scene.loop, 1);
        loop_turn(scene.loop, 1);
    }
    CHECK(fake_count(&fake, "HGETALL") - rounds <= 4); // one a second
    CHECK(!scene_is_up(0));
    fake_clear(&fake);
    TURN_UNTIL((clock_push_ms(50), scene_is_up(0)));
    CHECK_EQ(fake.accepted_count, 2);
    CHECK_EQ(scene_log_count("lost: "), 1);
    CHECK_EQ(scene_log_count("connected"), 2);
    end();
}

TEST(a_store_that_needs_time_keeps_its_connections)
{
    static const char *const errors[] = {
        "OOM command not allowed when used memory > 'maxmemory'.",
        "LOADING Redis is loading the dataset in memory",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN The cluster is down",
        "BUSY Redis is busy running a script.",
        "MISCONF Redis is configured to save RDB snapshots",
        "NOREPLICAS Not enough good replicas to write.",
        "ASK 3999 127.0.0.1:6381",
        "ERR something new",
    };
    static const char *const commands[] = {"HSET", "HGETALL", "XADD", "XREAD", "PEXPIRE"};
    for (size_t i = 0; i < ARRAY_COUNT(errors); i++) {
        check_patience(errors[i], commands[i % ARRAY_COUNT(commands)]);
    }
}

static void check_relocation(const char *error)
{
    begin("");
    scene_open(0);
    TURN_UNTIL(scene_is_up(0));
    fake_set(&fake, (struct fake_rule){.command = "HSET", .reply = error, .times = 2});
    TURN_UNTIL(!scene_is_up(0));
    TURN_UNTIL(scene_is_up(0));
    CHECK_EQ(fake.accepted_count, 6);
    CHECK_EQ(scene_log_count("lost: "), 1);
    end();
}

TEST(a_replica_or_a_lost_master_is_left_and_tried_again)
{
    static const char *const errors[] = {
        "-READONLY You can't write against a read only replica.\r\n",
        "-MASTERDOWN Link with MASTER is down\r\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(errors); i++) {
        check_relocation(errors[i]);
    }
}

TEST(a_moved_slot_is_followed_and_a_wrong_hint_is_forgotten)
{
    static struct fake_store other;
    char moved[64];
    begin("");
    fake_start(&other, scene.loop);
    snprintf(moved, sizeof(moved), "-MOVED 3999 127.0.0.1:%u\r\n", other.port);
    fake_reply(&fake, "HSET", moved);
    scene_open(0);
    TURN_UNTIL(scene_is_up(0));
    CHECK_EQ(other.accepted_count, 2);

    // Without a host: the same one.
    snprintf(moved, sizeof(moved), "-MOVED 3999 :%u\r\n", fake.port);
    fake_clear(&fake);
    fake_reply(&other, "HSET", moved);
    TURN_UNTIL(!scene_is_up(0));
    TURN_UNTIL(scene_is_up(0));
    CHECK_EQ(fake.accepted_count, 4);

    // Nobody listens there: back to the URL.
    fake_set(&fake, (struct fake_rule){
                        .command = "HSET", .reply = "-MOVED 3999 127.0.0.1:1\r\n", .times = 1});
    TURN_UNTIL(!scene_is_up(0));
    TURN_UNTIL(scene_is_up(0));
    CHECK_EQ(fake.accepted_count, 6);
    fake_stop(&other);
    end();
}

static void check_refusal(const char *error)
{
    begin("");
    fake_reply(&fake, "HSET", error);
    scene_open(0);
    TURN_UNTIL(scene_log_count("lost: HSET: NO") + scene_log_count("lost: HSET: WRONG") == 1);
    uint32_t accepted = fake.accepted_count;
    for (int k = 0; k < 42; k++) {
        clock_push_ms(100);
        loop_turn(scene.loop, 1);
    }
    CHECK_EQ(fake.accepted_count, accepted);
    TURN_UNTIL((clock_push_ms(50), fake.accepted_count > accepted));
    fake_clear(&fake);
    TURN_UNTIL((clock_push_ms(50), scene_is_up(0)));
    CHECK_EQ(scene_log_count("lost: "), 1);
    end();
}

TEST(a_refusal_is_tried_again_after_five_seconds)
{
    static const char *const errors[] = {
        "-NOAUTH Authentication required.\r\n",
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
        "-NOPERM this user has no permissions to run the 'hset' command\r\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(errors); i++) {
        check_refusal(errors[i]);
    }
}

TEST(a_server_without_hello_gets_auth_and_select)
{
    begin("user:pass%20word@");
    snprintf(url + strlen(url), sizeof(url) - strlen(url), "/7");
    fake_reply(&fake, "HELLO",
               "-ERR unknown command `HELLO`, with args beginning with: `2`, `AUTH`, `user`, "
               "`pass word`, \r\n");
    scene_open(0);
    TURN_UNTIL(scene_is_up(0));
    CHECK_EQ(fake_count(&fake, "HELLO 2 AUTH user pass word SETNAME"), 2);
    CHECK_EQ(fake_count(&fake, "AUTH user pass word\n"), 2);
    CHECK_EQ(fake_count(&fake, "SELECT 7\n"), 2);
    end();
}

static void check_silence(const char *reply)
{
    begin(":secretword@");
    fake_reply(&fake, "HELLO", "-ERR unknown command 'HELLO'\r\n");
    fake_reply(&fake, "AUTH", reply);
    scene_open(0);
    TURN_UNTIL(scene_log_count("lost: AUTH: ") == 1);
    fake_clear(&fake);
    fake_reply(&fake, "HSET", "-WRONG secretword\r\n");
    TURN_UNTIL((clock_push_ms(100), strstr(why(), "HSET: ") != NULL));
    CHECK(strstr(scene_log(), "secretword") == NULL);
    CHECK(strstr(why(), "secretword") == NULL);
    end();
}

TEST(the_password_is_in_no_log_line_and_no_status)
{
    static const char *const replies[] = {
        "-ERR invalid password secretword\r\n",
        "-WRONGPASS you said secretword\r\n",
        "-ERR unknown command `AUTH`, with args beginning with: `secretword`\r\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(replies); i++) {
        check_silence(replies[i]);
    }
}

static void check_dishonest(const char *command, const char *reply, const char *reason)
{
    begin("");
    fake_set(&fake, (struct fake_rule){.command = command, .reply = reply, .times = 3});
    scene_open(0);
    TURN_UNTIL((clock_push_ms(10), scene_is_up(0)));
    if (reason != NULL) {
        char expected[128];
        snprintf(expected, sizeof(expected), "lost: %s\n", reason);
        CHECK_EQ(scene_log_count(expected), 1);
    }
    CHECK(scene_log_count("lost: ") <= 1);
    end();
}

TEST(replies_that_no_honest_store_sends_cost_the_connection_only)
{
    static const struct {
        const char *command;
        const char *reply;
        const char *why;
    } rows[] = {
        {"HGETALL", "?what\r\n", "sent an invalid reply"},
        {"HGETALL", "$x\r\n", "sent an invalid reply"},
        {"HGETALL", "\r\n", "sent an invalid reply"},
        {"HGETALL", "%1\r\n+a\r\n+b\r\n", "sent an invalid reply"},
        {"HGETALL", "*3\r\n+a\r\n+b\r\n+c\r\n", "HGETALL: sent an invalid reply"},
        {"HGETALL", "$3\r\nabc\r\n", "HGETALL: sent an invalid reply"},
        {"HGETALL", "$2000000000\r\n", "a reply is too large"},
        {"HGETALL", "*2000000000\r\n", "a reply is too large"},
        {"HGETALL", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
         "a reply is too large"},
        {"HSET", ":1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", NULL},
        {"XREAD", "$2000000000\r\n", "a reply is too large"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        check_dishonest(rows[i].command, rows[i].reply, rows[i].why);
    }
}

TEST(a_reply_too_large_has_its_key_deleted)
{
    begin("");
    fake_set(&fake,
             (struct fake_rule){.command = "HGETALL", .reply = "$2000000000\r\n", .times = 1});
    scene_open(0);
    TURN_UNTIL(scene_is_up(0));
    CHECK_EQ(fake_count(&fake, "DEL warmpath:{test}:m\n"), 1);
    end();
}

// Hellos of a third party would hide those of the routers for good.
TEST(a_hash_with_more_fields_than_members_is_deleted)
{
    static char reply[4096];
    int size = snprintf(reply, sizeof(reply), "*%d\r\n", 2 * (store_member_count_max + 1));
    for (int i = 0; i < 2 * (store_member_count_max + 1); i++) {
        size += snprintf(reply + size, sizeof(reply) - (size_t)size, "+%d\r\n", i);
    }
    begin("");
    fake_set(&fake, (struct fake_rule){.command = "HGETALL", .reply = reply, .times = 1});
    scene_open(0);
    TURN_UNTIL(scene_is_up(0));
    TURN_UNTIL(fake_count(&fake, "HGETALL") >= 3);
    CHECK_EQ(fake_count(&fake, "DEL warmpath:{test}:m\n"), 1);
    CHECK_EQ(scene_log_count("lost: "), 0);
    end();
}

TEST(a_key_of_another_type_is_deleted)
{
    begin("");
    fake_set(&fake, (struct fake_rule){.command = "HSET",
                                       .reply = "-WRONGTYPE Operation against\r\n",
                                       .times = 1});
    fake_set(&fake,
             (struct fake_rule){.command = "XADD",
                                .reply = "-ERR The ID specified in XADD is equal or smaller\r\n",
                                .times = 1});
    scene_open(0);
    TURN_UNTIL(scene_is_up(0));
    CHECK_EQ(fake_count(&fake, "DEL warmpath:{test}:m\n"), 1);
    CHECK_EQ(fake_count(&fake, "DEL warmpath:{test}:d:"), 1);
    CHECK_EQ(scene_log_count("lost: "), 0);
    CHECK_EQ(fake.accepted_count, 2);
    end();
}

TEST(a_close_in_the_middle_of_a_reply_and_a_slow_reply_are_survived)
{
    begin("");
    fake_set(&fake, (struct fake_rule){
                        .command = "HGETALL", .reply = "*2\r\n$1\r\n", .times = 1, .closes = true});
    scene_open(0);
    TURN_UNTIL(scene_log_count("lost: the server closed the connection") == 1);
    TURN_UNTIL(scene_is_up(0));
    fake_clear(&fake);
    fake_set(&fake, (struct fake_rule){.command = "XREAD", .reply = "*-1\r\n", .bytewise = true});
    TURN_UNTIL(scene_is_up(0));
    CHECK_EQ(scene_log_count("lost: "), 1);
    end();
}

TEST(a_deaf_store_is_given_up_after_a_second)
{
    begin("");
    scene_open(0);
    TURN_UNTIL(scene_is_up(0));
    fake.is_deaf = true;
    for (int i = 0; i < 30 && scene_is_up(0); i++) {
        clock_push_ms(50);
        loop_turn(scene.loop, 1);
    }
    CHECK(!scene_is_up(0));
    CHECK_STR(why(), "no reply in time");
    clock_push_ms(100);
    TURN_UNTIL(fake.accepted_count == 4);
    clock_push_ms(1000);
    TURN_UNTIL(strcmp(why(), "no reply to the greeting") == 0);
    fake.is_deaf = false;
    TURN_UNTIL((clock_push_ms(50), scene_is_up(0)));
    CHECK_EQ(scene_log_count("lost: "), 1);
    end();
}

TEST(an_absent_store_is_tried_again_at_least_each_second)
{
    begin("");
    scene_open(0);
    TURN_UNTIL(scene_is_up(0));
    uint32_t accepted = fake.accepted_count;
    fake_drop_all(&fake);
    TURN_UNTIL(!scene_is_up(0));
    uint64_t start_ms = scene_now_ms();
    TURN_UNTIL(fake.accepted_count > accepted);
    CHECK(scene_now_ms() - start_ms >= 40);
    // Refused logins keep the delay growing to a second.
    fake_reply(&fake, "HELLO", "-ERR max number of clients reached\r\n");
    fake_drop_all(&fake);
    accepted = fake.accepted_count;
    for (int i = 0; i < 100; i++) {
        clock_push_ms(100);
        loop_turn(scene.loop, 1);
        loop_turn(scene.loop, 1);
        loop_turn(scene.loop, 1);
    }
    CHECK(fake.accepted_count - accepted >= 16);
    CHECK(fake.accepted_count - accepted <= 40);
    end();
}

TEST(a_store_that_neither_waits_nor_sends_does_not_keep_us_busy)
{
    begin("");
    scene_open(0);
    TURN_UNTIL(scene_is_up(0));
    uint32_t before = fake.command_count;
    scene_turn_for(300);
    CHECK(fake.command_count - before < 60);
    end();
}

TEST(options_that_cannot_work_are_explained)
{
    static const struct {
        const char *url;
        const char *ca;
        const char *error;
    } rows[] = {
        {"http://x", NULL, "expected redis://"},
        {"rediss://x", "/nowhere.pem", "/nowhere.pem: No such file"},
        {"redis://x/99999999", NULL, "the database is not"},
    };
    begin("");
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char error[link_error_size];
        scene.url = rows[i].url;
        scene.ca = rows[i].ca;
        scene.verify = true;
        CHECK(scene_try_open(0, error) != STATUS_OK);
        CHECK(strstr(error, rows[i].error) != NULL);
    }
    end();
}
