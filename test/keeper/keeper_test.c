// SPDX-License-Identifier: Apache-2.0
//
// The router in a child, a backend and a client here.

#include "base/text.h"
#include "cli/child.h"
#include "config/option/command.h"
#include "net/tcp.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

struct endpoint {
    int fd; // -1: nobody listens
    struct address address;
    char text[32];
};

static void endpoint_open(struct endpoint *endpoint)
{
    struct address any;
    ASSERT(address_parse("127.0.0.1:0", &any) == STATUS_OK);
    ASSERT(tcp_listen(&any, &endpoint->fd) == STATUS_OK);
    ASSERT(tcp_local(endpoint->fd, &endpoint->address) == STATUS_OK);
    struct text text = text_over(endpoint->text, sizeof(endpoint->text) - 1);
    address_format(&endpoint->address, &text);
    endpoint->text[text.size] = '\0';
}

static bool await(int fd, short events)
{
    struct pollfd wait = {.fd = fd, .events = events};
    return poll(&wait, 1, child_wait_ms) == 1;
}

// The next connection.
static int endpoint_accept(const struct endpoint *endpoint)
{
    int fd = -1;
    struct address peer;
    ASSERT(await(endpoint->fd, POLLIN) && tcp_accept(endpoint->fd, &fd, &peer) == STATUS_OK);
    return fd;
}

static void say(int fd, const char *text)
{
    struct slice bytes = slice_str(text);
    size_t size = 0;
    ASSERT(tcp_write(fd, &bytes, 1, &size) == STATUS_OK && size == bytes.size);
}

// All that comes until `until` or the end.
static const char *hear(int fd, const char *until)
{
    static char space[16384];
    size_t total = 0;
    size_t size = 0;
    space[0] = '\0';
    while (strstr(space, until) == NULL && await(fd, POLLIN) &&
           tcp_read(fd, space + total, sizeof(space) - 1 - total, &size) == STATUS_OK) {
        total += size;
        space[total] = '\0';
    }
    return space;
}

struct scene {
    struct child child;
    struct endpoint router;
    struct endpoint backends[2];
    char path[32];
};

static const char quiet[] =
    "health: {interval: 0}\nmodels: {learn: false}\nload: {scrape: false}\n";

// Four lines, and then `more`.
static void write_config(const struct scene *scene, const struct endpoint *backend,
                         const char *more)
{
    FILE *file = fopen(scene->path, "we");
    ASSERT(file != NULL);
    fprintf(file,
            "listen: '%s'\nworkers: 1\nlimits: {connections: 64, requests: 64, backends: 8}\n"
            "backends: ['http://%s']\n%s",
            scene->router.text, backend->text, more);
    ASSERT(fclose(file) == 0);
}

static void scene_open(struct scene *scene, const char *more)
{
    snprintf(scene->path, sizeof(scene->path), "/tmp/keeper_test.XXXXXX");
    int fd = mkostemp(scene->path, O_CLOEXEC);
    ASSERT(fd != -1 && close(fd) == 0);
    endpoint_open(&scene->backends[0]);
    endpoint_open(&scene->backends[1]);
    endpoint_open(&scene->router);
    tcp_close(&scene->router.fd); // it was free a moment ago
    write_config(scene, &scene->backends[0], more);
    child_start(&scene->child, command_serve, WORDS("--config", scene->path));
}

static void scene_close(struct scene *scene)
{
    child_close(&scene->child);
    tcp_close(&scene->backends[0].fd);
    tcp_close(&scene->backends[1].fd);
    unlink(scene->path);
}

// -1 when it is refused.
static int try_connect(const struct endpoint *endpoint)
{
    int fd = -1;
    if (tcp_connect(&endpoint->address, &fd) != STATUS_OK) {
        return -1;
    }
    ASSERT(await(fd, POLLOUT));
    if (tcp_error(fd) != 0) {
        tcp_close(&fd);
    }
    return fd;
}

static bool is_refused_soon(const struct endpoint *endpoint)
{
    for (int i = 0; i < 5000; i++) {
        int fd = try_connect(endpoint);
        if (fd == -1) {
            return true;
        }
        tcp_close(&fd);
        child_pause();
    }
    return false;
}

// Waits for a router that is starting.
static bool comes_up(struct scene *scene)
{
    if (!child_says(&scene->child, "listening on")) {
        return false;
    }
    int fd = try_connect(&scene->router);
    bool up = fd != -1;
    tcp_close(&fd);
    return up;
}

// The beginning of the answer to a request that the router answers itself.
static bool serves(const struct scene *scene)
{
    int fd = try_connect(&scene->router);
    if (fd == -1) {
        return false;
    }
    say(fd, "GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    bool good = strncmp(hear(fd, "no such text"), "HTTP/1.1 200 ", 13) == 0;
    tcp_close(&fd);
    return good;
}

// A request that has reached a backend, which owes the answer.
struct request {
    int client;
    int backend;
};

static void request_open(struct scene *scene, struct request *request, const struct endpoint *to)
{
    request->client = try_connect(&scene->router);
    ASSERT(request->client != -1);
    say(request->client, "GET /x HTTP/1.1\r\nhost: x\r\n\r\n");
    request->backend = endpoint_accept(to);
    ASSERT(strncmp(hear(request->backend, "\r\n\r\n"), "GET /x HTTP/1.1\r\n", 17) == 0);
}

static void request_close(struct request *request)
{
    tcp_close(&request->client);
    tcp_close(&request->backend);
}

// A request that comes right after a reload may still see the fleet from before.
static bool reaches_soon(struct scene *scene, const struct endpoint *to)
{
    for (int i = 0; i < 1000; i++) {
        struct request request = {.client = try_connect(&scene->router), .backend = -1};
        ASSERT(request.client != -1);
        say(request.client, "GET /x HTTP/1.1\r\nhost: x\r\n\r\n");
        struct pollfd waits[2] = {{.fd = scene->backends[0].fd, .events = POLLIN},
                                  {.fd = scene->backends[1].fd, .events = POLLIN}};
        ASSERT(poll(waits, 2, child_wait_ms) > 0);
        const struct endpoint *reached = &scene->backends[waits[0].revents != 0 ? 0 : 1];
        request.backend = endpoint_accept(reached);
        request_close(&request);
        if (reached == to) {
            return true;
        }
    }
    return false;
}

TEST(an_invalid_command_line_is_reported_in_one_line)
{
    static const struct {
        const char *words[5];
        const char *text;
    } bad[] = {
        {{"--colour", "red"}, "command line: "},
        {{"serve"}, "command line: serve: is not an option; those start with --\n"},
        {{"--listen"}, "command line: --listen: needs a value\n"},
        {{"--backend", "localhost"}, "command line: "},
        {{"--workers", "1"}, "command line: "}, // and nowhere to send requests to
        {{"--config", "/nonexistent/w.yaml"},
         "/nonexistent/w.yaml: cannot read the configuration: No such file or directory\n"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct child child;
        child_start(&child, command_serve, bad[i].words);
        CHECK_EQ(child_finish(&child), COMMAND_USAGE);
        const char *text = child_text(child.err);
        CHECK(strncmp(text, bad[i].text, strlen(bad[i].text)) == 0);
        CHECK(strchr(text, '\n') == text + strlen(text) - 1);
        CHECK_STR(child_text(child.out), "");
        child_close(&child);
    }
}

TEST(a_bad_file_is_refused_before_anything_listens)
{
    struct scene scene;
    char expected[64];
    scene_open(&scene, "colour: red\n");
    CHECK_EQ(child_finish(&scene.child), COMMAND_USAGE);
    snprintf(expected, sizeof(expected), "%s:5:1: ", scene.path);
    CHECK(strncmp(child_text(scene.child.err), expected, strlen(expected)) == 0);
    CHECK(strstr(child_text(scene.child.err), "listening") == NULL);
    struct pollfd asked = {.fd = scene.backends[0].fd, .events = POLLIN};
    CHECK_EQ(poll(&asked, 1, 0), 0); // no backend was asked either
    scene_close(&scene);
}

TEST(a_port_that_is_taken_is_a_failure)
{
    struct child child;
    struct endpoint taken;
    char url[64];
    char expected[128];
    static const char *const kinds[] = {"--listen", "--admin-listen"};
    static const char *const suffixes[] = {"", " for the admin API"};
    endpoint_open(&taken);
    snprintf(url, sizeof(url), "http://%s", taken.text);
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        child_start(&child, command_serve,
                    WORDS(kinds[i], taken.text, "--admin-token", "t", "--backend", url, "--workers",
                          "1", "--health-interval", "0", "--models-learn", "false"));
        CHECK_EQ(child_finish(&child), COMMAND_FAILED);
        snprintf(expected, sizeof(expected),
                 "warmpath: cannot listen on %s%s: Address already in use", taken.text,
                 suffixes[i]);
        CHECK(strstr(child_text(child.err), expected) != NULL);
        child_close(&child);
    }
    tcp_close(&taken.fd);
}

TEST(it_serves_until_it_is_told_to_stop)
{
    static const int signals[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < ARRAY_COUNT(signals); i++) {
        struct scene scene;
        scene_open(&scene, quiet);
        CHECK(comes_up(&scene));
        CHECK(serves(&scene));
        CHECK(!child_is_over(&scene.child));
        CHECK_EQ(kill(scene.child.pid, signals[i]), 0);
        CHECK_EQ(child_finish(&scene.child), COMMAND_OK);
        CHECK_EQ(try_connect(&scene.router), -1);
        CHECK_STR(child_text(scene.child.out), "");
        scene_close(&scene);
    }
}

TEST(a_request_that_runs_is_finished_first)
{
    struct scene scene;
    struct request request;
    scene_open(&scene, quiet);
    CHECK(comes_up(&scene));
    request_open(&scene, &request, &scene.backends[0]);
    CHECK_EQ(kill(scene.child.pid, SIGTERM), 0);
    CHECK(child_says(&scene.child, "draining"));
    CHECK(is_refused_soon(&scene.router)); // nobody new comes in
    CHECK(!child_is_over(&scene.child));
    say(request.backend, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    CHECK(strstr(hear(request.client, "hello"), "\r\n\r\nhello") != NULL);
    CHECK_EQ(child_finish(&scene.child), COMMAND_OK);
    CHECK(strstr(child_text(scene.child.err), "all requests have ended") != NULL);
    request_close(&request);
    scene_close(&scene);
}

TEST(a_second_signal_ends_it_at_once)
{
    struct scene scene;
    struct request request;
    scene_open(&scene, "health: {interval: 0}\nmodels: {learn: false}\nload: {scrape: "
                       "false}\ntimeouts: {drain: 24h}\n");
    CHECK(comes_up(&scene));
    request_open(&scene, &request, &scene.backends[0]);
    CHECK_EQ(kill(scene.child.pid, SIGTERM), 0);
    CHECK(child_says(&scene.child, "draining"));
    CHECK(!child_is_over(&scene.child));
    CHECK_EQ(kill(scene.child.pid, SIGTERM), 0);
    CHECK_EQ(child_finish(&scene.child), COMMAND_OK);
    CHECK(strstr(child_text(scene.child.err), "second signal") != NULL);
    request_close(&request);
    scene_close(&scene);
}

TEST(draining_has_an_end)
{
    struct scene scene;
    struct request request;
    scene_open(&scene, "health: {interval: 0}\nmodels: {learn: false}\nload: {scrape: "
                       "false}\ntimeouts: {drain: 200ms}\n");
    CHECK(comes_up(&scene));
    request_open(&scene, &request, &scene.backends[0]);
    CHECK_EQ(kill(scene.child.pid, SIGTERM), 0);
    CHECK_EQ(child_finish(&scene.child), COMMAND_OK);
    CHECK(strstr(child_text(scene.child.err), "requests that have not ended in time are reset") !=
          NULL);
    request_close(&request);
    scene_close(&scene);
}

TEST(a_broken_file_changes_nothing_and_a_good_one_does)
{
    struct scene scene;
    struct request request;
    char expected[128];
    scene_open(&scene, quiet);
    CHECK(comes_up(&scene));
    write_config(&scene, &scene.backends[1], "colour: red\n");
    CHECK_EQ(kill(scene.child.pid, SIGHUP), 0);
    CHECK(child_says(&scene.child, "the old configuration stays in force"));
    snprintf(expected, sizeof(expected), "error %s:5:1: ", scene.path);
    CHECK(strstr(child_text(scene.child.err), expected) != NULL);
    request_open(&scene, &request, &scene.backends[0]);
    request_close(&request);

    CHECK_EQ(unlink(scene.path), 0);
    CHECK_EQ(kill(scene.child.pid, SIGHUP), 0);
    CHECK(child_says(&scene.child, "cannot read the configuration"));
    CHECK(serves(&scene));

    write_config(&scene, &scene.backends[1], quiet);
    CHECK_EQ(kill(scene.child.pid, SIGHUP), 0);
    CHECK(child_says(&scene.child, "configuration reloaded"));
    CHECK(reaches_soon(&scene, &scene.backends[1]));
    CHECK(strstr(child_text(scene.child.err), "next start") == NULL);
    CHECK_EQ(kill(scene.child.pid, SIGTERM), 0); // the old one may not have been freed yet
    CHECK_EQ(child_finish(&scene.child), COMMAND_OK);
    scene_close(&scene);
}

TEST(changes_that_need_a_restart_are_logged)
{
    static const struct {
        unsigned workers;
        unsigned backends;
        const char *more;
    } changes[] = {
        {1, 9, ""},
        {2, 8, ""},
        {1, 8, "dns: {servers: [10.0.0.1]}\n"},
        {1, 8, "admin: {listen: '127.0.0.1:1', token: t}\n"},
        {1, 8, "events: {endpoint: 'tcp://127.0.0.1:1'}\n"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
        struct scene scene;
        scene_open(&scene, quiet);
        CHECK(comes_up(&scene));
        FILE *file = fopen(scene.path, "we");
        CHECK(file != NULL);
        fprintf(file,
                "listen: '%s'\nworkers: %u\nbackends: ['http://%s']\n"
                "limits: {connections: 64, requests: 64, backends: %u}\n%s%s",
                scene.router.text, changes[i].workers, scene.backends[0].text, changes[i].backends,
                changes[i].more, quiet);
        CHECK_EQ(fclose(file), 0);
        CHECK_EQ(kill(scene.child.pid, SIGHUP), 0);
        CHECK(child_says(&scene.child, "configuration reloaded"));
        CHECK(strstr(child_text(scene.child.err), "take effect at the next start") != NULL);
        CHECK(serves(&scene));
        scene_close(&scene);
    }
}

TEST(without_a_file_there_is_nothing_to_reload)
{
    struct scene scene;
    char url[64];
    scene_open(&scene, "colour: red\n"); // for its ports
    CHECK_EQ(child_finish(&scene.child), COMMAND_USAGE);
    child_close(&scene.child);
    snprintf(url, sizeof(url), "http://%s", scene.backends[0].text);
    child_start(&scene.child, command_serve,
                WORDS("--listen", scene.router.text, "--backend", url, "--workers=1",
                      "--health-interval=0", "--models-learn=false", "--limits-connections=64",
                      "--limits-requests=64"));
    CHECK(comes_up(&scene));
    CHECK_EQ(kill(scene.child.pid, SIGHUP), 0);
    CHECK(child_says(&scene.child, "started without a configuration file"));
    CHECK(serves(&scene));
    CHECK_EQ(kill(scene.child.pid, SIGTERM), 0);
    CHECK_EQ(child_finish(&scene.child), COMMAND_OK);
    scene_close(&scene);
}

TEST(a_backend_that_hangs_does_not_keep_it_from_starting)
{
    struct scene scene;
    scene_open(&scene, "load: {scrape: false}\nhealth: {interval: 1h, timeout: 5m}\n");
    int probe = endpoint_accept(&scene.backends[0]); // and never answered
    CHECK(comes_up(&scene));
    CHECK(serves(&scene));
    CHECK_EQ(kill(scene.child.pid, SIGTERM), 0);
    CHECK_EQ(child_finish(&scene.child), COMMAND_OK);
    tcp_close(&probe);
    scene_close(&scene);
}

TEST(a_signal_before_it_listens_ends_it_too)
{
    struct scene scene;
    scene_open(&scene, "load: {scrape: false}\nhealth: {interval: 1h, timeout: 5m}\n");
    int probe = endpoint_accept(&scene.backends[0]); // it waits for the answer
    CHECK_EQ(kill(scene.child.pid, SIGTERM), 0);
    CHECK_EQ(child_finish(&scene.child), COMMAND_OK);
    tcp_close(&probe);
    scene_close(&scene);
}

TEST_TIMED(a_backend_that_answers_is_known_before_the_first_client_comes)
{
    struct scene scene;
    scene_open(
        &scene,
        "models: {learn: false}\nload: {scrape: false}\nhealth: {interval: 1h, timeout: 5m}\n");
    int probe = endpoint_accept(&scene.backends[0]);
    hear(probe, "\r\n\r\n");
    say(probe, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    CHECK(comes_up(&scene));
    const char *text = child_text(scene.child.err);
    const char *up = strstr(text, ": up");
    CHECK(up != NULL && up < strstr(text, "listening on"));
    tcp_close(&probe);
    scene_close(&scene);
}

// The test sends only the greeting of ZeroMQ, with which both sides begin.
TEST(with_events_it_starts_listens_and_stops)
{
    struct scene scene;
    struct endpoint engine;
    struct endpoint bound;
    char more[256];
    endpoint_open(&engine);
    endpoint_open(&bound);
    tcp_close(&bound.fd); // as the router's
    snprintf(more, sizeof(more), "events: {endpoint: 'tcp://%s', bind: ['tcp://%s']}\n%s",
             engine.text, bound.text, quiet);
    scene_open(&scene, more);
    CHECK(comes_up(&scene));
    int fd = endpoint_accept(&engine);
    CHECK(await(fd, POLLIN));
    int other = try_connect(&bound);
    CHECK(other != -1 && await(other, POLLIN));
    CHECK(serves(&scene));
    CHECK_EQ(kill(scene.child.pid, SIGHUP), 0);
    CHECK(child_says(&scene.child, "configuration reloaded"));
    CHECK(strstr(child_text(scene.child.err), "take effect at the next start") == NULL);
    CHECK(serves(&scene));
    CHECK_EQ(kill(scene.child.pid, SIGTERM), 0);
    CHECK_EQ(child_finish(&scene.child), COMMAND_OK);
    tcp_close(&fd);
    tcp_close(&other);
    tcp_close(&engine.fd);
    scene_close(&scene);
}

TEST(an_address_for_engines_that_is_taken_is_a_failure)
{
    struct scene scene;
    struct endpoint engine;
    char more[256];
    endpoint_open(&engine);
    snprintf(more, sizeof(more), "events: {bind: ['tcp://%s']}\n%s", engine.text, quiet);
    scene_open(&scene, more);
    CHECK_EQ(child_finish(&scene.child), COMMAND_FAILED);
    CHECK(strstr(child_text(scene.child.err), engine.text) != NULL);
    tcp_close(&engine.fd);
    scene_close(&scene);
}
