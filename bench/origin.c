// SPDX-License-Identifier: Apache-2.0

#include "origin.h"

#include "base/base.h"
#include "base/slice.h"
#include "base/text.h"
#include "event.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    connection_count_max = 65536,
    head_size_max = 8192,
    json_size = 1024,
    event_grid_ns = 100000,
    // `5a\r\n`, the event, `\r\n`, and behind the last one `0\r\n\r\n`.
    frame_size_max = event_size + 16,
};

enum phase { PHASE_HEAD, PHASE_BODY, PHASE_ANSWER };

struct connection {
    enum watched watched;
    int fd;
    bool open;
    bool close_after;
    enum phase phase;
    uint32_t head_size; // of head[]: a request that came in pieces
    uint64_t body_left;
    struct slice answer; // unwritten part of a plain response, or of the current frame

    uint32_t events_left;
    uint64_t gap_ns;
    bool first; // of its events
    bool lockstep;
    bool waiting; // in the heap
    uint64_t due_ns;

    char frame[frame_size_max];
    uint8_t head[head_size_max];
};

struct listener {
    enum watched watched;
    int fd;
};

struct origin {
    int epoll;
    uint64_t now_ns;
    struct listener listeners[origin_ports_max];
    struct connection *connections; // by descriptor
    struct connection **due;        // binary heap of streams, the earliest first
    uint32_t due_count;
    uint64_t seed;
    char json[json_size + 256];
    struct slice json_answer;
    uint8_t input[65536];
};

static const char stream_head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                  "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";
static const char health_answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
static const char models_answer[] =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 71\r\n\r\n"
    "{\"object\":\"list\",\"data\":[{\"id\":\"bench\",\"object\":\"model\",\"created\":0}]}\n";
static const char length_required[] =
    "HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// The heap of streams that wait for their next event.

static void due_push(struct origin *origin, struct connection *connection)
{
    ASSERT(origin->due_count < connection_count_max);
    uint32_t at = origin->due_count++;
    while (at > 0 && origin->due[(at - 1) / 2]->due_ns > connection->due_ns) {
        origin->due[at] = origin->due[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    origin->due[at] = connection;
    connection->waiting = true;
}

static struct connection *due_pop(struct origin *origin)
{
    struct connection *first = origin->due[0];
    struct connection *moved = origin->due[--origin->due_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < origin->due_count &&
            origin->due[child + 1]->due_ns < origin->due[child]->due_ns) {
            child++;
        }
        if (child >= origin->due_count || origin->due[child]->due_ns >= moved->due_ns) {
            break;
        }
        origin->due[at] = origin->due[child];
        at = child;
    }
    origin->due[at] = moved;
    first->waiting = false;
    return first;
}

// Removes a stream whose client has gone: rare, hence the walk.
static void due_remove(struct origin *origin, struct connection *connection)
{
    uint32_t count = origin->due_count;
    origin->due_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct connection *other = origin->due[i];
        if (other != connection) {
            due_push(origin, other);
        }
    }
    connection->waiting = false;
}

static void connection_close(struct origin *origin, struct connection *connection)
{
    if (connection->waiting) {
        due_remove(origin, connection);
    }
    close(connection->fd);
    connection->open = false;
}

// Writes the rest of the response.  False when the connection is gone; the caller closes it.
static bool answer_write(struct connection *connection)
{
    while (connection->answer.size > 0) {
        ssize_t written =
            send(connection->fd, connection->answer.bytes, connection->answer.size, MSG_NOSIGNAL);
        if (written == -1) {
            return errno == EAGAIN;
        }
        connection->answer.bytes += written;
        connection->answer.size -= (size_t)written;
    }
    return true;
}

static void add_digits(struct text *text, uint64_t number, int count)
{
    char digits[event_time_digits];
    for (int i = count - 1; i >= 0; i--) {
        digits[i] = (char)('0' + number % 10);
        number /= 10;
    }
    text_add(text, slice_of(digits, (size_t)count));
}

// Puts the next event of a stream into its frame, with the chunk's size line around it.
static void frame_fill(struct connection *connection, uint64_t now_ns)
{
    struct text text = text_over(connection->frame, sizeof(connection->frame));
    text_add_hex(&text, event_size);
    text_add_str(&text, "\r\n" EVENT_HEAD);
    add_digits(&text, now_ns, event_time_digits);
    text_add_str(&text, EVENT_MIDDLE);
    add_digits(&text, (uint64_t)connection->fd, event_stream_digits);
    text_add_str(&text, EVENT_TAIL "\r\n");
    connection->events_left--;
    if (connection->events_left == 0) {
        text_add_str(&text, "0\r\n\r\n");
    }
    ASSERT(!text.overflow);
    connection->answer = text_slice(&text);
}

static void answer_done(struct origin *origin, struct connection *connection)
{
    if (connection->close_after) {
        connection_close(origin, connection);
    } else {
        connection->phase = PHASE_HEAD;
    }
}

// When a stream's next event is due.  Times lie on a grid, so that a core which writes and reads
// tens of thousands of events a second need not wake for each.
static uint64_t event_after(struct origin *origin, const struct connection *connection)
{
    uint64_t gap_ns = connection->gap_ns;
    if (gap_ns == 0) {
        return origin->now_ns + 1; // at once, but not within this turn: new requests first
    }
    if (connection->first) {
        // A fixed rate of requests and a fixed gap would put all streams in step with each other.
        origin->seed = origin->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        gap_ns = (origin->seed >> 32) % gap_ns;
    }
    return (connection->due_ns + gap_ns + event_grid_ns - 1) / event_grid_ns * event_grid_ns;
}

// One event to a stream that is due.  A stream whose client does not read keeps its frame and its
// place; it goes on when the socket has room again.
static void stream_step(struct origin *origin, struct connection *connection)
{
    if (connection->answer.size == 0) {
        frame_fill(connection, clock_ns());
    }
    if (!answer_write(connection)) {
        connection_close(origin, connection);
        return;
    }
    if (connection->events_left == 0) {
        if (connection->answer.size == 0) {
            answer_done(origin, connection);
        }
        return;
    }
    if (connection->lockstep && connection->answer.size == 0) {
        return; // until origin_advance
    }
    connection->due_ns = event_after(origin, connection);
    connection->first = false;
    due_push(origin, connection);
}

// Reading requests.

static bool header_find(struct slice head, const char *name, struct slice *value)
{
    size_t name_size = strlen(name);
    size_t line = 0;
    for (;;) {
        const uint8_t *end = memmem(head.bytes + line, head.size - line, "\r\n", 2);
        if (!end) {
            return false;
        }
        size_t next = (size_t)(end - head.bytes) + 2;
        struct slice text = slice_of(head.bytes + line, next - 2 - line);
        if (text.size > name_size && text.bytes[name_size] == ':' &&
            slice_is_nocase(slice_of(text.bytes, name_size), name)) {
            size_t at = name_size + 1;
            while (at < text.size && text.bytes[at] == ' ') {
                at++;
            }
            *value = slice_of(text.bytes + at, text.size - at);
            return true;
        }
        line = next;
    }
}

// The number behind `name` in the query of the request line, 0 when there is none.
static uint32_t query_number(struct slice line, const char *name)
{
    const uint8_t *at = memmem(line.bytes, line.size, name, strlen(name));
    uint32_t number = 0;
    if (at) {
        const uint8_t *end = line.bytes + line.size;
        for (at += strlen(name); at < end && *at >= '0' && *at <= '9'; at++) {
            number = number * 10 + (uint32_t)(*at - '0');
        }
    }
    return number;
}

// The body is complete: starts the response.
static void request_answer(struct origin *origin, struct connection *connection)
{
    connection->phase = PHASE_ANSWER;
    if (connection->events_left > 0) {
        connection->answer = slice_of(stream_head, sizeof(stream_head) - 1);
    }
    if (!answer_write(connection)) {
        connection_close(origin, connection);
        return;
    }
    if (connection->events_left > 0) {
        connection->due_ns = origin->now_ns; // the first event at once
        due_push(origin, connection);
    } else if (connection->answer.size == 0) {
        answer_done(origin, connection);
    }
}

// `head` is complete.  Chooses the response and the size of the request's body.
static void request_begin(struct origin *origin, struct connection *connection, struct slice head)
{
    const uint8_t *line_end = memmem(head.bytes, head.size, "\r\n", 2);
    ASSERT(line_end);
    struct slice line = slice_of(head.bytes, (size_t)(line_end - head.bytes));
    struct slice value;

    connection->close_after =
        header_find(head, "connection", &value) && slice_is_nocase(value, "close");
    connection->body_left = 0;
    connection->events_left = 0;
    connection->phase = PHASE_BODY;
    if (slice_starts_with(line, "GET ")) {
        bool models = slice_starts_with(line, "GET /v1/models");
        connection->answer = models ? slice_of(models_answer, sizeof(models_answer) - 1)
                                    : slice_of(health_answer, sizeof(health_answer) - 1);
    } else if (header_find(head, "content-length", &value) &&
               slice_parse_u64(value, &connection->body_left)) {
        connection->answer = origin->json_answer;
        connection->events_left = query_number(line, "events=");
        connection->gap_ns = query_number(line, "gap_us=") * UINT64_C(1000);
        connection->first = true;
        connection->lockstep = query_number(line, "lockstep=") > 0;
    } else {
        connection->answer = slice_of(length_required, sizeof(length_required) - 1);
        connection->close_after = true;
    }
}

// Takes what belongs to the current request from the front of `input`; false when it has to wait
// for more.
static bool request_take(struct origin *origin, struct connection *connection, struct slice *input)
{
    if (connection->phase == PHASE_HEAD) {
        const uint8_t *end = memmem(input->bytes, input->size, "\r\n\r\n", 4);
        if (!end) {
            return false;
        }
        size_t size = (size_t)(end - input->bytes) + 4;
        request_begin(origin, connection, slice_of(input->bytes, size));
        *input = slice_of(input->bytes + size, input->size - size);
    }
    uint64_t body = connection->body_left < input->size ? connection->body_left : input->size;
    connection->body_left -= body;
    *input = slice_of(input->bytes + body, input->size - body);
    if (connection->body_left > 0) {
        return false;
    }
    request_answer(origin, connection);
    return connection->open && connection->phase == PHASE_HEAD && input->size > 0;
}

static void connection_read(struct origin *origin, struct connection *connection)
{
    while (connection->open && connection->phase != PHASE_ANSWER) {
        size_t kept = connection->head_size;
        memcpy(origin->input, connection->head, kept);
        ssize_t got = recv(connection->fd, origin->input + kept, sizeof(origin->input) - kept, 0);
        if (got == -1 && errno == EAGAIN) {
            return;
        }
        if (got <= 0) {
            connection_close(origin, connection);
            return;
        }
        bool drained = kept + (size_t)got < sizeof(origin->input);
        struct slice input = slice_of(origin->input, kept + (size_t)got);
        while (request_take(origin, connection, &input)) {
        }
        if (!connection->open) {
            return;
        }
        if (input.size > sizeof(connection->head)) {
            connection_close(origin, connection);
            return;
        }
        memcpy(connection->head, input.bytes, input.size);
        connection->head_size = (uint32_t)input.size;
        if (drained) {
            return;
        }
    }
}

// Edge-triggered: bytes or an end that came during a stream are looked for here, once it is over or
// when the kernel says that the peer has gone.
static void connection_wake(struct origin *origin, struct connection *connection, uint32_t events)
{
    if (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) {
        connection_close(origin, connection);
        return;
    }
    if (connection->phase == PHASE_ANSWER && connection->events_left == 0 &&
        connection->answer.size > 0) {
        if (!answer_write(connection)) {
            connection_close(origin, connection);
            return;
        }
        if (connection->answer.size == 0) {
            answer_done(origin, connection);
        }
    }
    if (connection->open && (events & EPOLLIN)) {
        connection_read(origin, connection);
    }
}

static void accept_all(struct origin *origin, const struct listener *listener)
{
    for (;;) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd == -1) {
            return;
        }
        if (fd >= connection_count_max) {
            close(fd);
            continue;
        }
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        struct connection *connection = &origin->connections[fd];
        connection->watched = WATCHED_ORIGIN;
        connection->fd = fd;
        connection->open = true;
        connection->phase = PHASE_HEAD;
        connection->head_size = 0;
        connection->events_left = 0;
        connection->answer = slice_of(NULL, 0);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                    .data.ptr = connection};
        if (epoll_ctl(origin->epoll, EPOLL_CTL_ADD, fd, &event) == -1) {
            connection_close(origin, connection);
        }
    }
}

static void json_fill(struct origin *origin)
{
    struct text text = text_over(origin->json, sizeof(origin->json));
    text_add_format(
        &text, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
        json_size);
    size_t end = text.size + json_size;
    text_add_str(&text, "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"model\":"
                        "\"bench\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                        "\"content\":\"");
    static const char tail[] = "\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":900,"
                               "\"completion_tokens\":170,\"total_tokens\":1070}}";
    static const char words[] = "An answer that says little, in lines of a usual length.\\n";
    size_t words_end = end - (sizeof(tail) - 1);
    while (text.size + sizeof(words) - 1 <= words_end) {
        text_add_str(&text, words);
    }
    while (text.size < words_end) {
        text_add_str(&text, "x");
    }
    text_add_str(&text, tail);
    ASSERT(!text.overflow && text.size == end);
    origin->json_answer = text_slice(&text);
}

static bool listener_open(struct origin *origin, struct listener *listener, uint16_t port)
{
    listener->watched = WATCHED_LISTENER;
    listener->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = listener};
    return listener->fd != -1 &&
           bind(listener->fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
           listen(listener->fd, 4096) == 0 &&
           epoll_ctl(origin->epoll, EPOLL_CTL_ADD, listener->fd, &event) == 0;
}

struct origin *origin_create(int epoll, const uint64_t ports[static origin_ports_max])
{
    static struct origin origin;
    origin.epoll = epoll;
    json_fill(&origin);
    // Untouched pages of the table cost nothing.
    origin.connections = calloc(connection_count_max, sizeof(*origin.connections));
    origin.due = calloc(connection_count_max, sizeof(struct connection *));
    if (!origin.connections || !origin.due) {
        perror("origin");
        return NULL;
    }
    for (int i = 0; i < origin_ports_max; i++) {
        if (ports[i] > 0 && !listener_open(&origin, &origin.listeners[i], (uint16_t)ports[i])) {
            perror("origin: listen");
            return NULL;
        }
    }
    return &origin;
}

void origin_wake(struct origin *origin, enum watched *watched, uint32_t events, uint64_t now_ns)
{
    origin->now_ns = now_ns;
    if (*watched == WATCHED_LISTENER) {
        accept_all(origin, (struct listener *)watched);
        return;
    }
    ASSERT(*watched == WATCHED_ORIGIN);
    struct connection *connection = (struct connection *)watched;
    if (connection->open) {
        connection_wake(origin, connection, events);
    }
}

void origin_step(struct origin *origin, uint64_t now_ns)
{
    origin->now_ns = now_ns;
    while (origin->due_count > 0 && origin->due[0]->due_ns <= now_ns) {
        stream_step(origin, due_pop(origin));
    }
}

uint64_t origin_wait_ns(const struct origin *origin, uint64_t now_ns)
{
    if (origin->due_count == 0) {
        return UINT64_MAX;
    }
    uint64_t due_ns = origin->due[0]->due_ns;
    return due_ns > now_ns ? due_ns - now_ns : 0;
}

void origin_advance(struct origin *origin, uint32_t stream, uint64_t now_ns)
{
    if (stream >= connection_count_max) {
        return; // what came back is not what was written
    }
    struct connection *connection = &origin->connections[stream];
    if (connection->open && connection->lockstep && connection->events_left > 0 &&
        !connection->waiting) {
        connection->due_ns = now_ns;
        due_push(origin, connection);
    }
}
