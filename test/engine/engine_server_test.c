// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_server.h"

#include "base/text.h"
#include "net/tcp.h"
#include "sys/clock.h"
#include "test.h"

#include <poll.h>
#include <stdlib.h>

static struct profile profile;
static char error[engine_server_error_size];

static struct engine_server *start(uint32_t count, uint32_t threads, uint16_t port)
{
    static const char *const adapters[] = {"lora-a", "lora-b"};
    struct engine_server *server = NULL;
    ASSERT(profile_find("llama-3.1-8b", &profile));
    struct engine_server_options options = {.host = "127.0.0.1",
                                            .rank_count = 1,
                                            .port = port,
                                            .count = count,
                                            .thread_count = threads,
                                            .speed = 100,
                                            .profile = &profile,
                                            .adapters = adapters,
                                            .adapter_count = 2,
                                            .output_tokens = 3};
    return engine_server_start(&options, &server, error) == STATUS_OK ? server : NULL;
}

static void address_of(const struct engine_server *server, uint32_t index, char out[64])
{
    struct text text = text_over(out, 63);
    engine_server_write_address(server, index, &text);
    out[text.size] = '\0';
}

// Waits on the descriptor, then reads or writes what it can.
static bool wait_for(int fd, short events)
{
    struct pollfd entry = {.fd = fd, .events = events};
    return poll(&entry, 1, 10000) == 1;
}

static const char *ask(const struct engine_server *server, uint32_t index, const char *method,
                       const char *path, const char *body)
{
    static char answer[65536];
    char request[1024];
    char place[64];
    struct address address;
    size_t got = 0;
    size_t size = 0;
    int fd = -1;

    address_of(server, index, place);
    ASSERT(address_parse(place, &address) == STATUS_OK);
    answer[0] = '\0';
    if (tcp_connect(&address, &fd) != STATUS_OK) {
        return "";
    }
    int length = snprintf(request, sizeof(request),
                          "%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %zu"
                          "\r\n\r\n%s",
                          method, path, strlen(body), body);
    struct slice bytes = slice_of(request, (size_t)length);
    enum status status = wait_for(fd, POLLOUT) ? tcp_write(fd, &bytes, 1, &size) : STATUS_IO;
    while (status == STATUS_OK && wait_for(fd, POLLIN)) {
        status = tcp_read(fd, answer + got, sizeof(answer) - 1 - got, &size);
        got += status == STATUS_OK ? size : 0;
    }
    answer[got] = '\0';
    tcp_close(&fd);
    return answer;
}

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

TEST(every_engine_of_every_thread_responds_and_has_its_own_cache)
{
    static const char prompt[] = "{\"prompt\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}";
    struct engine_server *server = start(7, 3, 0);
    CHECK(server != NULL);
    for (uint32_t i = 0; i < 7; i++) {
        CHECK(has(ask(server, i, "POST", "/v1/completions", prompt), "\"cached_tokens\":0}"));
        CHECK(has(ask(server, i, "POST", "/v1/completions", prompt), "\"cached_tokens\":16}"));
    }
    CHECK(has(ask(server, 3, "GET", "/v1/models", ""), "\"id\":\"lora-b\""));
    engine_server_stop(&server);
    CHECK(server == NULL);
}

static bool eventually_has(const struct engine_server *server, uint32_t index, const char *part)
{
    for (uint64_t until = clock_monotonic_ns() + 10000000000; clock_monotonic_ns() < until;) {
        if (has(ask(server, index, "GET", "/sim/faults", ""), part)) {
            return true;
        }
    }
    return false;
}

TEST(an_order_for_all_reaches_all)
{
    struct engine_server *server = start(6, 3, 0);
    CHECK(server != NULL);
    CHECK(has(ask(server, 1, "POST", "/sim/faults", "{\"slow\":2}"), "\"slow\":2}"));
    CHECK(has(ask(server, 0, "GET", "/sim/faults", ""), "\"slow\":1}"));
    CHECK(has(ask(server, 0, "POST", "/sim/faults/all", "{\"slow\":3}"), "\"slow\":3}"));
    for (uint32_t i = 0; i < 6; i++) {
        CHECK(eventually_has(server, i, "\"slow\":3}"));
    }
    CHECK(has(ask(server, 0, "POST", "/sim/faults/all", "{\"slow\":-3}"), " 400 "));
    // One that is down hears it too.
    CHECK(has(ask(server, 4, "POST", "/sim/faults", "{\"crash_s\":1000}"), " 200 "));
    CHECK(has(ask(server, 5, "DELETE", "/sim/faults/all", ""), "\"slow\":1}"));
    for (uint32_t i = 0; i < 6; i++) {
        CHECK(eventually_has(server, i, "\"slow\":1}"));
    }
    engine_server_stop(&server);
}

TEST(ports_follow_each_other_and_one_that_is_taken_is_named)
{
    char place[64];
    struct engine_server *first = start(1, 1, 0);
    CHECK(first != NULL);
    address_of(first, 0, place);
    unsigned long port = strtoul(strrchr(place, ':') + 1, NULL, 10);
    // The port of the last of three is taken; the two before may be, too, by anybody.
    CHECK(start(3, 2, (uint16_t)(port - 2)) == NULL);
    CHECK(has(error, "cannot listen on 127.0.0.1:") && has(error, "Address already in use"));
    engine_server_stop(&first);
    CHECK(start(2, 1, 65535) == NULL);
    CHECK_STR(error, "cannot listen on 127.0.0.1, port 65536: no such address");
}
