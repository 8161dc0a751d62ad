// SPDX-License-Identifier: Apache-2.0

#include "net/tcp.h"

#include "base/text.h"
#include "test.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

static const char *formatted(const char *text)
{
    static char space[80];
    struct address address;
    if (address_parse(text, &address) != STATUS_OK) {
        return "malformed";
    }
    struct text out = text_over(space, sizeof(space) - 1);
    address_format(&address, &out);
    space[out.size] = '\0';
    return space;
}

TEST(addresses_survive_a_round_trip)
{
    CHECK_STR(formatted("127.0.0.1:80"), "127.0.0.1:80");
    CHECK_STR(formatted("[::1]:65535"), "[::1]:65535");
    CHECK_STR(formatted(":8080"), "0.0.0.0:8080");
    CHECK_STR(formatted("*:1"), "0.0.0.0:1");
}

TEST(an_invalid_address_is_refused)
{
    static const char *const bad[] = {"",       "127.0.0.1",      "127.0.0.1:",   "127.0.0.1:65536",
                                      "::1:80", "[127.0.0.1]:80", "localhost:80", "127.0.0.1:8o",
                                      "[::1]80"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        CHECK_STR(formatted(bad[i]), "malformed");
    }
}

static void await(int fd, short events)
{
    struct pollfd wait = {.fd = fd, .events = events};
    ASSERT(poll(&wait, 1, 5000) == 1);
}

TEST(bytes_travel_and_ends_are_told_apart)
{
    struct address any;
    struct address bound;
    struct address peer;
    int listener = -1;
    int client = -1;
    int server = -1;
    CHECK_EQ(address_parse("127.0.0.1:0", &any), STATUS_OK);
    CHECK_EQ(tcp_listen(&any, &listener), STATUS_OK);
    CHECK_EQ(tcp_accept(listener, &server, &peer), STATUS_AGAIN);
    CHECK_EQ(tcp_local(listener, &bound), STATUS_OK);
    CHECK_EQ(tcp_connect(&bound, &client), STATUS_OK);
    await(listener, POLLIN);
    CHECK_EQ(tcp_accept(listener, &server, &peer), STATUS_OK);
    await(client, POLLOUT);
    CHECK_EQ(tcp_error(client), 0);

    struct slice parts[] = {slice_str("he"), slice_str(""), slice_str("llo")};
    size_t size = 0;
    char bytes[16];
    CHECK_EQ(tcp_write(client, parts, 3, &size), STATUS_OK);
    CHECK_EQ(size, 5);
    await(server, POLLIN);
    CHECK_EQ(tcp_read(server, bytes, sizeof(bytes), &size), STATUS_OK);
    CHECK(slice_is(slice_of(bytes, size), "hello"));
    CHECK_EQ(tcp_read(server, bytes, sizeof(bytes), &size), STATUS_AGAIN);

    tcp_close(&client);
    CHECK_EQ(client, -1);
    await(server, POLLIN);
    CHECK_EQ(tcp_read(server, bytes, sizeof(bytes), &size), STATUS_CLOSED);
    tcp_close(&server);

    CHECK_EQ(tcp_connect(&bound, &client), STATUS_OK);
    await(listener, POLLIN);
    CHECK_EQ(tcp_accept(listener, &server, &peer), STATUS_OK);
    tcp_abort_on_close(client);
    tcp_close(&client);
    await(server, POLLIN);
    CHECK_EQ(tcp_read(server, bytes, sizeof(bytes), &size), STATUS_IO);
    CHECK_EQ(errno, ECONNRESET);
    tcp_close(&server);
    tcp_close(&listener);
}

TEST(a_refused_connection_says_so)
{
    struct address any;
    struct address bound;
    int listener = -1;
    int client = -1;
    CHECK_EQ(address_parse("127.0.0.1:0", &any), STATUS_OK);
    CHECK_EQ(tcp_listen(&any, &listener), STATUS_OK);
    CHECK_EQ(tcp_local(listener, &bound), STATUS_OK);
    tcp_close(&listener);
    enum status status = tcp_connect(&bound, &client);
    if (status == STATUS_OK) {
        await(client, POLLOUT);
        CHECK_EQ(tcp_error(client), ECONNREFUSED);
        tcp_close(&client);
    } else {
        CHECK_EQ(errno, ECONNREFUSED);
    }
}

TEST(a_port_with_a_listener_is_not_free_even_if_it_could_be_shared)
{
    struct address any;
    struct address bound;
    int listener = -1;
    int second = -1;
    CHECK_EQ(address_parse("127.0.0.1:0", &any), STATUS_OK);
    CHECK_EQ(tcp_listen(&any, &listener), STATUS_OK);
    CHECK_EQ(tcp_local(listener, &bound), STATUS_OK);
    CHECK_EQ(tcp_listen(&bound, &second), STATUS_OK); // as another worker does
    CHECK_EQ(tcp_probe_bind(&bound), STATUS_IO);
    CHECK_EQ(errno, EADDRINUSE);
    tcp_close(&listener);
    tcp_close(&second);
    CHECK_EQ(tcp_probe_bind(&bound), STATUS_OK);
}

static int option_of(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof(value);
    ASSERT(getsockopt(fd, level, name, &value, &size) == 0);
    return value;
}

TEST(both_ends_send_at_once_and_notice_a_peer_that_vanished)
{
    struct address any;
    struct address bound;
    struct address peer;
    int listener = -1;
    int ends[2] = {-1, -1};
    CHECK_EQ(address_parse("127.0.0.1:0", &any), STATUS_OK);
    CHECK_EQ(tcp_listen(&any, &listener), STATUS_OK);
    CHECK_EQ(tcp_local(listener, &bound), STATUS_OK);
    CHECK_EQ(tcp_connect(&bound, &ends[0]), STATUS_OK);
    await(listener, POLLIN);
    CHECK_EQ(tcp_accept(listener, &ends[1], &peer), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        CHECK(option_of(ends[i], IPPROTO_TCP, TCP_NODELAY) != 0);
        CHECK(option_of(ends[i], SOL_SOCKET, SO_KEEPALIVE) != 0);
        CHECK_EQ(option_of(ends[i], IPPROTO_TCP, TCP_KEEPIDLE), 60);
        tcp_close(&ends[i]);
    }
    tcp_close(&listener);
}
