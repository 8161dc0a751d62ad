// SPDX-License-Identifier: Apache-2.0
//
// kv_json.h -- what an engine reports of its KV cache, read from a JSON document that was pushed
// to us or polled from the engine.
//
//     pushed   {"backend": "http://gpu-7:8000", "rank": 0, "events": [event, event, ...]}
//     polled   [event, event, ...]
//
//     event    {"type": "stored", "block_hashes": [...], "token_ids": [...], ...}  vLLM's names
//              {"event_id": 7, "data": {"type": "stored", "blocks": [...]}}        TensorRT-LLM
//              {"event": "evicted", "prefix_hash": "a1b2c3", "backend_id": 3}      Ranvier
//
// Each event is read by its own shape.  Unknown members are skipped; an event of an unknown kind
// becomes a notice of kind UNKNOWN, and an invalid one a notice of kind MALFORMED.
//
// One event may give several notices: a store whose blocks differ in size or tier, a removal
// without a tier, a move from one tier to another.  An eviction by a hash that does not name
// blocks clears: a cache that is believed empty costs misses, a wrong belief costs more.
//
// Hashes are names, as in kv_notice.h: integers of 64 bits, signed or unsigned, or hexadecimal
// digits, of which the last 16 count.
//
// Bytes come from outside: counts are checked before they are used, and reading allocates
// nothing.
//
// Threads: a reader belongs to one.  Memory: taken by kv_json_create.
#pragma once

#include "kvevent/kv_notice.h"

enum { kv_json_name_max = 4096 }; // bytes of an adapter's name, a salt or a URL

struct kv_json;

// NULL when memory is short.
struct kv_json *kv_json_create(void);
void kv_json_destroy(struct kv_json **reader);

// The owner whose events are read; events of others in the same document are skipped.  An event
// that does not name its owner belongs to every owner.
struct kv_json_owner {
    uint64_t backend_id;
    uint32_t rank;
};

// Begins a document, all of which is JSON if this is OK.  MALFORMED: not a document of events;
// kv_json_fault says why.  Keeps `document` until it is read.  `owner` NULL: the events of all.
enum status kv_json_begin(struct kv_json *reader, struct slice document,
                          const struct kv_json_owner *owner);

// The next notice.  CLOSED: the document is read.
enum status kv_json_next(struct kv_json *reader, struct kv_notice *out);

// The numbers that an engine gave to the owner's events in this document, known once it is
// begun.  The engine counts all of its events.  So a document that does not follow the last one
// has lost events, or comes from another process.
struct kv_json_ids {
    bool is_numbered; // the events are numbered
    bool is_broken;   // the numbers do not follow each other
    uint64_t first;
    uint64_t last;
};
struct kv_json_ids kv_json_ids(const struct kv_json *reader);

// The backend that a pushed document is about.
struct kv_json_target {
    struct slice url; // empty: not named by a URL; valid until the next _begin
    bool has_id;
    bool has_rank;
    uint64_t id;
    uint32_t rank;
};
struct kv_json_target kv_json_target(const struct kv_json *reader);

// The backend of the last notice's event, if the event names one, which only Ranvier's do.
bool kv_json_event_backend(const struct kv_json *reader, uint64_t *id);

// The error in the document, or in the event of the last notice if that is MALFORMED or UNKNOWN.
struct kv_json_fault {
    const char *what; // NULL: no error
    int64_t event;    // which one, from 0; -1: the document
};
struct kv_json_fault kv_json_fault(const struct kv_json *reader);
