// SPDX-License-Identifier: Apache-2.0

#include "engine/kv_publisher.h"

#include "base/base.h"
#include "base/rng.h"
#include "base/text.h"
#include "engine/kv_log.h"
#include "engine/kv_outlet.h"
#include "sys/pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

// Events until the next flush.  Each has ranges of hashes and tokens.
struct pending_event {
    enum kv_event_kind kind;
    enum kv_tier tier;
    uint32_t hash_count;
    uint32_t token_count;
    bool has_parent;
    uint64_t parent;
    const char *lora_name;
    uint32_t lora_id;
    const char *salt; // in `salts`
};

enum { event_count_max = kv_publisher_pending_blocks_max };

// One reservation of address space; only pages that are used take memory.
struct pending {
    struct pending_event events[event_count_max];
    uint64_t hashes[kv_publisher_pending_blocks_max];
    uint32_t tokens[kv_publisher_pending_tokens_max];
    char salts[kv_publisher_pending_salts_max];
};

// Bytes that an event takes beside its hashes and tokens, at most: the names of the fields come to
// 144, and most values are a byte; its parent may be a digest.  Each hash has an extra key, which
// is nil or an array with a name.
enum {
    event_overhead = 320,
    hash_size_max = 2 + kv_digest_size + 1,
    token_size_max = 5,
    name_overhead = 1 + 5,
    salt_overhead = 1 + 11, // a map with the name of the field
};

struct kv_publisher {
    struct kv_publisher_options options;
    char topic[kv_publisher_topic_max + 1];
    struct pending *pending;
    uint32_t event_count;
    uint32_t hash_count;
    uint32_t token_count;
    size_t names_size; // of adapters and salts, as often as they are said
    uint32_t salts_size;
    const char *last_salt; // of the last event that has one
    bool is_lossy;         // something did not fit since the last flush
    double lost_share;     // of batches, on the way to subscribers
    struct rng rng;
    uint64_t next_sequence;
    uint64_t batch_count;
    uint64_t lost_count;
    struct kv_log log;
    struct kv_outlet outlet;
};

static void publisher_forget_pending(struct kv_publisher *publisher)
{
    publisher->event_count = 0;
    publisher->hash_count = 0;
    publisher->token_count = 0;
    publisher->names_size = 0;
    publisher->salts_size = 0;
    publisher->last_salt = NULL;
    publisher->is_lossy = false;
}

void kv_publisher_stop(struct kv_publisher *publisher)
{
    kv_outlet_close(&publisher->outlet);
    kv_log_clear(&publisher->log);
    publisher_forget_pending(publisher);
}

enum status kv_publisher_start(struct kv_publisher *publisher)
{
    struct kv_publisher_options *options = &publisher->options;

    publisher->next_sequence = 0;
    enum status status =
        kv_outlet_open(&publisher->outlet, &(struct kv_outlet_options){
                                               .loop = options->loop,
                                               .log = &publisher->log,
                                               .host = options->host,
                                               .port = options->port,
                                               .replay_port = options->replay_port,
                                               .has_replay = options->has_replay,
                                               .topic = slice_str(publisher->topic),
                                               .replays_topic = options->format->replays_topic,
                                               .queue_max = options->batches_max,
                                           });
    if (status == STATUS_OK) {
        // The kernel's choice of a port holds for the next start too.
        options->port = publisher->outlet.live.port;
        options->replay_port = publisher->outlet.replay.port;
    }
    return status;
}

static enum status publisher_make(struct kv_publisher *publisher,
                                  char error[kv_publisher_error_size])
{
    const struct kv_publisher_options *options = &publisher->options;
    publisher->pending = pages_reserve(sizeof(struct pending));
    if (publisher->pending == NULL ||
        kv_log_init(&publisher->log, options->batches_max, options->log_size_max) != STATUS_OK) {
        snprintf(error, kv_publisher_error_size, "no memory for KV events");
        return STATUS_EXHAUSTED;
    }
    enum status status = kv_publisher_start(publisher);
    if (status == STATUS_MALFORMED) {
        snprintf(error, kv_publisher_error_size, "'%s' is not an IP address", options->host);
    } else if (status != STATUS_OK) {
        snprintf(error, kv_publisher_error_size,
                 "cannot listen on %s for KV events, ports %u and %u: %s", options->host,
                 options->port, options->replay_port, strerrordesc_np(errno));
    }
    return status;
}

enum status kv_publisher_create(const struct kv_publisher_options *options,
                                struct kv_publisher **out, char error[kv_publisher_error_size])
{
    const char *topic = options->topic != NULL ? options->topic : "";
    if (strlen(topic) > kv_publisher_topic_max) {
        snprintf(error, kv_publisher_error_size, "a topic has at most %d bytes",
                 (int)kv_publisher_topic_max);
        return STATUS_TOO_LARGE;
    }
    ASSERT(options->block_tokens > 0);
    struct kv_publisher *publisher = calloc(1, sizeof(*publisher));
    if (publisher == NULL) {
        snprintf(error, kv_publisher_error_size, "no memory for KV events");
        return STATUS_EXHAUSTED;
    }
    publisher->options = *options;
    publisher->rng.state = options->seed;
    memcpy(publisher->topic, topic, strlen(topic) + 1);
    if (options->format == NULL) {
        publisher->options.format = kv_event_format_at(0);
    }
    if (options->batches_max == 0) {
        publisher->options.batches_max = kv_publisher_batches_default;
    }
    if (options->log_size_max == 0) {
        publisher->options.log_size_max = kv_publisher_log_size_default;
    }
    enum status status = publisher_make(publisher, error);
    if (status != STATUS_OK) {
        kv_publisher_destroy(&publisher);
        return status;
    }
    *out = publisher;
    return STATUS_OK;
}

void kv_publisher_destroy(struct kv_publisher **publisher_ptr)
{
    struct kv_publisher *publisher = *publisher_ptr;
    *publisher_ptr = NULL;

    if (publisher == NULL) {
        return;
    }
    kv_publisher_stop(publisher);
    kv_log_fini(&publisher->log);
    pages_release(&publisher->pending, sizeof(struct pending));
    free(publisher);
}

// Whether an event that continues the last one can become a part of it.
static bool publisher_continues(const struct kv_publisher *publisher,
                                const struct pending_event *event)
{
    if (!publisher->options.format->merges || publisher->event_count == 0) {
        return false;
    }
    const struct pending_event *last = &publisher->pending->events[publisher->event_count - 1];
    if (event->kind != last->kind || event->tier != last->tier) {
        return false;
    }
    return event->kind == KV_EVENT_REMOVED ||
           (event->kind == KV_EVENT_STORED && event->has_parent &&
            event->lora_name == last->lora_name && event->salt == last->salt &&
            event->parent == publisher->pending->hashes[publisher->hash_count - 1]);
}

// Counts an event that does not fit.
static void publisher_lose_event(struct kv_publisher *publisher)
{
    publisher->is_lossy = true;
    publisher->lost_count++;
}

// `hashes` and `tokens` are as many as the event says; NULL when there are none.
static void publisher_add_event(struct kv_publisher *publisher, const struct pending_event *event,
                                const uint64_t *hashes, const uint32_t *tokens)
{
    struct pending *pending = publisher->pending;

    if (publisher->event_count == event_count_max ||
        event->hash_count > kv_publisher_pending_blocks_max - publisher->hash_count ||
        event->token_count > kv_publisher_pending_tokens_max - publisher->token_count) {
        publisher_lose_event(publisher);
        return;
    }
    if (publisher_continues(publisher, event)) {
        struct pending_event *last = &pending->events[publisher->event_count - 1];
        last->hash_count += event->hash_count;
        last->token_count += event->token_count;
    } else {
        pending->events[publisher->event_count++] = *event;
    }
    if (hashes != NULL) {
        memcpy(pending->hashes + publisher->hash_count, hashes,
               event->hash_count * sizeof(*hashes));
    }
    if (tokens != NULL) {
        memcpy(pending->tokens + publisher->token_count, tokens,
               event->token_count * sizeof(*tokens));
    }
    if (event->lora_name != NULL) {
        publisher->names_size +=
            (name_overhead + strlen(event->lora_name)) * (1 + (size_t)event->hash_count);
    }
    if (event->salt != NULL) {
        publisher->names_size += name_overhead + strlen(event->salt) + salt_overhead;
    }
    publisher->hash_count += event->hash_count;
    publisher->token_count += event->token_count;
}

// A copy that lasts until the flush; NULL: no room.  Consecutive events with equal salts share one.
static const char *publisher_keep_salt(struct kv_publisher *publisher, const char *salt)
{
    size_t size = strlen(salt) + 1;

    if (publisher->last_salt != NULL && strcmp(publisher->last_salt, salt) == 0) {
        return publisher->last_salt;
    }
    if (size > kv_publisher_pending_salts_max - publisher->salts_size) {
        return NULL;
    }
    publisher->last_salt = memcpy(publisher->pending->salts + publisher->salts_size, salt, size);
    publisher->salts_size += (uint32_t)size;
    return publisher->last_salt;
}

static bool publisher_has_tier(const struct kv_publisher *publisher, enum kv_tier tier)
{
    return tier == KV_TIER_GPU || publisher->options.format->host_medium != NULL;
}

void kv_publisher_stored(struct kv_publisher *publisher, const struct kv_stored *stored)
{
    uint64_t token_count = (uint64_t)stored->count * publisher->options.block_tokens;
    ASSERT(stored->count > 0);
    if (!publisher_has_tier(publisher, stored->tier)) {
        return;
    }
    struct pending_event event = {
        .kind = KV_EVENT_STORED,
        .tier = stored->tier,
        .hash_count = stored->count,
        .token_count = token_count < UINT32_MAX ? (uint32_t)token_count : UINT32_MAX,
        .has_parent = stored->has_parent,
        .parent = stored->parent,
        .lora_name = stored->lora_name,
        .lora_id = stored->lora_id,
    };
    if (stored->salt != NULL) {
        event.salt = publisher_keep_salt(publisher, stored->salt);
        if (event.salt == NULL) {
            publisher_lose_event(publisher);
            return;
        }
    }
    publisher_add_event(publisher, &event, stored->keys, stored->token_ids);
}

void kv_publisher_removed(struct kv_publisher *publisher, enum kv_tier tier, uint64_t key)
{
    if (publisher_has_tier(publisher, tier)) {
        publisher_add_event(
            publisher,
            &(struct pending_event){.kind = KV_EVENT_REMOVED, .tier = tier, .hash_count = 1}, &key,
            NULL);
    }
}

void kv_publisher_cleared(struct kv_publisher *publisher)
{
    publisher_add_event(publisher, &(struct pending_event){.kind = KV_EVENT_CLEARED}, NULL, NULL);
}

static void write_events(const struct kv_publisher *publisher, struct text *out)
{
    struct kv_hash_form form = {.format = publisher->options.format,
                                .is_digest = publisher->options.is_digest};
    const struct pending *pending = publisher->pending;
    const uint64_t *hashes = pending->hashes;
    const uint32_t *tokens = pending->tokens;

    for (uint32_t i = 0; i < publisher->event_count; i++) {
        const struct pending_event *event = &pending->events[i];
        bool is_host = event->tier == KV_TIER_HOST;
        kv_event_write(form,
                       &(struct kv_event){.kind = event->kind,
                                          .hashes = hashes,
                                          .hash_count = event->hash_count,
                                          .has_parent = event->has_parent,
                                          .parent = event->parent,
                                          .tokens = tokens,
                                          .token_count = event->token_count,
                                          .block_tokens = publisher->options.block_tokens,
                                          .lora_id = event->lora_id,
                                          .lora_name = event->lora_name,
                                          .salt = event->salt,
                                          .medium = is_host ? form.format->host_medium : "GPU",
                                          .has_group = true,
                                          // vLLM's offloading connector names the medium, not the
                                          // kind.
                                          .spec_kind = is_host ? NULL : "full_attention",
                                          .locality = is_host ? "LOCAL" : NULL},
                       out);
        hashes += event->hash_count;
        tokens += event->token_count;
    }
}

// NULL when memory is short.
static struct kv_message *make_batch(const struct kv_publisher *publisher, double wall_seconds)
{
    size_t events_max = (size_t)publisher->event_count * event_overhead +
                        (size_t)publisher->hash_count * hash_size_max +
                        (size_t)publisher->token_count * token_size_max + publisher->names_size;
    size_t batch_max = events_max + kv_batch_overhead;
    uint8_t *space = malloc(events_max);
    struct kv_message *message = malloc(sizeof(*message) + batch_max);
    if (space == NULL || message == NULL) {
        free(space);
        free(message);
        return NULL;
    }
    struct text events = text_over(space, events_max);
    struct text batch = text_over(message->bytes, batch_max);
    write_events(publisher, &events);
    kv_batch_write(publisher->options.format,
                   &(struct kv_batch){.seconds = wall_seconds,
                                      .events = text_slice(&events),
                                      .event_count = publisher->event_count,
                                      .rank = publisher->options.rank},
                   &batch);
    ASSERT(!events.overflow && !batch.overflow);
    free(space);
    message->sequence = publisher->next_sequence;
    message->size = batch.size;
    // The log keeps thousands of these: give back the room for the longest form.
    struct kv_message *shrunk = realloc(message, sizeof(*message) + message->size);
    return shrunk != NULL ? shrunk : message;
}

void kv_publisher_set_loss(struct kv_publisher *publisher, double share)
{
    publisher->lost_share = share;
}

static bool publisher_loses_batch(struct kv_publisher *publisher)
{
    return publisher->lost_share > 0 &&
           (double)(rng_next(&publisher->rng) >> 11) * 0x1p-53 < publisher->lost_share;
}

void kv_publisher_flush(struct kv_publisher *publisher, double wall_seconds)
{
    if (publisher->is_lossy) {
        publisher->next_sequence++; // stands for the lost events
    }
    if (publisher->event_count == 0) {
        publisher->is_lossy = false;
        return;
    }
    struct kv_message *message = make_batch(publisher, wall_seconds);
    publisher->next_sequence++;
    publisher_forget_pending(publisher);
    bool reaches_subscribers = !publisher_loses_batch(publisher);
    if (message == NULL || kv_log_append(&publisher->log, &message) != STATUS_OK) {
        publisher->lost_count++;
        return;
    }
    publisher->batch_count++;
    if (reaches_subscribers) {
        kv_outlet_publish(&publisher->outlet, kv_log_at(&publisher->log, publisher->log.end - 1));
    }
}

void kv_publisher_status(const struct kv_publisher *publisher, struct kv_publisher_status *out)
{
    *out = (struct kv_publisher_status){
        .next_sequence = publisher->next_sequence,
        .batch_count = publisher->batch_count,
        .lost_count = publisher->lost_count,
        .log_size = publisher->log.size,
        .log_batches = (uint32_t)(publisher->log.end - publisher->log.oldest),
        .subscription_count = publisher->outlet.subscription_count,
        .subscriber_count = publisher->outlet.subscriber_count,
        .port = publisher->options.port,
        .replay_port = publisher->options.replay_port,
    };
}
