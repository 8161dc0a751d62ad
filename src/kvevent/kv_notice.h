// SPDX-License-Identifier: Apache-2.0
//
// kv_notice.h -- what an engine reports of its KV cache, read from the bytes of one message.
//
//     batch   [ seconds, [ event, event, ... ], rank ]             msgpack
//     event   {"type": "BlockStored", "block_hashes": [...], ...}  vLLM from 0.24, TensorRT-LLM
//             ["BlockStored", [...], ...]                          vLLM before 0.24, SGLang, llm-d
//
// A batch may mix both forms of event, with the fields of any release.  Unknown fields are
// skipped.  An event of an unknown kind is a notice of that kind, and a malformed event is a
// notice too, so a batch is never lost for one event.  Only invalid msgpack ends a batch.
//
// Bytes come from outside: every count is checked before it is used, nesting costs no stack, and
// reading allocates nothing.  Hashes are names: integers by their low 64 bits, bytes by their
// last 8.  Bytes behind the batch are not read.
//
// Threads: a reader belongs to one.  Memory: taken by kv_reader_create.
#pragma once

#include "base/slice.h"
#include "base/status.h"
#include "prefix/prefix_ledger.h"

enum {
    kv_hash_max = 65536,    // of one event
    kv_token_max = 1048576, // likewise
    kv_extra_max = 4 << 20, // bytes of all extra keys of one event: 64 for each of as many hashes
    kv_payload_max = 64 << 20,
};

enum kv_notice_kind {
    KV_NOTICE_STORED,
    KV_NOTICE_REMOVED,
    KV_NOTICE_CLEARED,   // the cache of the GPU is empty
    KV_NOTICE_UNKNOWN,   // an event of another kind
    KV_NOTICE_MALFORMED, // wrong types, or beyond the limits above
};

// Keys that a block's hash covers beside tokens, adapter and salt: digests of images, mostly.
struct kv_extra {
    uint32_t block;     // of this event
    struct slice bytes; // for each key its size, four little-endian bytes, and its bytes
};

// Valid until the reader goes on.  Of UNKNOWN and MALFORMED only the kind is set.
struct kv_notice {
    enum kv_notice_kind kind;
    const uint64_t *hashes;
    uint32_t hash_count;
    uint32_t block_tokens; // 0: a placeholder, for blocks that are known already
    const uint32_t *tokens;
    uint32_t token_count;
    const uint32_t *copies_left; // REMOVED: of each hash, UINT32_MAX if unknown; NULL: all unknown
    uint64_t parent;             // of the first block, if has_parent
    uint32_t group;              // if has_group
    enum prefix_tier tier;
    bool has_parent;
    bool may_begin; // if no block has its parent's name: 0, which llm-d writes in arrays for none
    bool has_group;
    bool decides;         // its group has full attention, so its blocks decide what is a hit
    bool is_plain;        // its tokens are ids; otherwise `tokens` is empty
    bool is_remote;       // held outside this engine: "locality" is REMOTE
    struct slice adapter; // empty: none
    struct slice salt;    // of the first block; empty: none
    const struct kv_extra *extras; // at most one for a block, in their order
    uint32_t extra_count;
};

struct kv_reader;

// NULL when memory is short.
struct kv_reader *kv_reader_create(void);
void kv_reader_destroy(struct kv_reader **reader);

// Begins a batch.  MALFORMED: not a batch.  TOO_LARGE: more than kv_payload_max.  Keeps `payload`
// until the batch is read.
enum status kv_reader_begin(struct kv_reader *reader, struct slice payload);

// The next event.  CLOSED: the batch is read.  MALFORMED: the rest is invalid msgpack; the
// notices before it are valid.
enum status kv_reader_next(struct kv_reader *reader, struct kv_notice *out);

// For the batch that was begun: calls `prefetch` with hashes of stored blocks while the tokens of
// their event, which come later and take long to read, are still unread.  A hint: some hashes are
// left out, and their event may still turn out malformed.
typedef void (*kv_prefetch_fn)(void *owner, const uint64_t *hashes, uint32_t count);
void kv_reader_prefetch(struct kv_reader *reader, kv_prefetch_fn prefetch, void *owner);

// When the engine made the batch that was begun, in seconds since 1970; NAN: unknown.
double kv_reader_seconds(const struct kv_reader *reader);

// After CLOSED: the data-parallel rank of the batch; -1: unknown.
int64_t kv_reader_rank(const struct kv_reader *reader);
