// SPDX-License-Identifier: Apache-2.0
//
// kv_extra_internal.h -- the keys beside tokens that an engine puts into the hash of each block.
//
//     extra_keys  [ nil, ["adapter", ["image", -3], "salt"], ... ]   for each block a list, or nil
//     mm_keys     [ [{"type": "mm_key", ...}], ... ]                 the same of TensorRT-LLM
//
// Nearly always all of them are nil.  The name of the adapter and the salt are kept apart from
// the rest, since our own keys have them in their seed.
//
// Memory: the caller's.
#pragma once

#include "kvevent/kv_notice.h"
#include "kvevent/msgpack.h"

// Where the keys of the blocks are, from the first block that has any.
struct kv_key_list {
    struct msgpack cursor;
    uint32_t block;
    uint32_t count; // of blocks, from that one on
};

// Passes over the list whose head is `value`, and remembers where it is.  False: not a list.
bool kv_key_list_read(struct msgpack *cursor, const struct msgpack_value *value,
                      struct kv_key_list *out);

struct kv_extras {
    struct kv_extra list[kv_hash_max];
    uint8_t bytes[kv_extra_max];
};

// Sets the extras of `notice`, and its salt if that is unknown.  Both lists have passed
// kv_key_list_read.  False: the extra keys exceed kv_extra_max.
bool kv_extras_read(struct kv_extras *extras, struct kv_key_list *keys, struct kv_key_list *media,
                    struct kv_notice *notice);
