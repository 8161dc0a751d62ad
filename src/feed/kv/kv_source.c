// SPDX-License-Identifier: Apache-2.0

#include "feed/kv/kv_source.h"

#include "base/base.h"
#include "feed/kv/kv_board.h"
#include "fleet/backend.h"
#include "kvevent/kv_json.h"
#include "sys/clock.h"
#include "sys/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    number_size = 8,
    // Losses, and restarts, within this time are logged once.
    incident_ms = 60000,
    // Engines take minutes to start, but a wrong port should be found sooner.
    absent_ms = 10000,
};

// Before the number, a replay has an empty frame, and newer engines a topic.
enum { replay_frames_min = 2, replay_frames_max = 4 };

struct kv_source {
    struct backend *backend;
    struct kv_sockets *sockets;
    struct kv_follower *follower;
    struct kv_socket *live;   // NULL: the caller feeds it
    struct kv_socket *replay; // NULL: none in flight
    void (*ready)(void *owner);
    void *owner;
    bool is_connected;
    bool has_message;
    uint64_t message_ms; // of the last one
    uint64_t lag_ms;     // UINT64_MAX: unknown
    unsigned lives;      // this and `wrong`: as read last from the backend
    unsigned wrong;
    uint64_t distrusted_ms;       // UINT64_MAX: never
    enum kv_follower_state state; // as the backend shows it
    // The last log lines.
    uint64_t said_gap_ms; // this and the next, UINT64_MAX: never
    uint64_t said_restart_ms;
    uint64_t said_lost;
    uint64_t said_restarts;
    uint64_t looked_ms; // at first; 0: not yet
    bool said_absent;
    bool said_malformed;
    bool said_refused;
    bool said_live; // and no fault since
    char address[kv_source_address_size];
};

static unsigned lives_of(const struct backend *backend)
{
    return atomic_load_explicit(&backend->shared.lives, memory_order_relaxed);
}

static unsigned wrong_of(const struct backend *backend)
{
    return atomic_load_explicit(&backend->shared.events_wrong, memory_order_relaxed);
}

static void source_subscribe(struct kv_source *source)
{
    char error[kv_socket_error_size];
    struct kv_socket_options options = {
        .address = source->backend->events,
        .topic = source->backend->events_topic,
        .ready = source->ready,
        .owner = source->owner,
    };
    if (kv_socket_subscribe(source->sockets, &options, &source->live, error) != STATUS_OK) {
        log_error_seldom(source->backend->id, "backend %s: KV events: subscription failed: %s",
                         source->backend->url, error);
    }
}

struct kv_source *kv_source_open(const struct kv_source_options *options)
{
    struct backend *backend = options->backend;
    struct kv_source *source = calloc(1, sizeof(*source));
    if (source == NULL) {
        return NULL;
    }
    struct kv_follower_options follower = {
        .holdings = options->holdings,
        .reader = options->reader,
        .has_replay = backend->events_replay != NULL,
    };
    follower.holdings.backend = backend->slot;
    *source = (struct kv_source){
        .backend = backend,
        .sockets = options->sockets,
        .follower = kv_follower_create(&follower),
        .ready = options->ready,
        .owner = options->owner,
        .lives = lives_of(backend),
        .wrong = wrong_of(backend),
        .distrusted_ms = UINT64_MAX,
        .lag_ms = UINT64_MAX,
        .said_gap_ms = UINT64_MAX,
        .said_restart_ms = UINT64_MAX,
    };
    if (source->follower == NULL) {
        free(source);
        return NULL;
    }
    bool has_own =
        options->shared_address == NULL && backend->events != NULL && !backend_is_polled(backend);
    const char *address = options->shared_address != NULL ? options->shared_address
                          : has_own                       ? backend->events
                                                          : "pushed or polled documents";
    (void)snprintf(source->address, sizeof(source->address), "%s", address);
    if (has_own) {
        source_subscribe(source);
    }
    return source;
}

void kv_source_close(struct kv_source **source_ptr)
{
    struct kv_source *source = *source_ptr;
    *source_ptr = NULL;

    if (source == NULL) {
        return;
    }
    atomic_store_explicit(&source->backend->shared.events, BACKEND_EVENTS_NONE,
                          memory_order_relaxed);
    kv_socket_close(&source->live);
    kv_socket_close(&source->replay);
    kv_follower_destroy(&source->follower);
    free(source);
}

static bool read_sequence_number(struct slice frame, uint64_t *out)
{
    uint64_t number = 0;
    if (frame.size != number_size) {
        return false;
    }
    memcpy(&number, frame.bytes, number_size);
    *out = __builtin_bswap64(number);
    return true;
}

// The age of the last batch at its arrival, by the clocks of two machines; a batch from the future
// has age 0.
static void source_note_lag(struct kv_source *source)
{
    double lag_ms = (double)clock_wall_ms() - kv_follower_seconds(source->follower) * 1000;
    bool is_known = lag_ms < (double)UINT32_MAX; // and not NaN
    source->lag_ms = !is_known ? UINT64_MAX : lag_ms > 0 ? (uint64_t)lag_ms : 0;
}

void kv_source_take(struct kv_source *source, const struct kv_frames *message, uint64_t now_ms)
{
    struct kv_numbered numbered;

    source->has_message = true;
    source->message_ms = now_ms;
    if (message->count != 3 || !read_sequence_number(message->frames[1], &numbered.number)) {
        kv_follower_malformed(source->follower);
        return;
    }
    numbered.payload = message->frames[2];
    kv_follower_live(source->follower, &numbered, now_ms);
    source_note_lag(source);
}

// False at the end of the replay.
static bool source_take_replayed(struct kv_source *source, const struct kv_frames *message,
                                 uint64_t now_ms)
{
    struct kv_numbered numbered;
    uint32_t count = message->count;

    if (count < replay_frames_min || count > replay_frames_max ||
        !read_sequence_number(message->frames[count - 2], &numbered.number)) {
        kv_follower_malformed(source->follower);
        return true;
    }
    numbered.payload = message->frames[count - 1];
    if (numbered.number == UINT64_MAX || numbered.payload.size == 0) {
        kv_follower_replay_ended(source->follower, now_ms);
        return false;
    }
    kv_follower_replayed(source->follower, &numbered, now_ms);
    return true;
}

// Takes at most count_max messages.  True: there may be more.
static bool source_take_live(struct kv_source *source, uint32_t count_max, uint64_t now_ms)
{
    struct kv_frames message;

    for (uint32_t i = 0; i < count_max; i++) {
        if (kv_socket_receive(source->live, &message) != STATUS_OK) {
            return false;
        }
        kv_source_take(source, &message, now_ms);
    }
    return true;
}

static bool source_take_replay(struct kv_source *source, uint64_t now_ms)
{
    struct kv_frames message;

    for (uint32_t i = 0; i < kv_source_replay_max; i++) {
        if (kv_socket_receive(source->replay, &message) != STATUS_OK) {
            return false;
        }
        if (!source_take_replayed(source, &message, now_ms)) {
            kv_socket_close(&source->replay);
            return false;
        }
    }
    return true;
}

static void source_read_monitor(struct kv_source *source, uint64_t now_ms)
{
    for (;;) {
        switch (kv_socket_news(source->live)) {
        case KV_SOCKET_NO_NEWS:
            return;
        case KV_SOCKET_CONNECTED:
            source->is_connected = true;
            source->said_absent = true; // a connection that is lost later is logged at once
            kv_follower_connected(source->follower, now_ms);
            break;
        case KV_SOCKET_DISCONNECTED:
            // Messages of the old process still wait, and come before its end.
            (void)source_take_live(source, kv_socket_waiting_max, now_ms);
            if (source->is_connected) {
                log_info_seldom(source->backend->id, "backend %s: KV events: disconnected from %s",
                                source->backend->url, source->address);
                source->said_live = false;
            }
            source->is_connected = false;
            kv_follower_disconnected(source->follower);
            break;
        }
    }
}

static void source_ask_replay(struct kv_source *source, uint64_t from)
{
    char error[kv_socket_error_size];
    struct kv_socket_options options = {
        .address = source->backend->events_replay,
        .ready = source->ready,
        .owner = source->owner,
    };
    kv_socket_close(&source->replay);
    if (kv_socket_ask(source->sockets, &options, from, &source->replay, error) != STATUS_OK) {
        // The follower treats a missing replay as one that timed out.
        log_error_seldom(source->backend->id, "backend %s: KV events: replay request failed: %s",
                         source->backend->url, error);
    }
}

static void source_take_action(struct kv_source *source, uint64_t now_ms)
{
    struct kv_follower_action action = kv_follower_next_action(source->follower, now_ms);

    if (action.drops_replay) {
        kv_socket_close(&source->replay);
    }
    if (action.wants_replay) {
        source_ask_replay(source, action.from);
    }
}

static bool is_new_incident(uint64_t *said_ms, uint64_t now_ms)
{
    bool is_new = *said_ms == UINT64_MAX || now_ms - *said_ms >= incident_ms;
    *said_ms = is_new ? now_ms : *said_ms;
    return is_new;
}

static void source_log_faults(struct kv_source *source, uint64_t now_ms)
{
    const struct kv_follower_counts *counts = kv_follower_counts(source->follower);
    const char *url = source->backend->url;

    if (counts->restarts != source->said_restarts &&
        is_new_incident(&source->said_restart_ms, now_ms)) {
        log_info("backend %s: KV events: restarted: its recorded blocks are dropped", url);
        source->said_restarts = counts->restarts;
        source->said_live = false;
    }
    if (counts->lost != source->said_lost && is_new_incident(&source->said_gap_ms, now_ms)) {
        log_warn("backend %s: KV events: %" PRIu64 " messages lost: %s", url,
                 counts->lost - source->said_lost,
                 source->backend->events_replay != NULL ? "asking for a replay"
                                                        : "its recorded blocks are dropped");
        source->said_lost = counts->lost;
        source->said_live = false;
    }
    if (counts->malformed != 0 && !source->said_malformed) {
        log_warn("backend %s: KV events: malformed message from %s", url, source->address);
        source->said_malformed = true;
    }
    if (kv_holdings_counts(kv_follower_holdings(source->follower))->refused != 0 &&
        !source->said_refused) {
        log_warn("backend %s: KV events: blocks refused: memory is full (events.memory)", url);
        source->said_refused = true;
    }
}

static void source_set_state(struct kv_source *source)
{
    static const enum backend_events words[] = {
        [KV_SILENT] = BACKEND_EVENTS_NONE,
        [KV_LEARNING] = BACKEND_EVENTS_LEARNING,
        [KV_LIVE] = BACKEND_EVENTS_LIVE,
    };
    struct backend *backend = source->backend;
    enum kv_follower_state state = kv_follower_state(source->follower);
    uint32_t block_tokens = kv_holdings_block_tokens(kv_follower_holdings(source->follower));

    if (block_tokens != 0) {
        atomic_store_explicit(&backend->load.told_block_tokens, block_tokens, memory_order_relaxed);
    }
    if (state == source->state) {
        return;
    }
    // Release: a reader of the state sees the ledger that it describes.
    atomic_store_explicit(&backend->shared.events, words[state], memory_order_release);
    if (state == KV_LIVE && !source->said_live) {
        log_info_seldom(backend->id, "backend %s: KV events: live: from %s", backend->url,
                        source->address);
        source->said_live = true;
    } else if (source->state == KV_SILENT && state == KV_LEARNING) {
        log_info_seldom(backend->id, "backend %s: KV events: learning: first message from %s",
                        backend->url, source->address);
    }
    source->state = state;
}

bool kv_source_work(struct kv_source *source, uint64_t now_ms)
{
    bool has_more = false;

    if (source->live != NULL) {
        source_read_monitor(source, now_ms);
        has_more |= source_take_live(source, kv_source_live_max, now_ms);
    }
    if (source->replay != NULL) {
        has_more |= source_take_replay(source, now_ms);
    }
    source_take_action(source, now_ms);
    source_log_faults(source, now_ms);
    source_set_state(source);
    return has_more;
}

static void source_log_absence(struct kv_source *source, uint64_t now_ms)
{
    source->looked_ms = source->looked_ms == 0 ? now_ms : source->looked_ms;
    if (source->live == NULL || source->said_absent || now_ms - source->looked_ms < absent_ms) {
        return;
    }
    log_warn("backend %s: KV events: no publisher at %s yet", source->backend->url,
             source->address);
    source->said_absent = true;
}

static bool source_has_events(const struct kv_source *source)
{
    return kv_follower_next(source->follower) > 0 ||
           kv_holdings_block_count(kv_follower_holdings(source->follower)) > 0;
}

void kv_source_look(struct kv_source *source, uint64_t now_ms)
{
    struct backend *backend = source->backend;
    unsigned lives = lives_of(backend);
    unsigned wrong = wrong_of(backend);
    bool may_distrust = source->distrusted_ms == UINT64_MAX ||
                        now_ms - source->distrusted_ms >= kv_source_distrust_ms;

    kv_follower_set_capacity(
        source->follower, atomic_load_explicit(&backend->load.cache_tokens, memory_order_relaxed));
    // A process that ends closes its connections: an open one shows that the server was only slow
    // to respond.  Without a connection, probes and requests decide.
    if (lives != source->lives && !source->is_connected && source_has_events(source)) {
        kv_follower_restarted(source->follower, now_ms);
    }
    source->lives = lives;
    // Responses that come shortly after were predicted before: they are not further proof.
    if (wrong != source->wrong && may_distrust) {
        source->distrusted_ms = now_ms;
        log_warn_seldom(backend->id,
                        "backend %s: KV events: contradicted by responses: learning anew",
                        backend->url);
        source->said_live = false;
        kv_follower_distrust(source->follower);
    }
    source->wrong = wrong;
    source_take_action(source, now_ms);
    source_log_absence(source, now_ms);
    source_log_faults(source, now_ms);
    source_set_state(source);
}

// Read twice: the ids of all events must be known before the first event is noted.
void kv_source_push(struct kv_source *source, struct kv_json *reader, struct slice document,
                    uint64_t now_ms)
{
    struct kv_json_owner owner = {source->backend->id, source->backend->rank};
    struct kv_notice notice;
    struct kv_json_ids ids;

    source->has_message = true;
    source->message_ms = now_ms;
    if (kv_json_begin(reader, document, &owner) != STATUS_OK) {
        kv_follower_malformed(source->follower);
        return;
    }
    while (kv_json_next(reader, &notice) == STATUS_OK) {
    }
    ids = kv_json_ids(reader);
    if (ids.is_numbered) {
        // A gap between them counts as a gap before the last.
        kv_follower_begin_polled(source->follower, ids.is_broken ? ids.last : ids.first, ids.last);
    }
    ASSERT(kv_json_begin(reader, document, &owner) == STATUS_OK);
    while (kv_json_next(reader, &notice) == STATUS_OK) {
        kv_follower_apply(source->follower, &notice, now_ms);
    }
}

void kv_source_status(const struct kv_source *source, uint64_t now_ms, struct kv_feed_status *out)
{
    const struct kv_follower *follower = source->follower;
    const struct kv_holdings *holdings = kv_follower_holdings(follower);

    *out = (struct kv_feed_status){
        .state = kv_follower_state(follower),
        .is_connected = source->is_connected,
        .next_number = kv_follower_next(follower),
        .block_count = kv_holdings_block_count(holdings),
        .block_tokens = kv_holdings_block_tokens(holdings),
        .orphan_count = kv_holdings_orphan_count(holdings),
        .last_ms = source->has_message ? now_ms - source->message_ms : UINT64_MAX,
        .lag_ms = source->lag_ms,
        .follower = *kv_follower_counts(follower),
        .holdings = *kv_holdings_counts(holdings),
    };
}
