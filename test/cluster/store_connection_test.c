// SPDX-License-Identifier: Apache-2.0
//
// One connection and a scripted store; store_link_trouble_test.c has more of what stores may reply.

#include "cluster/store_connection.h"

#include "cluster/fake_store.h"
#include "cluster/store_scene.h"
#include "net/dns.h"
#include "sys/pushed_clock.h"

enum { out_size_max = 4096, connect_timeout_ms = 1000, reply_timeout_ms = 700 };

struct told {
    uint32_t ready_count;
    uint32_t reply_count;
    uint32_t error_count;
    uint32_t lost_count;
    uint32_t whats[16]; // of the first replies
    uint64_t abouts[16];
    enum store_remedy remedy;
    bool has_error;
    char why[store_why_size];
};

static struct fake_store fake;
static struct told told;
static struct dns *dns;
static struct store_login login;
static struct store_connection *connection;
static bool closes_at_reply;

static void note_ready(void *owner)
{
    (void)owner;
    told.ready_count++;
}

static void note_reply(void *owner, uint32_t what, uint64_t about, const struct store_reply *reply)
{
    (void)owner;
    if (told.reply_count < ARRAY_COUNT(told.whats)) {
        told.whats[told.reply_count] = what;
        told.abouts[told.reply_count] = about;
    }
    told.reply_count++;
    told.error_count += store_reply_kind(reply) == STORE_REPLY_ERROR;
    if (closes_at_reply) {
        store_connection_close(connection);
    }
}

static void note_lost(void *owner, const char *why, const struct store_error *error)
{
    (void)owner;
    told.lost_count++;
    told.has_error = error != NULL;
    told.remedy = error != NULL ? error->remedy : STORE_WAIT;
    snprintf(told.why, sizeof(told.why), "%s", why);
}

static void begin(const struct store_login *with)
{
    static const struct store_connection_events events = {note_ready, note_reply, note_lost};
    scene_begin("");
    fake_start(&fake, scene.loop);
    told = (struct told){0};
    closes_at_reply = false;
    ASSERT(dns_create(scene.loop, NULL, &dns) == STATUS_OK);
    ASSERT(store_connection_create(
               &(struct store_connection_options){
                   .loop = scene.loop,
                   .dns = dns,
                   .login = with,
                   .events = &events,
                   .out_size_max = out_size_max,
                   .bounds = {4096, 8192, 64},
                   .connect_timeout_ms = connect_timeout_ms,
               },
               &connection) == STATUS_OK);
}

static void open_at(const char *name, uint16_t port)
{
    struct store_host host = {.port = port};
    snprintf(host.name, sizeof(host.name), "%s", name);
    store_connection_open(connection, &host);
}

static void end(void)
{
    dns_destroy(&dns);
    store_connection_destroy(&connection);
    store_connection_destroy(&connection);
    fake_stop(&fake);
    scene_end();
}

static bool ask(const char *word, uint32_t what, bool is_frame)
{
    struct slice words[] = {slice_str(word)};
    return store_connection_send(connection, &(struct store_command){
                                                 .words = words,
                                                 .word_count = 1,
                                                 .what = what,
                                                 .about = (uint64_t)what * 100,
                                                 .timeout_ms = reply_timeout_ms,
                                                 .is_frame = is_frame,
                                             });
}

TEST(without_a_login_it_is_ready_when_connected_and_replies_keep_the_order)
{
    begin(NULL);
    CHECK(store_connection_is_closed(connection));
    CHECK(!ask("PING", 1, false));
    open_at("127.0.0.1", fake.port);
    CHECK(!ask("PING", 1, false));
    TURN_UNTIL(told.ready_count == 1);
    CHECK(store_connection_is_ready(connection));
    CHECK_EQ(fake.command_count, 0);
    fake_reply(&fake, "two", "-ERR two\r\n");
    CHECK(ask("one", 1, false) && ask("two", 2, true) && ask("three", 3, false));
    CHECK_EQ(told.reply_count, 0);
    TURN_UNTIL(told.reply_count == 3);
    CHECK(told.whats[0] == 1 && told.whats[1] == 2 && told.whats[2] == 3);
    CHECK_EQ(told.abouts[2], 300);
    CHECK_EQ(told.error_count, 1);
    CHECK(store_connection_bytes_in(connection) > 10);
    CHECK(store_connection_bytes_out(connection) > 10);
    CHECK_EQ(told.lost_count, 0);
    end();
}

TEST(a_login_comes_first)
{
    login = (struct store_login){.user = "u", .password = "p", .has_password = true, .database = 3};
    begin(&login);
    open_at("localhost", fake.port);
    TURN_UNTIL(told.ready_count == 1);
    CHECK_STR(fake.log, "HELLO 2 AUTH u p\nSELECT 3\n");
    end();
    login = (struct store_login){.password = "p", .has_password = true};
    begin(&login);
    open_at("127.0.0.1", fake.port);
    TURN_UNTIL(told.ready_count == 1);
    CHECK_STR(fake.log, "HELLO 2 AUTH default p\n");
    end();
}

TEST(a_replica_is_left_if_a_master_is_needed)
{
    login = (struct store_login){.must_be_master = true};
    begin(&login);
    fake_reply(&fake, "HELLO", "*4\r\n+a\r\n:1\r\n$4\r\nrole\r\n$7\r\nreplica\r\n");
    open_at("127.0.0.1", fake.port);
    TURN_UNTIL(told.lost_count == 1);
    CHECK(told.has_error && told.remedy == STORE_RELOCATE);
    CHECK_STR(told.why, "the server is a replica");
    fake_clear(&fake);
    open_at("127.0.0.1", fake.port);
    TURN_UNTIL(told.ready_count == 1);
    end();
    login.must_be_master = false;
    begin(&login);
    fake_reply(&fake, "HELLO", "*4\r\n+a\r\n:1\r\n$4\r\nrole\r\n$7\r\nreplica\r\n");
    open_at("127.0.0.1", fake.port);
    TURN_UNTIL(told.ready_count == 1);
    end();
}

TEST(hosts_that_cannot_be_reached_are_told_with_the_reason)
{
    begin(NULL);
    open_at("127.0.0.1", 1);
    CHECK_EQ(told.lost_count, 0); // never from within open
    TURN_UNTIL(told.lost_count == 1);
    CHECK_STR(told.why, "Connection refused");
    CHECK(!told.has_error);
    open_at("no-such-host.invalid", 1);
    clock_push_ms(connect_timeout_ms / 2);
    TURN_UNTIL((clock_push_ms(10), told.lost_count == 2));
    CHECK(strstr(told.why, "no-such-host.invalid: ") != NULL ||
          strcmp(told.why, "no response from DNS servers") == 0);
    // The old query may still be open.
    open_at("127.0.0.1", fake.port);
    TURN_UNTIL((clock_push_ms(10), told.ready_count == 1 || told.lost_count == 3));
    end();
}

TEST(a_late_reply_ends_the_connection_and_close_ends_it_silently)
{
    begin(NULL);
    open_at("127.0.0.1", fake.port);
    TURN_UNTIL(told.ready_count == 1);
    fake_reply(&fake, "wait", NULL);
    CHECK(ask("wait", 1, false));
    clock_push_ms(reply_timeout_ms - 100);
    scene_turn_for(20);
    CHECK_EQ(told.lost_count, 0);
    clock_push_ms(200);
    TURN_UNTIL(told.lost_count == 1);
    CHECK_STR(told.why, "no reply in time");
    CHECK(store_connection_is_closed(connection));
    open_at("127.0.0.1", fake.port);
    TURN_UNTIL(told.ready_count == 2);
    CHECK(ask("wait", 1, false));
    store_connection_close(connection);
    clock_push_ms(5000);
    scene_turn_for(50);
    CHECK_EQ(told.lost_count, 1);
    CHECK_EQ(told.reply_count, 0);
    end();
}

TEST(the_owner_may_close_within_a_reply)
{
    begin(NULL);
    open_at("127.0.0.1", fake.port);
    TURN_UNTIL(told.ready_count == 1);
    closes_at_reply = true;
    CHECK(ask("one", 1, false) && ask("two", 2, false));
    TURN_UNTIL(told.reply_count == 1);
    scene_turn_for(20);
    CHECK_EQ(told.reply_count, 1);
    CHECK_EQ(told.lost_count, 0);
    end();
}

TEST(frames_are_bounded_in_bytes_and_in_number_and_leave_room_for_other_commands)
{
    char big[2000];
    begin(NULL);
    memset(big, 'x', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    open_at("127.0.0.1", fake.port);
    TURN_UNTIL(told.ready_count == 1);
    CHECK_EQ(store_connection_room(connection), out_size_max);
    fake.is_deaf = true;
    uint32_t count = 0;
    while (ask(big, 1, true)) {
        count++;
        ASSERT(count < store_pending_max);
    }
    CHECK(store_connection_room(connection) < sizeof(big) + 32);
    CHECK(ask("small", 1, false));
    fake.is_deaf = false;
    store_connection_close(connection);
    fake_drop_all(&fake);

    open_at("127.0.0.1", fake.port);
    TURN_UNTIL(told.ready_count == 2);
    fake.is_deaf = true;
    count = 0;
    while (ask("s", 1, true)) {
        count++;
    }
    CHECK_EQ(count, store_pending_max - store_pending_reserve);
    CHECK_EQ(store_connection_room(connection), 0);
    for (uint32_t i = 0; i < store_pending_reserve; i++) {
        CHECK(ask("s", 1, false));
    }
    CHECK(!ask("s", 1, false));
    end();
}

TEST(a_reply_that_no_command_asked_for_ends_the_connection)
{
    begin(NULL);
    open_at("127.0.0.1", fake.port);
    TURN_UNTIL(told.ready_count == 1);
    fake_reply(&fake, "one", ":1\r\n:2\r\n");
    CHECK(ask("one", 1, false));
    TURN_UNTIL(told.lost_count == 1);
    CHECK_EQ(told.reply_count, 1);
    CHECK_STR(told.why, "sent a reply that no command asked for");
    end();
}
