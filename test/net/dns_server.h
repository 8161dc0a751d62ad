// SPDX-License-Identifier: Apache-2.0
//
// dns_server.h -- a name server in the loop of the test.  It knows a short list of records, counts
// the questions, and misbehaves on demand.
#pragma once

#include "base/base.h"
#include "base/rng.h"
#include "base/text.h"
#include "net/tcp.h"
#include "sys/loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TYPE_A = 1,
    TYPE_CNAME = 5,
    TYPE_AAAA = 28,
    TYPE_SRV = 33,
    RCODE_SERVFAIL = 2,
    RCODE_NXDOMAIN = 3,
    RCODE_REFUSED = 5,
    dns_message_size_max = 4096,
    dns_connection_count_max = 4,
};

struct dns_record {
    const char *name;
    // An address, the name that an alias stands for, or "priority port target" of a service.
    const char *value;
    uint32_t ttl_s;
    uint16_t type;
};

struct dns_message {
    uint8_t bytes[dns_message_size_max];
    size_t size;
};

struct dns_server;

struct dns_connection {
    struct loop_source source;
    struct dns_server *server;
    struct dns_message in;
};

struct dns_server {
    struct loop_source udp;
    struct loop_source tcp;
    struct loop *loop;
    const struct dns_record *records;
    uint32_t record_count;
    char address[32];
    uint32_t question_count;
    uint32_t tcp_question_count;
    struct dns_connection connections[dns_connection_count_max];

    // How it misbehaves; zero: not at all.
    bool silent;
    bool silent_over_tcp;
    bool truncates; // says over UDP that the answer does not fit
    bool drips;     // sends TCP answers byte by byte
    bool hangs_up;  // ends TCP connections without an answer
    uint8_t rcode;  // for every question, or for those of `rcode_type`
    uint16_t rcode_type;
    const char *failing_name; // SERVFAIL for every question about it
    const char *silent_name;
    bool cuts_services; // SRV records end within their port
    bool changes_id;
    bool changes_bytes;      // at random, but not the id
    uint32_t changes_one_in; // so many responses; 0: in all
    struct rng rng;

    // The answer to a question of `held_type` waits until so many questions were asked.
    uint16_t held_type;
    uint32_t held_until;
    struct dns_message held;
    struct sockaddr_in held_for;
};

static inline void dns_put(struct dns_message *message, uint64_t number, size_t size)
{
    ASSERT(message->size + size <= sizeof(message->bytes));
    for (size_t i = 0; i < size; i++) {
        message->bytes[message->size++] = (uint8_t)(number >> (8 * (size - 1 - i)));
    }
}

static inline uint16_t dns_two_bytes(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static inline void dns_put_name(struct dns_message *message, const char *name)
{
    while (*name != '\0') {
        size_t size = strcspn(name, ".");
        dns_put(message, size, 1);
        for (size_t i = 0; i < size; i++) {
            dns_put(message, (uint8_t)name[i], 1);
        }
        name += size + (name[size] == '.');
    }
    dns_put(message, 0, 1);
}

// The only question of a message, which is our own resolver's and thus well formed.
static inline size_t dns_read_question(const struct dns_message *message, char *name,
                                       uint16_t *type)
{
    size_t at = 12;
    size_t size = 0;
    while (message->bytes[at] != 0) {
        uint8_t label_size = message->bytes[at];
        memcpy(name + size, message->bytes + at + 1, label_size);
        size += label_size;
        name[size++] = '.';
        at += 1U + label_size;
        ASSERT(at < message->size && size < 256);
    }
    name[size > 0 ? size - 1 : 0] = '\0';
    *type = dns_two_bytes(message->bytes + at + 1);
    return at + 5;
}

// The weight falls as the priority rises, so that a reader that confuses them is noticed.
static inline void dns_put_service(struct dns_message *message, const char *value)
{
    char *rest;
    unsigned long priority = strtoul(value, &rest, 10);
    unsigned long port = strtoul(rest, &rest, 10);
    ASSERT(*rest == ' ');
    dns_put(message, priority, 2);
    dns_put(message, UINT16_MAX - priority, 2);
    dns_put(message, port, 2);
    dns_put_name(message, strcmp(rest + 1, ".") == 0 ? "" : rest + 1);
}

static inline void dns_put_record(struct dns_message *message, const struct dns_record *record)
{
    dns_put_name(message, record->name);
    dns_put(message, record->type, 2);
    dns_put(message, 1, 2);
    dns_put(message, record->ttl_s, 4);
    size_t size_at = message->size;
    dns_put(message, 0, 2);
    if (record->type == TYPE_CNAME) {
        dns_put_name(message, record->value);
    } else if (record->type == TYPE_SRV) {
        dns_put_service(message, record->value);
    } else {
        int family = record->type == TYPE_A ? AF_INET : AF_INET6;
        ASSERT(inet_pton(family, record->value, message->bytes + message->size) == 1);
        message->size += family == AF_INET ? 4 : 16;
    }
    size_t size = message->size - size_at - 2;
    message->bytes[size_at] = (uint8_t)(size >> 8);
    message->bytes[size_at + 1] = (uint8_t)size;
}

// Appends what is known of `name`, following aliases.  Returns the count, -1 when there is nothing
// of any type.
static inline int dns_put_answers(const struct dns_server *server, const char *name, uint16_t type,
                                  struct dns_message *out)
{
    int count = -1;
    for (uint32_t i = 0; i < server->record_count; i++) {
        const struct dns_record *record = &server->records[i];
        if (strcasecmp(record->name, name) != 0) {
            continue;
        }
        count = count < 0 ? 0 : count;
        if (record->type == type) {
            dns_put_record(out, record);
            count++;
        } else if (record->type == TYPE_CNAME) {
            dns_put_record(out, record);
            int more = dns_put_answers(server, record->value, type, out);
            count += 1 + (more > 0 ? more : 0);
        }
    }
    return count;
}

static inline bool dns_is_named(const char *expected, const char *name)
{
    return expected != NULL && strcasecmp(expected, name) == 0;
}

static inline void dns_make_answer(struct dns_server *server, const struct dns_message *question,
                                   bool over_tcp, struct dns_message *out)
{
    char name[256];
    uint16_t type;
    size_t question_size = dns_read_question(question, name, &type);
    bool truncated = server->truncates && !over_tcp;
    uint8_t rcode = server->rcode_type == 0 || server->rcode_type == type ? server->rcode : 0;
    rcode = dns_is_named(server->failing_name, name) ? RCODE_SERVFAIL : rcode;

    memcpy(out->bytes, question->bytes, question_size);
    out->size = question_size;
    int count = 0;
    if (rcode == 0 && !truncated) {
        count = dns_put_answers(server, name, type, out);
        rcode = count < 0 ? RCODE_NXDOMAIN : 0;
        count = count < 0 ? 0 : count;
    }
    out->bytes[0] ^= server->changes_id;
    out->bytes[2] = (uint8_t)(0x81 | (truncated ? 0x02 : 0)); // a response
    out->bytes[3] = (uint8_t)(0x80 | rcode);
    out->bytes[6] = (uint8_t)(count >> 8);
    out->bytes[7] = (uint8_t)count;
    if (server->cuts_services && type == TYPE_SRV && count > 0) {
        out->size = question_size + strlen(name) + 2 + 10 + 5;
        out->bytes[out->size - 6] = 5; // the size of its data
        out->bytes[7] = 1;
    }
    bool changes_bytes =
        server->changes_bytes &&
        (server->changes_one_in == 0 || rng_below(&server->rng, server->changes_one_in) == 0);
    for (int i = 0; changes_bytes && i < 3; i++) {
        uint32_t at = 2 + rng_below(&server->rng, (uint32_t)out->size - 2);
        out->bytes[at] = (uint8_t)rng_next(&server->rng);
    }
    if (changes_bytes && rng_below(&server->rng, 4) == 0) {
        out->size = rng_below(&server->rng, (uint32_t)out->size);
    }
}

static inline void dns_send_udp(const struct dns_server *server, const struct dns_message *message,
                                const struct sockaddr_in *to)
{
    ssize_t size = sendto(server->udp.fd, message->bytes, message->size, 0,
                          (const struct sockaddr *)to, sizeof(*to));
    ASSERT(size == (ssize_t)message->size);
}

static inline void dns_answer_udp(struct dns_server *server, const struct dns_message *question,
                                  const struct sockaddr_in *from)
{
    char name[256];
    uint16_t type;
    struct dns_message answer;

    server->question_count++;
    dns_read_question(question, name, &type);
    if (!server->silent && !dns_is_named(server->silent_name, name)) {
        dns_make_answer(server, question, false, &answer);
        if (server->held_type == type) {
            server->held = answer;
            server->held_for = *from;
            server->held_type = 0;
        } else {
            dns_send_udp(server, &answer, from);
        }
    }
    if (server->held.size != 0 && server->question_count >= server->held_until) {
        dns_send_udp(server, &server->held, &server->held_for);
        server->held.size = 0;
    }
}

static inline void dns_udp_ready(struct loop_source *source, uint32_t events)
{
    struct dns_server *server = (struct dns_server *)source;
    struct dns_message question;
    struct sockaddr_in from;
    (void)events;

    for (;;) {
        socklen_t from_size = sizeof(from);
        ssize_t size = recvfrom(source->fd, question.bytes, sizeof(question.bytes), 0,
                                (struct sockaddr *)&from, &from_size);
        if (size < 0) {
            return;
        }
        question.size = (size_t)size;
        dns_answer_udp(server, &question, &from);
    }
}

static inline void dns_connection_end(struct dns_connection *connection)
{
    loop_remove(connection->server->loop, &connection->source);
    tcp_close(&connection->source.fd);
}

static inline void dns_send_tcp(const struct dns_connection *connection,
                                const struct dns_message *answer)
{
    struct dns_message framed = {0};
    dns_put(&framed, answer->size, 2);
    memcpy(framed.bytes + 2, answer->bytes, answer->size);
    framed.size += answer->size;
    // Small enough for the socket's buffer.
    size_t step = connection->server->drips ? 1 : framed.size;
    for (size_t at = 0; at < framed.size; at += step) {
        ssize_t size = write(connection->source.fd, framed.bytes + at, step);
        ASSERT(size == (ssize_t)step || errno == EPIPE || errno == ECONNRESET); // or it has gone
    }
}

static inline void dns_answer_tcp(struct dns_connection *connection)
{
    struct dns_message *in = &connection->in;
    while (in->size >= 2 && in->size >= 2U + dns_two_bytes(in->bytes)) {
        struct dns_message question = {.size = dns_two_bytes(in->bytes)};
        struct dns_message answer;
        memcpy(question.bytes, in->bytes + 2, question.size);
        in->size -= 2 + question.size;
        memmove(in->bytes, in->bytes + 2 + question.size, in->size);
        connection->server->tcp_question_count++;
        if (!connection->server->silent_over_tcp) {
            dns_make_answer(connection->server, &question, true, &answer);
            dns_send_tcp(connection, &answer);
        }
    }
}

static inline void dns_connection_ready(struct loop_source *source, uint32_t events)
{
    struct dns_connection *connection = (struct dns_connection *)source;
    struct dns_message *in = &connection->in;
    (void)events;

    for (;;) {
        size_t size = 0;
        enum status status =
            tcp_read(source->fd, in->bytes + in->size, sizeof(in->bytes) - in->size, &size);
        if (status == STATUS_AGAIN) {
            return;
        }
        if (status != STATUS_OK || connection->server->hangs_up) {
            dns_connection_end(connection);
            return;
        }
        in->size += size;
        dns_answer_tcp(connection);
    }
}

static inline struct dns_connection *dns_free_connection(struct dns_server *server)
{
    uint32_t at = 0;
    while (server->connections[at].source.magic != 0) {
        at++;
        ASSERT(at < dns_connection_count_max); // a resolver has one at a time
    }
    return &server->connections[at];
}

static inline void dns_listener_ready(struct loop_source *source, uint32_t events)
{
    struct dns_server *server =
        (struct dns_server *)((char *)source - offsetof(struct dns_server, tcp));
    struct address peer;
    int fd = -1;
    (void)events;

    while (tcp_accept(source->fd, &fd, &peer) == STATUS_OK) {
        struct dns_connection *connection = dns_free_connection(server);
        *connection = (struct dns_connection){
            .source = {.fd = fd, .ready = dns_connection_ready},
            .server = server,
        };
        ASSERT(loop_add(server->loop, &connection->source) == STATUS_OK);
    }
}

static inline void dns_server_start(struct dns_server *server, struct loop *loop,
                                    const struct dns_record *records, uint32_t record_count)
{
    struct address address;
    *server = (struct dns_server){.loop = loop, .records = records, .record_count = record_count};
    server->rng.state = 1;
    server->udp.ready = dns_udp_ready;
    server->tcp.ready = dns_listener_ready;
    ASSERT(address_parse("127.0.0.1:0", &address) == STATUS_OK);
    ASSERT(tcp_listen(&address, &server->tcp.fd) == STATUS_OK);
    ASSERT(tcp_local(server->tcp.fd, &address) == STATUS_OK);
    server->udp.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ASSERT(bind(server->udp.fd, (const struct sockaddr *)address.bytes, address.size) == 0);
    ASSERT(loop_add(loop, &server->udp) == STATUS_OK);
    ASSERT(loop_add(loop, &server->tcp) == STATUS_OK);
    struct text text = text_over(server->address, sizeof(server->address) - 1);
    address_format(&address, &text);
    server->address[text.size] = '\0';
}

static inline void dns_server_stop(struct dns_server *server)
{
    for (uint32_t i = 0; i < dns_connection_count_max; i++) {
        if (server->connections[i].source.magic != 0) {
            dns_connection_end(&server->connections[i]);
        }
    }
    loop_remove(server->loop, &server->udp);
    loop_remove(server->loop, &server->tcp);
    close(server->udp.fd);
    close(server->tcp.fd);
}
