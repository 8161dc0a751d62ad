// SPDX-License-Identifier: Apache-2.0
//
// projection.h -- carries what routers tell of prefixes over into the index of this one.
//
//     record, note  -->  backends (slot, era), open predictions, sessions  -->  index updates
//
// Our own workers have changed the index already when their notes come; a note changes only what
// is kept here.  A withdrawal takes predicted blocks from the index, which another prediction may
// still need: those are put back.
//
// Threads: one.  Memory: taken by _open.
#pragma once

#include "prefix/prefix_updates.h"
#include "replica/frame.h"
#include "replica/hybrid_clock.h"
#include "replica/life.h"
#include "replica/open_table.h"
#include "replica/session_table.h"

enum { no_slot = UINT32_MAX };

struct replica_sink;

// A backend of the fleet.
struct shared_backend {
    uint64_t identity; // 0: an empty place
    uint32_t slot;     // no_slot: it has left the fleet, or is not in ours
    bool is_set;       // since the last replica_end_backends
    bool is_stale;     // its life goes on, but we forgot what we knew, and no snapshot came since
    uint32_t stale_snapshots; // that came since, and were not whole
    struct life life;
    struct record_setting settings[SETTING_COUNT];
};

struct projection {
    struct shared_backend *backends; // in a table, by identity
    uint32_t backend_mask;
    uint32_t backend_max; // in use at most
    uint32_t backend_count;
    struct open_table open;
    struct session_table sessions;
    struct hybrid_clock clock;
    const struct prefix_index *index;
    struct prefix_hit *hits; // of one match
    uint32_t hit_max;
    const struct replica_sink *sink;
    void *owner;
    uint64_t now_ms;
    uint64_t wall_ms;
    uint64_t eras;  // that ended
    bool is_behind; // others know something that this router does not
};

struct projection_limits {
    const struct prefix_index *index; // kept
    uint32_t slot_max;                // of the index
    uint32_t backend_max;
    uint32_t open_max;
    uint32_t session_max;
};

// False when memory is short.
bool projection_open(struct projection *projection, const struct projection_limits *limits);
void projection_close(struct projection *projection);

// NULL: unknown.
struct shared_backend *projection_find(const struct projection *projection, uint64_t identity);
// The same; NULL: the table is full.
struct shared_backend *projection_add(struct projection *projection, uint64_t identity);

// Moves the backends of the fleet into an empty table of the same size, and forgets the others.
// `places` gets the former place of each, by its new one; UINT32_MAX: an empty place.  False when
// memory is short, and then nothing has changed.
bool projection_compact(struct projection *projection, uint32_t *places);

// Ends the open predictions of earlier eras, and has the index forget the backend.
void projection_follow(struct projection *projection, struct shared_backend *backend,
                       enum life_verdict verdict);

// A prediction of that router, as a record of PREDICT, EXPECT or CONFIRM tells it.  `is_own`: the
// index has it already.
void projection_predict(struct projection *projection, uint64_t router,
                        const struct shared_backend *backend, const struct frame_record *record,
                        bool is_own);
void projection_confirm(struct projection *projection, uint64_t router,
                        const struct shared_backend *backend, const struct frame_record *record,
                        bool is_own);
void projection_withdraw(struct projection *projection, uint64_t router, uint64_t number);

// Withdraws all that the router predicted.
void projection_withdraw_all(struct projection *projection, uint64_t router);

// The router says which of its predictions have been open for frame_open_ms.  Withdraws others that
// are known for longer: their end was lost on the way.
void projection_keep_open(struct projection *projection, uint64_t router, const uint64_t *numbers,
                          uint32_t count);

// A block of a snapshot.
void projection_hold(struct projection *projection, const struct shared_backend *backend,
                     const struct frame_record *record);

void projection_evict(struct projection *projection, const struct shared_backend *backend,
                      uint32_t age);

// A session has moved; `stamp` 0: just now and here, and the new stamp is returned.  0: a later
// move is known.
uint64_t projection_move_session(struct projection *projection,
                                 const struct shared_backend *backend, uint64_t key,
                                 uint64_t stamp);

// A word about the backend; `stamp` 0: just now and here.  Returns the stamp, 0: a later word is
// known.
uint64_t projection_set(struct projection *projection, struct shared_backend *backend,
                        const struct record_setting *setting);

// The backend is in our fleet now: it gets what is set of it.
void projection_tell_settings(const struct projection *projection,
                              const struct shared_backend *backend);
