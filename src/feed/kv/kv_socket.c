// SPDX-License-Identifier: Apache-2.0

#include "feed/kv/kv_socket.h"

#include "base/base.h"
#include "kvevent/kv_notice.h"
#include "sys/loop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>

#ifdef __SANITIZE_THREAD__
// libzmq is built without the sanitizer, which therefore does not see how its threads hand messages
// over.  Our own use of the messages is still checked.
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libzmq.so\n";
}
#endif

enum {
    socket_count_max = 16384, // four for each backend with events
    // A restarted engine is found again within a second of listening.
    reconnect_ms = 100,
    reconnect_max_ms = 1000,
    connect_timeout_ms = 5000,
    // An idle publisher sends nothing, so only heartbeats show that it is there.
    heartbeat_ms = 10000,
    heartbeat_timeout_ms = 20000,
    keepalive_idle_s = 30,
};

struct kv_sockets {
    struct loop *loop;
    void *context;
    uint64_t opened; // sockets so far; names monitors
};

// A ZeroMQ socket in the loop.
struct zmq_source {
    struct loop_source source; // first: `ready` finds us from here
    struct kv_socket *socket;
    void *handle;
};

struct kv_socket {
    struct kv_sockets *sockets;
    void (*ready)(void *owner);
    void *owner;
    struct zmq_source main;
    struct zmq_source monitor; // handle NULL: not monitored
    zmq_msg_t frames[kv_frame_max];
    uint32_t frame_count; // of `frames`, held for the caller
};

enum status kv_sockets_create(struct loop *loop, struct kv_sockets **out)
{
    struct kv_sockets *sockets = calloc(1, sizeof(*sockets));
    if (sockets == NULL) {
        return STATUS_EXHAUSTED;
    }
    sockets->loop = loop;
    sockets->context = zmq_ctx_new();
    if (sockets->context == NULL) {
        free(sockets);
        return STATUS_IO;
    }
    ASSERT(zmq_ctx_set(sockets->context, ZMQ_MAX_SOCKETS, socket_count_max) == 0);
    *out = sockets;
    return STATUS_OK;
}

void kv_sockets_destroy(struct kv_sockets **sockets_ptr)
{
    struct kv_sockets *sockets = *sockets_ptr;
    *sockets_ptr = NULL;

    if (sockets == NULL) {
        return;
    }
    while (zmq_ctx_term(sockets->context) == -1 && errno == EINTR) {
    }
    free(sockets);
}

static void zmq_source_ready(struct loop_source *source, uint32_t events)
{
    struct zmq_source *zmq = (struct zmq_source *)source;
    (void)events;
    zmq->socket->ready(zmq->socket->owner);
}

static bool zmq_source_open(struct zmq_source *zmq, struct kv_socket *socket, int type)
{
    int fd = -1;
    size_t size = sizeof(fd);
    int linger = 0;

    zmq->socket = socket;
    zmq->handle = zmq_socket(socket->sockets->context, type);
    if (zmq->handle == NULL) {
        return false;
    }
    ASSERT(zmq_setsockopt(zmq->handle, ZMQ_LINGER, &linger, sizeof(linger)) == 0);
    ASSERT(zmq_getsockopt(zmq->handle, ZMQ_FD, &fd, &size) == 0);
    zmq->source = (struct loop_source){.fd = fd, .ready = zmq_source_ready};
    return loop_add(socket->sockets->loop, &zmq->source) == STATUS_OK;
}

static void zmq_source_close(struct zmq_source *zmq)
{
    if (zmq->handle != NULL) {
        loop_remove(zmq->socket->sockets->loop, &zmq->source);
        ASSERT(zmq_close(zmq->handle) == 0);
        zmq->handle = NULL;
    }
}

static void set_zmq_number(void *handle, int option, int value)
{
    ASSERT(zmq_setsockopt(handle, option, &value, sizeof(value)) == 0);
}

// Other addresses may be names, or `*`.
static bool is_v4_address(const char *address)
{
    const char *host = strstr(address, "://");
    return host != NULL && host[3 + strspn(host + 3, "0123456789.")] == ':';
}

static void socket_set_limits(void *handle, const char *address, int waiting_max)
{
    int64_t size_max = kv_payload_max;

    ASSERT(zmq_setsockopt(handle, ZMQ_MAXMSGSIZE, &size_max, sizeof(size_max)) == 0);
    set_zmq_number(handle, ZMQ_RCVHWM, waiting_max);
    set_zmq_number(handle, ZMQ_IPV6, !is_v4_address(address));
    set_zmq_number(handle, ZMQ_RECONNECT_IVL, reconnect_ms);
    set_zmq_number(handle, ZMQ_RECONNECT_IVL_MAX, reconnect_max_ms);
    set_zmq_number(handle, ZMQ_CONNECT_TIMEOUT, connect_timeout_ms);
    set_zmq_number(handle, ZMQ_HEARTBEAT_IVL, heartbeat_ms);
    set_zmq_number(handle, ZMQ_HEARTBEAT_TIMEOUT, heartbeat_timeout_ms);
    set_zmq_number(handle, ZMQ_TCP_KEEPALIVE, 1);
    set_zmq_number(handle, ZMQ_TCP_KEEPALIVE_IDLE, keepalive_idle_s);
}

static bool socket_watch_connection(struct kv_socket *socket)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "inproc://monitor-%" PRIu64, socket->sockets->opened);
    return zmq_socket_monitor(socket->main.handle, name,
                              ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) == 0 &&
           zmq_source_open(&socket->monitor, socket, ZMQ_PAIR) &&
           zmq_connect(socket->monitor.handle, name) == 0;
}

static struct kv_socket *socket_begin(struct kv_sockets *sockets,
                                      const struct kv_socket_options *options, int type,
                                      int waiting_max)
{
    struct kv_socket *socket = calloc(1, sizeof(*socket));
    if (socket == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    sockets->opened++;
    socket->sockets = sockets;
    socket->ready = options->ready;
    socket->owner = options->owner;
    if (!zmq_source_open(&socket->main, socket, type)) {
        int saved_errno = errno;
        kv_socket_close(&socket);
        errno = saved_errno;
        return NULL;
    }
    socket_set_limits(socket->main.handle, options->address, waiting_max);
    return socket;
}

static enum status socket_finish(struct kv_socket *socket, bool is_good, const char *address,
                                 struct kv_socket **out, char error[kv_socket_error_size])
{
    if (is_good) {
        *out = socket;
        // The library signals only after a receive that found nothing.
        socket->ready(socket->owner);
        return STATUS_OK;
    }
    (void)snprintf(error, kv_socket_error_size, "%s: %s", address, zmq_strerror(errno));
    kv_socket_close(&socket);
    return STATUS_IO;
}

static bool socket_set_topic(void *handle, const char *topic)
{
    topic = topic == NULL ? "" : topic;
    return zmq_setsockopt(handle, ZMQ_SUBSCRIBE, topic, strlen(topic)) == 0;
}

enum status kv_socket_subscribe(struct kv_sockets *sockets, const struct kv_socket_options *options,
                                struct kv_socket **out, char error[kv_socket_error_size])
{
    struct kv_socket *socket = socket_begin(sockets, options, ZMQ_SUB, kv_socket_waiting_max);
    bool is_good = socket != NULL && socket_watch_connection(socket) &&
                   socket_set_topic(socket->main.handle, options->topic) &&
                   zmq_connect(socket->main.handle, options->address) == 0;
    return socket_finish(socket, is_good, options->address, out, error);
}

enum status kv_socket_bind(struct kv_sockets *sockets, const struct kv_socket_options *options,
                           struct kv_socket **out, char error[kv_socket_error_size])
{
    struct kv_socket *socket = socket_begin(sockets, options, ZMQ_SUB, kv_socket_waiting_max);
    bool is_good = socket != NULL && socket_set_topic(socket->main.handle, options->topic) &&
                   zmq_bind(socket->main.handle, options->address) == 0;
    return socket_finish(socket, is_good, options->address, out, error);
}

// The library keeps the request until there is a connection.
static bool socket_ask_from(void *handle, uint64_t from)
{
    uint64_t number = __builtin_bswap64(from);

    return zmq_send(handle, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) == 0 &&
           zmq_send(handle, &number, sizeof(number), ZMQ_DONTWAIT) == sizeof(number);
}

enum status kv_socket_ask(struct kv_sockets *sockets, const struct kv_socket_options *options,
                          uint64_t from, struct kv_socket **out, char error[kv_socket_error_size])
{
    struct kv_socket *socket =
        socket_begin(sockets, options, ZMQ_DEALER, kv_socket_replay_waiting_max);
    bool is_good = socket != NULL && zmq_connect(socket->main.handle, options->address) == 0 &&
                   socket_ask_from(socket->main.handle, from);
    return socket_finish(socket, is_good, options->address, out, error);
}

static void socket_free_frames(struct kv_socket *socket)
{
    for (uint32_t i = 0; i < socket->frame_count; i++) {
        (void)zmq_msg_close(&socket->frames[i]);
    }
    socket->frame_count = 0;
}

void kv_socket_close(struct kv_socket **socket_ptr)
{
    struct kv_socket *socket = *socket_ptr;
    *socket_ptr = NULL;

    if (socket == NULL) {
        return;
    }
    socket_free_frames(socket);
    if (socket->monitor.handle != NULL) {
        (void)zmq_socket_monitor(socket->main.handle, NULL, 0);
    }
    zmq_source_close(&socket->monitor);
    zmq_source_close(&socket->main);
    free(socket);
}

void kv_socket_address(const struct kv_socket *socket, char out[kv_socket_address_size])
{
    size_t size = kv_socket_address_size;
    ASSERT(zmq_getsockopt(socket->main.handle, ZMQ_LAST_ENDPOINT, out, &size) == 0);
}

// AGAIN: no frame waits.
static enum status receive_frame(void *handle, zmq_msg_t *frame)
{
    ASSERT(zmq_msg_init(frame) == 0);
    int size = 0;
    do {
        size = zmq_msg_recv(frame, handle, ZMQ_DONTWAIT);
    } while (size == -1 && errno == EINTR);
    if (size == -1) {
        ASSERT(errno == EAGAIN);
        (void)zmq_msg_close(frame);
        return STATUS_AGAIN;
    }
    return STATUS_OK;
}

// Keeps a frame for the caller, or drops it.  True: more frames of the message follow.
static bool keep_frame(struct kv_socket *socket, zmq_msg_t *frame, struct kv_frames *out)
{
    bool has_more = zmq_msg_more(frame) != 0;

    if (out->count < kv_frame_max) {
        out->frames[out->count] = slice_of(zmq_msg_data(frame), zmq_msg_size(frame));
        socket->frame_count++;
    } else {
        (void)zmq_msg_close(frame);
    }
    out->count++;
    return has_more;
}

enum status kv_socket_receive(struct kv_socket *socket, struct kv_frames *out)
{
    zmq_msg_t surplus;
    bool has_more = true;

    socket_free_frames(socket);
    out->count = 0;
    while (has_more) {
        zmq_msg_t *frame = out->count < kv_frame_max ? &socket->frames[out->count] : &surplus;
        enum status status = receive_frame(socket->main.handle, frame);
        ASSERT(status == STATUS_OK || out->count == 0); // the frames of a message come together
        if (status != STATUS_OK) {
            return status;
        }
        has_more = keep_frame(socket, frame, out);
    }
    return STATUS_OK;
}

enum kv_socket_news kv_socket_news(struct kv_socket *socket)
{
    if (socket->monitor.handle == NULL) {
        return KV_SOCKET_NO_NEWS;
    }
    // Two frames: the number of the event and a value, and the address.
    uint8_t event[kv_socket_address_size];
    uint16_t number = 0;
    if (zmq_recv(socket->monitor.handle, event, sizeof(event), ZMQ_DONTWAIT) == -1) {
        return KV_SOCKET_NO_NEWS;
    }
    memcpy(&number, event, sizeof(number));
    (void)zmq_recv(socket->monitor.handle, event, sizeof(event), ZMQ_DONTWAIT);
    return number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED ? KV_SOCKET_CONNECTED : KV_SOCKET_DISCONNECTED;
}
