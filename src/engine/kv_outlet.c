// SPDX-License-Identifier: Apache-2.0

#include "engine/kv_outlet.h"

#include "base/base.h"
#include "engine/kv_log.h"
#include "net/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum {
    request_size_max = 1024, // of a subscription or a request; libzmq closes on larger ones
    request_frame_max = 3,   // identity, empty, sequence number
    sequence_size = 8,
    endpoint_size_max = 128,
};

static void outlet_set(void *handle, int option, int value)
{
    ASSERT(zmq_setsockopt(handle, option, &value, sizeof(value)) == 0);
}

static void outlet_send(struct kv_outlet_socket *socket, struct slice frame, bool has_more)
{
    int flags = ZMQ_DONTWAIT | (has_more ? ZMQ_SNDMORE : 0);
    int sent = zmq_send(socket->handle, frame.bytes, frame.size, flags);
    while (sent == -1 && errno == EINTR) {
        sent = zmq_send(socket->handle, frame.bytes, frame.size, flags);
    }
    ASSERT(sent >= 0); // both kinds drop messages where others would wait
}

static void outlet_send_message(struct kv_outlet_socket *socket, const struct kv_message *message)
{
    uint64_t sequence = __builtin_bswap64(message->sequence);
    outlet_send(socket, slice_of(&sequence, sequence_size), true);
    outlet_send(socket, slice_of(message->bytes, message->size), false);
}

// A subscription or a request.
struct outlet_message {
    uint8_t bytes[request_frame_max][request_size_max];
    struct slice frames[request_frame_max];
    uint32_t count; // may be more than request_frame_max: later frames replace the last
};

// The size of the next frame; -1: no message has come.
static int outlet_receive_frame(struct kv_outlet_socket *socket, uint8_t bytes[request_size_max])
{
    int size = zmq_recv(socket->handle, bytes, request_size_max, ZMQ_DONTWAIT);
    ASSERT(size != -1 || errno == EAGAIN || errno == EINTR);
    return size;
}

// False: no message has come.
static bool outlet_receive(struct kv_outlet_socket *socket, struct outlet_message *out)
{
    int has_more = 1;
    size_t option_size = sizeof(has_more);

    for (out->count = 0; has_more != 0; out->count++) {
        uint32_t at = out->count < request_frame_max ? out->count : request_frame_max - 1;
        int size = outlet_receive_frame(socket, out->bytes[at]);
        ASSERT(size != -1 || out->count == 0); // frames of one message arrive together
        if (size == -1) {
            return false;
        }
        out->frames[at] = slice_of(out->bytes[at], (size_t)size);
        ASSERT(zmq_getsockopt(socket->handle, ZMQ_RCVMORE, &has_more, &option_size) == 0);
    }
    return true;
}

// [1: subscribe, 0: cancel][prefix of topics].
static void outlet_note_subscription(struct kv_outlet *outlet, struct slice message)
{
    if (message.size == 0 || message.bytes[0] > 1) {
        return;
    }
    struct slice topic = outlet->options.topic;
    struct slice prefix = slice_of(message.bytes + 1, message.size - 1);
    bool matches =
        prefix.size <= topic.size && slice_equal(prefix, slice_of(topic.bytes, prefix.size));
    if (message.bytes[0] == 1) {
        outlet->subscription_count++;
        outlet->subscriber_count += matches;
    } else {
        // A peer may cancel more than it has subscribed to.
        outlet->subscription_count -= outlet->subscription_count > 0;
        outlet->subscriber_count -= matches && outlet->subscriber_count > 0;
    }
}

static void outlet_replay(struct kv_outlet *outlet, struct slice peer, uint64_t sequence)
{
    static const uint8_t end_marker[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    const struct kv_log *log = outlet->options.log;
    struct kv_outlet_socket *socket = &outlet->replay;
    const struct slice empty = slice_str("");

    for (uint64_t i = kv_log_find(log, sequence); i < log->end; i++) {
        outlet_send(socket, peer, true);
        outlet_send(socket, empty, true);
        if (outlet->options.replays_topic) {
            outlet_send(socket, outlet->options.topic, true);
        }
        outlet_send_message(socket, kv_log_at(log, i));
    }
    outlet_send(socket, peer, true);
    outlet_send(socket, empty, true);
    if (outlet->options.replays_topic) {
        outlet_send(socket, empty, true);
    }
    outlet_send(socket, slice_of(end_marker, sizeof(end_marker)), true);
    outlet_send(socket, empty, false);
}

static void outlet_take_request(struct kv_outlet *outlet, const struct outlet_message *message)
{
    uint64_t sequence = 0;

    if (message->count != request_frame_max || message->frames[1].size != 0 ||
        message->frames[2].size != sequence_size) {
        return;
    }
    memcpy(&sequence, message->frames[2].bytes, sequence_size);
    outlet_replay(outlet, message->frames[0], __builtin_bswap64(sequence));
}

// Reads until nothing is left: libzmq's descriptor tells of a message only once, and perhaps during
// a send.
static void outlet_drain(struct kv_outlet *outlet, struct kv_outlet_socket *socket)
{
    struct outlet_message message;

    while (outlet_receive(socket, &message)) {
        if (socket == &outlet->live) {
            outlet_note_subscription(outlet, message.frames[0]);
        } else {
            outlet_take_request(outlet, &message);
        }
    }
}

static void outlet_live_ready(struct loop_source *source, uint32_t events)
{
    struct kv_outlet *outlet = CONTAINER_OF(source, struct kv_outlet, live.source);
    (void)events;
    outlet_drain(outlet, &outlet->live);
}

static void outlet_replay_ready(struct loop_source *source, uint32_t events)
{
    struct kv_outlet *outlet = CONTAINER_OF(source, struct kv_outlet, replay.source);
    (void)events;
    outlet_drain(outlet, &outlet->replay);
}

static bool outlet_bind(struct kv_outlet_socket *socket, const char *host, uint16_t port)
{
    bool is_v6 = strchr(host, ':') != NULL;
    char endpoint[endpoint_size_max];
    size_t size = sizeof(endpoint);

    snprintf(endpoint, sizeof(endpoint), is_v6 ? "tcp://[%s]:%u" : "tcp://%s:%u", host, port);
    if (zmq_bind(socket->handle, endpoint) == -1 ||
        zmq_getsockopt(socket->handle, ZMQ_LAST_ENDPOINT, endpoint, &size) == -1) {
        return false;
    }
    socket->port = (uint16_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10);
    return true;
}

static bool outlet_listen(struct kv_outlet *outlet, struct kv_outlet_socket *socket, int type,
                          uint16_t port)
{
    // Two whole replays and their end markers fit.
    int queue_max = (int)outlet->options.queue_max;
    queue_max = type == ZMQ_ROUTER ? 2 * (queue_max + 1) : queue_max;
    const struct kv_outlet_options *options = &outlet->options;
    int64_t size_max = request_size_max;
    size_t size = sizeof(socket->source.fd);

    socket->handle = zmq_socket(outlet->context, type);
    if (socket->handle == NULL) {
        return false;
    }
    ASSERT(zmq_setsockopt(socket->handle, ZMQ_MAXMSGSIZE, &size_max, sizeof(size_max)) == 0);
    outlet_set(socket->handle, ZMQ_LINGER, 0);
    outlet_set(socket->handle, ZMQ_SNDHWM, queue_max);
    outlet_set(socket->handle, ZMQ_IPV6, strchr(options->host, ':') != NULL);
    if (type == ZMQ_XPUB) {
        // Each peer's subscription, not each topic.
        outlet_set(socket->handle, ZMQ_XPUB_VERBOSER, 1);
    }
    socket->source.ready = type == ZMQ_XPUB ? outlet_live_ready : outlet_replay_ready;
    ASSERT(zmq_getsockopt(socket->handle, ZMQ_FD, &socket->source.fd, &size) == 0);
    return outlet_bind(socket, options->host, port) &&
           loop_add(options->loop, &socket->source) == STATUS_OK;
}

enum status kv_outlet_open(struct kv_outlet *outlet, const struct kv_outlet_options *options)
{
    struct address address;

    if (address_from_literal(options->host, options->port, &address) != STATUS_OK) {
        return STATUS_MALFORMED;
    }
    *outlet = (struct kv_outlet){.options = *options, .context = zmq_ctx_new()};
    if (outlet->context != NULL && outlet_listen(outlet, &outlet->live, ZMQ_XPUB, options->port) &&
        (!options->has_replay ||
         outlet_listen(outlet, &outlet->replay, ZMQ_ROUTER, options->replay_port))) {
        return STATUS_OK;
    }
    int saved_errno = errno;
    kv_outlet_close(outlet);
    errno = saved_errno;
    return STATUS_IO;
}

static void outlet_close_socket(struct kv_outlet *outlet, struct kv_outlet_socket *socket)
{
    if (socket->handle != NULL) {
        loop_remove(outlet->options.loop, &socket->source);
        ASSERT(zmq_close(socket->handle) == 0);
        socket->handle = NULL;
    }
}

void kv_outlet_close(struct kv_outlet *outlet)
{
    if (outlet->context == NULL) {
        return;
    }
    outlet_close_socket(outlet, &outlet->replay);
    outlet_close_socket(outlet, &outlet->live);
    // Returns once libzmq's threads have closed all connections, which do not linger.
    while (zmq_ctx_term(outlet->context) == -1 && errno == EINTR) {
    }
    outlet->context = NULL;
    outlet->subscription_count = 0;
    outlet->subscriber_count = 0;
}

void kv_outlet_publish(struct kv_outlet *outlet, const struct kv_message *message)
{
    if (outlet->live.handle == NULL) {
        return;
    }
    outlet_send(&outlet->live, outlet->options.topic, true);
    outlet_send_message(&outlet->live, message);
    outlet_drain(outlet, &outlet->live);
}
