// SPDX-License-Identifier: Apache-2.0
//
// A ring is an array of words.  Positions only grow.  An update lies in one piece from its
// position modulo ring_words on: its fields, then its keys.  It may reach behind the end of the
// ring, where the array has room for the longest update; the words that it would have covered at
// the front stay unused.

#include "prefix/prefix_updates.h"

#include "base/base.h"
#include "prefix/prefix_updates_internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    ring_words = 1 << 15, // 256 KiB: four of the longest updates, thousands of usual ones
    head_words = sizeof(struct prefix_update) / sizeof(uint64_t),
    update_words_max = head_words + prefix_update_keys_max,
};
_Static_assert(sizeof(struct prefix_update) % sizeof(uint64_t) == 0, "an update is whole words");

struct sender {
    uint64_t *words;
    struct {
        _Alignas(64) _Atomic uint64_t written; // by the sender
        _Atomic uint64_t dropped;              // by the sender
        _Alignas(64) _Atomic uint64_t read;    // by the thread with the role
    } shared;
};

struct prefix_updates {
    struct prefix_index *index;
    uint32_t sender_count;
    struct {
        _Alignas(64) _Atomic uint32_t is_taken; // the role of writer
    } shared;
    struct sender senders[];
};

void prefix_updates_destroy(struct prefix_updates **updates)
{
    for (uint32_t i = 0; *updates != NULL && i < (*updates)->sender_count; i++) {
        free((*updates)->senders[i].words);
    }
    free(*updates);
    *updates = NULL;
}

struct prefix_updates *prefix_updates_create(struct prefix_index *index, uint32_t sender_count)
{
    size_t size = sizeof(struct prefix_updates) + sender_count * sizeof(struct sender);
    struct prefix_updates *updates = aligned_alloc(64, size);
    if (updates == NULL) {
        return NULL;
    }
    memset((void *)updates, 0, size);
    updates->index = index;
    updates->sender_count = sender_count;
    for (uint32_t i = 0; i < sender_count; i++) {
        updates->senders[i].words = malloc((ring_words + update_words_max) * sizeof(uint64_t));
        if (updates->senders[i].words == NULL) {
            prefix_updates_destroy(&updates);
            return NULL;
        }
    }
    return updates;
}

static bool put_update(struct sender *sender, const struct prefix_update *update)
{
    uint64_t written = atomic_load_explicit(&sender->shared.written, memory_order_relaxed);
    uint64_t read = atomic_load_explicit(&sender->shared.read, memory_order_acquire);
    uint64_t size = head_words + update->key_count;
    if (written + size - read > ring_words) {
        return false;
    }
    uint64_t *words = sender->words + written % ring_words;
    memcpy(words, update, sizeof(*update));
    if (update->key_count > 0) {
        memcpy(words + head_words, update->keys, update->key_count * sizeof(update->keys[0]));
    }
    // In one order with the role: see give_role().
    atomic_store_explicit(&sender->shared.written, written + size, memory_order_seq_cst);
    return true;
}

void prefix_update_apply(struct prefix_index *index, const struct prefix_update *update)
{
    switch (update->verb) {
    case PREFIX_STORE:
        prefix_index_store(index, &(struct prefix_span){.keys = update->keys,
                                                        .key_count = update->key_count,
                                                        .block_tokens = update->block_tokens,
                                                        .backend = update->backend,
                                                        .now_s = update->now_s,
                                                        .residency = update->residency});
        break;
    case PREFIX_DROP:
        prefix_index_drop(index, update->backend, update->residency, update->keys,
                          update->key_count, update->from);
        break;
    case PREFIX_FORGET:
        prefix_index_forget(index, update->backend);
        break;
    case PREFIX_FORGET_OLDER:
        prefix_index_forget_older(index, update->backend, update->age);
        break;
    case PREFIX_MERGE:
        prefix_index_merge(index,
                           &(struct prefix_span){.keys = update->keys,
                                                 .key_count = update->key_count,
                                                 .backend = update->backend,
                                                 .now_s = update->now_s,
                                                 .residency = update->residency},
                           update->age, update->age_s);
        break;
    }
}

static void empty_ring(struct prefix_index *index, struct sender *sender)
{
    uint64_t written = atomic_load_explicit(&sender->shared.written, memory_order_acquire);
    uint64_t read = atomic_load_explicit(&sender->shared.read, memory_order_relaxed);
    while (read != written) {
        const uint64_t *words = sender->words + read % ring_words;
        struct prefix_update update;
        memcpy(&update, words, sizeof(update));
        update.keys = words + head_words;
        prefix_update_apply(index, &update);
        read += head_words + update.key_count;
        atomic_store_explicit(&sender->shared.read, read, memory_order_release);
    }
}

static bool has_updates(struct prefix_updates *updates)
{
    for (uint32_t i = 0; i < updates->sender_count; i++) {
        struct sender *sender = &updates->senders[i];
        if (atomic_load_explicit(&sender->shared.written, memory_order_seq_cst) !=
            atomic_load_explicit(&sender->shared.read, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

bool prefix_updates_take_role(struct prefix_updates *updates)
{
    return atomic_exchange_explicit(&updates->shared.is_taken, 1, memory_order_seq_cst) == 0;
}

static void empty_rings(struct prefix_updates *updates)
{
    for (uint32_t i = 0; i < updates->sender_count; i++) {
        empty_ring(updates->index, &updates->senders[i]);
    }
}

// A sender writes its update and then looks at the role; the thread with the role gives it back and
// then looks for updates.  All four are in the one order of sequential consistency, so at least one
// of the two sees the other, and no update stays behind.
static bool give_role(struct prefix_updates *updates)
{
    atomic_store_explicit(&updates->shared.is_taken, 0, memory_order_seq_cst);
    return !has_updates(updates);
}

static void apply_all(struct prefix_updates *updates)
{
    bool is_done = false;
    while (!is_done && prefix_updates_take_role(updates)) {
        empty_rings(updates);
        is_done = give_role(updates);
    }
}

void prefix_updates_give_role(struct prefix_updates *updates)
{
    if (!give_role(updates)) {
        apply_all(updates);
    }
}

bool prefix_updates_send(struct prefix_updates *updates, uint32_t sender,
                         const struct prefix_update *update)
{
    ASSERT(sender < updates->sender_count);
    ASSERT(update->key_count <= prefix_update_keys_max);
    // Mostly the role is free, and the update is applied without the ring.  Updates of the same
    // sender that are still in its ring come first.
    if (prefix_updates_take_role(updates)) {
        empty_rings(updates);
        prefix_update_apply(updates->index, update);
        prefix_updates_give_role(updates);
        return true;
    }
    struct sender *own = &updates->senders[sender];
    bool is_put = put_update(own, update);
    if (!is_put) {
        uint64_t dropped = atomic_load_explicit(&own->shared.dropped, memory_order_relaxed);
        atomic_store_explicit(&own->shared.dropped, dropped + 1, memory_order_relaxed);
    }
    apply_all(updates);
    return is_put;
}

bool prefix_updates_try(struct prefix_updates *updates, const struct prefix_update *update)
{
    ASSERT(update->key_count <= prefix_update_keys_max);
    if (!prefix_updates_take_role(updates)) {
        return false;
    }
    empty_rings(updates); // an earlier update of this sender may wait there
    prefix_update_apply(updates->index, update);
    prefix_updates_give_role(updates);
    return true;
}

uint64_t prefix_updates_dropped(const struct prefix_updates *updates)
{
    uint64_t dropped = 0;
    for (uint32_t i = 0; i < updates->sender_count; i++) {
        dropped += atomic_load_explicit(&updates->senders[i].shared.dropped, memory_order_relaxed);
    }
    return dropped;
}
