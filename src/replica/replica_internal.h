// SPDX-License-Identifier: Apache-2.0
//
// replica_internal.h -- the state of a replica, for batches (replica.c) and snapshots
// (replica_snapshots.c).
#pragma once

#include "replica/projection.h"
#include "replica/replica.h"
#include "replica/snapshot.h"

enum {
    pool_silent_ms = 5 * replica_refresh_ms, // a router that does not tell of a pool has none
    echo_max_ms = 60000,                     // an older echo is of a router that was stopped
    window_bits_more = 2,                    // a router may use a window of four times our keys
    // No link repeats so many batches in a row: then these are live, and the larger number was a
    // mistake of the sender, or of a stranger who writes to the store.
    repeated_run_max = 60,
};

struct peer_pool {
    uint64_t pool;
    float per_ms;
    uint64_t heard_ms;
};

// Another router, also one that has left: when it comes back, its batches go on.
struct peer {
    uint64_t router; // 0: an empty place
    bool is_there;
    uint64_t left_ms;
    uint64_t heard_ms;
    struct key_window window;
    uint64_t sequence;       // of its last batch
    uint64_t gap_end;        // of its last batch that is missing, or was not understood; 0: none is
    uint64_t repeated;       // the number of its last batch that counted as repeated
    uint32_t repeated_run;   // so many with numbers in a row did
    uint64_t covered;        // by snapshots of others: batches up to there are not missed
    uint64_t asked_ms;       // when we asked it last
    uint64_t clock;          // its own, as it told last
    uint64_t clock_heard_ms; // when; 0: never
    uint64_t lag_ms;         // of batches on their way
    uint64_t asked;          // number of its question for a snapshot; 0: it has none
    uint64_t answered;       // number of its last question that got a snapshot
    uint64_t batches;
    uint64_t records;
    uint64_t gaps;
    struct record_load *loads; // by place of the backend
    uint32_t requests;         // of these, in all
    struct peer_pool pools[replica_pool_max];
    uint32_t pool_count;
};

// The snapshot that we asked for.
struct asked_snapshot {
    uint64_t router; // 0: none
    uint64_t number;
    uint64_t at_ms;
    uint64_t moved_ms; // when a part came last
    uint64_t told_ms;  // when we last said how many have come
    uint32_t part;     // that comes next
    uint32_t told;     // so many have come, as we said last
    struct key_window window;
    struct frame_backend covers[frame_cover_max]; // router and sequence
    uint32_t cover_count;
    uint64_t records;
};

// The snapshot that we give.
struct given_snapshot {
    struct index_snapshot *snapshot; // NULL: none
    uint64_t router;
    uint64_t number;
    bool is_made;
    uint64_t told_ms; // when the asker last got a part before it was made
    uint32_t part;    // that goes next
    uint32_t come;    // so many have come, as the asker says
    struct key_window window;
    struct frame_writer *writer;
    struct frame_backend covers[frame_cover_max];
    uint32_t cover_count;
    const struct shared_backend **by_slot; // when it began, and
    uint64_t *eras;                        // their eras then
    bool is_partial;                       // some backend is not believed, or was forgotten
    uint32_t stage;                        // enum give_stage
    uint32_t session;                      // the next place of the table
    uint32_t setting;                      // the next one, by place of the backend and field
    uint32_t cover;                        // the next one
    bool has_record;                       // that found no room yet
    struct frame_record record;
    const struct shared_backend *backend; // of the record; NULL: it has none
    uint64_t era;                         // of the record: the life may end while it waits for room
};

struct replica {
    struct replica_options options;
    struct projection projection;
    struct key_window window;
    struct frame_writer batch;
    uint64_t sequence; // of the last batch
    uint64_t refresh_ms;
    bool is_refreshing;            // the present batch tells all loads
    struct record_load *own_loads; // as told last, by place of the backend
    struct replica_load *sums;     // of the others, likewise
    struct peer peers[replica_peer_max];
    struct asked_snapshot asked;
    struct given_snapshot given;
    uint64_t question;    // number of the last one
    uint64_t next_ask_ms; // not before
    struct replica_status status;
    uint64_t keys[frame_key_max];
    uint8_t frame[frame_size_max];
};

struct peer *replica_peer(struct replica *replica, uint64_t router);
void replica_take_eras(struct replica *replica, const struct frame_head *head);
void replica_take_record(struct replica *replica, struct peer *peer, const struct frame_head *head,
                         const struct frame_record *record);

void replica_pump_snapshots(struct replica *replica);
void replica_take_ask(struct replica *replica, struct peer *peer, const struct frame_head *head);
void replica_take_snapshot(struct replica *replica, struct peer *peer,
                           const struct frame_head *head, struct wire_reader *reader);
void replica_take_cover(struct replica *replica, const struct frame_record *record);
void replica_forget_asker(struct replica *replica, uint64_t router);
void replica_drop_given(struct replica *replica);
void replica_drop_snapshots(struct replica *replica);
