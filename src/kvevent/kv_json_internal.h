// SPDX-License-Identifier: Apache-2.0
//
// kv_json_internal.h -- shared by the readers of the kinds of events.
//
//     kv_json.c          documents, owners of events, Ranvier's events
//     kv_json_event.c    events with vLLM's names
//     kv_json_blocks.c   TensorRT-LLM's events
//     kv_json_value.c    the values in them
//
// A document is known to be JSON before its parts are walked, so walking cannot fail.
#pragma once

#include "json/json.h"
#include "kvevent/kv_json.h"

// Every member that is read, of documents, events, their data, and blocks.
#define KV_JSON_FIELDS(X)                                                                          \
    X(attention_dp_rank)                                                                           \
    X(backend)                                                                                     \
    X(backend_id)                                                                                  \
    X(block_hash)                                                                                  \
    X(block_hashes)                                                                                \
    X(block_size)                                                                                  \
    X(blocks)                                                                                      \
    X(cache_level)                                                                                 \
    X(cache_salt)                                                                                  \
    X(data)                                                                                        \
    X(event)                                                                                       \
    X(event_id)                                                                                    \
    X(events)                                                                                      \
    X(extra_keys)                                                                                  \
    X(group_idx)                                                                                   \
    X(kv_cache_spec_kind)                                                                          \
    X(locality)                                                                                    \
    X(lora_id)                                                                                     \
    X(lora_name)                                                                                   \
    X(medium)                                                                                      \
    X(mm_keys)                                                                                     \
    X(parent_block_hash)                                                                           \
    X(parent_hash)                                                                                 \
    X(prefix_hash)                                                                                 \
    X(rank)                                                                                        \
    X(token_ids)                                                                                   \
    X(tokens)                                                                                      \
    X(type)                                                                                        \
    X(version)                                                                                     \
    X(window_size)

enum kv_json_field {
#define X(name) KV_JSON_##name,
    KV_JSON_FIELDS(X)
#undef X
        kv_json_field_count,
};
_Static_assert(kv_json_field_count <= (int)json_find_max, "more names than json_find takes");

// The members of one object.
struct kv_json_members {
    struct json_value of[kv_json_field_count];
};

// One block of TensorRT-LLM's, whose tokens are behind those of the run before.
struct kv_json_block {
    uint64_t hash;
    uint32_t token_count;
    enum prefix_tier tier;
    bool is_plain;
    struct slice adapter;
    struct slice salt;
};

struct kv_json {
    struct kv_json_owner owner;
    bool takes_all;
    struct kv_json_target target;
    struct kv_json_ids ids;
    uint64_t window_max; // the widest attention of the document; 0: not given
    struct json events;  // among them
    int64_t event;       // the number of the last one
    const char *fault;   // its error; NULL: valid
    uint64_t event_backend;
    bool has_event_backend;

    // Notices of the last event that are ready, the last one first.
    struct kv_notice ready[prefix_tier_count];
    uint32_t ready_count;

    // Blocks of the last event that are not: those from `blocks` on, and before them one that was
    // read already.
    struct json blocks;
    bool in_blocks;
    bool has_block;
    struct kv_json_block block;
    struct kv_notice run; // the last run; the next one is behind it

    uint8_t url[kv_json_name_max];
    struct kv_json_names {
        uint8_t adapter[kv_json_name_max];
        uint8_t salt[kv_json_name_max];
    } names; // of the last event, or of the blocks of a run, where they had escapes
    struct kv_json_names names_ahead; // of the block behind them
    uint64_t hashes[kv_hash_max];
    uint32_t tokens[kv_token_max];
};

// Values (kv_json_value.c).

// Of a part of the document.
void kv_json_find(struct slice object, const char *const *names, uint32_t count,
                  struct json_value *out);
void kv_json_members(struct slice object, struct kv_json_members *out);

bool kv_json_u32(const struct json_value *value, uint32_t *out);
bool kv_json_hex(struct slice digits, uint64_t *out);
bool kv_json_hash(const struct json_value *value, uint64_t *out);

// Null is empty.  `space`, of kv_json_name_max bytes, is for names with escapes.
bool kv_json_name(const struct json_value *value, uint8_t *space, struct slice *out);

// These return NULL, or the error.
const char *kv_json_hashes(struct kv_json *reader, const struct json_value *list,
                           struct kv_notice *out);
const char *kv_json_parent(const struct json_value *parent, struct kv_notice *out);

// Whether the adapter is given by its number only: only the engine knows which adapter that is.
bool kv_json_is_anonymous(const struct kv_json_members *block, struct slice adapter);

// The content of the blocks is more than their tokens: removes those.
void kv_json_hide_tokens(struct kv_notice *notice);

// Events (kv_json.c).  Functions that return a bool say whether *out is a notice.

enum kv_json_kind {
    KV_JSON_UNKNOWN,
    KV_JSON_STORED,
    KV_JSON_REMOVED,
    KV_JSON_CLEARED,
    KV_JSON_UPDATED,
    KV_JSON_CREATED,
};
enum kv_json_kind kv_json_kind(const struct json_value *type);

bool kv_json_malformed(struct kv_json *reader, const char *what, struct kv_notice *out);
bool kv_json_unknown(struct kv_json *reader, struct kv_notice *out);
bool kv_json_cleared(struct kv_notice *out);

// kv_json_event.c
bool kv_json_stored(struct kv_json *reader, const struct kv_json_members *event,
                    struct kv_notice *out);
bool kv_json_removed(struct kv_json *reader, const struct kv_json_members *event,
                     struct kv_notice *out);

// kv_json_blocks.c: an event, and what is left of its blocks.
bool kv_json_data(struct kv_json *reader, const struct kv_json_members *event,
                  struct kv_notice *out);
bool kv_json_run(struct kv_json *reader, struct kv_notice *out);
