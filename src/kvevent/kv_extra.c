// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "base/text.h"
#include "kvevent/kv_extra_internal.h"

bool kv_key_list_read(struct msgpack *cursor, const struct msgpack_value *value,
                      struct kv_key_list *out)
{
    *out = (struct kv_key_list){0};
    if (value->kind == MSGPACK_NIL) {
        return true;
    }
    if (value->kind != MSGPACK_ARRAY || value->number > kv_hash_max) {
        return false;
    }
    uint32_t count = (uint32_t)value->number;
    uint32_t nils = msgpack_nils(cursor, count);
    *out = (struct kv_key_list){.cursor = *cursor, .block = nils, .count = count - nils};
    return msgpack_skip(cursor, count - nils);
}

static bool is_adapter(const struct msgpack_value *key, const struct kv_notice *notice)
{
    return key->kind == MSGPACK_STRING && notice->adapter.size > 0 &&
           slice_equal(key->bytes, notice->adapter);
}

// Where the salt is among the keys of the first block: images come before it, and digests behind
// it are binary.  `count`: the block has no salt.
static uint64_t find_salt(struct msgpack cursor, uint64_t count, const struct kv_notice *notice)
{
    ASSERT(notice->salt.size == 0);
    uint64_t found = count;
    for (uint64_t i = 0; i < count; i++) {
        struct msgpack_value key;
        bool is_there = msgpack_next(&cursor, &key) && msgpack_leave(&cursor, &key);
        ASSERT(is_there);
        if (key.kind == MSGPACK_STRING && !is_adapter(&key, notice)) {
            found = i;
        }
    }
    return found;
}

static void add_key(struct text *out, struct slice bytes)
{
    uint8_t size[4];
    for (uint32_t i = 0; i < 4; i++) {
        size[i] = (uint8_t)(bytes.size >> (8 * i));
    }
    text_add(out, slice_of(size, sizeof(size)));
    text_add(out, bytes);
}

// The keys of one block.
static void read_keys(struct msgpack *cursor, bool may_have_salt, struct kv_notice *notice,
                      struct text *out)
{
    struct msgpack before = *cursor;
    struct msgpack_value key;
    uint64_t count = 1; // a single key may come without a list
    bool is_there = msgpack_next(cursor, &key);

    ASSERT(is_there);
    if (key.kind == MSGPACK_NIL) {
        return;
    }
    if (key.kind == MSGPACK_ARRAY) {
        count = key.number;
    } else {
        *cursor = before;
    }
    uint64_t salt = may_have_salt ? find_salt(*cursor, count, notice) : count;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *start = cursor->at;
        is_there = msgpack_next(cursor, &key) && msgpack_leave(cursor, &key);
        ASSERT(is_there);
        if (i == salt) {
            notice->salt = key.bytes;
        } else if (key.kind == MSGPACK_STRING || key.kind == MSGPACK_BINARY) {
            if (!is_adapter(&key, notice)) {
                add_key(out, key.bytes);
            }
        } else {
            add_key(out, slice_of(start, (size_t)(cursor->at - start)));
        }
    }
}

// The keys of this block, if the list has any.
static void take_keys(struct kv_key_list *list, uint32_t block, struct kv_notice *notice,
                      struct text *out)
{
    if (list->count == 0 || block < list->block) {
        return;
    }
    list->count--;
    bool begins = block == 0 && (!notice->has_parent || notice->may_begin);
    read_keys(&list->cursor, begins && notice->salt.size == 0, notice, out);
}

bool kv_extras_read(struct kv_extras *extras, struct kv_key_list *keys, struct kv_key_list *media,
                    struct kv_notice *notice)
{
    ASSERT(notice->hash_count <= kv_hash_max);
    struct text out = text_over(extras->bytes, kv_extra_max);
    uint32_t count = 0;

    for (uint32_t block = 0; block < notice->hash_count && keys->count + media->count > 0;
         block++) {
        size_t start = out.size;
        take_keys(keys, block, notice, &out);
        take_keys(media, block, notice, &out);
        if (out.size > start) {
            extras->list[count++] = (struct kv_extra){
                .block = block,
                .bytes = slice_of(out.bytes + start, out.size - start),
            };
        }
    }
    notice->extras = extras->list;
    notice->extra_count = count;
    return !out.overflow;
}
