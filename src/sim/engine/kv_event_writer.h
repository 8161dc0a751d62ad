// SPDX-License-Identifier: Apache-2.0
//
// kv_event_writer.h -- the KV events of an engine, in msgpack as each engine and release
// writes it.
//
//     batch  [ seconds, [ event, event, ... ], rank ]          one message of the publisher
//     event  {"type": "BlockStored", "block_hashes": [...], ...}    vLLM since 0.24, TensorRT-LLM
//            ["BlockStored", [...], ...]                            vLLM before, SGLang
//
// kv_event_formats.def lists the forms.  In the array form every field of the release is there; in
// the map form some are left out when they are nil.
//
// Pure.  Writes into a struct text: whole, or known not to be.
#pragma once

#include "base/slice.h"

struct text;

enum { kv_digest_size = 32 };

struct kv_event_format {
    const char *name;
    const char *summary;
    const char *host_medium; // the name of the host's tier; NULL: it is not published
    uint32_t stored_fields;
    uint32_t removed_fields;
    bool is_map;
    bool has_rank;      // in the batch
    bool replays_topic; // a replayed batch begins with its topic
    bool is_signed;     // hashes are signed 64-bit integers
    bool has_digest;    // can say hashes as whole digests
    bool merges;        // neighbours that continue each other become one event
    bool salts_by_map;  // a salted block has a map of its own at the end
};

// NULL: unknown format.  The first is the default.
const struct kv_event_format *kv_event_format_find(const char *name);

// For help; NULL past the last.
const struct kv_event_format *kv_event_format_at(uint32_t index);

enum kv_event_kind { KV_EVENT_STORED, KV_EVENT_REMOVED, KV_EVENT_CLEARED };

// Borrows everything.  NULL members are nil, or left out.
struct kv_event {
    enum kv_event_kind kind;
    const uint64_t *hashes; // each names its block and all before it
    uint32_t hash_count;
    bool has_parent;
    bool has_group; // of the cache; vLLM says 0 when there is one
    uint64_t parent;
    const uint32_t *tokens; // of all blocks; none: the event says nothing about its blocks
    uint32_t token_count;
    uint32_t block_tokens;
    uint32_t group;
    uint32_t window;  // of a sliding window; 0: none
    uint32_t lora_id; // 0: none
    const char *lora_name;
    const char *salt;
    const char *medium;    // "GPU"
    const char *spec_kind; // "full_attention"
    const char *locality;  // "LOCAL"
};

struct kv_hash_form {
    const struct kv_event_format *format;
    bool is_digest; // as bytes instead of an integer, where the format can
};

void kv_event_write(struct kv_hash_form form, const struct kv_event *event, struct text *out);

// The batch around `events`, which are already written.  A negative rank is nil.
struct kv_batch {
    double seconds; // of the wall clock
    struct slice events;
    uint32_t event_count;
    int32_t rank;
};
void kv_batch_write(const struct kv_event_format *format, const struct kv_batch *batch,
                    struct text *out);

// Bytes that a batch takes beside its events, at most.
enum { kv_batch_overhead = 1 + 9 + 5 + 9 };

// The digest whose last 8 bytes are the hash.
void kv_digest(uint64_t hash, uint8_t out[kv_digest_size]);
