// SPDX-License-Identifier: Apache-2.0
//
// Scripted Sentinels, and a failover with real ones.

#include "cluster/store_sentinel.h"

#include "cluster/fake_store.h"
#include "cluster/redis_server.h"
#include "cluster/store_scene.h"
#include "net/dns.h"

struct asked {
    struct store_host host;
    uint32_t found_count;
    uint32_t failed_count;
    char why[256];
};

static struct fake_store fakes[3];
static struct asked asked;
static struct store_sentinel *sentinel;
static struct dns *dns;
static struct store_url url;

static void note_found(void *owner, const struct store_host *host)
{
    (void)owner;
    asked.found_count++;
    asked.host = *host;
}

static void note_failed(void *owner, const char *why)
{
    (void)owner;
    asked.failed_count++;
    snprintf(asked.why, sizeof(asked.why), "%s", why);
}

static void begin(const char *login)
{
    static const struct store_sentinel_events events = {.found = note_found, .failed = note_failed};
    char text[256];
    char error[store_url_error_size];
    scene_begin("");
    for (int i = 0; i < 3; i++) {
        fake_start(&fakes[i], scene.loop);
    }
    snprintf(text, sizeof(text),
             "redis+sentinel://%s127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/mymaster", login,
             fakes[0].port, fakes[1].port, fakes[2].port);
    ASSERT(store_url_read(text, &url, error) == STATUS_OK);
    ASSERT(dns_create(scene.loop, NULL, &dns) == STATUS_OK);
    asked = (struct asked){0};
    ASSERT(
        store_sentinel_create(
            &(struct store_sentinel_options){
                .loop = scene.loop, .dns = dns, .url = &url, .events = &events, .timeout_ms = 300},
            &sentinel) == STATUS_OK);
}

static void end(void)
{
    dns_destroy(&dns);
    store_sentinel_destroy(&sentinel);
    for (int i = 0; i < 3; i++) {
        fake_stop(&fakes[i]);
    }
    scene_end();
}

static const char master_reply[] = "*2\r\n$9\r\n127.0.0.7\r\n$4\r\n6380\r\n";

TEST(the_first_sentinel_that_knows_the_master_is_believed_and_asked_first_from_then_on)
{
    begin("");
    fake_set(&fakes[0], (struct fake_rule){.command = "SENTINEL", .reply = "*-1\r\n"});
    fake_set(&fakes[1], (struct fake_rule){.command = "SENTINEL", .reply = "-IDONTKNOW\r\n"});
    fake_reply(&fakes[2], "SENTINEL", master_reply);
    store_sentinel_ask(sentinel);
    TURN_UNTIL(asked.found_count == 1);
    CHECK_STR(asked.host.name, "127.0.0.7");
    CHECK_EQ(asked.host.port, 6380);
    CHECK_EQ(fake_count(&fakes[2], "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster\n"), 1);
    store_sentinel_ask(sentinel);
    TURN_UNTIL(asked.found_count == 2);
    CHECK_EQ(fakes[0].accepted_count, 1);
    CHECK_EQ(fakes[2].accepted_count, 2);
    end();
}

TEST(sentinels_that_are_deaf_absent_or_lying_are_skipped_and_the_last_reason_is_told)
{
    begin("");
    fakes[0].is_deaf = true;
    fake_set(&fakes[1], (struct fake_rule){.command = "SENTINEL", .reply = "$99999\r\n"});
    fake_reply(&fakes[2], "SENTINEL", "*2\r\n$1\r\nx\r\n$5\r\n99999\r\n");
    store_sentinel_ask(sentinel);
    TURN_UNTIL(asked.failed_count == 1);
    CHECK(strstr(asked.why, "does not know the master mymaster") != NULL);
    CHECK_EQ(asked.found_count, 0);
    fake_reply(&fakes[1], "SENTINEL", master_reply);
    store_sentinel_ask(sentinel);
    TURN_UNTIL(asked.found_count == 1);
    end();
}

TEST(a_sentinel_that_asks_for_a_login_gets_that_of_the_store_and_no_other_does)
{
    begin("me:pw@");
    fake_set(&fakes[0],
             (struct fake_rule){.command = "SENTINEL", .reply = "-NOAUTH needed\r\n", .times = 1});
    fake_reply(&fakes[0], "SENTINEL", "-NOAUTH needed\r\n");
    fake_reply(&fakes[0], "AUTH", "-WRONGPASS not pw\r\n");
    fake_reply(&fakes[1], "SENTINEL", master_reply);
    store_sentinel_ask(sentinel);
    TURN_UNTIL(asked.found_count == 1);
    CHECK_EQ(fake_count(&fakes[0], "AUTH me pw\n"), 1);
    CHECK_EQ(fake_count(&fakes[1], "AUTH"), 0);
    end();
}

static struct redis_server master;
static struct redis_server replica;
static struct redis_server watcher;

static void write_watcher(void)
{
    char path[128];
    redis_prepare(&watcher);
    watcher.is_sentinel = true;
    snprintf(path, sizeof(path), "%s/conf", watcher.dir);
    FILE *file = fopen(path, "we");
    ASSERT(file != NULL);
    (void)fprintf(file,
                  "sentinel monitor mymaster 127.0.0.1 %u 1\n"
                  "sentinel down-after-milliseconds mymaster 500\n"
                  "sentinel failover-timeout mymaster 3000\n",
                  master.port);
    ASSERT(fclose(file) == 0);
}

TEST(links_follow_a_failover)
{
    if (!redis_is_installed()) {
        return;
    }
    static char port[16];
    static char text[128];
    master = (struct redis_server){0};
    watcher = (struct redis_server){0};
    redis_start(&master);
    snprintf(port, sizeof(port), "127.0.0.1 %u", master.port);
    replica = (struct redis_server){.words = {"--replicaof", port}, .word_count = 2};
    redis_start(&replica);
    write_watcher();
    redis_start(&watcher);
    snprintf(text, sizeof(text), "redis+sentinel://127.0.0.1:1,127.0.0.1:%u/mymaster/0",
             watcher.port);
    scene_begin(text);
    scene_open(0);
    scene_open(1);
    TURN_UNTIL(scene_are_there(2));
    TURN_UNTIL(strstr(redis_ask(&watcher, "SENTINEL REPLICAS mymaster"), "127.0.0.1") != NULL &&
               strstr(redis_ask(&replica, "INFO replication"), "master_link_status:up") != NULL);
    redis_kill(&master);
    TURN_UNTIL(!scene_is_up(0) && !scene_is_up(1));
    TURN_UNTIL(scene_is_up(0) && scene_is_up(1) && scene_are_there(2));
    CHECK(strstr(redis_ask(&replica, "ROLE"), "master") != NULL);
    CHECK(scene_send(0, -1));
    TURN_UNTIL(scene.nodes[1].frame_count > 0);
    CHECK_EQ(scene_log_count("lost: "), 2);
    CHECK_EQ(scene_log_count(": connected"), 4);
    CHECK(strstr(scene_log(), "redis+sentinel://127.0.0.1:1,127.0.0.1:") != NULL);
    scene_end();
    redis_stop(&watcher);
    redis_stop(&replica);
    redis_stop(&master);
}
