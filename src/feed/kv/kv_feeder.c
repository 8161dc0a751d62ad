// SPDX-License-Identifier: Apache-2.0

#include "feed/kv/kv_feeder.h"

#include "base/base.h"
#include "base/reclaim.h"
#include "feed/kv/kv_inbox.h"
#include "feed/kv/kv_source.h"
#include "fleet/fleet.h"
#include "kvevent/kv_json.h"
#include "sys/log.h"
#include "sys/loop.h"
#include "sys/pages.h"
#include "sys/thread.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    // Also the longest that the fleet waits for this thread to release a view.
    look_ms = 50,
    bind_message_max = 256, // of one bound socket in one turn
    source_step = 16,       // entries by which the list grows
};

// One followed backend.  It does not move, because sockets keep a pointer to it.
struct entry {
    struct kv_feeder *feeder;
    struct kv_source *source;
    uint64_t id;
    bool is_ready;
    bool is_in_view;
};

// A socket that engines connect to and share.
struct bound_socket {
    struct kv_feeder *feeder;
    struct kv_socket *socket;
    bool is_ready;
    char address[kv_feeder_address_size];
};

struct kv_feeder {
    struct kv_feeder_options options;
    struct thread *thread;
    struct loop *loop;
    struct kv_sockets *sockets;
    struct kv_reader *reader;
    struct kv_names_budget budget;
    struct timer timer;
    const struct fleet_view *view;
    uint64_t generation; // of the view that the entries are for; 0: none
    struct entry **entries;
    uint32_t entry_count;
    uint32_t entry_capacity;
    struct bound_socket bound_sockets[kv_feeder_bind_max];
    struct kv_board board;
    struct kv_inbox inbox;
    struct kv_json *json; // made when first needed
    bool logged_stray;
    // Written by the thread, read by the keeper.
    struct {
        _Alignas(64) atomic_uint_fast64_t stray_count;
    } shared;
};

static void entry_ready(void *owner)
{
    struct entry *entry = owner;
    entry->is_ready = true;
}

static void bound_ready(void *owner)
{
    struct bound_socket *bound = owner;
    bound->is_ready = true;
}

static void entry_close(struct entry **entry_ptr)
{
    struct entry *entry = *entry_ptr;
    *entry_ptr = NULL;
    kv_source_close(&entry->source);
    free(entry);
}

static bool feeder_make_room(struct kv_feeder *feeder)
{
    if (feeder->entry_count < feeder->entry_capacity) {
        return true;
    }
    uint32_t capacity = feeder->entry_capacity + source_step;
    struct entry **entries = reallocarray(feeder->entries, capacity, sizeof(struct entry *));
    if (entries == NULL) {
        return false;
    }
    feeder->entries = entries;
    feeder->entry_capacity = capacity;
    return true;
}

// NULL when memory is short; the next view tries again.
static struct entry *entry_open(struct kv_feeder *feeder, struct backend *backend,
                                const char *shared_address)
{
    struct entry *entry = feeder_make_room(feeder) ? calloc(1, sizeof(*entry)) : NULL;
    if (entry == NULL) {
        return NULL;
    }
    *entry = (struct entry){.feeder = feeder, .id = backend->id, .is_ready = true};
    entry->source = kv_source_open(&(struct kv_source_options){
        .backend = backend,
        .sockets = feeder->sockets,
        .holdings = {.ledger = feeder->options.ledger,
                     .budget = &feeder->budget,
                     .is_set = feeder->options.is_set},
        .reader = feeder->reader,
        .shared_address = shared_address,
        .ready = entry_ready,
        .owner = entry,
    });
    if (entry->source == NULL) {
        free(entry);
        return NULL;
    }
    feeder->entries[feeder->entry_count++] = entry;
    return entry;
}

static struct entry *feeder_entry(const struct kv_feeder *feeder, uint64_t id)
{
    for (uint32_t i = 0; i < feeder->entry_count; i++) {
        if (feeder->entries[i]->id == id) {
            return feeder->entries[i];
        }
    }
    return NULL;
}

// Before new ones are opened, which may have got their slots.
static void feeder_close_removed(struct kv_feeder *feeder)
{
    for (uint32_t i = 0; i < feeder->view->member_count; i++) {
        struct entry *entry = feeder_entry(feeder, feeder->view->members[i].backend->id);
        if (entry != NULL) {
            entry->is_in_view = true;
        }
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < feeder->entry_count; i++) {
        struct entry *entry = feeder->entries[i];
        if (entry->is_in_view) {
            entry->is_in_view = false;
            feeder->entries[kept++] = entry;
        } else {
            entry_close(&entry);
        }
    }
    feeder->entry_count = kept;
}

static bool backend_publishes(const struct backend *backend)
{
    return backend->events != NULL && !backend_is_polled(backend);
}

static void feeder_open_added(struct kv_feeder *feeder)
{
    for (uint32_t i = 0; i < feeder->view->member_count; i++) {
        struct backend *backend = feeder->view->members[i].backend;
        if (backend_publishes(backend) && feeder_entry(feeder, backend->id) == NULL &&
            entry_open(feeder, backend, NULL) == NULL) {
            log_error_seldom(backend->id, "backend %s: KV events: not followed: out of memory",
                             backend->url);
        }
    }
}

// Between turns, so that nothing of an older view is held when the epoch is announced.
static void feeder_follow_fleet(struct kv_feeder *feeder)
{
    struct reclaim *reclaim = feeder->options.reclaim;
    uint64_t epoch = reclaim_epoch(reclaim);

    feeder->view = fleet_view(feeder->options.fleet);
    if (feeder->view->generation != feeder->generation) {
        feeder_close_removed(feeder);
        feeder_open_added(feeder);
        feeder->generation = feeder->view->generation;
    }
    reclaim_announce(reclaim, feeder->options.reader, epoch);
}

// The address in kv@HOST:PORT@MODEL; empty if the topic has another form.
static struct slice topic_address(struct slice topic)
{
    if (!slice_starts_with(topic, "kv@")) {
        return (struct slice){0};
    }
    const uint8_t *begin = topic.bytes + 3;
    const uint8_t *end = memchr(begin, '@', topic.size - 3);
    return end == NULL ? (struct slice){0} : slice_of(begin, (size_t)(end - begin));
}

// The backend whose messages have this topic, among those without a socket of their own; NULL:
// none.
static struct backend *backend_by_topic(const struct fleet_view *view, struct slice topic)
{
    struct slice address = topic_address(topic);
    struct backend *best = NULL;
    size_t best_size = 0;

    for (uint32_t i = 0; i < view->member_count; i++) {
        struct backend *backend = view->members[i].backend;
        const char *prefix = backend->events_topic == NULL ? "" : backend->events_topic;
        size_t size = strlen(prefix);
        if (backend->events != NULL) {
            continue;
        }
        if (size > best_size && slice_starts_with(topic, prefix)) {
            best = backend;
            best_size = size;
        } else if (best == NULL && size == 0 && address.size > 0 &&
                   slice_is(address, backend->authority)) {
            best = backend;
        }
    }
    return best;
}

// The rank that a batch names, or negative.
static int64_t batch_rank(struct kv_reader *reader, struct slice payload)
{
    struct kv_notice notice;
    enum status status = kv_reader_begin(reader, payload);

    while (status == STATUS_OK) {
        status = kv_reader_next(reader, &notice);
    }
    return status == STATUS_CLOSED ? kv_reader_rank(reader) : -1;
}

// Ranks of a server share its topic and address, so only their batches tell them apart.
static struct backend *message_backend(struct kv_feeder *feeder, const struct kv_frames *message)
{
    const struct fleet_view *view = feeder->view;
    struct backend *found = backend_by_topic(view, message->frames[0]);

    if (found == NULL || found->rank_count <= 1 || message->count != 3) {
        return found;
    }
    int64_t rank = batch_rank(feeder->reader, message->frames[2]);
    for (uint32_t i = 0; i < view->member_count; i++) {
        struct backend *backend = view->members[i].backend;
        if (backend->server == found->server && backend->rank == rank) {
            return backend;
        }
    }
    return NULL;
}

static void feeder_count_stray(struct kv_feeder *feeder, const struct bound_socket *bound,
                               struct slice topic)
{
    atomic_fetch_add_explicit(&feeder->shared.stray_count, 1, memory_order_relaxed);
    if (!feeder->logged_stray) {
        log_warn("KV events at %s: stray message: topic '%.*s' belongs to no backend",
                 bound->address, (int)(topic.size < 200 ? topic.size : 200),
                 (const char *)topic.bytes);
        feeder->logged_stray = true;
    }
}

static void bound_deliver(struct bound_socket *bound, const struct kv_frames *message,
                          uint64_t now_ms)
{
    struct kv_feeder *feeder = bound->feeder;
    struct backend *backend = message_backend(feeder, message);
    struct entry *entry = backend != NULL ? feeder_entry(feeder, backend->id) : NULL;

    if (backend == NULL) {
        feeder_count_stray(feeder, bound, message->frames[0]);
        return;
    }
    entry = entry != NULL ? entry : entry_open(feeder, backend, bound->address);
    if (entry != NULL) {
        kv_source_take(entry->source, message, now_ms);
        entry->is_ready = true;
    }
}

static struct backend *backend_by_id(const struct fleet_view *view, uint64_t id)
{
    for (uint32_t i = 0; i < view->member_count; i++) {
        if (view->members[i].backend->id == id) {
            return view->members[i].backend;
        }
    }
    return NULL;
}

// Drops the document if the backend was removed meanwhile.
static void feeder_take_document(struct kv_feeder *feeder, const struct kv_document *document,
                                 uint64_t now_ms)
{
    struct backend *backend = backend_by_id(feeder->view, document->backend_id);
    struct entry *entry = feeder_entry(feeder, document->backend_id);

    if (backend != NULL && entry == NULL) {
        entry = entry_open(feeder, backend, NULL);
    }
    if (feeder->json == NULL) {
        feeder->json = kv_json_create();
    }
    if (entry == NULL || feeder->json == NULL) {
        return;
    }
    kv_source_push(entry->source, feeder->json, document->bytes, now_ms);
    entry->is_ready = true;
}

// One document a turn, because it may be large.
static bool inbox_work(struct kv_feeder *feeder, uint64_t now_ms)
{
    struct kv_document *document = kv_inbox_take(&feeder->inbox);

    if (document == NULL) {
        return false;
    }
    feeder_take_document(feeder, document, now_ms);
    kv_inbox_give_back(&feeder->inbox, &document);
    return true;
}

static bool bound_work(struct bound_socket *bound, uint64_t now_ms)
{
    struct kv_frames message;

    for (uint32_t i = 0; i < bind_message_max; i++) {
        if (kv_socket_receive(bound->socket, &message) != STATUS_OK) {
            return false;
        }
        bound_deliver(bound, &message, now_ms);
    }
    return true;
}

static void feeder_turn(void *owner)
{
    struct kv_feeder *feeder = owner;
    uint64_t now_ms = loop_now_ms(feeder->loop);

    feeder_follow_fleet(feeder);
    bool has_more = inbox_work(feeder, now_ms);
    for (uint32_t i = 0; i < feeder->options.bind_count; i++) {
        struct bound_socket *bound = &feeder->bound_sockets[i];
        bound->is_ready = bound->is_ready && bound_work(bound, now_ms);
        has_more |= bound->is_ready;
    }
    for (uint32_t i = 0; i < feeder->entry_count; i++) {
        struct entry *entry = feeder->entries[i];
        bool is_ready = entry->is_ready;
        entry->is_ready =
            false; // first, because the work may open a socket, which is ready at once
        if (is_ready && kv_source_work(entry->source, now_ms)) {
            entry->is_ready = true;
        }
        has_more |= entry->is_ready;
    }
    if (has_more) {
        loop_wake(feeder->loop);
    }
}

static void feeder_show(struct kv_feeder *feeder, uint64_t now_ms)
{
    if (!kv_board_begin(&feeder->board, feeder->entry_count)) {
        return; // out of memory; the next look is soon
    }
    for (uint32_t i = 0; i < feeder->entry_count; i++) {
        struct kv_feed_status status;
        kv_source_status(feeder->entries[i]->source, now_ms, &status);
        kv_board_put(&feeder->board, feeder->entries[i]->id, &status);
    }
    kv_board_end(&feeder->board);
}

static void feeder_look(struct timer *timer)
{
    struct kv_feeder *feeder = CONTAINER_OF(timer, struct kv_feeder, timer);
    uint64_t now_ms = loop_now_ms(feeder->loop);

    for (uint32_t i = 0; i < feeder->entry_count; i++) {
        kv_source_look(feeder->entries[i]->source, now_ms);
    }
    feeder_show(feeder, now_ms);
    loop_arm(feeder->loop, &feeder->timer, look_ms);
}

static void feeder_run(void *owner)
{
    struct kv_feeder *feeder = owner;

    feeder_follow_fleet(feeder);
    loop_arm(feeder->loop, &feeder->timer, look_ms);
    loop_run(feeder->loop, feeder_turn, feeder);
    // Purges the ledger, whose only writer is this thread.
    for (uint32_t i = 0; i < feeder->entry_count; i++) {
        entry_close(&feeder->entries[i]);
    }
    feeder->entry_count = 0;
    loop_disarm(feeder->loop, &feeder->timer);
    reclaim_leave(feeder->options.reclaim, feeder->options.reader);
}

static enum status open_bound_sockets(struct kv_feeder *feeder, char error[kv_feeder_error_size])
{
    _Static_assert((int)kv_feeder_error_size >= (int)kv_socket_error_size, "handed on");
    _Static_assert((int)kv_feeder_address_size >= (int)kv_socket_address_size, "handed on");
    for (uint32_t i = 0; i < feeder->options.bind_count; i++) {
        struct bound_socket *bound = &feeder->bound_sockets[i];
        *bound = (struct bound_socket){.feeder = feeder, .is_ready = true};
        enum status status = kv_socket_bind(
            feeder->sockets,
            &(struct kv_socket_options){
                .address = feeder->options.bind[i], .ready = bound_ready, .owner = bound},
            &bound->socket, error);
        if (status != STATUS_OK) {
            return status;
        }
        kv_socket_address(bound->socket, bound->address);
    }
    return STATUS_OK;
}

static void feeder_release(struct kv_feeder **feeder_ptr)
{
    struct kv_feeder *feeder = *feeder_ptr;
    *feeder_ptr = NULL;

    for (uint32_t i = 0; i < feeder->options.bind_count; i++) {
        kv_socket_close(&feeder->bound_sockets[i].socket);
    }
    kv_sockets_destroy(&feeder->sockets);
    loop_destroy(&feeder->loop);
    kv_reader_destroy(&feeder->reader);
    kv_json_destroy(&feeder->json);
    kv_board_fini(&feeder->board);
    kv_inbox_fini(&feeder->inbox);
    pages_release(&feeder->budget.block, feeder->budget.limit);
    free(feeder->entries);
    free(feeder);
}

enum status kv_feeder_start(const struct kv_feeder_options *options, struct kv_feeder **out,
                            char error[kv_feeder_error_size])
{
    ASSERT(options->bind_count <= kv_feeder_bind_max);
    struct kv_feeder *feeder = aligned_alloc(64, sizeof(*feeder));

    (void)snprintf(error, kv_feeder_error_size, "out of memory or file descriptors");
    if (feeder == NULL) {
        return STATUS_IO;
    }
    *feeder = (struct kv_feeder){
        .options = *options,
        .budget = {.limit = options->names_memory,
                   .block = pages_reserve_huge(options->names_memory)},
        .timer.fire = feeder_look,
        .reader = kv_reader_create(),
    };
    kv_board_init(&feeder->board);
    kv_inbox_init(&feeder->inbox);
    bool is_good = feeder->reader != NULL && loop_create(&feeder->loop) == STATUS_OK &&
                   kv_sockets_create(feeder->loop, &feeder->sockets) == STATUS_OK &&
                   open_bound_sockets(feeder, error) == STATUS_OK &&
                   thread_start("events", feeder_run, feeder, &feeder->thread) == STATUS_OK;
    if (!is_good) {
        feeder_release(&feeder);
        return STATUS_IO;
    }
    *out = feeder;
    return STATUS_OK;
}

void kv_feeder_stop(struct kv_feeder **feeder_ptr)
{
    struct kv_feeder *feeder = *feeder_ptr;
    *feeder_ptr = NULL;

    if (feeder != NULL) {
        loop_stop(feeder->loop);
        thread_join(&feeder->thread);
        feeder_release(&feeder);
    }
}

void kv_feeder_wake(struct kv_feeder *feeder)
{
    loop_wake(feeder->loop);
}

const char *kv_feeder_address(const struct kv_feeder *feeder, uint32_t position)
{
    ASSERT(position < feeder->options.bind_count);
    return feeder->bound_sockets[position].address;
}

enum status kv_feeder_push(struct kv_feeder *feeder, uint64_t backend_id, struct slice json)
{
    if (fleet_find(feeder->options.fleet, backend_id) == NULL) {
        return STATUS_CLOSED;
    }
    enum status status = kv_inbox_put(&feeder->inbox, backend_id, json);
    loop_wake(feeder->loop);
    return status;
}

bool kv_feeder_status(struct kv_feeder *feeder, uint64_t backend_id, struct kv_feed_status *out)
{
    return kv_board_find(&feeder->board, backend_id, out);
}

uint64_t kv_feeder_stray_count(const struct kv_feeder *feeder)
{
    return atomic_load_explicit(&feeder->shared.stray_count, memory_order_relaxed);
}
