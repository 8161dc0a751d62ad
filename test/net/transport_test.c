// SPDX-License-Identifier: Apache-2.0
//
// Plain transports; tls_test.c has the encrypted half, and the end-to-end tests both together.

#include "net/transport.h"

#include "test.h"

#include <sys/socket.h>
#include <unistd.h>

struct side {
    struct transport transport;
    int ready_count;
};

static void ready(struct loop_source *source, uint32_t events)
{
    struct side *side = (struct side *)source;
    transport_note(&side->transport, events);
    side->ready_count++;
}

static struct loop *loop;
static struct side a;
static struct side b;

static void open_pair(void)
{
    int fds[2];
    ASSERT(loop_create(&loop) == STATUS_OK);
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    a = (struct side){.transport.source.ready = ready};
    b = (struct side){.transport.source.ready = ready};
    ASSERT(transport_open(&a.transport, loop, fds[0], NULL, NULL) == STATUS_OK);
    ASSERT(transport_open(&b.transport, loop, fds[1], NULL, NULL) == STATUS_OK);
    loop_turn(loop, 100);
}

static void close_pair(void)
{
    transport_close(&a.transport, loop, TRANSPORT_ORDERLY);
    transport_close(&b.transport, loop, TRANSPORT_ORDERLY);
    transport_close(&b.transport, loop, TRANSPORT_ORDERLY); // nothing happens
    loop_destroy(&loop);
}

TEST(remembers_events_until_a_call_returns_again)
{
    open_pair();
    char bytes[64];
    size_t size = 0;
    CHECK(a.transport.can_write && !a.transport.can_read);
    CHECK_EQ(transport_handshake(&a.transport), STATUS_OK);
    struct slice parts[] = {slice_str("one "), slice_str("two")};
    CHECK_EQ(transport_write(&a.transport, parts, 2, &size), STATUS_OK);
    CHECK_EQ(size, 7);
    loop_turn(loop, 100);
    CHECK(b.transport.can_read);
    CHECK_EQ(transport_read(&b.transport, bytes, 4, &size), STATUS_OK);
    CHECK(b.transport.can_read); // the buffer was filled: there may be more
    CHECK_EQ(transport_read(&b.transport, bytes, sizeof(bytes), &size), STATUS_OK);
    CHECK_EQ(size, 3);
    CHECK(!b.transport.can_read);
    close_pair();
}

TEST(a_full_socket_is_not_writable_until_the_peer_reads)
{
    open_pair();
    static char bytes[65536];
    struct slice part = slice_of(bytes, sizeof(bytes));
    size_t size = 0;
    enum status status = STATUS_OK;
    while (status == STATUS_OK) {
        status = transport_write(&a.transport, &part, 1, &size);
    }
    CHECK_EQ(status, STATUS_AGAIN);
    CHECK(!a.transport.can_write);
    size_t unsent = transport_unsent(&a.transport);
    CHECK(unsent > 0);
    loop_turn(loop, 100);
    while (transport_read(&b.transport, bytes, sizeof(bytes), &size) == STATUS_OK) {
    }
    loop_turn(loop, 100);
    CHECK(a.transport.can_write);
    CHECK(transport_unsent(&a.transport) < unsent);
    close_pair();
}

TEST(an_end_is_seen_after_the_last_bytes)
{
    open_pair();
    char bytes[64];
    size_t size = 0;
    struct slice part = slice_str("last");
    CHECK_EQ(transport_write(&a.transport, &part, 1, &size), STATUS_OK);
    transport_finish(&a.transport);
    loop_turn(loop, 100);
    CHECK(b.transport.hung_up && b.transport.can_read);
    CHECK_EQ(transport_read(&b.transport, bytes, sizeof(bytes), &size), STATUS_OK);
    CHECK(b.transport.can_read);
    CHECK_EQ(transport_read(&b.transport, bytes, sizeof(bytes), &size), STATUS_CLOSED);
    close_pair();
}
