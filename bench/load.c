// SPDX-License-Identifier: Apache-2.0

#include "load.h"

#include "base/base.h"
#include "base/rng.h"
#include "base/text.h"
#include "chat.h"
#include "event.h"
#include "http/response.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    request_size_max = 65536,
    head_size_max = 2048, // of a response
    // Connections that are being opened, or wait for their first response, when all are to be held.
    ramp_width = 64,
    // More failures than this and the figures would mean nothing.
    failures_max = 100,
    chat_applications = 8,
};

static const uint64_t second_ns = 1000000000;
// For responses in flight when the measured time ends.
static const uint64_t drain_ns = 5000000000;

enum link { LINK_CLOSED, LINK_CONNECTING, LINK_IDLE, LINK_BUSY };

struct connection {
    enum watched watched;
    int fd;
    enum link link;
    bool held;
    uint32_t sent; // bytes of the request
    struct slice request;
    uint64_t due_ns;
    struct http_response response;
    struct event_reader events; // in the data of the response
    uint8_t head[head_size_max];
};

// A whole request with a chat in it.
struct request {
    uint8_t *bytes;
    uint32_t size;
    uint32_t stamp_at;
};

struct load {
    int epoll;
    struct origin *origin;
    struct load_options options;
    uint64_t now_ns;
    bool over;

    struct connection *connections;
    struct connection **idle; // ring: the one that has rested longest is next
    uint32_t idle_first;
    uint32_t idle_count;
    uint32_t opened;
    uint32_t connecting;
    uint32_t busy;
    uint32_t held;

    // The schedule.  Zero until all connections are open.
    uint64_t start_ns;
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t issued;
    bool began;
    bool ended;

    struct usage_watch server;
    struct usage_watch self;
    struct usage server_at_begin;
    struct usage self_at_begin;

    bool measured; // whether the response that is being read counts
    struct load_result result;

    struct rng rng;
    uint64_t stamp;
    struct request *requests; // `chats` of them, made for the first run that has any
    uint64_t request_count;
    uint32_t request_size;
    char request[request_size_max];
    uint8_t input[65536];
};

static bool is_hold(const struct load *load)
{
    return load->options.mode == LOAD_IDLE || load->options.mode == LOAD_STREAMS;
}

static void say(const char *line)
{
    puts(line);
    fflush(stdout);
}

static void connection_open(struct load *load, struct connection *connection);
static void connection_write(struct load *load, struct connection *connection);

static void connection_close(struct load *load, struct connection *connection)
{
    if (connection->link == LINK_BUSY) {
        load->busy--;
    } else if (connection->link == LINK_CONNECTING) {
        load->connecting--;
    }
    if (connection->link != LINK_CLOSED) {
        close(connection->fd);
    }
    connection->link = LINK_CLOSED;
}

static uint32_t response_status(const struct connection *connection)
{
    return connection->response.has_head ? connection->response.head.status : 0;
}

static void response_expect(struct connection *connection)
{
    http_response_start(&connection->response, connection->head, head_size_max);
    connection->events = (struct event_reader){0};
}

static void connection_fail(struct load *load, struct connection *connection, const char *why)
{
    load->result.failures++;
    if (load->result.failures <= 3) {
        fprintf(stderr, "load: %s (status %" PRIu32 ", %" PRIu64 " bytes of body)\n", why,
                response_status(connection), connection->events.size);
    }
    connection_close(load, connection);
    if (!is_hold(load) && load->result.failures < failures_max) {
        connection_open(load, connection);
    }
}

static struct slice request_next(struct load *load)
{
    if (load->options.chats == 0) {
        return slice_of(load->request, load->request_size);
    }
    struct request *request = &load->requests[rng_below(&load->rng, (uint32_t)load->options.chats)];
    chat_stamp(request->bytes + request->stamp_at, load->stamp++);
    return slice_of(request->bytes, request->size);
}

static void request_start(struct load *load, struct connection *connection, uint64_t due_ns)
{
    connection->link = LINK_BUSY;
    connection->due_ns = due_ns;
    connection->sent = 0;
    connection->request = request_next(load);
    response_expect(connection);
    load->busy++;
    load->issued++;
    connection_write(load, connection);
}

static void connection_rest(struct load *load, struct connection *connection)
{
    connection->link = LINK_IDLE;
    if (load->options.mode == LOAD_CLOSED && load->start_ns > 0 && !load->ended) {
        request_start(load, connection, load->now_ns);
        return;
    }
    uint32_t at = (load->idle_first + load->idle_count) % load_connections_max;
    load->idle[at] = connection;
    load->idle_count++;
}

// The server has closed a connection between two requests, which it may.
static void connection_again(struct load *load, struct connection *connection)
{
    if (is_hold(load)) {
        connection_fail(load, connection, "closed while it was to be held");
        return;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < load->idle_count; i++) {
        struct connection *other = load->idle[(load->idle_first + i) % load_connections_max];
        if (other != connection) {
            load->idle[(load->idle_first + kept) % load_connections_max] = other;
            kept++;
        }
    }
    load->idle_count = kept;
    load->result.reconnects++;
    connection_close(load, connection);
    connection_open(load, connection);
}

static void connection_open(struct load *load, struct connection *connection)
{
    connection->watched = WATCHED_OTHER;
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    connection->link = LINK_CONNECTING;
    load->connecting++;
    response_expect(connection);
    int on = 1;
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)load->options.port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = connection};
    if (connection->fd == -1 ||
        epoll_ctl(load->epoll, EPOLL_CTL_ADD, connection->fd, &event) == -1 ||
        (connect(connection->fd, (struct sockaddr *)&address, sizeof(address)) == -1 &&
         errno != EINPROGRESS)) {
        perror("load: connect");
        load->result.failures += failures_max; // no descriptors or ports: give up
    }
}

static void connection_write(struct load *load, struct connection *connection)
{
    size_t left = connection->request.size - connection->sent;
    ssize_t sent =
        send(connection->fd, connection->request.bytes + connection->sent, left, MSG_NOSIGNAL);
    if (sent >= 0) {
        connection->sent += (uint32_t)sent;
    } else if (errno != EAGAIN) {
        connection_fail(load, connection, "the request could not be sent");
    }
}

// Whether what happens to this request now is part of the figures.
static bool is_measured(const struct load *load, const struct connection *connection)
{
    uint64_t at = load->options.mode == LOAD_OPEN ? connection->due_ns : load->now_ns;
    return load->begin_ns > 0 && at >= load->begin_ns && at < load->end_ns;
}

static void hold(struct load *load, struct connection *connection)
{
    if (!connection->held) {
        connection->held = true;
        load->held++;
    }
    if (load->held == load->options.connections && !load->began) {
        load->began = true;
        say("holding");
    }
}

static void answer_done(struct load *load, struct connection *connection)
{
    if (response_status(connection) != 200) {
        connection_fail(load, connection, "a status other than 200");
        return;
    }
    if (!connection->response.is_reusable) {
        connection_fail(load, connection, "the server closes behind a response, or sends more");
        return;
    }
    if (load->measured) {
        load->result.answers++;
        load->result.answer_bytes += connection->events.size;
        histogram_add(&load->result.whole, load->now_ns - connection->due_ns);
    }
    load->busy--;
    connection_rest(load, connection);
    if (load->options.mode == LOAD_IDLE) {
        hold(load, connection);
    }
}

static void event_came(void *owner, uint64_t written_ns, uint32_t stream)
{
    struct load *load = owner;
    // An event may be written within the turn that began at `now`.
    if (load->measured) {
        uint64_t age_ns = load->now_ns > written_ns ? load->now_ns - written_ns : 0;
        histogram_add(&load->result.events, age_ns);
    }
    origin_advance(load->origin, stream, load->now_ns);
}

// Bytes of a response have come.  True when the connection can go on reading.
static bool answer_read(struct load *load, struct connection *connection, size_t size)
{
    struct event_reader *events = &connection->events;
    struct slice data;
    bool had_data = events->size > 0;
    load->measured = is_measured(load, connection);
    enum status status = http_response_read(&connection->response, load->input, size, &data);
    if (connection->response.has_head && connection->response.body.framing == HTTP_CHUNKED) {
        event_read(events, data, event_came, load);
    } else {
        events->size += data.size;
    }
    load->result.reads += load->measured;
    if (!had_data && events->size > 0) {
        if (load->measured) {
            histogram_add(&load->result.first, load->now_ns - connection->due_ns);
        }
        if (load->options.mode == LOAD_STREAMS) {
            hold(load, connection);
        }
    }
    if (status == STATUS_OK) {
        answer_done(load, connection);
    } else if (status != STATUS_AGAIN) {
        connection_fail(load, connection, "a response that is not HTTP");
    }
    return status == STATUS_AGAIN;
}

static void connection_read(struct load *load, struct connection *connection)
{
    for (;;) {
        ssize_t got = recv(connection->fd, load->input, sizeof(load->input), 0);
        if (got == -1 && errno == EAGAIN) {
            return;
        }
        if (got <= 0 && connection->link == LINK_IDLE) {
            connection_again(load, connection);
            return;
        }
        if (got <= 0 || connection->link != LINK_BUSY) {
            connection_fail(load, connection,
                            got <= 0 ? "closed before its response" : "bytes without a request");
            return;
        }
        // A short read has emptied the socket; the next edge brings us back.
        if (!answer_read(load, connection, (size_t)got) || (size_t)got < sizeof(load->input)) {
            return;
        }
    }
}

void load_wake(struct load *load, enum watched *watched, uint32_t events, uint64_t now_ns)
{
    ASSERT(*watched == WATCHED_OTHER);
    struct connection *connection = (struct connection *)watched;
    load->now_ns = now_ns;
    if (connection->link == LINK_CONNECTING) {
        if (events & (EPOLLERR | EPOLLHUP)) {
            connection_fail(load, connection, "cannot connect");
            return;
        }
        if (!(events & EPOLLOUT)) {
            return;
        }
        load->connecting--;
        if (is_hold(load)) {
            request_start(load, connection, now_ns);
        } else {
            connection_rest(load, connection);
        }
        return;
    }
    if (connection->link == LINK_BUSY && connection->sent < connection->request.size) {
        connection_write(load, connection);
    }
    if (connection->link != LINK_CLOSED && (events & ~(uint32_t)EPOLLOUT)) {
        connection_read(load, connection);
    }
}

static void connections_open(struct load *load)
{
    uint64_t waiting = load->opened - load->held;
    uint64_t width = is_hold(load) ? ramp_width : load->options.connections;
    while (load->opened < load->options.connections && waiting < width &&
           load->result.failures < failures_max) {
        load->connections[load->opened].held = false;
        connection_open(load, &load->connections[load->opened]);
        load->opened++;
        waiting++;
    }
}

// When request number `index` is due.
static uint64_t schedule_ns(const struct load *load, uint64_t index)
{
    double after_ns = (double)index * (double)second_ns / (double)load->options.rate;
    return load->start_ns + (uint64_t)after_ns;
}

static void schedule_start(struct load *load)
{
    load->start_ns = load->now_ns;
    load->begin_ns = load->start_ns + load->options.warmup_ms * 1000000u;
    load->end_ns = load->begin_ns + load->options.measure_ms * 1000000u;
    if (load->options.mode == LOAD_CLOSED) {
        load->idle_count = 0;
        for (uint32_t i = 0; i < load->options.connections; i++) {
            request_start(load, &load->connections[i], load->now_ns);
        }
    }
}

static struct usage usage_since(const struct usage_watch *watch, struct usage begin)
{
    struct usage now = usage_read(watch);
    return (struct usage){.ran_ns = now.ran_ns - begin.ran_ns,
                          .waited_ns = now.waited_ns - begin.waited_ns};
}

static void schedule_run(struct load *load)
{
    if (load->start_ns == 0) {
        if (load->opened < load->options.connections || load->connecting > 0) {
            return;
        }
        schedule_start(load);
    }
    if (!load->began && load->now_ns >= load->begin_ns) {
        load->began = true;
        load->server_at_begin = usage_read(&load->server);
        load->self_at_begin = usage_read(&load->self);
        say("begin");
    }
    if (!load->ended && load->now_ns >= load->end_ns) {
        load->ended = true;
        load->result.measured_ns = load->now_ns - load->begin_ns;
        load->result.server = usage_since(&load->server, load->server_at_begin);
        load->result.self = usage_since(&load->self, load->self_at_begin);
        say("end");
    }
    while (load->options.mode == LOAD_OPEN && load->idle_count > 0) {
        uint64_t due_ns = schedule_ns(load, load->issued);
        if (due_ns > load->now_ns || due_ns >= load->end_ns) {
            break;
        }
        struct connection *connection = load->idle[load->idle_first];
        load->idle_first = (load->idle_first + 1) % load_connections_max;
        load->idle_count--;
        request_start(load, connection, due_ns);
    }
}

static void finish(struct load *load)
{
    load->over = true;
    usage_watch_close(&load->server);
    usage_watch_close(&load->self);
    for (uint32_t i = 0; i < load->opened; i++) {
        connection_close(load, &load->connections[i]);
    }
    if (load->options.mode == LOAD_OPEN) {
        uint64_t due = load->options.rate * load->options.measure_ms / 1000;
        load->result.missing = due > load->result.answers ? due - load->result.answers : 0;
    }
}

bool load_step(struct load *load, uint64_t now_ns)
{
    if (load->over) {
        return false;
    }
    load->now_ns = now_ns;
    connections_open(load);
    uint64_t failures_allowed = is_hold(load) ? 0 : failures_max - 1;
    if (!is_hold(load)) {
        schedule_run(load);
    }
    bool drained = load->busy == 0 || now_ns > load->end_ns + drain_ns;
    if (load->result.failures > failures_allowed || (load->ended && drained)) {
        finish(load);
    }
    return !load->over;
}

uint64_t load_wait_ns(const struct load *load, uint64_t now_ns)
{
    if (load->over || load->start_ns == 0 || load->ended) {
        return second_ns / 100;
    }
    if (load->options.spin != 0) {
        return 0;
    }
    uint64_t next = load->began ? load->end_ns : load->begin_ns;
    if (load->options.mode == LOAD_OPEN && load->idle_count > 0) {
        uint64_t due_ns = schedule_ns(load, load->issued);
        next = due_ns < next ? due_ns : next;
    }
    return next > now_ns ? next - now_ns : 0;
}

void load_release(struct load *load)
{
    if (!load->over) {
        finish(load);
    }
}

static void head_add(const struct load *load, struct text *text, uint64_t body_size)
{
    text_add_format(text,
                    "POST %s HTTP/1.1\r\nHost: bench.local\r\nUser-Agent: load\r\n"
                    "Content-Type: application/json\r\nContent-Length: %" PRIu64 "\r\n\r\n",
                    load->options.path, body_size);
}

// False when memory is short.
static bool chats_fill(struct load *load)
{
    const struct load_options *options = &load->options;
    static uint8_t body[request_size_max];

    if (load->request_count >= options->chats) {
        return true;
    }
    ASSERT(load->requests == NULL); // all runs have the same chats, or none
    load->request_count = options->chats;
    load->requests = calloc(options->chats, sizeof(*load->requests));
    for (uint32_t i = 0; load->requests != NULL && i < options->chats; i++) {
        struct text text = text_over(body, sizeof(body));
        struct chat_body chat =
            chat_write(&(struct chat_plan){.application = i % chat_applications,
                                           .conversation = i,
                                           .system_size = (uint32_t)options->body_size / 2,
                                           .size = (uint32_t)options->body_size},
                       &text);
        struct text whole = text_over(load->input, sizeof(load->input));
        head_add(load, &whole, text.size);
        size_t head_size = whole.size;
        text_add(&whole, text_slice(&text));
        ASSERT(!text.overflow && !whole.overflow);
        uint8_t *bytes = malloc(whole.size);
        if (bytes == NULL) {
            return false;
        }
        memcpy(bytes, whole.bytes, whole.size);
        load->requests[i] = (struct request){.bytes = bytes,
                                             .size = (uint32_t)whole.size,
                                             .stamp_at = (uint32_t)(head_size + chat.stamp_at)};
    }
    return load->requests != NULL;
}

static void request_fill(struct load *load)
{
    struct text text = text_over(load->request, sizeof(load->request));
    head_add(load, &text, load->options.body_size);
    size_t end = text.size + load->options.body_size;
    text_add_str(&text, "{\"model\":\"bench\",\"messages\":[{\"role\":\"user\",\"content\":\"");
    static const char tail[] = "\"}]}";
    while (text.size < end - (sizeof(tail) - 1) && !text.overflow) {
        text_add_str(&text, "x");
    }
    text_add_str(&text, tail);
    ASSERT(!text.overflow && text.size == end);
    load->request_size = (uint32_t)text.size;
}

struct load *load_create(int epoll, struct origin *origin)
{
    static struct load load;
    load.epoll = epoll;
    load.origin = origin;
    load.over = true;
    load.connections = calloc(load_connections_max, sizeof(*load.connections));
    load.idle = calloc(load_connections_max, sizeof(struct connection *));
    return load.connections && load.idle ? &load : NULL;
}

bool load_start(struct load *load, const struct load_options *options, uint64_t now_ns)
{
    ASSERT(load->over);
    ASSERT(options->connections > 0 && options->connections <= load_connections_max);
    ASSERT(options->mode != LOAD_OPEN || options->rate > 0);
    load->options = *options;
    load->now_ns = now_ns;
    load->over = false;
    load->server.count = 0;
    load->self.count = 0;
    load->idle_first = 0;
    load->idle_count = 0;
    load->opened = 0;
    load->connecting = 0;
    load->busy = 0;
    load->held = 0;
    load->start_ns = 0;
    load->begin_ns = 0;
    load->end_ns = 0;
    load->issued = 0;
    load->began = false;
    load->ended = false;
    load->result = (struct load_result){0};
    request_fill(load);
    if (!chats_fill(load)) {
        return false;
    }
    char self[32];
    snprintf(self, sizeof(self), "%d", getpid());
    return usage_watch_open(&load->server, options->watch) && usage_watch_open(&load->self, self);
}

const struct load_result *load_result(const struct load *load)
{
    return &load->result;
}
