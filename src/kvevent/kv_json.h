// SPDX-License-Identifier: Apache-2.0
//
// kv_json.h -- what an engine says of its KV cache, read from a JSON document: one that was pushed to us, or
// the answer of an engine that was asked.
//
//     pushed   {"backend": "http://gpu-7:8000", "rank": 0, "events": [event, event, ...]}
//     polled   [event, event, ...]
//
//     event    {"type": "stored", "block_hashes": [...], "token_ids": [...], ...}     with vLLM's names
//              {"event_id": 7, "data": {"type": "stored", "blocks": [...]}}          TensorRT-LLM
//              {"event": "evicted", "prefix_hash": "a1b2c3", "backend_id": 3}        Ranvier
//
// Each event is read by its own shape.  Unknown members are skipped; an event of an unknown kind becomes a
// notice of kind UNKNOWN, and an invalid one a notice of kind MALFORMED.
//
// One event may come to several notices: a store whose blocks differ in size or tier, a removal that does
// not say from which tier, a move from one tier to another.  An eviction by a hash that says nothing
// about blocks clears: knowing less is better than knowing what is not so.
//
// Hashes are names, as in kv_notice.h: integers of 64 bits, signed or not and every bit of them, or
// hexadecimal digits, of which the last 16 count.
//
// Bytes come from outside: counts are checked before they are used and nothing is allocated while reading.
//
// Threads: a reader belongs to one.  Memory: taken by kv_json_create.
#pragma once

#include "kvevent/kv_notice.h"

enum { kv_json_name_max = 4096 }; // bytes of an adapter's name, a salt or a URL

struct kv_json;

// NULL when memory is short.
struct kv_json *kv_json_create(void);
void kv_json_destroy(struct kv_json **reader);

// Whose events are read: those of others in the same document are passed over.  An event that does
// not name its owner belongs to every owner.
struct kv_json_owner {
    uint64_t backend_id;
    uint32_t rank;
};

// Begins a document, all of which is JSON if this is OK.  MALFORMED: it is not one of events, and
// kv_json_fault says why.  Keeps `document` until it is read.  `owner` NULL: the events of all.
enum status kv_json_begin(struct kv_json *reader, struct slice document,
                          const struct kv_json_owner *owner);

// The next notice.  CLOSED: the document is read.
enum status kv_json_next(struct kv_json *reader, struct kv_notice *out);

// The numbers that an engine gave to the owner's events in this document, known as soon as it is begun.  It
// counts all of its events, so a document that does not begin behind the last one has lost some, or comes from another process.
struct kv_json_ids {
    bool is_told;   // there are some
    bool is_broken; // and they do not follow each other
    uint64_t first;
    uint64_t last;
};
struct kv_json_ids kv_json_ids(const struct kv_json *reader);

// Whom a pushed document is about.
struct kv_json_target {
    struct slice url; // empty: not named so; good until the next _begin
    bool has_id;
    bool has_rank;
    uint64_t id;
    uint32_t rank;
};
struct kv_json_target kv_json_target(const struct kv_json *reader);

// Whom the event of the last notice is about, if it says so itself, which only Ranvier's do.
bool kv_json_event_backend(const struct kv_json *reader, uint64_t *id);

// What is wrong with the document, or with the event of the last notice, if that is MALFORMED or of an
// unknown kind.
struct kv_json_fault {
    const char *what; // NULL: nothing
    int64_t event;    // which one, from 0; -1: the document
};
struct kv_json_fault kv_json_fault(const struct kv_json *reader);
