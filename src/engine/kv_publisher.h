// SPDX-License-Identifier: Apache-2.0
//
// kv_publisher.h -- publishes one engine's KV events over ZeroMQ, as engines do.
//
//     stored, removed, cleared --> [ pending ] --flush--> [ log: batch 7, 8, 9 ] --> each replay
//                                                    \--> each subscriber
//
// A flush makes one batch of the pending events, if there are any, with the next sequence number,
// from 0.  Subscribers get it at once; the log keeps the last batches, bounded in number and bytes,
// for replays.  kv_outlet.h has the sockets.
//
// Limits: pending events that do not fit are lost, as is a batch that is larger than the log; the
// sequence number then skips one, so that subscribers can tell.  kv_publisher_set_loss loses others
// at random.
//
// Threads: the one of its loop.  Memory: some by _create, the log and pending events as they grow.
#pragma once

#include "base/status.h"
#include "sim/engine/kv_event_writer.h"

struct kv_publisher;
struct loop;

enum {
    kv_publisher_topic_max = 255,
    kv_publisher_error_size = 256,
    kv_publisher_batches_default = 10000,    // as vLLM's buffer_steps
    kv_publisher_log_size_default = 8 << 20, // there may be hundreds of publishers
    kv_publisher_pending_blocks_max = 1 << 16,
    kv_publisher_pending_tokens_max = 1 << 20,
    kv_publisher_pending_salts_max = 1 << 18, // bytes
};

struct kv_publisher_options {
    struct loop *loop;                    // kept
    const char *host;                     // a literal address: "127.0.0.1", "0.0.0.0", "::1"
    uint16_t port;                        // 0: the kernel's choice
    uint16_t replay_port;                 // likewise
    bool has_replay;                      // whether there is a replay socket
    bool is_digest;                       // hashes as 32 bytes, where the format can
    int32_t rank;                         // data-parallel; negative: nil
    const char *topic;                    // NULL: ""
    const struct kv_event_format *format; // NULL: the first
    uint32_t block_tokens;                // at least 1
    uint32_t batches_max;                 // in the log; 0: kv_publisher_batches_default
    uint32_t log_size_max;                // its bytes; 0: kv_publisher_log_size_default
    uint64_t seed;                        // of which batches get lost
};

struct kv_publisher_status {
    uint64_t next_sequence;
    uint64_t batch_count; // made
    uint64_t lost_count;  // events or batches beyond a limit
    uint64_t log_size;    // bytes
    uint32_t log_batches;
    uint32_t subscription_count;
    uint32_t subscriber_count; // subscriptions that match the topic
    uint16_t port;
    uint16_t replay_port; // 0 without a replay socket
};

// Listens.  IO or MALFORMED: `error` says why.
enum status kv_publisher_create(const struct kv_publisher_options *options,
                                struct kv_publisher **out, char error[kv_publisher_error_size]);

// Between turns.  Drops messages that were not sent.  Clears the caller's pointer, which may be
// NULL.
void kv_publisher_destroy(struct kv_publisher **publisher);

enum kv_tier { KV_TIER_GPU, KV_TIER_HOST };

// Blocks that follow each other can be reused from now on.  All is copied.  Of the host's tier
// nothing is said where the format has no word for it.
struct kv_stored {
    const uint64_t *keys;
    const uint32_t *token_ids; // count * block_tokens of them
    uint32_t count;
    bool has_parent;
    uint64_t parent;       // key of the block before the first
    const char *lora_name; // kept until the flush; NULL: the model itself
    uint32_t lora_id;      // 0: none
    const char *salt;      // NULL: none
    enum kv_tier tier;
};
void kv_publisher_stored(struct kv_publisher *publisher, const struct kv_stored *stored);
void kv_publisher_removed(struct kv_publisher *publisher, enum kv_tier tier, uint64_t key);

// The GPU's tier is empty.
void kv_publisher_cleared(struct kv_publisher *publisher);

// From now on this share of the batches, from 0 to 1, gets lost on the way to subscribers.  Replays
// have them.
void kv_publisher_set_loss(struct kv_publisher *publisher, double share);

// As when the engine's process dies: connections and listeners close, pending events and the log
// go.
void kv_publisher_stop(struct kv_publisher *publisher);

// As when the next process starts, on the same ports: the next number is 0.  IO: a port is taken,
// errno says more; try again.
enum status kv_publisher_start(struct kv_publisher *publisher);

// Publishes the pending events as one batch, in the order of the calls.
void kv_publisher_flush(struct kv_publisher *publisher, double wall_seconds);

void kv_publisher_status(const struct kv_publisher *publisher, struct kv_publisher_status *out);
