// SPDX-License-Identifier: Apache-2.0
//
// Batches out and in.  replica_snapshots.c asks for snapshots and gives them.

#include "replica/replica.h"

#include "base/base.h"
#include "replica/replica_internal.h"

#include <stdlib.h>
#include <string.h>

struct replica *replica_create(const struct replica_options *options)
{
    struct replica *replica = calloc(1, sizeof(*replica));
    if (replica == NULL) {
        return NULL;
    }
    ASSERT(options->router != 0);
    replica->options = *options;
    bool is_open =
        projection_open(&replica->projection,
                        &(struct projection_limits){.index = options->index,
                                                    .slot_max = options->backend_max,
                                                    .backend_max = 2 * options->backend_max,
                                                    .open_max = options->open_max,
                                                    .session_max = options->session_max}) &&
        key_window_open_sender(&replica->window, options->window_bits);
    replica->own_loads = calloc(replica->projection.backend_mask + 1, sizeof(*replica->own_loads));
    replica->sums = calloc(replica->projection.backend_mask + 1, sizeof(*replica->sums));
    if (!is_open || replica->own_loads == NULL || replica->sums == NULL) {
        replica_destroy(&replica);
        return NULL;
    }
    replica->projection.sink = options->sink;
    replica->projection.owner = options->owner;
    frame_writer_begin(&replica->batch, &replica->window);
    return replica;
}

static void peer_close(struct peer *peer)
{
    key_window_close(&peer->window);
    free(peer->loads);
    *peer = (struct peer){0};
}

void replica_destroy(struct replica **replica_ptr)
{
    struct replica *replica = *replica_ptr;
    *replica_ptr = NULL;

    if (replica == NULL) {
        return;
    }
    for (uint32_t i = 0; i < replica_peer_max; i++) {
        peer_close(&replica->peers[i]);
    }
    replica_drop_snapshots(replica);
    projection_close(&replica->projection);
    key_window_close(&replica->window);
    free(replica->own_loads);
    free(replica->sums);
    free(replica);
}

void replica_set_now(struct replica *replica, uint64_t now_ms, uint64_t wall_ms)
{
    replica->projection.now_ms = now_ms;
    replica->projection.wall_ms = wall_ms;
}

static uint64_t now_of(const struct replica *replica)
{
    return replica->projection.now_ms;
}

// Loads are kept by the place of the backend in the table.
static uint32_t place_of(const struct replica *replica, const struct shared_backend *backend)
{
    return (uint32_t)(backend - replica->projection.backends);
}

static void tell_load(const struct replica *replica, const struct shared_backend *backend)
{
    if (backend->slot != no_slot) {
        replica->options.sink->load(replica->options.owner, backend->slot,
                                    &replica->sums[place_of(replica, backend)]);
    }
}

// The items of an array by place, in their new places.
static void move_items(void *items, size_t size, const uint32_t *places, uint32_t place_count,
                       uint8_t *space)
{
    memset(space, 0, place_count * size);
    for (uint32_t i = 0; i < place_count; i++) {
        if (places[i] != UINT32_MAX) {
            memcpy(space + i * size, (const uint8_t *)items + places[i] * size, size);
        }
    }
    memcpy(items, space, place_count * size);
}

// A fleet whose backends come and go fills the table with those that went.  Their loads of other
// routers are told again if they come back.
static void replica_compact(struct replica *replica)
{
    uint32_t place_count = replica->projection.backend_mask + 1;
    uint32_t *places = calloc(place_count, sizeof(*places));
    uint8_t *space = calloc(place_count, sizeof(struct record_load));
    _Static_assert(sizeof(struct record_load) >= sizeof(struct replica_load), "room for both");
    replica_drop_given(replica); // it refers to places
    if (places != NULL && space != NULL && projection_compact(&replica->projection, places)) {
        move_items(replica->own_loads, sizeof(struct record_load), places, place_count, space);
        move_items(replica->sums, sizeof(struct replica_load), places, place_count, space);
        for (uint32_t i = 0; i < replica_peer_max; i++) {
            struct peer *peer = &replica->peers[i];
            peer->requests = 0; // without those at backends that went
            if (peer->loads != NULL) {
                move_items(peer->loads, sizeof(struct record_load), places, place_count, space);
            }
            for (uint32_t at = 0; peer->loads != NULL && at < place_count; at++) {
                peer->requests += peer->loads[at].requests;
            }
        }
    }
    free(places);
    free(space);
}

static struct shared_backend *replica_add_backend(struct replica *replica, uint64_t identity)
{
    struct shared_backend *backend = projection_add(&replica->projection, identity);
    if (backend == NULL && identity != 0) {
        replica_compact(replica);
        backend = projection_add(&replica->projection, identity);
    }
    return backend;
}

void replica_set_backend(struct replica *replica, uint64_t identity, uint32_t slot, uint32_t lives)
{
    struct shared_backend *backend = replica_add_backend(replica, identity);
    if (backend == NULL) {
        return;
    }
    backend->is_set = true;
    if (backend->slot == slot) {
        replica_set_lives(replica, identity, lives);
        return;
    }
    // New here: others may know it.
    backend->slot = slot;
    backend->life.lives = lives;
    replica->projection.is_behind = true;
    tell_load(replica, backend);
    projection_tell_settings(&replica->projection, backend);
}

void replica_set_lives(struct replica *replica, uint64_t identity, uint32_t lives)
{
    struct shared_backend *backend = projection_find(&replica->projection, identity);
    if (backend != NULL && backend->slot != no_slot) {
        projection_follow(&replica->projection, backend,
                          life_count(&backend->life, lives, now_of(replica)));
    }
}

void replica_end_backends(struct replica *replica)
{
    for (uint32_t i = 0; i <= replica->projection.backend_mask; i++) {
        struct shared_backend *backend = &replica->projection.backends[i];
        if (!backend->is_set) {
            backend->slot = no_slot;
        }
        backend->is_set = false;
    }
}

static bool has_listeners(const struct replica *replica)
{
    for (uint32_t i = 0; i < replica_peer_max; i++) {
        if (replica->peers[i].is_there) {
            return true;
        }
    }
    return false;
}

static void replica_flush(struct replica *replica)
{
    if (frame_writer_is_empty(&replica->batch)) {
        return;
    }
    replica->sequence++;
    if (!has_listeners(replica)) {
        // A router that comes back sees by the number that it has missed something.
        frame_writer_begin(&replica->batch, &replica->window);
        return;
    }
    struct frame_head head = {
        .kind = FRAME_BATCH, .space = replica->options.space, .sequence = replica->sequence};
    size_t size = frame_writer_end(&replica->batch, &head, replica->frame);
    replica->status.batches_sent++;
    replica->status.bytes_sent += size;
    if (!replica->options.sink->send(replica->options.owner, 0, slice_of(replica->frame, size))) {
        replica->status.batches_dropped++;
    }
}

static void replica_tell(struct replica *replica, const struct shared_backend *backend,
                         struct frame_record record)
{
    for (int tries = 0; tries < 2; tries++) {
        bool is_named = true;
        if (backend != NULL) {
            record.backend = frame_writer_backend(
                &replica->batch,
                &(struct frame_backend){.identity = backend->identity, .era = backend->life.era});
            is_named = record.backend != UINT32_MAX;
        }
        // A record of no kind tells the era alone.
        if (is_named &&
            (record.kind == RECORD_NONE || frame_writer_add(&replica->batch, &record))) {
            return;
        }
        replica_flush(replica);
    }
    ASSERT(false); // an empty frame has room
}

// The note of one of our workers, as the others get it.
static struct frame_record record_of(const struct prefix_note *note)
{
    static const enum record_kind kinds[] = {
        [PREFIX_NOTE_PREDICT] = RECORD_PREDICT, [PREFIX_NOTE_EXPECT] = RECORD_EXPECT,
        [PREFIX_NOTE_CONFIRM] = RECORD_CONFIRM, [PREFIX_NOTE_WITHDRAW] = RECORD_WITHDRAW,
        [PREFIX_NOTE_EVICTED] = RECORD_EVICTED, [PREFIX_NOTE_SESSION] = RECORD_SESSION,
        [PREFIX_NOTE_EMPTIED] = RECORD_NONE,    [PREFIX_NOTE_CAPACITY] = RECORD_SETTING};
    return (struct frame_record){.kind = kinds[note->kind],
                                 .number = note->prediction,
                                 .block_tokens = note->block_tokens,
                                 .age = note->age,
                                 .keys = note->keys,
                                 .key_count = note->key_count};
}

// Does what the note says with our own state.  False: the others need not know.
static bool replica_note_own(struct replica *replica, struct shared_backend *backend,
                             const struct prefix_note *note, struct frame_record *record)
{
    struct projection *projection = &replica->projection;
    uint64_t router = replica->options.router;
    switch (note->kind) {
    case PREFIX_NOTE_PREDICT:
    case PREFIX_NOTE_EXPECT:
        projection_predict(projection, router, backend, record, true);
        return true;
    case PREFIX_NOTE_CONFIRM:
        projection_follow(projection, backend, life_prove(&backend->life, now_of(replica)));
        projection_confirm(projection, router, backend, record, true);
        return true;
    case PREFIX_NOTE_WITHDRAW:
        projection_withdraw(projection, router, note->prediction);
        return true;
    case PREFIX_NOTE_EMPTIED:
        projection_follow(projection, backend, life_empty(&backend->life, now_of(replica)));
        return true;
    case PREFIX_NOTE_EVICTED:
        return true;
    case PREFIX_NOTE_SESSION:
        record->session = note->keys[0];
        record->stamp = projection_move_session(projection, backend, note->keys[0], 0);
        return record->stamp != 0;
    case PREFIX_NOTE_CAPACITY:
        record->setting = (struct record_setting){.field = SETTING_CAPACITY, .value = note->age};
        record->setting.stamp = projection_set(projection, backend, &record->setting);
        return record->setting.stamp != 0;
    }
    return false;
}

void replica_note(struct replica *replica, const struct prefix_note *note)
{
    struct shared_backend *backend = projection_find(&replica->projection, note->backend);
    replica->status.notes++;
    if (backend == NULL || backend->slot == no_slot) {
        return; // it has left the fleet
    }
    if ((int32_t)(note->lives - backend->life.lives) < 0) {
        return; // of a life that has ended
    }
    projection_follow(&replica->projection, backend,
                      life_count(&backend->life, note->lives, now_of(replica)));
    struct frame_record record = record_of(note);
    if (replica_note_own(replica, backend, note, &record)) {
        replica_tell(replica, note->kind == PREFIX_NOTE_WITHDRAW ? NULL : backend, record);
    }
}

static bool loads_are_equal(const struct record_load *a, const struct record_load *b)
{
    return a->requests == b->requests && a->sequences == b->sequences &&
           a->queued_tokens == b->queued_tokens && a->context_tokens == b->context_tokens &&
           a->begun_requests == b->begun_requests && a->begun_tokens == b->begun_tokens;
}

void replica_set_load(struct replica *replica, uint64_t identity, const struct record_load *load)
{
    struct shared_backend *backend = projection_find(&replica->projection, identity);
    if (backend == NULL) {
        return;
    }
    struct record_load *own = &replica->own_loads[place_of(replica, backend)];
    if (replica->is_refreshing || !loads_are_equal(own, load)) {
        *own = *load;
        replica_tell(replica, backend, (struct frame_record){.kind = RECORD_LOAD, .load = *load});
    }
}

void replica_set(struct replica *replica, uint64_t identity, enum setting_field field,
                 uint64_t value)
{
    struct shared_backend *backend = projection_find(&replica->projection, identity);
    struct record_setting setting = {.field = field, .value = value};
    if (backend == NULL) {
        return;
    }
    setting.stamp = projection_set(&replica->projection, backend, &setting);
    if (setting.stamp != 0) {
        replica_tell(replica, backend,
                     (struct frame_record){.kind = RECORD_SETTING, .setting = setting});
    }
}

// 0 also for speeds that no engine has.
static uint64_t speed_in_ns(float ms)
{
    return ms > 0 && ms < 1e6F ? (uint64_t)(ms * 1e6F) : 0;
}

static float speed_in_ms(uint64_t ns)
{
    return ns < UINT64_C(1) << 40 ? (float)ns / 1e6F : 0;
}

void replica_tell_speed(struct replica *replica, uint64_t identity, float prefill_ms, float step_ms)
{
    const struct shared_backend *backend = projection_find(&replica->projection, identity);
    struct record_speed speed = {.prefill_ns = speed_in_ns(prefill_ms),
                                 .step_ns = speed_in_ns(step_ms)};
    if (backend != NULL && (speed.prefill_ns > 0 || speed.step_ns > 0)) {
        replica_tell(replica, backend, (struct frame_record){.kind = RECORD_SPEED, .speed = speed});
    }
}

void replica_set_arrivals(struct replica *replica, uint64_t pool, float per_ms)
{
    if (replica->is_refreshing && per_ms >= 0 && per_ms < 4000) {
        replica_tell(replica, NULL,
                     (struct frame_record){.kind = RECORD_TRAFFIC,
                                           .pool = pool,
                                           .arrivals = (uint32_t)(per_ms * 1000000.0F)});
    }
}

// Which of our predictions are open.  Also tells those that lost the last batch that there was one.
static void replica_tell_open(struct replica *replica)
{
    const struct open_prediction *open;
    uint64_t position = 0;
    uint32_t count = 0;
    while ((open = open_table_next(&replica->projection.open, &position)) != NULL) {
        if (open->router == replica->options.router &&
            open->since_ms + frame_open_ms <= now_of(replica)) {
            if (count == frame_open_max) {
                return; // too many to tell of; those that are told of would be taken for all
            }
            replica->keys[count++] = open->number;
        }
    }
    replica_tell(
        replica, NULL,
        (struct frame_record){.kind = RECORD_OPEN, .keys = replica->keys, .key_count = count});
}

// How long a batch is on its way is half of the time to a router and back, less the time that the
// echo waited there.
static void replica_tell_clocks(struct replica *replica)
{
    uint64_t now_ms = now_of(replica);
    replica_tell(replica, NULL, (struct frame_record){.kind = RECORD_CLOCK, .clock = now_ms});
    for (uint32_t i = 0; i < replica_peer_max; i++) {
        const struct peer *peer = &replica->peers[i];
        if (peer->is_there && peer->clock_heard_ms != 0) {
            replica_tell(replica, NULL,
                         (struct frame_record){.kind = RECORD_ECHO,
                                               .router = peer->router,
                                               .clock = peer->clock,
                                               .age = saturate_u32(now_ms - peer->clock_heard_ms)});
        }
    }
}

static void replica_take_echo(const struct replica *replica, struct peer *peer,
                              const struct frame_record *record)
{
    uint64_t way_ms = now_of(replica) - record->clock - record->age;
    if (record->router == replica->options.router && way_ms < echo_max_ms) {
        peer->lag_ms = (way_ms + 1) / 2;
    }
}

struct peer *replica_peer(struct replica *replica, uint64_t router)
{
    for (uint32_t i = 0; i < replica_peer_max; i++) {
        if (replica->peers[i].router == router && router != 0) {
            return &replica->peers[i];
        }
    }
    return NULL;
}

// A free place, or that of the router that left longest ago.
static struct peer *free_peer(struct replica *replica)
{
    struct peer *oldest = NULL;
    for (uint32_t i = 0; i < replica_peer_max; i++) {
        struct peer *peer = &replica->peers[i];
        if (peer->router == 0) {
            return peer;
        }
        if (!peer->is_there && (oldest == NULL || peer->left_ms < oldest->left_ms)) {
            oldest = peer;
        }
    }
    if (oldest != NULL) {
        peer_close(oldest);
    }
    return oldest;
}

void replica_peer_came(struct replica *replica, uint64_t router)
{
    struct peer *peer = replica_peer(replica, router);
    if (peer == NULL && router != 0 && router != replica->options.router) {
        peer = free_peer(replica);
        if (peer == NULL) {
            return;
        }
        *peer = (struct peer){
            .router = router,
            .loads = calloc(replica->projection.backend_mask + 1, sizeof(struct record_load))};
        if (peer->loads == NULL) {
            peer_close(peer);
            return;
        }
        // Nothing was heard of it: what it knows is missing.
        replica->projection.is_behind = true;
    }
    if (peer != NULL) {
        peer->is_there = true;
        replica->refresh_ms = 0;             // it knows nothing of our load,
        key_window_forget(&replica->window); // and has none of our keys
    }
}

static void replica_add_load(struct replica *replica, struct peer *peer,
                             const struct shared_backend *backend, const struct record_load *load)
{
    struct record_load *old = &peer->loads[place_of(replica, backend)];
    struct replica_load *sum = &replica->sums[place_of(replica, backend)];
    sum->requests += load->requests - old->requests;
    sum->sequences += load->sequences - old->sequences;
    sum->queued_tokens += load->queued_tokens - old->queued_tokens;
    sum->context_tokens += load->context_tokens - old->context_tokens;
    peer->requests += load->requests - old->requests;
    *old = *load;
    tell_load(replica, backend);
}

static void replica_tell_arrivals(struct replica *replica, uint64_t pool)
{
    float per_ms = 0;
    for (uint32_t i = 0; i < replica_peer_max; i++) {
        const struct peer *peer = &replica->peers[i];
        for (uint32_t k = 0; peer->is_there && k < peer->pool_count; k++) {
            per_ms += peer->pools[k].pool == pool ? peer->pools[k].per_ms : 0;
        }
    }
    replica->options.sink->arrivals(replica->options.owner, pool, per_ms);
}

void replica_peer_left(struct replica *replica, uint64_t router)
{
    struct peer *peer = replica_peer(replica, router);
    if (peer == NULL || !peer->is_there) {
        return;
    }
    peer->is_there = false;
    peer->left_ms = now_of(replica);
    static const struct record_load none = {0};
    for (uint32_t i = 0; i <= replica->projection.backend_mask; i++) {
        const struct shared_backend *backend = &replica->projection.backends[i];
        if (backend->identity != 0 && !loads_are_equal(&peer->loads[i], &none)) {
            replica_add_load(replica, peer, backend, &none);
        }
    }
    for (uint32_t k = 0; k < peer->pool_count; k++) {
        replica_tell_arrivals(replica, peer->pools[k].pool);
    }
    peer->pool_count = 0;
    // It can no longer tell what is missing of it; another router may have heard it all.
    replica->projection.is_behind |= peer->gap_end != 0;
    projection_withdraw_all(&replica->projection, router);
    replica_forget_asker(replica, router);
}

static void replica_take_load(struct replica *replica, struct peer *peer,
                              const struct shared_backend *backend, const struct record_load *load)
{
    const struct record_load *old = &peer->loads[place_of(replica, backend)];
    bool is_first = old->begun_requests == 0 && old->begun_tokens == 0;
    uint64_t requests = load->begun_requests - old->begun_requests;
    uint64_t tokens = load->begun_tokens - old->begun_tokens;
    replica_add_load(replica, peer, backend, load);
    if (!is_first && requests > 0 && requests < UINT32_MAX && tokens < UINT32_MAX &&
        backend->slot != no_slot) {
        replica->options.sink->begun(replica->options.owner, backend->slot, requests, tokens);
    }
}

static void replica_take_arrivals(struct replica *replica, struct peer *peer,
                                  const struct frame_record *record)
{
    uint32_t at = 0;
    while (at < peer->pool_count && peer->pools[at].pool != record->pool) {
        at++;
    }
    if (at == replica_pool_max || record->pool == 0) {
        return;
    }
    peer->pool_count += at == peer->pool_count;
    peer->pools[at] = (struct peer_pool){.pool = record->pool,
                                         .per_ms = (float)record->arrivals / 1000000.0F,
                                         .heard_ms = now_of(replica)};
    replica_tell_arrivals(replica, record->pool);
}

// A router with another configuration than before may have no such pool any more.
static void replica_drop_silent_pools(struct replica *replica)
{
    for (uint32_t i = 0; i < replica_peer_max; i++) {
        struct peer *peer = &replica->peers[i];
        for (uint32_t k = peer->pool_count; k-- > 0;) {
            struct peer_pool *pool = &peer->pools[k];
            if (now_of(replica) >= pool->heard_ms + pool_silent_ms) {
                uint64_t name = pool->pool;
                *pool = peer->pools[--peer->pool_count];
                replica_tell_arrivals(replica, name);
            }
        }
    }
}

// The backend that a record is about, if the record is of its present life.
static struct shared_backend *backend_of_record(struct replica *replica,
                                                const struct frame_head *head,
                                                const struct frame_record *record)
{
    const struct frame_backend *named = &head->backends[record->backend];
    struct shared_backend *backend = projection_find(&replica->projection, named->identity);
    return backend != NULL && backend->life.era == named->era ? backend : NULL;
}

static void replica_take_keys(struct replica *replica, struct peer *peer,
                              const struct frame_head *head, const struct frame_record *record)
{
    struct projection *projection = &replica->projection;
    if (!record->is_known) {
        replica->status.orphans++;
        peer->gap_end = peer->sequence;
    }
    struct shared_backend *backend = backend_of_record(replica, head, record);
    if (backend == NULL) {
        return;
    }
    switch (record->kind) {
    case RECORD_PREDICT:
    case RECORD_EXPECT:
        projection_predict(projection, peer->router, backend, record, false);
        break;
    case RECORD_CONFIRM:
        projection_follow(projection, backend,
                          life_hear_output(&backend->life, backend->life.era, now_of(replica)));
        projection_confirm(projection, peer->router, backend, record, false);
        break;
    case RECORD_HOLD:
        projection_hold(projection, backend, record);
        break;
    default:
        break;
    }
}

// A capacity is of one life; the word of an operator is not.
static void replica_take_setting(struct replica *replica, const struct frame_head *head,
                                 const struct frame_record *record)
{
    struct shared_backend *backend =
        record->setting.field == SETTING_CAPACITY
            ? backend_of_record(replica, head, record)
            : projection_find(&replica->projection, head->backends[record->backend].identity);
    if (backend != NULL && record->setting.stamp != 0) {
        (void)projection_set(&replica->projection, backend, &record->setting);
    }
}

void replica_take_record(struct replica *replica, struct peer *peer, const struct frame_head *head,
                         const struct frame_record *record)
{
    struct shared_backend *backend;
    switch (record->kind) {
    case RECORD_PREDICT:
    case RECORD_EXPECT:
    case RECORD_CONFIRM:
    case RECORD_HOLD:
        replica_take_keys(replica, peer, head, record);
        break;
    case RECORD_WITHDRAW:
        projection_withdraw(&replica->projection, peer->router, record->number);
        break;
    case RECORD_OPEN:
        projection_keep_open(&replica->projection, peer->router, record->keys, record->key_count);
        break;
    case RECORD_EVICTED:
        backend = backend_of_record(replica, head, record);
        if (backend != NULL) {
            projection_evict(&replica->projection, backend, record->age);
        }
        break;
    case RECORD_SESSION:
        backend = projection_find(&replica->projection, head->backends[record->backend].identity);
        if (backend != NULL && record->stamp != 0) {
            (void)projection_move_session(&replica->projection, backend, record->session,
                                          record->stamp);
        }
        break;
    case RECORD_LOAD:
        backend = projection_find(&replica->projection, head->backends[record->backend].identity);
        if (backend != NULL) {
            replica_take_load(replica, peer, backend, &record->load);
        }
        break;
    case RECORD_TRAFFIC:
        replica_take_arrivals(replica, peer, record);
        break;
    case RECORD_SETTING:
        replica_take_setting(replica, head, record);
        break;
    case RECORD_SPEED:
        backend = backend_of_record(replica, head, record);
        if (backend != NULL && backend->slot != no_slot) {
            replica->options.sink->speed(replica->options.owner, backend->slot,
                                         speed_in_ms(record->speed.prefill_ns),
                                         speed_in_ms(record->speed.step_ns));
        }
        break;
    case RECORD_COVER:
        replica_take_cover(replica, record);
        break;
    case RECORD_CLOCK:
        peer->clock = record->clock;
        peer->clock_heard_ms = now_of(replica);
        break;
    case RECORD_ECHO:
        replica_take_echo(replica, peer, record);
        break;
    case RECORD_COUNT:
    case RECORD_NONE:
        break;
    }
}

// Lives first: what the records say is of these.
void replica_take_eras(struct replica *replica, const struct frame_head *head)
{
    for (uint32_t i = 0; i < head->backend_count; i++) {
        struct shared_backend *backend =
            projection_find(&replica->projection, head->backends[i].identity);
        if (backend != NULL) {
            projection_follow(&replica->projection, backend,
                              life_hear(&backend->life, head->backends[i].era, now_of(replica)));
        }
    }
}

// False: the frame cannot be taken.
static bool peer_follow_window(struct replica *replica, struct peer *peer,
                               const struct frame_head *head)
{
    if (head->bits > replica->options.window_bits + window_bits_more) {
        return false; // more memory than is ours to spend on it
    }
    if (peer->window.keys != NULL && peer->window.bits != head->bits) {
        key_window_close(&peer->window);
    }
    if (peer->window.keys == NULL && !key_window_open_receiver(&peer->window, head->bits)) {
        return false;
    }
    // The batch has a new number, so it does not repeat an earlier one: a position before the end
    // shows that the end was a mistake.
    if (!key_window_skip_to(&peer->window, head->position)) {
        key_window_restart(&peer->window, head->position);
    }
    return true;
}

// False: it is new all the same, as its sender goes on with smaller numbers.
static bool peer_is_repeated(struct peer *peer, uint64_t sequence)
{
    if (sequence > peer->sequence) {
        return false;
    }
    peer->repeated_run = sequence == peer->repeated + 1 ? peer->repeated_run + 1 : 1;
    peer->repeated = sequence;
    if (peer->repeated_run < repeated_run_max) {
        return true;
    }
    peer->repeated_run = 0;
    peer->sequence = 0;
    peer->gap_end = 0;
    peer->covered = 0;
    return false;
}

static void replica_take_batch(struct replica *replica, struct peer *peer,
                               const struct frame_head *head, struct wire_reader *reader)
{
    struct frame_record record;
    if (peer_is_repeated(peer, head->sequence)) {
        replica->status.repeated++;
        return;
    }
    if (!peer_follow_window(replica, peer, head)) {
        replica->status.malformed++;
        return;
    }
    if (head->sequence != peer->sequence + 1) {
        replica->status.gaps++;
        peer->gaps++;
        peer->gap_end = head->sequence - 1 > peer->covered ? head->sequence - 1 : peer->gap_end;
    }
    peer->sequence = head->sequence;
    peer->heard_ms = now_of(replica);
    peer->batches++;
    replica->status.batches_taken++;
    replica_take_eras(replica, head);
    while (frame_read_record(reader, head, &peer->window, replica->keys, &record)) {
        peer->records++;
        replica_take_record(replica, peer, head, &record);
    }
    if (reader->is_bad) {
        replica->status.malformed++;
        peer->gap_end = peer->sequence;
    }
}

void replica_take(struct replica *replica, uint64_t router, struct slice frame)
{
    struct frame_head head;
    struct wire_reader reader = wire_reader_of(frame);
    struct peer *peer = replica_peer(replica, router);
    if (peer == NULL || !peer->is_there) {
        return;
    }
    if (!frame_read_head(&reader, &head)) {
        replica->status.malformed++;
        return;
    }
    if (head.space != replica->options.space) {
        replica->status.foreign++;
        return;
    }
    switch (head.kind) {
    case FRAME_BATCH:
        replica_take_batch(replica, peer, &head, &reader);
        break;
    case FRAME_ASK:
        replica_take_ask(replica, peer, &head);
        break;
    case FRAME_SNAPSHOT:
        replica_take_snapshot(replica, peer, &head, &reader);
        break;
    case FRAME_NONE:
        break;
    }
}

void replica_pump(struct replica *replica)
{
    uint64_t now_ms = now_of(replica);
    if (replica->is_refreshing) {
        replica_tell_open(replica);
        replica_tell_clocks(replica);
    }
    replica_flush(replica);
    replica->is_refreshing = now_ms >= replica->refresh_ms;
    if (replica->is_refreshing) {
        replica_drop_silent_pools(replica);
        replica->refresh_ms = now_ms + replica_refresh_ms;
    }
    replica_pump_snapshots(replica);
}

bool replica_has_more(const struct replica *replica)
{
    return replica->given.snapshot != NULL;
}

void replica_read_status(const struct replica *replica, struct replica_status *out)
{
    *out = replica->status;
    out->eras = replica->projection.eras;
    out->open_predictions = replica->projection.open.count;
    out->is_joining = replica->asked.router != 0 && replica->status.snapshots_taken == 0;
    out->memory = replica->projection.open.entry_max * sizeof(struct open_prediction) +
                  replica->projection.open.key_max * sizeof(uint64_t);
    for (uint32_t i = 0; i < replica_peer_max; i++) {
        const struct peer *peer = &replica->peers[i];
        if (peer->router == 0) {
            continue;
        }
        struct replica_peer_status *row = &out->peers[out->peer_count++];
        *row = (struct replica_peer_status){.router = peer->router,
                                            .is_there = peer->is_there,
                                            .has_gap = peer->gap_end != 0,
                                            .batches = peer->batches,
                                            .records = peer->records,
                                            .gaps = peer->gaps,
                                            .heard_ms = peer->heard_ms,
                                            .lag_ms = peer->lag_ms,
                                            .requests = peer->requests};
        out->memory += peer->window.keys != NULL ? sizeof(uint64_t) << peer->window.bits : 0;
        out->memory += (replica->projection.backend_mask + 1) * sizeof(struct record_load);
    }
}
