// SPDX-License-Identifier: Apache-2.0
//
// c-ares expects level-triggered events; our loop is edge-triggered.  Three rules make up for the
// difference.  After an event c-ares reads a socket until it is empty, because it reads one piece
// of a TCP response per call.  When c-ares wants to write to a known socket, the write is tried at
// once: no edge may follow.  The timer visits every socket, so a missed event costs one attempt.

#include "net/dns.h"

#include "base/base.h"
#include "net/dns_internal.h"
#include "net/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
    timeout_default_ms = 1000,
    tries_default = 3,
    // A response takes three reads.  A server that sends without end must not hold the loop.
    drain_reads_max = 64,
};

struct dns_socket {
    struct loop_source source; // first: events come back as this; fd is -1 when the slot is free
    struct dns *dns;
    bool wants_write;
};

struct dns_query {
    struct dns *dns;
    dns_done_fn *done;
    void *owner;
    uint16_t port;
    int family; // asked for; see query_confirm
    char host[];
};

static struct dns_socket *find_socket(struct dns *dns, int fd)
{
    for (uint32_t i = 0; i < dns->socket_count; i++) {
        if (dns->sockets[i].source.fd == fd) {
            return &dns->sockets[i];
        }
    }
    return NULL;
}

static bool has_something_to_read(int fd)
{
    // Not recv with MSG_PEEK: it would take a pending error away from c-ares.
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    return poll(&wait, 1, 0) == 1;
}

static void dns_drain(struct dns *dns, const struct dns_socket *sock)
{
    int fd = sock->source.fd;
    for (int i = 0; i < drain_reads_max; i++) {
        ares_process_fd(dns->channel, fd, fd);
        // c-ares may have closed it, and even opened another one in its place.
        if (sock->source.fd != fd || !has_something_to_read(fd)) {
            return;
        }
    }
    dns->unfinished = true;
}

static struct dns_socket *find_writer(struct dns *dns)
{
    for (uint32_t i = 0; i < dns->socket_count; i++) {
        if (dns->sockets[i].wants_write) {
            return &dns->sockets[i];
        }
    }
    return NULL;
}

static void flush_writes(struct dns *dns)
{
    struct dns_socket *sock;

    // A failed write makes c-ares try the next server, whose socket then wants to write; tries end.
    while ((sock = find_writer(dns)) != NULL) {
        sock->wants_write = false;
        ares_process_fd(dns->channel, ARES_SOCKET_BAD, sock->source.fd);
    }
}

static void arm_timer(struct dns *dns)
{
    struct timeval left;
    if (ares_timeout(dns->channel, NULL, &left) == NULL) {
        loop_disarm(dns->loop, &dns->timer);
        return;
    }
    uint64_t left_ms = (uint64_t)left.tv_sec * 1000 + (uint64_t)left.tv_usec / 1000 + 1;
    loop_arm(dns->loop, &dns->timer, dns->unfinished ? 1 : left_ms);
}

void dns_enter(struct dns *dns)
{
    dns->depth++;
}

void dns_leave(struct dns *dns)
{
    if (dns->depth == 1) {
        flush_writes(dns);
        arm_timer(dns);
    }
    dns->depth--;
}

static void dns_socket_ready(struct loop_source *source, uint32_t events)
{
    struct dns_socket *sock = (struct dns_socket *)source;
    struct dns *dns = sock->dns;
    (void)events;

    dns_enter(dns);
    dns_drain(dns, sock);
    dns_leave(dns);
}

static void dns_timer_fired(struct timer *timer)
{
    struct dns *dns = (struct dns *)timer;

    dns_enter(dns);
    dns->unfinished = false;
    for (uint32_t i = 0; i < dns->socket_count; i++) {
        if (dns->sockets[i].source.fd != -1) {
            dns_drain(dns, &dns->sockets[i]);
        }
    }
    ares_process_fd(dns->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD); // queries that have timed out
    dns_leave(dns);
}

// Called by c-ares when it opens a socket, wants something of it, or is about to close it.
static void dns_socket_changed(void *owner, ares_socket_t fd, int wants_read, int wants_write)
{
    struct dns *dns = owner;
    struct dns_socket *sock = find_socket(dns, fd);

    if (!wants_read && !wants_write) {
        if (sock != NULL) {
            loop_remove(dns->loop, &sock->source);
            sock->source.fd = -1;
            sock->wants_write = false;
        }
        return;
    }
    if (sock != NULL) {
        sock->wants_write = wants_write;
        return;
    }
    sock = find_socket(dns, -1);
    ASSERT(sock != NULL); // c-ares has at most two sockets per server
    sock->source.fd = fd;
    if (loop_add(dns->loop, &sock->source) != STATUS_OK) {
        // Without events, the timer still reads it: the response comes late or not at all.
        dns->unfinished = true;
    }
}

static enum status create_channel(struct dns *dns, const struct dns_options *options)
{
    char lookups[] = "fb"; // the hosts file, then the servers
    struct ares_options ares = {
        .timeout = (int)(options->timeout_ms != 0 ? options->timeout_ms : timeout_default_ms),
        .tries = (int)(options->tries != 0 ? options->tries : tries_default),
        .lookups = lookups,
        .sock_state_cb = dns_socket_changed,
        .sock_state_cb_data = dns,
    };
    // No ares_library_init: it does nothing on Linux but count, without a lock.
    int result = ares_init_options(&dns->channel, &ares,
                                   ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
                                       ARES_OPT_SOCK_STATE_CB);
    if (result != ARES_SUCCESS) {
        dns->channel = NULL;
        return STATUS_EXHAUSTED;
    }
    if (options->servers == NULL) {
        return STATUS_OK;
    }
    if (options->servers[0] == '\0') {
        return STATUS_MALFORMED; // c-ares would go on with no servers at all
    }
    result = ares_set_servers_ports_csv(dns->channel, options->servers);
    return result == ARES_SUCCESS ? STATUS_OK : STATUS_MALFORMED;
}

static enum status create_sockets(struct dns *dns)
{
    struct ares_addr_port_node *servers = NULL;
    uint32_t server_count = 0;

    if (ares_get_servers_ports(dns->channel, &servers) != ARES_SUCCESS) {
        return STATUS_EXHAUSTED;
    }
    for (struct ares_addr_port_node *server = servers; server != NULL; server = server->next) {
        server_count++;
    }
    ares_free_data(servers);
    if (server_count == 0) {
        return STATUS_MALFORMED;
    }
    dns->sockets = calloc(2 * (size_t)server_count, sizeof(dns->sockets[0]));
    if (dns->sockets == NULL) {
        return STATUS_EXHAUSTED;
    }
    dns->socket_count = 2 * server_count;
    for (uint32_t i = 0; i < dns->socket_count; i++) {
        dns->sockets[i] = (struct dns_socket){
            .source = {.fd = -1, .ready = dns_socket_ready},
            .dns = dns,
        };
    }
    return STATUS_OK;
}

enum status dns_create(struct loop *loop, const struct dns_options *options, struct dns **out)
{
    struct dns *dns = calloc(1, sizeof(*dns));
    if (dns == NULL) {
        return STATUS_EXHAUSTED;
    }
    dns->loop = loop;
    dns->timer.fire = dns_timer_fired;
    enum status status = create_channel(dns, options != NULL ? options : &(struct dns_options){0});
    if (status == STATUS_OK) {
        status = create_sockets(dns);
    }
    if (status != STATUS_OK) {
        dns_destroy(&dns);
        return status;
    }
    *out = dns;
    return STATUS_OK;
}

void dns_destroy(struct dns **dns_ptr)
{
    struct dns *dns = *dns_ptr;
    *dns_ptr = NULL;

    if (dns == NULL) {
        return;
    }
    ASSERT(dns->depth == 0);
    if (dns->channel != NULL) {
        ares_destroy(dns->channel); // ends every query and closes every socket, through us
    }
    dns_service_drop_all(dns);
    loop_disarm(dns->loop, &dns->timer);
    free(dns->sockets);
    free(dns);
}

static int address_compare(const struct address *a, const struct address *b)
{
    if (a->size != b->size) {
        return a->size < b->size ? -1 : 1; // IPv4 first
    }
    return memcmp(a->bytes, b->bytes, a->size);
}

void dns_answer_insert(struct dns_answer *answer, const struct address *address)
{
    uint32_t at = answer->address_count;
    while (at > 0 && address_compare(address, &answer->addresses[at - 1]) < 0) {
        at--;
    }
    if (at > 0 && address_compare(address, &answer->addresses[at - 1]) == 0) {
        return;
    }
    if (at == dns_address_count_max) {
        return;
    }
    if (answer->address_count < dns_address_count_max) {
        answer->address_count++;
    }
    memmove(&answer->addresses[at + 1], &answer->addresses[at],
            (answer->address_count - 1 - at) * sizeof(answer->addresses[0]));
    answer->addresses[at] = *address;
}

// Copied field by field, so that equal addresses have equal bytes.
static struct address address_of(const struct ares_addrinfo_node *node, uint16_t port)
{
    struct address address = {0};

    if (node->ai_family == AF_INET) {
        const struct sockaddr_in *from = (const void *)node->ai_addr;
        struct sockaddr_in v4 = {
            .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = from->sin_addr};
        memcpy(address.bytes, &v4, sizeof(v4));
        address.size = sizeof(v4);
    } else if (node->ai_family == AF_INET6) {
        const struct sockaddr_in6 *from = (const void *)node->ai_addr;
        struct sockaddr_in6 v6 = {
            .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = from->sin6_addr};
        memcpy(address.bytes, &v6, sizeof(v6));
        address.size = sizeof(v6);
    }
    return address;
}

void dns_ttl_shorten(uint32_t *ttl_ms, int ttl_s)
{
    uint32_t ms = dns_ttl_default_ms;
    if (ttl_s > 0) {
        ms = ttl_s < dns_ttl_max_ms / 1000 ? (uint32_t)ttl_s * 1000 : dns_ttl_max_ms;
    }
    *ttl_ms = ms < *ttl_ms ? ms : *ttl_ms;
}

static void answer_fill(struct dns_answer *answer, const struct ares_addrinfo *found, uint16_t port)
{
    answer->ttl_ms = dns_ttl_max_ms;
    for (const struct ares_addrinfo_node *node = found->nodes; node != NULL; node = node->ai_next) {
        struct address address = address_of(node, port);
        if (address.size != 0) {
            dns_answer_insert(answer, &address);
            dns_ttl_shorten(&answer->ttl_ms, node->ai_ttl);
        }
    }
    for (const struct ares_addrinfo_cname *alias = found->cnames; alias != NULL;
         alias = alias->next) {
        dns_ttl_shorten(&answer->ttl_ms, alias->ttl);
    }
}

enum status dns_status_of(int result)
{
    switch (result) {
    case ARES_SUCCESS:
        return STATUS_OK;
    case ARES_ENODATA:
    case ARES_ENOTFOUND:
    case ARES_EBADNAME:
        return STATUS_CLOSED;
    default:
        return STATUS_IO;
    }
}

static void query_done(void *owner, int result, int timeouts, struct ares_addrinfo *found);

static void query_ask(struct dns_query *query, int family)
{
    struct ares_addrinfo_hints hints = {
        .ai_family = family,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = ARES_AI_NOSORT, // its order depends on our routes, and costs a socket each
    };
    query->family = family;
    ares_getaddrinfo(query->dns->channel, query->host, NULL, &hints, query_done, query);
}

// Asked for both families, c-ares reports the status of the later one.  "No address" may hide that
// a server failed on the other, so each family is asked again by itself.  True: it was asked again.
static bool query_confirm(struct dns_query *query, int result)
{
    if (result != ARES_ENODATA || query->family == AF_INET6) {
        return false;
    }
    query_ask(query, query->family == AF_UNSPEC ? AF_INET : AF_INET6);
    return true;
}

static void query_done(void *owner, int result, int timeouts, struct ares_addrinfo *found)
{
    struct dns_query *query = owner;
    (void)timeouts;

    if (result == ARES_EDESTRUCTION) {
        free(query);
        return;
    }
    if (query_confirm(query, result)) {
        return;
    }
    struct dns_answer answer = {.status = dns_status_of(result), .why = ""};
    if (answer.status == STATUS_OK) {
        answer_fill(&answer, found, query->port);
        ares_freeaddrinfo(found); // there is none otherwise
        if (answer.address_count == 0) {
            answer = (struct dns_answer){.status = STATUS_CLOSED};
            result = ARES_ENODATA;
        }
    }
    if (answer.status != STATUS_OK) {
        answer.why = ares_strerror(result);
    }
    query->done(query->owner, &answer);
    free(query);
}

void dns_resolve(struct dns *dns, const char *host, uint16_t port, dns_done_fn *done, void *owner)
{
    struct dns_answer answer = {.status = STATUS_EXHAUSTED, .why = "no memory"};
    struct address literal;

    if (address_from_literal(host, port, &literal) == STATUS_OK) {
        answer = (struct dns_answer){.why = "", .address_count = 1, .ttl_ms = dns_ttl_max_ms};
        answer.addresses[0] = literal;
        done(owner, &answer);
        return;
    }
    size_t size = strlen(host) + 1;
    struct dns_query *query = calloc(1, sizeof(*query) + size);
    if (query == NULL) {
        done(owner, &answer);
        return;
    }
    *query = (struct dns_query){.dns = dns, .done = done, .owner = owner, .port = port};
    memcpy(query->host, host, size);
    dns_enter(dns);
    query_ask(query, AF_UNSPEC);
    dns_leave(dns);
}
