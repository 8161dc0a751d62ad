// SPDX-License-Identifier: Apache-2.0
//
// Streams over pairs of sockets; how one is asked for is in admin_test.c.

#include "admin/stream.h"

#include "admin/keeper_scene.h"
#include "admin/short_memory.h"
#include "admin/told_scribe.h"
#include "base/text.h"
#include "net/transport.h"
#include "sys/pushed_clock.h"
#include "test.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { watcher_max = stream_count_max + 1 };

// A connection as admin.c has them, and who reads from it.
struct watcher {
    struct transport transport;
    struct stream stream;
    int fd;
    uint32_t ended_count;
    size_t in_size;
    char in[65536];
};

static struct scene scene;
static struct scribe scribe;
static struct scribe *there;
static struct streams streams;
static struct watcher watchers[watcher_max];

static void ended(struct stream *stream)
{
    struct watcher *watcher = CONTAINER_OF(stream, struct watcher, stream);
    watcher->ended_count++;
    stream_close(stream);
}

static void ready(struct loop_source *source, uint32_t events)
{
    struct watcher *watcher = (struct watcher *)source;
    transport_note(&watcher->transport, events);
    if (stream_write(&watcher->stream) == STATUS_IO) {
        ended(&watcher->stream);
    }
}

static void set_up(void)
{
    scene_open(&scene, "'http://10.0.0.1'");
    scribe = (struct scribe){0};
    there = &scribe;
    scene.options.scribe = &there;
    streams_init(&streams, &scene.options, loop_now_ms(scene.loop));
    memset(watchers, 0, sizeof(watchers));
}

static bool watch(struct watcher *watcher)
{
    int fds[2];
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    watcher->fd = fds[1];
    watcher->transport.source.ready = ready;
    ASSERT(transport_open(&watcher->transport, scene.loop, fds[0], NULL, NULL) == STATUS_OK);
    bool is_open = stream_open(&streams, &watcher->stream, &watcher->transport, ended);
    if (is_open) {
        ASSERT(stream_write(&watcher->stream) != STATUS_IO);
    }
    return is_open;
}

static void tear_down(void)
{
    for (int i = 0; i < watcher_max; i++) {
        stream_close(&watchers[i].stream);
        if (transport_is_open(&watchers[i].transport)) {
            transport_close(&watchers[i].transport, scene.loop, TRANSPORT_ORDERLY);
            close(watchers[i].fd);
        }
    }
    CHECK_EQ(streams.count, 0);
    streams_fini(&streams);
    loop_turn(scene.loop, 0);
    scene_close(&scene);
}

static void turn(void)
{
    for (int i = 0; i < 5; i++) {
        loop_turn(scene.loop, 1);
    }
}

static void pass_second(void)
{
    clock_push_ms(stream_step_ms);
    turn();
}

// The bytes that have arrived since the last call.
static const char *take(struct watcher *watcher)
{
    watcher->in_size = 0;
    ssize_t size;
    while ((size = read(watcher->fd, watcher->in + watcher->in_size,
                        sizeof(watcher->in) - 1 - watcher->in_size)) > 0) {
        watcher->in_size += (size_t)size;
    }
    watcher->in[watcher->in_size] = '\0';
    return watcher->in;
}

static uint32_t count_of(const char *text, const char *word)
{
    uint32_t count = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        count++;
    }
    return count;
}

static void add_point(uint64_t wall_ms)
{
    scribe.chronicle.points[scribe.chronicle.point_count++].wall_ms = wall_ms;
}

TEST(the_first_round_comes_at_once_and_another_every_second)
{
    set_up();
    add_point(5000);
    CHECK(watch(&watchers[0]));
    const char *first = take(&watchers[0]);
    static const char head[] = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                               "cache-control: no-store\r\nconnection: close\r\n\r\n: ping\n\n"
                               "event: overview\ndata: {\"version\":";
    CHECK_EQ(strncmp(first, head, sizeof(head) - 1), 0);
    CHECK(strstr(first, "\"time_ms\":[5000]") != NULL);
    CHECK(strcmp(first + strlen(first) - 3, "}\n\n") == 0);
    CHECK_EQ(count_of(first, "event: "), 1);
    clock_push_ms(stream_step_ms / 2);
    turn();
    CHECK_STR(take(&watchers[0]), "");
    clock_push_ms(stream_step_ms / 2);
    turn();
    CHECK_EQ(strncmp(take(&watchers[0]), "event: overview\ndata: {", 23), 0);
    pass_second();
    CHECK_EQ(count_of(take(&watchers[0]), "event: overview\n"), 1);
    tear_down();
}

TEST(points_and_decisions_come_once)
{
    set_up();
    add_point(5000);
    told_add_named(&scribe.chronicle, "one");
    CHECK(watch(&watchers[0]));
    const char *in = take(&watchers[0]);
    CHECK(strstr(in, "\n\nevent: decisions\ndata: {\"serial\":1,\"decisions\":[{") != NULL);
    CHECK(strcmp(in + strlen(in) - 4, "]}\n\n") == 0);
    pass_second();
    in = take(&watchers[0]);
    CHECK(strstr(in, "\"time_ms\":[]") != NULL);
    CHECK(strstr(in, "event: decisions") == NULL);
    add_point(10000);
    told_add_named(&scribe.chronicle, "two");
    pass_second();
    in = take(&watchers[0]);
    CHECK(strstr(in, "\"time_ms\":[10000]") != NULL);
    CHECK(strstr(in, "\"two\"") != NULL);
    CHECK(strstr(in, "\"one\"") == NULL);
    tear_down();
}

TEST(a_clock_that_is_set_back_does_not_stop_the_line_of_time)
{
    uint64_t hour_ms = 3600000;
    char wanted[64];
    set_up();
    add_point(clock_wall_ms() + hour_ms);
    CHECK(watch(&watchers[0]));
    take(&watchers[0]);
    scribe.chronicle.point_count = 0; // what is now in the future was dropped
    uint64_t next_ms = clock_wall_ms() + 60000;
    add_point(next_ms);
    pass_second();
    snprintf(wanted, sizeof(wanted), "\"time_ms\":[%lu]", (unsigned long)next_ms);
    CHECK(strstr(take(&watchers[0]), wanted) != NULL);
    tear_down();
}

TEST(a_round_has_fifty_decisions_at_most)
{
    set_up();
    for (int i = 0; i < 60; i++) {
        told_add_named(&scribe.chronicle, "x");
    }
    CHECK(watch(&watchers[0]));
    CHECK_EQ(count_of(take(&watchers[0]), "\"id\":\"x\""), stream_decisions_max);
    tear_down();
}

TEST(streams_that_have_had_the_same_share_one_round)
{
    set_up();
    add_point(5000);
    for (int i = 0; i < 3; i++) {
        CHECK(watch(&watchers[i]));
        take(&watchers[i]);
    }
    // Nobody may write, so that what they were handed can be looked at.
    for (int i = 0; i < 3; i++) {
        loop_remove(scene.loop, &watchers[i].transport.source);
        while (write(watchers[i].transport.source.fd, "xxxxxxxx", 8) > 0) {
        }
    }
    pass_second();
    CHECK(watchers[0].stream.round != NULL);
    CHECK(watchers[0].stream.round == watchers[1].stream.round);
    CHECK(watchers[0].stream.round == watchers[2].stream.round);
    stream_close(&watchers[1].stream);
    CHECK(watchers[1].stream.round == NULL && watchers[0].stream.round != NULL);
    for (int i = 0; i < 3; i++) {
        stream_close(&watchers[i].stream);
        int fd = watchers[i].transport.source.fd;
        close(watchers[i].fd);
        close(fd);
    }
    tear_down();
}

// A name that is longer than what sockets hold.
static void fill_fleet(void)
{
    enum { model_count = 1000, name_size = 1000 };
    static char name[name_size + 1];
    const char *names[model_count];
    memset(name, 'm', name_size);
    for (int i = 0; i < model_count; i++) {
        names[i] = name;
    }
    struct fleet_spec spec = {.url = "http://10.0.0.9",
                              .host = "10.0.0.9",
                              .port = 80,
                              .weight = 1,
                              .models = names,
                              .model_count = model_count};
    ASSERT(fleet_add(scene.fleet, &spec) != NULL);
}

TEST(a_slow_stream_is_skipped_and_misses_no_point)
{
    set_up();
    fill_fleet();
    add_point(5000);
    CHECK(watch(&watchers[0]));
    struct stream_round *round = watchers[0].stream.round;
    CHECK(round != NULL);
    for (int i = 1; i < 20; i++) {
        add_point(5000 + 5000 * (uint64_t)i);
        pass_second();
        CHECK(watchers[0].stream.round == round);
    }
    // It reads again: the rest of the first round, and then all points in one.
    uint32_t overviews = 0;
    for (int i = 0; i < 10000 && watchers[0].stream.round == round; i++) {
        overviews += count_of(take(&watchers[0]), "event: overview\n");
        loop_turn(scene.loop, 0);
    }
    overviews += count_of(take(&watchers[0]), "event: overview\n");
    CHECK_EQ(overviews, 1);
    pass_second();
    CHECK_EQ(watchers[0].stream.point_ms, 100000);
    CHECK(watchers[0].stream.round != NULL);
    CHECK_EQ(watchers[0].ended_count, 0);
    tear_down();
}

// A second in which the first one reads all that it gets.
static void pass_second_read(void)
{
    pass_second();
    while (watchers[0].stream.round != NULL) {
        take(&watchers[0]);
        loop_turn(scene.loop, 0);
    }
    take(&watchers[0]);
}

TEST(one_that_is_stuck_is_ended_and_others_go_on)
{
    set_up();
    CHECK(watch(&watchers[0]));
    take(&watchers[0]);
    fill_fleet();
    CHECK(watch(&watchers[1]));
    CHECK(watchers[1].stream.round != NULL);
    // Half of its time: the machine's own comes on top of what is pushed.
    uint64_t passed_ms = 0;
    for (; passed_ms < stream_stuck_ms / 2; passed_ms += stream_step_ms) {
        pass_second_read();
        CHECK_EQ(watchers[1].ended_count, 0);
    }
    for (; passed_ms <= stream_stuck_ms && watchers[1].ended_count == 0;
         passed_ms += stream_step_ms) {
        pass_second_read();
    }
    CHECK_EQ(watchers[1].ended_count, 1);
    CHECK_EQ(watchers[0].ended_count, 0);
    CHECK_EQ(streams.count, 1);
    tear_down();
}

TEST(there_are_sixteen_at_most)
{
    set_up();
    for (int i = 0; i < stream_count_max; i++) {
        CHECK(watch(&watchers[i]));
    }
    CHECK(!watch(&watchers[stream_count_max]));
    stream_close(&watchers[3].stream);
    stream_close(&watchers[3].stream); // nothing happens
    CHECK_EQ(streams.count, stream_count_max - 1);
    pass_second();
    CHECK_EQ(count_of(take(&watchers[3]), "event: overview\n"), 1);
    CHECK_EQ(count_of(take(&watchers[4]), "event: overview\n"), 2);
    tear_down();
}

TEST(one_whose_reader_has_gone_is_ended)
{
    set_up();
    CHECK(watch(&watchers[0]));
    CHECK(watch(&watchers[1]));
    shutdown(watchers[0].fd, SHUT_RDWR);
    pass_second();
    pass_second();
    CHECK_EQ(watchers[0].ended_count, 1);
    CHECK_EQ(count_of(take(&watchers[1]), "event: overview\n"), 3);
    tear_down();
}

TEST(a_fleet_that_fits_no_round_is_a_ping)
{
    set_up();
    add_point(5000);
    CHECK(watch(&watchers[0]));
    take(&watchers[0]);
    for (int i = 0; i < backend_count_max - 2; i++) {
        fill_fleet();
    }
    enum { more = 3000, name_size = 1000 };
    static char name[name_size + 1];
    const char **names = calloc(more, sizeof(*names));
    ASSERT(names != NULL);
    memset(name, 'm', name_size);
    for (int i = 0; i < more; i++) {
        names[i] = name;
    }
    struct fleet_spec spec = {.url = "http://10.0.0.8",
                              .host = "10.0.0.8",
                              .port = 80,
                              .weight = 1,
                              .models = names,
                              .model_count = more};
    ASSERT(fleet_add(scene.fleet, &spec) != NULL);
    free(names);
    add_point(10000);
    pass_second();
    CHECK_STR(take(&watchers[0]), ": ping\n\n");
    CHECK_EQ(watchers[0].stream.point_ms, 5000);
    tear_down();
}

TEST(short_memory_delays_rounds_and_loses_none)
{
    uint32_t overviews = 0;
    uint32_t pings = 0;
    set_up();
    short_memory_after(0);
    CHECK(!watch(&watchers[0]));
    CHECK(short_memory_end() > 0);
    CHECK_EQ(streams.count, 0);
    CHECK(watch(&watchers[1]));
    take(&watchers[1]);
    add_point(5000);
    told_add_named(&scribe.chronicle, "one");
    for (uint32_t good_count = 0; overviews == 0; good_count++) {
        ASSERT(good_count < 100);
        short_memory_after(good_count);
        pass_second();
        short_memory_end();
        const char *in = take(&watchers[1]);
        overviews = count_of(in, "event: overview\n");
        pings += strcmp(in, ": ping\n\n") == 0;
        CHECK(overviews == 1 || in[0] == '\0' || strcmp(in, ": ping\n\n") == 0);
    }
    CHECK(pings > 0);
    CHECK_EQ(overviews, 1);
    CHECK(strstr(watchers[1].in, "\"time_ms\":[5000]") != NULL);
    CHECK(strstr(watchers[1].in, "\"one\"") != NULL);
    tear_down();
}
