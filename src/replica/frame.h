// SPDX-License-Identifier: Apache-2.0
//
// frame.h -- the bytes that routers exchange: batches of deltas, snapshots, and the question for
// one.
//
//     batch     head | backends of its records | record record ...     to every router
//     snapshot  head | backends of its records | record record ...     to the router that asked
//     ask       head                                                   to one router
//
// A batch stands for itself, except that chains copy keys of earlier ones (key_window.h): it names
// its backends by identity and era, so a lost batch takes no names with it.  Each record has its
// size in front: an unknown kind is skipped, so that two versions can share a cluster.
//
// A snapshot comes in parts, which are numbered, and has a window of its own.
//
// Frames come from outside: a reader believes no count before it has checked it.
//
// Threads: one.  Memory: the caller's.
#pragma once

#include "replica/key_window.h"

enum {
    frame_version = 1,
    frame_size_max = 32 << 10,
    frame_backend_max = 128,
    frame_key_max = 8192,
    frame_cover_max = 32,
    frame_open_max = 2048, // predictions in one record
    frame_open_ms = 1000,
};

enum frame_kind { FRAME_NONE, FRAME_BATCH, FRAME_ASK, FRAME_SNAPSHOT };

// The life of a backend: the larger era is the later life.
struct frame_backend {
    uint64_t identity;
    uint64_t era;
};

struct frame_head {
    enum frame_kind kind;
    uint64_t space;    // of keys: routers that hash differently have nothing to tell each other
    uint64_t sequence; // batch: its number, from 1; ask and snapshot: number of the question
    uint64_t position; // batch, snapshot: where the sender's window ended before it
    uint32_t bits;     // of that window
    uint32_t part;     // snapshot: from 0; ask: so many have come
    bool is_last;      // snapshot
    bool is_whole; // likewise, with the last part: its giver believes what it may of all backends
    uint32_t backend_count;
    struct frame_backend backends[frame_backend_max];
};

enum record_kind {
    RECORD_NONE,
    RECORD_PREDICT,  // backend, number, block_tokens, keys
    RECORD_EXPECT,   // the same
    RECORD_CONFIRM,  // the same; number 0: of no prediction
    RECORD_WITHDRAW, // number
    RECORD_OPEN,     // keys: the numbers of all predictions that have been open for frame_open_ms
    RECORD_EVICTED,  // backend, age
    RECORD_SESSION,  // backend, session, stamp
    RECORD_LOAD,     // backend, load
    RECORD_TRAFFIC,  // pool, arrivals
    RECORD_SETTING,  // backend, setting
    RECORD_SPEED,    // backend, speed
    RECORD_HOLD,     // backend, age, age_s, keys: of a snapshot
    RECORD_COVER,    // router, sequence: a snapshot has what that router told up to there
    RECORD_CLOCK,    // clock: of the sender, when it sent this
    RECORD_ECHO,     // router, clock, age: we heard that clock of that router so many ms ago
    RECORD_COUNT,
};

// The load of one router on a backend.
struct record_load {
    uint32_t requests;
    uint32_t sequences;
    uint64_t queued_tokens;
    uint64_t context_tokens;
    // Since its start.
    uint64_t begun_requests;
    uint64_t begun_tokens;
};

// One word about a backend, of which the latest counts.
enum setting_field {
    SETTING_CAPACITY, // of its cache in tokens, as routers learned it; of one era
    SETTING_WEIGHT,   // as an operator set it
    SETTING_DRAINING, // likewise: 0 or 1
    SETTING_COUNT,
};

struct record_setting {
    enum setting_field field;
    uint64_t value;
    uint64_t stamp; // hybrid_clock.h; 0: not set
};

// The speeds that a router has measured since it told of them last; 0: none.
struct record_speed {
    uint64_t prefill_ns; // for one uncached token
    uint64_t step_ns;    // between two tokens of one sequence
};

struct frame_record {
    enum record_kind kind;
    uint32_t backend; // position in the head's list
    uint64_t number;
    uint32_t block_tokens;
    uint32_t age;
    uint32_t age_s;
    uint32_t arrivals; // requests in a thousand seconds
    uint64_t session;
    uint64_t stamp;
    struct record_load load;
    struct record_setting setting;
    struct record_speed speed;
    uint64_t pool;
    uint64_t router;
    uint64_t sequence;
    uint64_t clock; // ms
    const uint64_t *keys;
    uint32_t key_count;
    bool is_known; // false: further keys were copied from a range that the receiver lacks
};

// Collects records until they fill a frame.
struct frame_writer {
    struct key_window *window; // NULL: no record has keys
    uint64_t position;         // of the window before the first record
    uint32_t backend_count;
    struct frame_backend backends[frame_backend_max];
    struct wire_writer records;
    uint8_t bytes[frame_size_max];
};

void frame_writer_begin(struct frame_writer *writer, struct key_window *window);
static inline bool frame_writer_is_empty(const struct frame_writer *writer)
{
    return writer->records.size == 0 && writer->backend_count == 0;
}

// The place of a backend in the frame's list.  UINT32_MAX: the list is full, send the frame first.
uint32_t frame_writer_backend(struct frame_writer *writer, const struct frame_backend *backend);

// False: the room does not suffice; send the frame first.  An empty frame has room for any record.
// A chain may be cut: see key_window_write.
bool frame_writer_add(struct frame_writer *writer, const struct frame_record *record);

// The frame, in `out`; the writer is empty then.  `head` has all but position, bits and backends.
size_t frame_writer_end(struct frame_writer *writer, const struct frame_head *head,
                        uint8_t out[frame_size_max]);

// False: not a frame of this version.  Leaves the reader at the first record.
bool frame_read_head(struct wire_reader *reader, struct frame_head *head);

// Reads the next record that is known here.  False: there is none, or the frame is malformed
// (reader->is_bad).  Its keys are in `keys`, which has room for frame_key_max.
bool frame_read_record(struct wire_reader *reader, const struct frame_head *head,
                       struct key_window *window, uint64_t *keys, struct frame_record *out);

// A question for a snapshot, and then the word that so many parts of it have come.
size_t frame_write_ask(uint64_t space, uint64_t number, uint32_t part, uint8_t out[frame_size_max]);
