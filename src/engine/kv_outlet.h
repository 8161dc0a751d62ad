// SPDX-License-Identifier: Apache-2.0
//
// kv_outlet.h -- the two ZeroMQ sockets of one engine, as vLLM has them.
//
//     XPUB     to each peer that subscribes to a prefix of the topic:
//              [topic][sequence number][batch]
//     ROUTER   to each peer that sends [empty][8 bytes: sequence number]:
//              all batches of the log from there, and an end marker; each behind an empty frame
//
// XPUB is a PUB socket that also reports subscriptions, which tests wait for.  libzmq queues as
// many messages for each peer as the log keeps and drops further ones.  Requests of another form
// get no response, as from real engines.
//
// libzmq runs two threads for each outlet.  No call waits for a peer.
//
// Threads: the one of its loop.
#pragma once

#include "base/address.h"
#include "base/slice.h"
#include "sys/loop.h"

#include <stddef.h>

struct kv_log;
struct kv_message;

struct kv_outlet_options {
    struct loop *loop;        // kept
    const struct kv_log *log; // kept; for replays
    const char *host;         // a literal address
    uint16_t port;            // 0: the kernel's choice
    uint16_t replay_port;     // likewise
    bool has_replay;
    struct slice topic; // kept
    bool replays_topic; // a replayed message has its topic
    uint32_t queue_max; // messages that wait for one peer
};

struct kv_outlet_socket {
    struct loop_source source; // first: `ready` finds us from here
    void *handle;              // NULL: closed
    uint16_t port;
};

struct kv_outlet {
    struct kv_outlet_options options;
    void *context; // NULL: closed
    struct kv_outlet_socket live;
    struct kv_outlet_socket replay;
    uint32_t subscription_count; // of all topics
    uint32_t subscriber_count;   // subscriptions that match the topic
};

// Listens.  IO: errno says why.  MALFORMED: the host is not an address.
enum status kv_outlet_open(struct kv_outlet *outlet, const struct kv_outlet_options *options);

// Ends all connections; the ports are free afterwards.  Does nothing to one that is closed.  Its
// memory may be reused when the turn has ended.
void kv_outlet_close(struct kv_outlet *outlet);

void kv_outlet_publish(struct kv_outlet *outlet, const struct kv_message *message);
