// SPDX-License-Identifier: Apache-2.0
//
// fake_store.h -- a store in the loop of the test: it sends the reply that the test wrote down for
// a command, and an obliging one to all others.  It counts connections and commands.
#pragma once

#include "base/base.h"
#include "base/text.h"
#include "cluster/store_codec.h"
#include "net/tcp.h"
#include "net/transport.h"
#include "sys/loop.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>

enum { fake_rule_count_max = 16, fake_connection_count_max = 64, fake_log_size = 1 << 16 };

struct fake_rule {
    const char *command; // its first word
    const char *reply;   // bytes; NULL: none, ever
    uint32_t times;      // 0: always
    bool bytewise;       // one byte each millisecond
    bool closes;         // behind the reply
    uint32_t used;
};

struct fake_connection {
    struct transport transport; // first: `ready` finds us from here
    struct fake_store *store;
    struct store_codec *codec;
    struct timer timer;
    const char *slow; // the rest of a slow reply
    bool closes;
};

struct fake_store {
    struct loop_source source; // first: the listener's `ready` finds us from here
    struct loop *loop;
    uint16_t port;
    bool is_deaf; // accepts and reads nothing
    struct fake_rule rules[fake_rule_count_max];
    uint32_t rule_count;
    struct fake_connection *connections[fake_connection_count_max];
    uint32_t accepted_count;
    uint32_t command_count;
    char log[fake_log_size]; // the commands, a line for each
    size_t log_size;
};

static inline void fake_set(struct fake_store *store, struct fake_rule rule)
{
    for (uint32_t i = 0; i < store->rule_count; i++) {
        if (strcmp(store->rules[i].command, rule.command) == 0) {
            store->rules[i] = rule;
            return;
        }
    }
    ASSERT(store->rule_count < fake_rule_count_max);
    store->rules[store->rule_count++] = rule;
}

static inline void fake_reply(struct fake_store *store, const char *command, const char *reply)
{
    fake_set(store, (struct fake_rule){.command = command, .reply = reply});
}

static inline void fake_clear(struct fake_store *store)
{
    store->rule_count = 0;
}

static inline void fake_drop(struct fake_connection *connection)
{
    loop_disarm(connection->store->loop, &connection->timer);
    transport_close(&connection->transport, connection->store->loop, TRANSPORT_ORDERLY);
    store_codec_destroy(&connection->codec);
}

static inline void fake_write(struct fake_connection *connection, const char *bytes, size_t size)
{
    struct slice part = slice_of(bytes, size);
    size_t written = 0;
    // Replies are short: the kernel takes them, or the peer is gone.
    (void)transport_write(&connection->transport, &part, 1, &written);
}

static inline void fake_write_byte(struct timer *timer)
{
    struct fake_connection *connection = CONTAINER_OF(timer, struct fake_connection, timer);
    fake_write(connection, connection->slow, 1);
    connection->slow++;
    if (*connection->slow != '\0') {
        loop_arm(connection->store->loop, timer, 1);
    } else if (connection->closes) {
        fake_drop(connection);
    }
}

static inline const char *fake_default(struct slice name)
{
    static const char *const replies[][2] = {
        {"HELLO", "*2\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"},
        {"AUTH", "+OK\r\n"},
        {"SELECT", "+OK\r\n"},
        {"HGETALL", "*0\r\n"},
        {"XADD", "$3\r\n1-0\r\n"},
        {"XREAD", "*-1\r\n"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(replies); i++) {
        if (slice_is(name, replies[i][0])) {
            return replies[i][1];
        }
    }
    return ":1\r\n";
}

static inline void fake_note(struct fake_store *store, const struct store_reply *command)
{
    struct text text =
        text_over(store->log + store->log_size, sizeof(store->log) - 1 - store->log_size);
    store->command_count++;
    for (uint32_t i = 0; i < store_reply_count(command); i++) {
        text_add_str(&text, i > 0 ? " " : "");
        text_add(&text, store_reply_text(store_reply_at(command, i)));
    }
    text_add_str(&text, "\n");
    for (size_t i = 0; i + 1 < text.size; i++) {
        if (text.bytes[i] < ' ' || text.bytes[i] >= 0x7f) {
            text.bytes[i] = '?'; // the log is read as a string
        }
    }
    store->log_size += text.overflow ? 0 : text.size;
}

static inline void fake_obey(struct fake_connection *connection, const struct store_reply *command)
{
    struct fake_store *store = connection->store;
    ASSERT(store_reply_count(command) > 0);
    struct slice name = store_reply_text(store_reply_at(command, 0));
    fake_note(store, command);
    for (uint32_t i = 0; i < store->rule_count; i++) {
        struct fake_rule *rule = &store->rules[i];
        if (!slice_is(name, rule->command) || (rule->times > 0 && rule->used >= rule->times)) {
            continue;
        }
        rule->used++;
        connection->closes = rule->closes;
        if (rule->reply != NULL && rule->bytewise) {
            connection->slow = rule->reply;
            loop_arm(store->loop, &connection->timer, 1);
        } else if (rule->reply != NULL) {
            fake_write(connection, rule->reply, strlen(rule->reply));
        }
        if (rule->closes && !rule->bytewise) {
            fake_drop(connection);
        }
        return;
    }
    const char *reply = fake_default(name);
    fake_write(connection, reply, strlen(reply));
}

static inline void fake_ready(struct loop_source *source, uint32_t events)
{
    struct fake_connection *connection = (struct fake_connection *)source;
    uint8_t bytes[4096];
    size_t size = 0;
    transport_note(&connection->transport, events);
    if (connection->store->is_deaf) {
        return;
    }
    for (;;) {
        enum status status = transport_read(&connection->transport, bytes, sizeof(bytes), &size);
        if (status != STATUS_OK) {
            if (status != STATUS_AGAIN) {
                fake_drop(connection);
            }
            return;
        }
        ASSERT(store_codec_feed(connection->codec, slice_of(bytes, size)) == STATUS_OK);
        struct store_reply *command = NULL;
        while (connection->codec != NULL &&
               store_codec_next(connection->codec, &command) == STATUS_OK) {
            fake_obey(connection, command);
            store_reply_free(&command);
        }
        if (connection->codec == NULL) {
            return;
        }
    }
}

static inline void fake_accept(struct loop_source *source, uint32_t events)
{
    struct fake_store *store = (struct fake_store *)source;
    struct address peer;
    int fd = -1;
    (void)events;
    while (tcp_accept(source->fd, &fd, &peer) == STATUS_OK) {
        ASSERT(store->accepted_count < fake_connection_count_max);
        struct fake_connection *connection = calloc(1, sizeof(*connection));
        ASSERT(connection != NULL);
        store->connections[store->accepted_count++] = connection;
        connection->store = store;
        connection->transport.source.ready = fake_ready;
        connection->timer.fire = fake_write_byte;
        ASSERT(store_codec_create(&(struct store_codec_bounds){1 << 20, 1 << 21, 1 << 16},
                                  &connection->codec) == STATUS_OK);
        ASSERT(transport_open(&connection->transport, store->loop, fd, NULL, NULL) == STATUS_OK);
    }
}

static inline void fake_start(struct fake_store *store, struct loop *loop)
{
    struct address address;
    memset(store, 0, sizeof(*store));
    store->loop = loop;
    store->source.ready = fake_accept;
    ASSERT(address_parse("127.0.0.1:0", &address) == STATUS_OK);
    ASSERT(tcp_listen(&address, &store->source.fd) == STATUS_OK);
    ASSERT(tcp_local(store->source.fd, &address) == STATUS_OK);
    store->port = ntohs(((const struct sockaddr_in *)(const void *)address.bytes)->sin_port);
    ASSERT(loop_add(loop, &store->source) == STATUS_OK);
}

static inline void fake_drop_all(struct fake_store *store)
{
    for (uint32_t i = 0; i < store->accepted_count; i++) {
        fake_drop(store->connections[i]);
    }
}

// Between turns.
static inline void fake_stop(struct fake_store *store)
{
    fake_drop_all(store);
    loop_remove(store->loop, &store->source);
    tcp_close(&store->source.fd);
    loop_turn(store->loop, 0);
    for (uint32_t i = 0; i < store->accepted_count; i++) {
        free(store->connections[i]);
    }
}

static inline uint32_t fake_count(const struct fake_store *store, const char *part)
{
    uint32_t count = 0;
    for (const char *at = store->log; (at = strstr(at, part)) != NULL; at += strlen(part)) {
        count++;
    }
    return count;
}
