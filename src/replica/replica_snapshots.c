// SPDX-License-Identifier: Apache-2.0
//
// Snapshots: when one is needed, asked for, given and taken.
//
//     asker   ask 7 ------------------->  giver: scans its index
//             <------------- part 0, 1 ...  as fast as the queue to the asker has room
//             ask 7, 2 parts have come -->  and at most parts_ahead beyond these
//             <------- last part, with what it covers: router B up to batch 120, ...
//
// A gap in the batches of a router is mended by the snapshot of any router that had them all.

#include "base/base.h"
#include "replica/replica_internal.h"

#include <stdlib.h>

enum {
    stalled_ms = 15000,    // a snapshot of which nothing comes for so long is given up
    ask_again_ms = 1000,   // at the earliest, and
    ask_again_factor = 10, // so many times as long as the last one took
    frames_a_pump = 8,
    parts_ahead = 64, // 2 MiB: a store keeps no more for a router that reads slowly
    tell_again_ms = 500,
    making_told_ms = 1000,
    stale_rounds = 4, // of all routers, for a snapshot that is whole
};

enum give_stage { GIVE_CHAINS, GIVE_SESSIONS, GIVE_SETTINGS, GIVE_COVERS, GIVE_DONE };

static uint64_t now_of(const struct replica *replica)
{
    return replica->projection.now_ms;
}

// The router to ask: one whose batches are missing, else, if this router is behind, one after the
// other.  NULL: nothing is missing, or nothing was heard yet.
static struct peer *replica_choose_giver(struct replica *replica)
{
    struct peer *best = NULL;
    for (uint32_t i = 0; i < replica_peer_max; i++) {
        struct peer *peer = &replica->peers[i];
        if (!peer->is_there || peer->sequence == 0) {
            continue;
        }
        bool has_gap = peer->gap_end != 0;
        bool is_better = best == NULL || has_gap > (best->gap_end != 0) ||
                         (has_gap == (best->gap_end != 0) && peer->asked_ms < best->asked_ms);
        best = is_better ? peer : best;
    }
    bool is_needed = best != NULL && (best->gap_end != 0 || replica->projection.is_behind);
    return is_needed ? best : NULL;
}

static void asked_close(struct replica *replica)
{
    key_window_close(&replica->asked.window);
    replica->asked = (struct asked_snapshot){0};
}

// The snapshot did not come.
static void asked_fail(struct replica *replica)
{
    replica->projection.is_behind = true;
    replica->next_ask_ms = now_of(replica) + ask_again_ms;
    asked_close(replica);
}

// Asks, or says how many parts have come.  False: the frame was dropped.
static bool asked_send(struct replica *replica)
{
    struct asked_snapshot *asked = &replica->asked;
    size_t size =
        frame_write_ask(replica->options.space, asked->number, asked->part, replica->frame);
    asked->told = asked->part;
    asked->told_ms = now_of(replica);
    return replica->options.sink->send(replica->options.owner, asked->router,
                                       slice_of(replica->frame, size));
}

static void asked_go_on(struct replica *replica)
{
    const struct asked_snapshot *asked = &replica->asked;
    uint64_t now_ms = now_of(replica);
    if (now_ms >= asked->moved_ms + stalled_ms) {
        asked_fail(replica);
    } else if (asked->part != asked->told || now_ms >= asked->told_ms + tell_again_ms) {
        (void)asked_send(replica); // it is told again soon
    }
}

static void replica_ask(struct replica *replica)
{
    uint64_t now_ms = now_of(replica);
    if (replica->asked.router != 0) {
        asked_go_on(replica);
        return;
    }
    struct peer *giver = now_ms >= replica->next_ask_ms ? replica_choose_giver(replica) : NULL;
    if (giver == NULL) {
        return;
    }
    replica->asked = (struct asked_snapshot){.router = giver->router,
                                             .number = ++replica->question,
                                             .at_ms = now_ms,
                                             .moved_ms = now_ms};
    giver->asked_ms = now_ms;
    replica->projection.is_behind = false;
    replica->status.snapshots_asked++;
    if (!asked_send(replica)) {
        asked_fail(replica);
    }
}

void replica_take_cover(struct replica *replica, const struct frame_record *record)
{
    struct asked_snapshot *asked = &replica->asked;
    if (asked->router != 0 && asked->cover_count < frame_cover_max) {
        asked->covers[asked->cover_count++] =
            (struct frame_backend){.identity = record->router, .era = record->sequence};
    }
}

static uint32_t replica_count_peers(const struct replica *replica)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < replica_peer_max; i++) {
        count += replica->peers[i].is_there;
    }
    return count;
}

// Backends that we had forgotten are known again; or the giver had forgotten some itself, and
// another router is asked.  All are asked a few times at most: a backend that is down is believed
// by none, and then no snapshot is ever whole.
static void asked_settle_backends(struct replica *replica, bool is_whole)
{
    uint32_t peer_count = replica_count_peers(replica);
    for (uint32_t i = 0; i <= replica->projection.backend_mask; i++) {
        struct shared_backend *backend = &replica->projection.backends[i];
        backend->stale_snapshots += backend->is_stale;
        backend->is_stale =
            backend->is_stale && !is_whole && backend->stale_snapshots < stale_rounds * peer_count;
        replica->projection.is_behind |= backend->is_stale;
    }
}

static void asked_finish(struct replica *replica, bool is_whole)
{
    const struct asked_snapshot *asked = &replica->asked;
    uint64_t now_ms = now_of(replica);
    for (uint32_t i = 0; i < asked->cover_count; i++) {
        struct peer *peer = replica_peer(replica, asked->covers[i].identity);
        if (peer != NULL) {
            uint64_t sequence = asked->covers[i].era;
            peer->covered = sequence > peer->covered ? sequence : peer->covered;
            peer->gap_end = peer->gap_end <= peer->covered ? 0 : peer->gap_end;
        }
    }
    asked_settle_backends(replica, is_whole);
    replica->status.snapshots_taken++;
    replica->status.snapshot_ms = now_ms - asked->at_ms;
    replica->status.snapshot_at_ms = now_ms > 0 ? now_ms : 1;
    replica->status.snapshot_records = asked->records;
    uint64_t pause_ms = ask_again_factor * replica->status.snapshot_ms;
    replica->next_ask_ms = now_ms + (pause_ms > ask_again_ms ? pause_ms : ask_again_ms);
    asked_close(replica);
}

// False: the part cannot be taken.
static bool asked_follow_window(struct replica *replica, const struct frame_head *head)
{
    struct key_window *window = &replica->asked.window;
    if (head->bits > replica->options.window_bits + window_bits_more ||
        (window->keys != NULL && window->bits != head->bits)) {
        return false;
    }
    if (window->keys == NULL && !key_window_open_receiver(window, head->bits)) {
        return false;
    }
    return key_window_skip_to(window, head->position);
}

void replica_take_snapshot(struct replica *replica, struct peer *peer,
                           const struct frame_head *head, struct wire_reader *reader)
{
    struct asked_snapshot *asked = &replica->asked;
    struct frame_record record;
    if (peer->router != asked->router || head->sequence != asked->number ||
        head->part < asked->part) {
        return; // of a question that was given up, or a repetition
    }
    if (head->part != asked->part || !asked_follow_window(replica, head)) {
        asked_fail(replica);
        return;
    }
    asked->part++;
    asked->moved_ms = now_of(replica);
    replica_take_eras(replica, head);
    while (frame_read_record(reader, head, &asked->window, replica->keys, &record)) {
        asked->records++;
        replica_take_record(replica, peer, head, &record);
    }
    if (reader->is_bad) {
        replica->status.malformed++;
        asked_fail(replica);
    } else if (head->is_last) {
        asked_finish(replica, head->is_whole);
    }
}

static void given_close(struct replica *replica)
{
    struct given_snapshot *given = &replica->given;
    snapshot_end(&given->snapshot);
    key_window_close(&given->window);
    free(given->writer);
    free(given->by_slot);
    free(given->eras);
    *given = (struct given_snapshot){0};
}

void replica_forget_asker(struct replica *replica, uint64_t router)
{
    struct peer *peer = replica_peer(replica, router);
    if (peer != NULL) {
        peer->asked = 0;
    }
    if (replica->given.router == router) {
        given_close(replica);
    }
    if (replica->asked.router == router) {
        asked_fail(replica);
    }
}

void replica_drop_snapshots(struct replica *replica)
{
    given_close(replica);
    asked_close(replica);
}

void replica_take_ask(struct replica *replica, struct peer *peer, const struct frame_head *head)
{
    struct given_snapshot *given = &replica->given;
    if (given->snapshot != NULL && given->router == peer->router &&
        given->number == head->sequence) {
        given->come = head->part > given->come ? head->part : given->come;
    } else if (head->sequence != peer->answered) {
        peer->asked = head->sequence;
        key_window_forget(&replica->window); // it may lack some of our keys
    }
}

static void given_list_backends(struct replica *replica)
{
    struct given_snapshot *given = &replica->given;
    for (uint32_t i = 0; i <= replica->projection.backend_mask; i++) {
        const struct shared_backend *backend = &replica->projection.backends[i];
        if (backend->identity != 0 && backend->slot < replica->options.backend_max) {
            given->is_partial |= backend->life.is_out || backend->is_stale;
            given->by_slot[backend->slot] = backend;
            given->eras[backend->slot] = backend->life.era;
        }
    }
}

static void given_list_covers(struct replica *replica)
{
    struct given_snapshot *given = &replica->given;
    given->covers[given->cover_count++] =
        (struct frame_backend){.identity = replica->options.router, .era = replica->sequence};
    for (uint32_t i = 0; i < replica_peer_max; i++) {
        const struct peer *peer = &replica->peers[i];
        if (peer->router != 0 && peer->gap_end == 0 && peer->sequence != 0) {
            given->covers[given->cover_count++] =
                (struct frame_backend){.identity = peer->router, .era = peer->sequence};
        }
    }
}

// False: memory is short; the asker will ask again.
static bool given_begin(struct replica *replica, struct peer *asker)
{
    struct given_snapshot *given = &replica->given;
    uint32_t slots = replica->options.backend_max;
    *given = (struct given_snapshot){
        .router = asker->router,
        .number = asker->asked,
        .told_ms = now_of(replica),
        .writer = malloc(sizeof(*given->writer)),
        .by_slot = calloc(slots, sizeof(struct shared_backend *)),
        .eras = calloc(slots, sizeof(uint64_t)),
    };
    asker->answered = asker->asked;
    asker->asked = 0;
    if (given->writer == NULL || given->by_slot == NULL || given->eras == NULL ||
        !key_window_open_sender(&given->window, replica->options.window_bits)) {
        return false;
    }
    given_list_backends(replica);
    given_list_covers(replica);
    frame_writer_begin(given->writer, &given->window);
    given->snapshot =
        snapshot_begin(replica->options.index, slots, (uint32_t)(now_of(replica) / 1000));
    return given->snapshot != NULL;
}

// The next chain of a backend whose life has not ended since the beginning.
static bool given_fetch_chain(struct replica *replica)
{
    struct given_snapshot *given = &replica->given;
    struct snapshot_chain chain;
    while (snapshot_next(given->snapshot, &chain)) {
        const struct shared_backend *backend = given->by_slot[chain.backend];
        if (backend == NULL || backend->slot != chain.backend ||
            backend->life.era != given->eras[chain.backend]) {
            continue;
        }
        // The life may go on, and then the asker lacks the chain.
        given->is_partial |= backend->life.is_out;
        if (!backend->life.is_out) {
            given->backend = backend;
            given->era = given->eras[chain.backend];
            given->record = (struct frame_record){.kind = RECORD_HOLD,
                                                  .age = chain.age,
                                                  .age_s = chain.age_s,
                                                  .keys = chain.keys,
                                                  .key_count = chain.key_count};
            return true;
        }
    }
    return false;
}

static bool given_fetch_session(struct replica *replica)
{
    struct given_snapshot *given = &replica->given;
    const struct shared_session *session;
    while ((session = session_table_at(&replica->projection.sessions, given->session)) != NULL) {
        given->session++;
        given->backend =
            session->stamp != 0 ? projection_find(&replica->projection, session->backend) : NULL;
        if (given->backend != NULL) {
            given->era = given->backend->life.era;
            given->record = (struct frame_record){
                .kind = RECORD_SESSION, .session = session->key, .stamp = session->stamp};
            return true;
        }
    }
    return false;
}

static bool given_fetch_setting(struct replica *replica)
{
    struct given_snapshot *given = &replica->given;
    uint32_t count = (replica->projection.backend_mask + 1) * SETTING_COUNT;
    while (given->setting < count) {
        const struct shared_backend *backend =
            &replica->projection.backends[given->setting / SETTING_COUNT];
        const struct record_setting *setting = &backend->settings[given->setting++ % SETTING_COUNT];
        if (backend->identity != 0 && setting->stamp != 0) {
            given->backend = backend;
            given->era = backend->life.era;
            given->record = (struct frame_record){.kind = RECORD_SETTING, .setting = *setting};
            return true;
        }
    }
    return false;
}

static bool given_fetch_cover(struct replica *replica)
{
    struct given_snapshot *given = &replica->given;
    if (given->cover == given->cover_count) {
        return false;
    }
    const struct frame_backend *cover = &given->covers[given->cover++];
    given->backend = NULL;
    given->record = (struct frame_record){
        .kind = RECORD_COVER, .router = cover->identity, .sequence = cover->era};
    return true;
}

// Makes given->record the next one.  False: there is none.
static bool given_fetch(struct replica *replica)
{
    static bool (*const stages[])(struct replica *) = {
        [GIVE_CHAINS] = given_fetch_chain,
        [GIVE_SESSIONS] = given_fetch_session,
        [GIVE_SETTINGS] = given_fetch_setting,
        [GIVE_COVERS] = given_fetch_cover,
    };
    struct given_snapshot *given = &replica->given;
    while (!given->has_record && given->stage < GIVE_DONE) {
        given->has_record = stages[given->stage](replica);
        given->stage += !given->has_record;
    }
    return given->has_record;
}

// False: the frame is full.
static bool given_put(struct given_snapshot *given)
{
    if (given->backend != NULL) {
        given->record.backend = frame_writer_backend(
            given->writer,
            &(struct frame_backend){.identity = given->backend->identity, .era = given->era});
        if (given->record.backend == UINT32_MAX) {
            return false;
        }
    }
    given->has_record = !frame_writer_add(given->writer, &given->record);
    return !given->has_record;
}

// The next part, of the records that were put.
static void given_send_frame(struct replica *replica, bool is_last)
{
    struct given_snapshot *given = &replica->given;
    struct frame_head head = {.kind = FRAME_SNAPSHOT,
                              .space = replica->options.space,
                              .sequence = given->number,
                              .part = given->part++,
                              .is_last = is_last,
                              .is_whole = !given->is_partial};
    size_t size = frame_writer_end(given->writer, &head, replica->frame);
    bool is_sent = replica->options.sink->send(replica->options.owner, given->router,
                                               slice_of(replica->frame, size));
    replica->status.snapshots_given += is_last && is_sent;
    if (is_last || !is_sent) {
        given_close(replica);
    }
}

static void given_send_part(struct replica *replica)
{
    bool has_room = true;
    while (has_room && given_fetch(replica)) {
        has_room = given_put(&replica->given);
    }
    given_send_frame(replica, has_room);
}

// Goes on with a snapshot that is not yet made.  Meanwhile an empty part a second tells the asker
// that it comes.  False: it is not yet made, or memory is short.
static bool given_make(struct replica *replica)
{
    struct given_snapshot *given = &replica->given;
    if (!given->is_made) {
        enum snapshot_state state = snapshot_make(given->snapshot);
        given->is_made = state == SNAPSHOT_MADE;
        if (state == SNAPSHOT_FAILED) {
            given_close(replica);
        } else if (state == SNAPSHOT_UNFINISHED &&
                   now_of(replica) >= given->told_ms + making_told_ms) {
            given->told_ms = now_of(replica);
            given_send_frame(replica, false);
        }
    }
    return given->is_made;
}

static void replica_give(struct replica *replica)
{
    struct given_snapshot *given = &replica->given;
    for (uint32_t i = 0; i < replica_peer_max && given->snapshot == NULL; i++) {
        struct peer *peer = &replica->peers[i];
        if (peer->is_there && peer->asked != 0 && !given_begin(replica, peer)) {
            given_close(replica);
        }
    }
    if (given->snapshot == NULL || !given_make(replica)) {
        return;
    }
    for (uint32_t i = 0;
         i < frames_a_pump && given->snapshot != NULL && given->part < given->come + parts_ahead &&
         replica->options.sink->room(replica->options.owner, given->router) >=
             2 * (size_t)frame_size_max;
         i++) {
        given_send_part(replica);
    }
}

void replica_pump_snapshots(struct replica *replica)
{
    replica_ask(replica);
    replica_give(replica);
}
