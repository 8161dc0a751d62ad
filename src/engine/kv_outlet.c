// SPDX-License-Identifier: Apache-2.0

#include "engine/kv_outlet.h"

#include "base/base.h"
#include "base/text.h"
#include "engine/kv_log.h"
#include "net/tcp.h"
#include "net/transport.h"
#include "sim/engine/zmtp.h"

#include <stdlib.h>

enum {
    out_size_max = 512, // greeting and READY, and some PONGs
    out_room_min = 128, // what an answer to one frame needs, and more
    read_count_max = 16,
};

_Static_assert(out_size_max >= zmtp_greeting_size + 2 * out_room_min, "the handshake fits");

enum phase { GREETS, INTRODUCES_ITSELF, TALKS };

struct peer {
    struct transport transport; // first: `ready` finds us from here
    struct kv_outlet *outlet;
    struct list_node all; // in outlet->peers
    struct timer timer;   // the limit of the handshake; later, a pause in reading
    struct loop_deferred recycle;
    enum phase phase;

    struct text out; // our own words
    size_t out_sent;
    struct kv_message *message; // being sent, NULL: none
    struct slice rest;          // of it
    bool is_within;             // a part of it is gone: nothing may come between

    uint64_t position; // what to send next
    // PUB: a beginning of the topic is known by its length; one bit each.
    uint64_t subscriptions[(kv_outlet_topic_max + 1 + 63) / 64];
    bool is_subscribed;
    // ROUTER
    bool is_replaying;
    uint64_t replay_end;
    uint32_t frame_count; // of the request so far
    bool is_odd_request;

    struct zmtp_reader reader;
    uint8_t out_space[out_size_max];
};

static void recycle(struct loop_deferred *deferred)
{
    free(CONTAINER_OF(deferred, struct peer, recycle));
}

static void drop(struct peer *peer)
{
    struct loop *loop = peer->outlet->options.loop;
    list_remove(&peer->all);
    peer->outlet->peer_count--;
    peer->outlet->subscriber_count -= peer->is_subscribed;
    kv_message_release(&peer->message);
    loop_disarm(loop, &peer->timer);
    transport_close(&peer->transport, loop, TRANSPORT_ORDERLY);
    loop_defer(loop, &peer->recycle);
}

// What a peer says.

static bool is_welcome(const struct peer *peer, struct slice socket_type)
{
    static const char *const kinds[][3] = {
        [KV_OUTLET_PUB] = {"SUB", "XSUB"},
        [KV_OUTLET_ROUTER] = {"DEALER", "REQ", "ROUTER"},
    };
    const char *const *welcome = kinds[peer->outlet->options.kind];
    for (size_t i = 0; i < ARRAY_COUNT(kinds[0]) && welcome[i] != NULL; i++) {
        if (slice_is(socket_type, welcome[i])) {
            return true;
        }
    }
    return false;
}

// As with libzmq, a peer has a set of subscriptions: saying one twice changes nothing.
static void subscribe(struct peer *peer, const struct zmtp_subscription *subscription)
{
    struct kv_outlet *outlet = peer->outlet;
    struct slice topic = outlet->options.topic;
    size_t size = subscription->topic.size;
    bool was_subscribed = peer->is_subscribed;

    if (size > topic.size || !slice_equal(subscription->topic, slice_of(topic.bytes, size))) {
        return;
    }
    uint64_t bit = (uint64_t)1 << (size % 64);
    if (subscription->is_cancelled) {
        peer->subscriptions[size / 64] &= ~bit;
    } else {
        peer->subscriptions[size / 64] |= bit;
    }
    peer->is_subscribed = false;
    for (size_t i = 0; i < ARRAY_COUNT(peer->subscriptions); i++) {
        peer->is_subscribed |= peer->subscriptions[i] != 0;
    }
    if (peer->is_subscribed && !was_subscribed) {
        peer->position = outlet->options.log->end;
    }
    outlet->subscriber_count += peer->is_subscribed;
    outlet->subscriber_count -= was_subscribed;
}

// [empty][8 bytes]; anything else passes without an answer, as engines do it.
static void hear_request(struct peer *peer, const struct zmtp_frame *frame)
{
    static const size_t sizes[] = {0, 8};
    struct kv_log *log = peer->outlet->options.log;
    uint32_t number = peer->frame_count;
    bool is_odd = number >= ARRAY_COUNT(sizes) || frame->body.size != sizes[number];

    peer->is_odd_request |= is_odd;
    peer->frame_count += number < ARRAY_COUNT(sizes);
    if (frame->has_more) {
        return;
    }
    if (!peer->is_odd_request && peer->frame_count == ARRAY_COUNT(sizes)) {
        uint64_t sequence = 0;
        for (size_t i = 0; i < frame->body.size; i++) {
            sequence = sequence << 8 | frame->body.bytes[i];
        }
        peer->is_replaying = true;
        peer->position = kv_log_find(log, sequence);
        peer->replay_end = log->end;
    }
    peer->frame_count = 0;
    peer->is_odd_request = false;
}

static enum status hear_talk(struct peer *peer, const struct zmtp_frame *frame)
{
    struct zmtp_subscription subscription;
    struct slice context;

    if (frame->kind == ZMTP_COMMAND && slice_is(frame->name, "PING")) {
        enum status status = zmtp_ping_read(frame, &context);
        if (status == STATUS_OK) {
            zmtp_pong_write(context, &peer->out);
        }
        return status;
    }
    if (frame->kind == ZMTP_COMMAND && slice_is(frame->name, "ERROR")) {
        return STATUS_CLOSED;
    }
    if (peer->outlet->options.kind == KV_OUTLET_PUB) {
        if (zmtp_subscription_read(frame, &subscription)) {
            subscribe(peer, &subscription);
        }
    } else if (frame->kind == ZMTP_MESSAGE) {
        hear_request(peer, frame);
    }
    return STATUS_OK;
}

static enum status hear_frame(struct peer *peer, const struct zmtp_frame *frame)
{
    static const char *const own_types[] = {
        [KV_OUTLET_PUB] = "PUB",
        [KV_OUTLET_ROUTER] = "ROUTER",
    };
    struct zmtp_ready ready;

    switch (peer->phase) {
    case GREETS:
        zmtp_ready_write(own_types[peer->outlet->options.kind], &peer->out);
        peer->phase = INTRODUCES_ITSELF;
        return STATUS_OK;
    case INTRODUCES_ITSELF:
        if (zmtp_ready_read(frame, &ready) != STATUS_OK || !is_welcome(peer, ready.socket_type)) {
            return STATUS_MALFORMED;
        }
        loop_disarm(peer->outlet->options.loop, &peer->timer);
        peer->phase = TALKS;
        return STATUS_OK;
    case TALKS:
        break;
    }
    return hear_talk(peer, frame);
}

// Whether what it says next could not be answered yet.
static bool must_wait(const struct peer *peer)
{
    return peer->is_replaying || peer->out.capacity - peer->out.size < out_room_min;
}

// OK: it must wait until it has been answered.  AGAIN: it has nothing more to say for now.
static enum status hear(struct peer *peer)
{
    struct zmtp_frame frame;

    // A handshake is short; who never stops talking afterwards shares the thread with the others.
    for (uint32_t reads = 0; peer->phase != TALKS || reads < read_count_max; reads++) {
        enum status status = STATUS_OK;
        while (status == STATUS_OK) {
            if (must_wait(peer)) {
                return STATUS_OK;
            }
            status = zmtp_reader_next(&peer->reader, &frame);
            if (status == STATUS_OK) {
                status = hear_frame(peer, &frame);
            }
        }
        if (status != STATUS_AGAIN) {
            return status;
        }
        size_t capacity = 0;
        size_t size = 0;
        uint8_t *space = zmtp_reader_space(&peer->reader, &capacity);
        status = transport_read(&peer->transport, space, capacity, &size);
        if (status != STATUS_OK) {
            return status;
        }
        zmtp_reader_filled(&peer->reader, size);
    }
    loop_arm(peer->outlet->options.loop, &peer->timer, 1);
    return STATUS_AGAIN;
}

// What we say.

static void skip_what_is_gone(struct peer *peer)
{
    uint64_t oldest = peer->outlet->options.log->oldest;
    if (peer->position < oldest) {
        peer->outlet->skipped_count += oldest - peer->position;
        peer->position = oldest;
    }
}

static void skip_what_is_withheld(struct peer *peer)
{
    const struct kv_log *log = peer->outlet->options.log;
    while (peer->position < log->end && kv_log_is_withheld(log, peer->position)) {
        peer->position++;
    }
}

static void take_message(struct peer *peer, bool has_topic)
{
    peer->message = kv_log_take(peer->outlet->options.log, peer->position++);
    size_t skip = has_topic ? 0 : peer->message->topic_size;
    peer->rest = slice_of(peer->message->bytes + skip, peer->message->size - skip);
}

static void next_of_replay(struct peer *peer)
{
    static const uint8_t end_marker[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    bool has_topic = peer->outlet->options.replays_topic;

    skip_what_is_gone(peer);
    zmtp_head_write(0, true, &peer->out);
    if (peer->position < peer->replay_end) {
        take_message(peer, has_topic);
        return;
    }
    if (has_topic) {
        zmtp_head_write(0, true, &peer->out);
    }
    zmtp_head_write(sizeof(end_marker), true, &peer->out);
    text_add(&peer->out, slice_of(end_marker, sizeof(end_marker)));
    zmtp_head_write(0, false, &peer->out);
    peer->is_replaying = false;
}

// False when there is nothing to say.
static bool has_words(struct peer *peer)
{
    if (peer->message != NULL || peer->out_sent < peer->out.size) {
        return true;
    }
    peer->out.size = 0;
    peer->out_sent = 0;
    if (peer->is_replaying) {
        next_of_replay(peer);
        return true;
    }
    if (!peer->is_subscribed) {
        return false;
    }
    skip_what_is_gone(peer);
    skip_what_is_withheld(peer);
    if (peer->position == peer->outlet->options.log->end) {
        return false;
    }
    take_message(peer, true);
    return true;
}

static struct slice slice_behind(struct slice bytes, size_t size)
{
    return slice_of(bytes.bytes + size, bytes.size - size);
}

// OK: all is said.
static enum status speak(struct peer *peer)
{
    while (has_words(peer)) {
        struct slice words = slice_behind(text_slice(&peer->out), peer->out_sent);
        size_t size = 0;
        if (peer->is_within) {
            words.size = 0; // they wait for the end of the message
        }
        struct slice parts[] = {words, peer->message != NULL ? peer->rest : (struct slice){0}};
        enum status status = transport_write(&peer->transport, parts, ARRAY_COUNT(parts), &size);
        if (status != STATUS_OK) {
            return status;
        }
        size_t of_words = size < words.size ? size : words.size;
        peer->out_sent += of_words;
        if (peer->message == NULL || size == of_words) {
            continue;
        }
        peer->rest = slice_behind(peer->rest, size - of_words);
        peer->is_within = peer->rest.size > 0;
        if (!peer->is_within) {
            kv_message_release(&peer->message);
        }
    }
    return STATUS_OK;
}

static bool is_fatal(enum status status)
{
    return status != STATUS_OK && status != STATUS_AGAIN;
}

static void run(struct peer *peer)
{
    for (;;) {
        enum status heard = hear(peer);
        enum status said = is_fatal(heard) ? heard : speak(peer);
        if (is_fatal(said)) {
            drop(peer);
            return;
        }
        if (heard == STATUS_AGAIN || said == STATUS_AGAIN) {
            return;
        }
    }
}

static void peer_ready(struct loop_source *source, uint32_t events)
{
    struct peer *peer = (struct peer *)source;
    transport_note(&peer->transport, events);
    run(peer);
}

static void peer_timer(struct timer *timer)
{
    struct peer *peer = CONTAINER_OF(timer, struct peer, timer);
    if (peer->phase == TALKS) {
        run(peer);
    } else {
        drop(peer);
    }
}

static void take(struct kv_outlet *outlet, int fd)
{
    struct peer *peer = NULL;
    if (outlet->peer_count < kv_outlet_peer_max) {
        peer = calloc(1, sizeof(*peer));
    }
    if (peer == NULL) {
        tcp_close(&fd);
        return;
    }
    peer->transport.source.ready = peer_ready;
    peer->outlet = outlet;
    peer->timer.fire = peer_timer;
    peer->recycle.run = recycle;
    peer->out = text_over(peer->out_space, sizeof(peer->out_space));
    zmtp_greeting_write(&peer->out);
    if (transport_open(&peer->transport, outlet->options.loop, fd, NULL, NULL) != STATUS_OK) {
        free(peer);
        return;
    }
    list_push(&outlet->peers, &peer->all);
    outlet->peer_count++;
    loop_arm(outlet->options.loop, &peer->timer, kv_outlet_handshake_ms);
}

static void listener_ready(struct loop_source *source, uint32_t events)
{
    struct kv_outlet *outlet = (struct kv_outlet *)source;
    struct address peer;
    int fd = -1;

    (void)events;
    while (tcp_accept(source->fd, &fd, &peer) == STATUS_OK) {
        take(outlet, fd);
    }
}

enum status kv_outlet_open(struct kv_outlet *outlet, const struct kv_outlet_options *options,
                           const struct address *address)
{
    ASSERT(options->topic.size <= kv_outlet_topic_max);
    *outlet = (struct kv_outlet){.options = *options};
    outlet->source = (struct loop_source){.fd = -1, .ready = listener_ready};
    if (tcp_probe_bind(address) != STATUS_OK ||
        tcp_listen(address, &outlet->source.fd) != STATUS_OK ||
        loop_add(options->loop, &outlet->source) != STATUS_OK) {
        tcp_close(&outlet->source.fd);
        return STATUS_IO;
    }
    return STATUS_OK;
}

void kv_outlet_close(struct kv_outlet *outlet)
{
    if (outlet->source.magic == 0) {
        return;
    }
    while (outlet->peers != NULL) {
        drop(CONTAINER_OF(outlet->peers, struct peer, all));
    }
    loop_remove(outlet->options.loop, &outlet->source);
    tcp_close(&outlet->source.fd);
}

void kv_outlet_push(struct kv_outlet *outlet)
{
    struct list_node *next = NULL;
    for (struct list_node *node = outlet->peers; node != NULL; node = next) {
        struct peer *peer = CONTAINER_OF(node, struct peer, all);
        next = node->next;
        if (peer->is_subscribed) {
            skip_what_is_gone(peer); // now, lest it is counted only when the peer reads again
        }
        if (peer->phase == TALKS && is_fatal(speak(peer))) {
            drop(peer);
        }
    }
}
