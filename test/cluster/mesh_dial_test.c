// SPDX-License-Identifier: Apache-2.0
//
// When addresses are dialled, and what is said of failures.

#include "cluster/mesh_link.h"
#include "cluster/mesh_scene.h"
#include "test.h"

#include <fcntl.h>
#include <unistd.h>

static struct scene scene;
static struct scene_router *const a = &scene.routers[0];
static struct scene_router *const b = &scene.routers[1];

static void open_with_key(uint32_t index, const uint8_t *shared_key)
{
    struct mesh_options options = scene_options(&scene, index);
    const char *peers[] = {scene.routers[1 - index].address};
    options.shared_key = shared_key;
    options.peers = peers;
    options.peer_count = 1;
    scene_open_with(&scene, index, &options);
}

static void meet_once(void)
{
    scene_start(&scene);
    scene_open(&scene, 0, (uint32_t[]){1}, 1);
    scene_open(&scene, 1, (uint32_t[]){0}, 1);
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    CHECK(link_send(a->link, 2, slice_str("one")));
    CHECK(link_send(b->link, 1, slice_str("two")));
    SCENE_UNTIL(&scene, a->frame_count == 1 && b->frame_count == 1);
    scene_turn_for(&scene, 20);
    CHECK_EQ(a->came_count, 1);
    CHECK_EQ(b->came_count, 1);
    CHECK_EQ(a->left_count + b->left_count, 0);
    scene_stop(&scene);
}

TEST(routers_that_dial_each_other_at_once_come_once)
{
    for (int round = 0; round < 30; round++) {
        meet_once();
    }
}

TEST(another_key_is_refused_both_ways_and_mended_by_a_restart)
{
    scene_start(&scene);
    open_with_key(0, scene_key);
    open_with_key(1, scene_other_key);
    SCENE_UNTIL(&scene, scene_has_why(&scene, 0, "it refused our shared key"));
    SCENE_UNTIL(&scene, scene_has_why(&scene, 1, "it refused our shared key"));
    CHECK_EQ(a->came_count + b->came_count, 0);
    const struct link_status *status = scene_status(&scene, 0);
    CHECK_EQ(status->peer_count, 1);
    CHECK_EQ(status->peers[0].router, 0);
    CHECK(!status->peers[0].is_there);
    CHECK_STR(status->peers[0].address, b->address);
    link_close(&b->link);
    open_with_key(1, scene_key);
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    // Once the router is found at its address too, that has no row of its own.
    SCENE_UNTIL(&scene, scene_status(&scene, 0)->peer_count == 1);
    CHECK_STR(scene_status(&scene, 0)->peers[0].address, b->address);
    scene_stop(&scene);
}

TEST(a_router_that_dials_itself_leaves_that_address_alone)
{
    scene_start(&scene);
    scene_open(&scene, 0, (uint32_t[]){0, 1}, 2);
    scene_open(&scene, 1, (uint32_t[]){0, 1}, 2);
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    scene_turn_for(&scene, 300);
    for (uint32_t i = 0; i < 2; i++) {
        const struct link_status *status = scene_status(&scene, i);
        CHECK_EQ(status->peer_count, 1);
        CHECK_EQ(status->peers[0].router, 2 - i);
        CHECK_STR(status->peers[0].address, scene.routers[1 - i].address);
    }
    scene_stop(&scene);
}

// Counts connections, and ends each.
struct refuser {
    struct loop_source source; // first
    uint32_t count;
};

static void refuser_ready(struct loop_source *source, uint32_t events)
{
    struct refuser *refuser = (struct refuser *)source;
    struct address peer;
    int fd = -1;
    (void)events;
    while (tcp_accept(source->fd, &fd, &peer) == STATUS_OK) {
        refuser->count++;
        tcp_close(&fd);
    }
}

static void refuser_open(struct refuser *refuser, char text[64])
{
    struct address address;
    *refuser = (struct refuser){.source = {.fd = -1, .ready = refuser_ready}};
    ASSERT(address_parse("127.0.0.1:0", &address) == STATUS_OK);
    ASSERT(tcp_listen(&address, &refuser->source.fd) == STATUS_OK);
    ASSERT(tcp_local(refuser->source.fd, &address) == STATUS_OK);
    ASSERT(loop_add(a->loop, &refuser->source) == STATUS_OK);
    struct text out = text_over(text, 63);
    address_format(&address, &out);
    text[out.size] = '\0';
}

TEST(an_address_without_a_router_is_dialled_less_and_less_often)
{
    struct refuser refuser;
    char address[64];
    const char *peers[] = {address};
    scene_start(&scene);
    refuser_open(&refuser, address);
    struct mesh_options options = scene_options(&scene, 0);
    options.peers = peers;
    options.peer_count = 1;
    scene_open_with(&scene, 0, &options);
    uint64_t begin_ms = scene_now_ms();
    SCENE_UNTIL(&scene, refuser.count == 4);
    CHECK(scene_now_ms() - begin_ms >= 25 + 50 + 100);
    scene_turn_for(&scene, 2000);
    uint64_t time_ms = scene_now_ms() - begin_ms;
    CHECK(refuser.count <= 5 + time_ms / 400); // half a second and more lie between the later ones
    CHECK(refuser.count >= 5);
    loop_remove(a->loop, &refuser.source);
    tcp_close(&refuser.source.fd);
    scene_stop(&scene);
}

// All that is logged while a test runs.
struct captured_log {
    int saved;
    char path[32];
    char text[65536];
};

static void capture_begin(struct captured_log *log)
{
    snprintf(log->path, sizeof(log->path), "/tmp/mesh_dial_test.XXXXXX");
    int fd = mkstemp(log->path);
    ASSERT(fd != -1);
    log->saved = dup(STDERR_FILENO);
    ASSERT(dup2(fd, STDERR_FILENO) != -1);
    close(fd);
    log_set_level(LOG_LEVEL_INFO);
}

static void capture_end(struct captured_log *log)
{
    log_set_level(LOG_LEVEL_ERROR);
    ssize_t size = pread(STDERR_FILENO, log->text, sizeof(log->text) - 1, 0);
    log->text[size > 0 ? size : 0] = '\0';
    ASSERT(dup2(log->saved, STDERR_FILENO) != -1);
    close(log->saved);
    unlink(log->path);
}

static uint32_t count_lines(const struct captured_log *log, const char *subject, const char *rest)
{
    uint32_t count = 0;
    char text[256];
    snprintf(text, sizeof(text), "cluster: peer %s: %s", subject, rest);
    for (const char *at = strstr(log->text, text); at != NULL; at = strstr(at + 1, text)) {
        count++;
    }
    return count;
}

TEST(each_failure_is_logged_once_until_it_is_over)
{
    static struct captured_log log;
    scene_start(&scene);
    capture_begin(&log);
    scene_open(&scene, 0, (uint32_t[]){1}, 1);
    SCENE_UNTIL(&scene, scene_has_why(&scene, 0, "Connection refused"));
    scene_turn_for(&scene, 500); // and again
    open_with_key(1, scene_other_key);
    SCENE_UNTIL(&scene, scene_has_why(&scene, 0, "it refused our shared key"));
    scene_turn_for(&scene, 1500); // and again
    link_close(&b->link);
    scene_open(&scene, 1, NULL, 0);
    SCENE_UNTIL(&scene, a->there == 2 && b->there == 1);
    scene_turn_for(&scene, 100);
    link_close(&b->link);
    SCENE_UNTIL(&scene, scene_has_why(&scene, 0, "Connection refused"));
    capture_end(&log);
    CHECK_EQ(count_lines(&log, b->address, "not connected: it refused our shared key\n"), 1);
    CHECK_EQ(count_lines(&log, b->address, "not connected: Connection refused\n"), 2);
    CHECK_EQ(count_lines(&log, b->address, "connected: router router-2\n"), 1);
    CHECK_EQ(count_lines(&log, b->address, "lost: the other router closed the connection\n"), 1);
    scene_stop(&scene);
}

// A router that dials another, which listens at every address, by two of them.
static void dial_twice(uint32_t from, uint32_t to, struct captured_log *log)
{
    struct address address;
    char first[64];
    char second[64];
    const char *peers[] = {first, second};
    scene_start(&scene);
    struct mesh_options options = scene_options(&scene, to);
    options.listen = "*:0";
    scene_open_with(&scene, to, &options);
    mesh_link_address(scene.routers[to].link, &address);
    uint32_t port = (uint32_t)(address.bytes[2] << 8 | address.bytes[3]);
    snprintf(first, sizeof(first), "127.0.0.1:%u", port);
    snprintf(second, sizeof(second), "127.0.0.2:%u", port);
    options = scene_options(&scene, from);
    options.peers = peers;
    options.peer_count = 2;
    capture_begin(log);
    scene_open_with(&scene, from, &options);
    scene_turn_for(&scene, 1500);
    capture_end(log);
    CHECK_EQ(a->there, 2);
    CHECK_EQ(b->there, 1);
    CHECK_EQ(a->came_count + b->came_count, 2);
    CHECK_EQ(scene_status(&scene, from)->peer_count, 1);
    CHECK_EQ(scene_status(&scene, to)->peer_count, 1);
    CHECK(strstr(log->text, ": not connected: ") == NULL);
    CHECK(strstr(log->text, ": refused: ") == NULL);
    scene_stop(&scene);
}

TEST(a_second_address_of_a_router_that_is_there_rests)
{
    static struct captured_log log;
    dial_twice(0, 1, &log);
    dial_twice(1, 0, &log);
}
