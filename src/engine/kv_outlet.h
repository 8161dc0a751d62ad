// SPDX-License-Identifier: Apache-2.0
//
// kv_outlet.h -- a ZeroMQ socket that binds and gives out what is in a log.
//
//     PUB      to each peer that subscribes to a beginning of the topic, everything from then on that is
//              not withheld
//     ROUTER   to each peer that asks [empty][8 bytes: sequence number], everything from there to what
//              was the end when it asked, and an end marker; each behind an empty frame
//
// Peers are cursors into the log: a slow one loses what leaves the log, whole messages at a time.  One
// that asks again while it is being answered is heard when the answer is complete.
//
// A peer that does not speak ZMTP, is of the wrong kind, says too much at once or takes longer than
// kv_outlet_handshake_ms to introduce itself is dropped.  Any other request gets no answer.
//
// Threads: the one of its loop.
#pragma once

#include "base/address.h"
#include "base/list.h"
#include "sys/loop.h"

#include <stddef.h>

struct kv_log;

enum {
    kv_outlet_peer_max = 64,         // further ones are closed at once
    kv_outlet_handshake_ms = 30000,  // libzmq's default
    kv_outlet_topic_max = UINT8_MAX, // so that its frame has a short head
};

enum kv_outlet_kind { KV_OUTLET_PUB, KV_OUTLET_ROUTER };

struct kv_outlet_options {
    struct loop *loop;
    struct kv_log *log; // both kept
    enum kv_outlet_kind kind;
    struct slice topic; // kept
    bool replays_topic; // ROUTER: a message begins with its topic
};

struct kv_outlet {
    struct loop_source source; // first: the listener's `ready` finds us from here
    struct kv_outlet_options options;
    struct list_node *peers;
    uint32_t peer_count;
    uint32_t subscriber_count; // peers that get messages
    uint64_t skipped_count;    // messages that left the log before a peer got them
};

// IO: errno says why.
enum status kv_outlet_open(struct kv_outlet *outlet, const struct kv_outlet_options *options,
                           const struct address *address);

// Does nothing to one that is not open.  Its peers' memory is freed at the end of the turn.
void kv_outlet_close(struct kv_outlet *outlet);

// There is more in the log: what peers and kernel take is sent now, the rest by and by.
void kv_outlet_push(struct kv_outlet *outlet);
