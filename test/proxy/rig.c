// SPDX-License-Identifier: Apache-2.0

#include "rig.h"

#include "base/rng.h"
#include "base/text.h"
#include "config/config.h"
#include "net/tcp.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "test.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    config_size_max = 8192,
    // Another process may take the port that was found free.
    port_tries_max = 20,
    text_size_max = 400, // of bytes that are shown when something fails
    portion_size = 65536,
    slow_buffer_size = 4096,
    // Nothing has moved for so long: the kernel's buffers are full.
    stuck_ms = 100,
};

#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)

static uint64_t patience(void)
{
    return clock_monotonic_ns() + (uint64_t)rig_patience_ms * 1000000;
}

// False when the time is up.
static bool wait_for(int fd, short events, uint64_t until_ns)
{
    for (;;) {
        uint64_t now_ns = clock_monotonic_ns();
        uint64_t left_ms = now_ns < until_ns ? (until_ns - now_ns) / 1000000 + 1 : 0;
        struct pollfd wait = {.fd = fd, .events = events};
        int count = poll(&wait, 1, (int)left_ms);
        if (count > 0) {
            return true;
        }
        if (left_ms == 0) {
            return false;
        }
    }
}

// Shows bytes in one line.
static void show(const void *bytes, size_t size, char out[text_size_max])
{
    const uint8_t *byte = bytes;
    size_t used = 0;
    for (size_t i = 0; i < size && used + 8 < text_size_max; i++) {
        bool plain = byte[i] >= ' ' && byte[i] < 0x7f;
        int added = byte[i] == '\r'   ? snprintf(out + used, text_size_max - used, "\\r")
                    : byte[i] == '\n' ? snprintf(out + used, text_size_max - used, "\\n")
                    : plain           ? snprintf(out + used, text_size_max - used, "%c", byte[i])
                            : snprintf(out + used, text_size_max - used, "\\x%02x", byte[i]);
        used += (size_t)added;
    }
    snprintf(out + used, text_size_max - used, "%s", used + 8 < text_size_max ? "" : "...");
}

// A socket bound to a port of loopback that nobody else has.
static int bind_any(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ASSERT(fd != -1 && bind(fd, (void *)&address, sizeof(address)) == 0);
    ASSERT(getsockname(fd, (void *)&address, &size) == 0);
    *port = ntohs(address.sin_port);
    return fd;
}

struct config *rig_config(const struct rig *rig, const char *lines)
{
    char text[config_size_max];
    struct text yaml = text_over(text, sizeof(text));
    struct config *config = NULL;
    struct config_error error;

    text_add_format(&yaml, "listen: [\"127.0.0.1:%u\"]\nbackends:\n", rig->port);
    for (uint32_t i = 0; i < rig->backend_count; i++) {
        text_add_format(&yaml, "  - http://127.0.0.1:%u\n", rig->backends[i].port);
    }
    if (strstr(lines, "backend_header:") == NULL) {
        text_add_str(&yaml, "backend_header: false\n");
    }
    if (strstr(lines, "policy:") == NULL) {
        // So that a test knows whose turn it is.
        text_add_str(&yaml, "policy: round_robin\n");
    }
    if (strstr(lines, "limits:") == NULL) {
        text_add_str(&yaml, "limits: {connections: 64, requests: 64, backends: 8, body_size: 2m, "
                            "body_memory: 16m}\n");
    }
    if (strstr(lines, "timeouts:") == NULL) {
        // So that no connection to a backend goes by itself.
        text_add_str(&yaml, "timeouts: {backend_keepalive: 1h}\n");
    }
    text_add_str(&yaml, lines);
    ASSERT(!yaml.overflow);
    if (config_parse(text_slice(&yaml), "rig", NULL, &config, &error) != STATUS_OK) {
        FAIL("configuration, line %u: %s", error.line, error.text);
        return NULL;
    }
    return config;
}

static void add_backend(struct rig *rig, bool refuses)
{
    struct rig_backend *place = &rig->backends[rig->backend_count++];

    place->fd = bind_any(&place->port);
    ASSERT(refuses || listen(place->fd, 128) == 0);
}

struct fleet_spec rig_spec(const struct rig *rig, uint32_t index, char url[rig_url_size])
{
    struct fleet_spec spec = {.url = url,
                              .host = "127.0.0.1",
                              .api_key = "rig-key",
                              .port = rig->backends[index].port,
                              .weight = 1};
    snprintf(url, rig_url_size, "http://127.0.0.1:%u", spec.port);
    ASSERT(address_from_literal(spec.host, spec.port, &spec.address) == STATUS_OK);
    return spec;
}

static void join_fleet(struct rig *rig, uint32_t index)
{
    char url[rig_url_size];
    struct fleet_spec spec = rig_spec(rig, index, url);
    rig->backends[index].backend = fleet_add(rig->fleet, &spec);
    ASSERT(rig->backends[index].backend != NULL);
}

// Finds a port and starts there.
static struct receipt_ring *ring_of(void *owner, uint32_t worker)
{
    (void)worker;
    return owner;
}

static bool start_proxy(struct rig *rig, const struct rig_options *options, uint32_t worker_count)
{
    char error[proxy_error_size] = "";

    for (uint32_t i = 0; i < port_tries_max; i++) {
        int fd = bind_any(&rig->port);
        close(fd);
        rig->config = rig_config(rig, options->config != NULL ? options->config : "");
        if (rig->config == NULL) {
            return false;
        }
        if (proxy_start(&(struct proxy_options){.config = rig->config,
                                                .fleet = rig->fleet,
                                                .reclaim = &rig->reclaim,
                                                .recorder = options->recorder,
                                                .ring_of = options->ring != NULL ? ring_of : NULL,
                                                .owner = options->ring,
                                                .dialects = options->dialects,
                                                .worker_count = worker_count},
                        &rig->proxy, error) == STATUS_OK) {
            return true;
        }
        config_destroy(&rig->config);
    }
    FAIL("cannot start: %s", error);
    return false;
}

static void tear_down(struct rig *rig)
{
    for (uint32_t i = 0; i < rig_peer_count_max; i++) {
        if (rig->running && rig->peers[i].fd != -1) {
            close(rig->peers[i].fd);
        }
    }
    proxy_stop(&rig->proxy);
    fleet_destroy(&rig->fleet);
    config_destroy(&rig->config);
    for (uint32_t i = 0; i < rig->backend_count; i++) {
        close(rig->backends[i].fd);
    }
    *rig = (struct rig){0};
}

bool rig_start(struct rig *rig, const struct rig_options *options)
{
    uint32_t worker_count = options->worker_count > 0 ? options->worker_count : 1;
    uint32_t backend_count = options->backend_count > 0 ? options->backend_count : 1;

    ASSERT(backend_count <= rig_backend_count_max);
    log_set_level(LOG_LEVEL_ERROR); // faults are what tests are about
    tear_down(rig);
    rig->running = true;
    for (uint32_t i = 0; i < rig_peer_count_max; i++) {
        rig->peers[i].fd = -1;
    }
    reclaim_init(&rig->reclaim, worker_count);
    rig->fleet = fleet_create(&(struct fleet_limits){.backend_count_max = rig_backend_count_max,
                                                     .pool_count = fleet_pool_count_max},
                              &rig->reclaim);
    ASSERT(rig->fleet != NULL);
    for (uint32_t i = 0; i < backend_count; i++) {
        add_backend(rig, (options->refusing >> i & 1) != 0);
        join_fleet(rig, i);
    }
    ASSERT(fleet_publish(rig->fleet));
    return start_proxy(rig, options, worker_count);
}

bool rig_turn(struct rig *rig)
{
    uint64_t until_ns = patience();

    // A worker announces itself when a turn begins.  The first one's events may have been taken
    // before we came; those of the second were not; when the third begins the second is over.
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t ticket = reclaim_ticket(&rig->reclaim);
        while (!reclaim_is_past(&rig->reclaim, ticket)) {
            if (clock_monotonic_ns() > until_ns) {
                FAIL("the worker does not turn");
                return false;
            }
            proxy_wake(rig->proxy);
            sched_yield();
        }
    }
    return true;
}

struct proxy_totals rig_totals(struct rig *rig)
{
    struct proxy_totals totals = {0};
    if (rig_turn(rig)) {
        proxy_totals(rig->proxy, &totals);
    }
    return totals;
}

static bool is_idle(struct rig *rig, struct proxy_totals *totals, uint32_t *at_backends)
{
    *totals = rig_totals(rig);
    *at_backends = 0;
    for (uint32_t i = 0; i < rig->backend_count; i++) {
        struct backend *backend = rig->backends[i].backend;
        *at_backends += backend == NULL ? 0 : atomic_load(&backend->shared.in_flight);
    }
    return totals->in_flight == 0 && *at_backends == 0 && totals->body_memory == 0 &&
           totals->buffers_in_use == 0;
}

bool rig_becomes_idle(struct rig *rig)
{
    uint64_t until_ns = patience();
    struct proxy_totals totals;
    uint32_t at_backends;

    while (!is_idle(rig, &totals, &at_backends)) {
        if (clock_monotonic_ns() > until_ns) {
            FAIL("in flight: %u, at backends: %u, body memory: %" PRIu64 ", buffers: %" PRIu64,
                 totals.in_flight, at_backends, totals.body_memory, totals.buffers_in_use);
            return false;
        }
        poll(NULL, 0, 1);
    }
    return true;
}

bool rig_has_connections(struct rig *rig, uint32_t count)
{
    uint64_t until_ns = patience();

    for (;;) {
        struct proxy_totals totals = rig_totals(rig);
        if (totals.connection_count == count) {
            return true;
        }
        if (clock_monotonic_ns() > until_ns) {
            FAIL("%u clients are connected, expected %u", totals.connection_count, count);
            return false;
        }
        poll(NULL, 0, 1);
    }
}

bool rig_holds_bodies(struct rig *rig, uint64_t size)
{
    uint64_t until_ns = patience();
    uint64_t held;

    while ((held = rig_totals(rig).body_memory) != size) {
        if (clock_monotonic_ns() > until_ns) {
            FAIL("%lu bytes are held for bodies, expected %lu", (unsigned long)held,
                 (unsigned long)size);
            return false;
        }
        poll(NULL, 0, 1);
    }
    return true;
}

bool rig_stop(struct rig *rig)
{
    for (uint32_t i = 0; i < rig_peer_count_max; i++) {
        peer_close(&rig->peers[i]);
    }
    bool clean = rig->proxy == NULL || (rig_has_connections(rig, 0) && rig_becomes_idle(rig));
    tear_down(rig);
    return clean;
}

bool rig_publish(struct rig *rig)
{
    if (!fleet_publish(rig->fleet)) {
        FAIL("no memory for a view");
        return false;
    }
    return rig_turn(rig);
}

bool rig_replan(struct rig *rig, const char *lines)
{
    char error[proxy_error_size] = "";
    struct config *config = rig_config(rig, lines);

    if (config == NULL) {
        return false;
    }
    if (proxy_replan(rig->proxy, config, error) != STATUS_OK) {
        FAIL("replan: %s", error);
        config_destroy(&config);
        return false;
    }
    if (!rig_turn(rig) || !proxy_reclaim(rig->proxy)) {
        FAIL("the old configuration does not come back");
        return false;
    }
    config_destroy(&rig->config);
    rig->config = config;
    return true;
}

static struct peer *peer_of(struct rig *rig, int fd, const char *what)
{
    uint32_t place = 0;
    int on = 1;

    while (place < rig_peer_count_max && rig->peers[place].fd != -1) {
        place++;
    }
    ASSERT(place < rig_peer_count_max);
    ASSERT(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
    rig->peers[place] = (struct peer){.rig = rig, .fd = fd, .what = what};
    return &rig->peers[place];
}

static struct peer *connect_with(struct rig *rig, int receive_size)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(rig->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ASSERT(fd != -1);
    if (receive_size > 0) {
        ASSERT(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_size, sizeof(receive_size)) == 0);
    }
    int error = connect(fd, (void *)&address, sizeof(address)) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        error = wait_for(fd, POLLOUT, patience()) ? tcp_error(fd) : ETIMEDOUT;
    }
    if (error != 0) {
        FAIL("client: cannot connect: %s", strerrordesc_np(error));
        close(fd);
        return NULL;
    }
    return peer_of(rig, fd, "client");
}

struct peer *rig_connect(struct rig *rig)
{
    return connect_with(rig, 0);
}

struct peer *rig_connect_slow(struct rig *rig)
{
    return connect_with(rig, slow_buffer_size);
}

static struct peer *accept_from(struct rig *rig, uint32_t index)
{
    int fd = accept4(rig->backends[index].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd == -1) {
        FAIL("backend %u: cannot accept: %s", index, strerrordesc_np(errno));
        return NULL;
    }
    return peer_of(rig, fd, "backend");
}

struct peer *rig_accept(struct rig *rig, uint32_t index)
{
    if (!wait_for(rig->backends[index].fd, POLLIN, patience())) {
        FAIL("backend %u: nobody connects", index);
        return NULL;
    }
    return accept_from(rig, index);
}

// The first backend at which a connection waits, or -1.  The rest of the time to wait in ms.
static int find_call(struct rig *rig, int wait_ms)
{
    struct pollfd waits[rig_backend_count_max];

    for (uint32_t i = 0; i < rig->backend_count; i++) {
        waits[i] = (struct pollfd){.fd = rig->backends[i].fd, .events = POLLIN};
    }
    int count = poll(waits, rig->backend_count, wait_ms);
    for (uint32_t i = 0; count > 0 && i < rig->backend_count; i++) {
        if ((waits[i].revents & POLLIN) != 0) {
            return (int)i;
        }
    }
    return -1;
}

struct peer *rig_accept_any(struct rig *rig, uint32_t *index)
{
    uint64_t until_ns = patience();
    int found;

    // Sockets that do not listen are always ready with a hangup, hence the short waits.
    while ((found = find_call(rig, 1)) == -1) {
        if (clock_monotonic_ns() > until_ns) {
            FAIL("nobody connects to any backend");
            return NULL;
        }
    }
    *index = (uint32_t)found;
    return accept_from(rig, *index);
}

// Linux takes one connection more than the backlog says and then drops what asks to connect.
void rig_choke(struct rig *rig, uint32_t index)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(rig->backends[index].port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    ASSERT(listen(rig->backends[index].fd, 0) == 0);
    for (uint32_t i = 0; i < 2; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        ASSERT(fd != -1);
        ASSERT(connect(fd, (void *)&address, sizeof(address)) == 0 || errno == EINPROGRESS);
        peer_of(rig, fd, "filler");
    }
}

bool rig_has_no_call(struct rig *rig)
{
    if (!rig_turn(rig)) {
        return false;
    }
    int index = find_call(rig, 0);
    if (index != -1) {
        FAIL("backend %d: somebody connected", index);
    }
    return index == -1;
}

bool rig_ask(struct rig *rig, const char *request, struct rig_pair *out)
{
    uint32_t index;
    out->backend = NULL;
    out->client = rig_connect(rig);
    if (!peer_send(out->client, request)) {
        return false;
    }
    out->backend = rig_accept_any(rig, &index);
    return peer_expect(out->backend, request);
}

bool peer_send_bytes(struct peer *peer, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t until_ns = patience();

    if (peer == NULL) {
        return false;
    }
    while (size > 0) {
        ssize_t sent = send(peer->fd, at, size, MSG_NOSIGNAL);
        if (sent >= 0) {
            at += sent;
            size -= (size_t)sent;
        } else if (errno != EAGAIN || !wait_for(peer->fd, POLLOUT, until_ns)) {
            FAIL("%s: %zu bytes cannot be sent: %s", peer->what, size, strerrordesc_np(errno));
            return false;
        }
    }
    return true;
}

bool peer_send_zeros(struct peer *peer, size_t size)
{
    static const uint8_t zeros[portion_size];
    bool sent = true;

    while (sent && size > 0) {
        size_t part = size < sizeof(zeros) ? size : sizeof(zeros);
        sent = peer_send_bytes(peer, zeros, part);
        size -= part;
    }
    return sent;
}

bool peer_send(struct peer *peer, const char *text)
{
    return peer_send_bytes(peer, text, strlen(text));
}

// Up to `capacity` bytes; 0 at the end of the stream, -1 with errno, which is EAGAIN when the time
// is up.
static ssize_t receive(struct peer *peer, void *bytes, size_t capacity, uint64_t until_ns)
{
    for (;;) {
        ssize_t size = recv(peer->fd, bytes, capacity, 0);
        if (size >= 0 || errno != EAGAIN) {
            return size;
        }
        if (!wait_for(peer->fd, POLLIN, until_ns)) {
            errno = EAGAIN;
            return -1;
        }
    }
}

static const char *why(ssize_t size)
{
    return size == 0 ? "the stream ended" : errno == EAGAIN ? "time is up" : strerrordesc_np(errno);
}

bool peer_expect_bytes(struct peer *peer, const void *bytes, size_t size)
{
    static uint8_t portion[portion_size];
    const uint8_t *expected = bytes;
    uint64_t until_ns = patience();
    size_t seen = 0;

    if (peer == NULL) {
        return false;
    }
    while (seen < size) {
        size_t most = size - seen < sizeof(portion) ? size - seen : sizeof(portion);
        ssize_t got = receive(peer, portion, most, until_ns);
        size_t same = 0;
        while (got > 0 && same < (size_t)got && portion[same] == expected[seen + same]) {
            same++;
        }
        if (got > 0 && same == (size_t)got) {
            seen += same;
            continue;
        }
        char wanted[text_size_max];
        char actual[text_size_max];
        show(expected + seen, size - seen, wanted);
        show(portion, got > 0 ? (size_t)got : 0, actual);
        FAIL("%s: after %zu bytes as expected got \"%s\"%s%s, expected \"%s\"", peer->what, seen,
             actual, got > 0 ? "" : ", ", got > 0 ? "" : why(got), wanted);
        return false;
    }
    return true;
}

bool peer_expect(struct peer *peer, const char *text)
{
    return peer_expect_bytes(peer, text, strlen(text));
}

enum ending { ENDING_ORDERLY = 1, ENDING_RESET = 2 };

static bool expect_ending(struct peer *peer, int endings)
{
    char bytes[64];

    if (peer == NULL) {
        return false;
    }
    ssize_t size = receive(peer, bytes, sizeof(bytes), patience());
    if (size == 0 && (endings & ENDING_ORDERLY) != 0) {
        return true;
    }
    if (size == -1 && errno == ECONNRESET && (endings & ENDING_RESET) != 0) {
        return true;
    }
    char actual[text_size_max];
    show(bytes, size > 0 ? (size_t)size : 0, actual);
    FAIL("%s: expected the stream to %s, got \"%s\"%s%s", peer->what,
         endings == ENDING_RESET ? "be reset" : "end", actual, size > 0 ? "" : ", ",
         size > 0 ? "" : why(size));
    return false;
}

bool peer_expect_end(struct peer *peer)
{
    return expect_ending(peer, ENDING_ORDERLY);
}

bool peer_expect_reset(struct peer *peer)
{
    return expect_ending(peer, ENDING_RESET);
}

bool peer_expect_gone(struct peer *peer)
{
    return expect_ending(peer, ENDING_ORDERLY | ENDING_RESET);
}

bool peer_read_head(struct peer *peer, char *head, size_t capacity)
{
    uint64_t until_ns = patience();
    size_t size = 0;

    if (peer == NULL) {
        return false;
    }
    while (size + 1 < capacity) {
        ssize_t got = receive(peer, head + size, 1, until_ns);
        if (got != 1) {
            char actual[text_size_max];
            show(head, size, actual);
            FAIL("%s: expected a head, got \"%s\", %s", peer->what, actual, why(got));
            return false;
        }
        size++;
        head[size] = '\0';
        if (size >= 4 && memcmp(head + size - 4, "\r\n\r\n", 4) == 0) {
            return true;
        }
    }
    FAIL("%s: the head is longer than %zu bytes", peer->what, capacity);
    return false;
}

bool peer_read_rest(struct peer *peer, char *text, size_t capacity)
{
    uint64_t until_ns = patience();
    size_t size = 0;

    while (peer != NULL && size + 1 < capacity) {
        ssize_t got = receive(peer, text + size, capacity - 1 - size, until_ns);
        if (got == 0 || (got == -1 && errno == ECONNRESET)) {
            text[size] = '\0';
            return true;
        }
        if (got == -1) {
            FAIL("%s: expected the stream to end, got %zu bytes, %s", peer->what, size, why(got));
            return false;
        }
        size += (size_t)got;
    }
    return false;
}

size_t peer_drain(struct peer *peer)
{
    static uint8_t portion[portion_size];
    uint64_t until_ns = patience();
    size_t size = 0;

    while (peer != NULL) {
        ssize_t got = receive(peer, portion, sizeof(portion), until_ns);
        if (got == 0 || (got == -1 && errno == ECONNRESET)) {
            return size;
        }
        if (got == -1) {
            FAIL("%s: expected the stream to end, got %zu bytes, %s", peer->what, size, why(got));
            break;
        }
        size += (size_t)got;
    }
    return SIZE_MAX;
}

bool peer_expect_problem(struct peer *peer, int status, const char *code)
{
    char head[4096];
    char body[4096] = "";
    char first[32];
    char wanted[128];

    if (!peer_read_head(peer, head, sizeof(head))) {
        return false;
    }
    snprintf(first, sizeof(first), "HTTP/1.1 %d ", status);
    snprintf(wanted, sizeof(wanted), "\"param\":null,\"code\":\"%s\"}}", code);
    const char *length = strstr(head, "\r\ncontent-length: ");
    size_t size = length == NULL ? 0 : strtoul(length + 18, NULL, 10);
    for (size_t i = 0; i < size && size < sizeof(body); i++) {
        if (receive(peer, body + i, 1, patience()) != 1) {
            FAIL("%s: the document is too short", peer->what);
            return false;
        }
    }
    if (strncmp(head, first, strlen(first)) != 0 || size < strlen(wanted) ||
        strcmp(body + size - strlen(wanted), wanted) != 0) {
        char actual[text_size_max];
        show(head, strlen(head), actual);
        FAIL("%s: expected %d %s, got \"%s\" with \"%s\"", peer->what, status, code, actual, body);
        return false;
    }
    return true;
}

bool rig_pump(const struct rig_flow *flow)
{
    static uint8_t portion[portion_size];
    size_t sent = 0;
    size_t seen = 0;
    uint64_t until_ns = patience();

    if (flow->from == NULL || flow->to == NULL) {
        return false;
    }
    while (sent < flow->size || seen < flow->expected_size) {
        struct pollfd waits[2] = {
            {.fd = sent < flow->size ? flow->from->fd : -1, .events = POLLOUT},
            {.fd = seen < flow->expected_size ? flow->to->fd : -1, .events = POLLIN}};
        if (poll(waits, 2, 10) == 0 && clock_monotonic_ns() > until_ns) {
            FAIL("stuck: %zu of %zu bytes sent, %zu of %zu read", sent, flow->size, seen,
                 flow->expected_size);
            return false;
        }
        if (waits[0].revents != 0) {
            ssize_t moved = send(flow->from->fd, (const uint8_t *)flow->bytes + sent,
                                 flow->size - sent, MSG_NOSIGNAL);
            sent += moved > 0 ? (size_t)moved : 0;
        }
        size_t left = flow->expected_size - seen;
        ssize_t got =
            waits[1].revents == 0
                ? -1
                : recv(flow->to->fd, portion, left < sizeof(portion) ? left : sizeof(portion), 0);
        if (got == 0 || (got > 0 && memcmp(portion, (const uint8_t *)flow->expected + seen,
                                           (size_t)got) != 0)) {
            FAIL("%s: after %zu bytes as expected %s", flow->to->what, seen,
                 got == 0 ? "the stream ended" : "others came");
            return false;
        }
        seen += got > 0 ? (size_t)got : 0;
    }
    return true;
}

size_t peer_fill(struct peer *peer, size_t most)
{
    static const uint8_t zeros[portion_size];
    size_t sent = 0;

    while (peer != NULL && sent < most) {
        size_t part = most - sent < sizeof(zeros) ? most - sent : sizeof(zeros);
        uint64_t until_ns = clock_monotonic_ns() + (uint64_t)stuck_ms * 1000000;
        ssize_t moved = send(peer->fd, zeros, part, MSG_NOSIGNAL);
        if (moved == -1 && (errno != EAGAIN || !wait_for(peer->fd, POLLOUT, until_ns))) {
            break;
        }
        sent += moved > 0 ? (size_t)moved : 0;
    }
    return sent;
}

bool peer_is_silent(struct peer *peer)
{
    char byte;

    if (peer == NULL || !rig_turn(peer->rig)) {
        return false;
    }
    ssize_t size = recv(peer->fd, &byte, 1, MSG_PEEK);
    if (size == -1 && errno == EAGAIN) {
        return true;
    }
    FAIL("%s: expected nothing, got %s", peer->what, size > 0 ? "bytes" : why(size));
    return false;
}

void peer_finish(struct peer *peer)
{
    if (peer != NULL) {
        (void)shutdown(peer->fd, SHUT_WR);
    }
}

void peer_close(struct peer *peer)
{
    if (peer != NULL && peer->fd != -1) {
        close(peer->fd);
        peer->fd = -1;
    }
}

void peer_reset(struct peer *peer)
{
    if (peer != NULL && peer->fd != -1) {
        tcp_abort_on_close(peer->fd);
        peer_close(peer);
    }
}

void rig_noise(uint8_t *bytes, size_t size, uint64_t seed)
{
    struct rng rng = {.state = seed};
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)rng_next(&rng);
    }
}
