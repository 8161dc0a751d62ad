// SPDX-License-Identifier: Apache-2.0

#include "knowledge/knowledge.h"

#include "base/base.h"
#include "base/hash.h"
#include "fleet/capacity.h"
#include "fleet/load.h"

#include <stdlib.h>

// Keeps the keys of sessions apart from those of prompts, which are in the same index.
static const uint64_t session_domain = 0x73657373696f6e73;

enum {
    misses_in_a_row = 3,
    young_misses_in_a_row = 2,
    audit_tokens_min = 64,  // fewer reported tokens prove nothing
    merge_tries_max = 1000, // the thread that has the role may be kept from running for a while
};

struct knowledge_slot {
    atomic_uint_fast64_t owner; // hash of the backend's id and life; 0: free
    atomic_uint misses;         // consecutive responses without the blocks that we believed in
    atomic_uint untold;         // responses with far more than expected since events reported any
    atomic_uint capacity;       // of the cache, in tokens, reported or learned; 0: unknown
    atomic_uint reported;       // the capacity that the engine reports; 0: none
};

struct knowledge {
    struct prefix_index *index;
    struct prefix_updates *updates;
    struct prefix_tap *tap;       // may be NULL
    struct prefix_ledger *ledger; // may be NULL
    struct knowledge_slot *slots;
    uint32_t slot_count;
    struct traffic traffic[fleet_pool_count_max];
};

uint64_t knowledge_session_block(uint64_t session_key)
{
    return hash_pair(session_key, session_domain);
}

struct knowledge *knowledge_create(const struct knowledge_options *options)
{
    struct knowledge *knowledge = aligned_alloc(64, sizeof(*knowledge));
    if (knowledge == NULL) {
        return NULL;
    }
    knowledge->slot_count = options->backend_count_max;
    knowledge->slots = calloc(options->backend_count_max, sizeof(struct knowledge_slot));
    knowledge->index = prefix_index_create(&(struct prefix_limits){
        .block = options->block,
        .memory = options->memory,
        .backend_count_max = options->backend_count_max,
        .ttl_s = options->ttl_s,
    });
    knowledge->updates = knowledge->index == NULL
                             ? NULL
                             : prefix_updates_create(knowledge->index, options->sender_count);
    knowledge->tap = options->is_tapped ? prefix_tap_create(options->sender_count) : NULL;
    knowledge->ledger = NULL;
    if (options->ledger_memory > 0) {
        knowledge->ledger = prefix_ledger_create(&(struct prefix_ledger_limits){
            .block = options->ledger_block,
            .memory = options->ledger_memory,
            .backend_count_max = options->backend_count_max,
        });
    }
    for (uint32_t i = 0; i < fleet_pool_count_max; i++) {
        traffic_init(&knowledge->traffic[i]);
    }
    bool has_ledger = options->ledger_memory == 0 || knowledge->ledger != NULL;
    bool has_tap = !options->is_tapped || knowledge->tap != NULL;
    if (knowledge->slots == NULL || knowledge->updates == NULL || !has_ledger || !has_tap) {
        knowledge_destroy(&knowledge);
    }
    return knowledge;
}

void knowledge_destroy(struct knowledge **knowledge_ptr)
{
    struct knowledge *knowledge = *knowledge_ptr;
    *knowledge_ptr = NULL;

    if (knowledge == NULL) {
        return;
    }
    prefix_tap_destroy(&knowledge->tap);
    prefix_updates_destroy(&knowledge->updates);
    prefix_index_destroy(&knowledge->index);
    prefix_ledger_destroy(&knowledge->ledger);
    free(knowledge->slots);
    free(knowledge);
}

uint32_t knowledge_backend_count_max(const struct knowledge *knowledge)
{
    return knowledge->slot_count;
}

const struct prefix_index *knowledge_index(const struct knowledge *knowledge)
{
    return knowledge->index;
}

struct prefix_ledger *knowledge_ledger(const struct knowledge *knowledge)
{
    return knowledge->ledger;
}

struct prefix_tap *knowledge_tap(const struct knowledge *knowledge)
{
    return knowledge->tap;
}

uint64_t knowledge_number(struct knowledge *knowledge, uint32_t sender)
{
    return knowledge->tap != NULL ? prefix_tap_number(knowledge->tap, sender) : 0;
}

static void knowledge_note(struct knowledge *knowledge, uint32_t sender,
                           const struct backend *backend, struct prefix_note note)
{
    if (knowledge->tap == NULL) {
        return;
    }
    note.backend = backend->identity;
    note.lives = atomic_load_explicit(&backend->shared.lives, memory_order_relaxed);
    prefix_tap_put(knowledge->tap, sender, &note);
}

struct traffic *knowledge_traffic(struct knowledge *knowledge, uint32_t pool)
{
    ASSERT(pool < fleet_pool_count_max);
    return &knowledge->traffic[pool];
}

static struct knowledge_slot *knowledge_slot_of(const struct knowledge *knowledge,
                                                const struct backend *backend)
{
    ASSERT(backend->slot < knowledge->slot_count);
    return &knowledge->slots[backend->slot];
}

uint32_t knowledge_capacity(const struct knowledge *knowledge, const struct backend *backend)
{
    return atomic_load_explicit(&knowledge_slot_of(knowledge, backend)->capacity,
                                memory_order_relaxed);
}

static void knowledge_set_capacity(struct knowledge *knowledge, const struct backend *backend,
                                   uint32_t tokens)
{
    struct knowledge_slot *slot = knowledge_slot_of(knowledge, backend);
    atomic_store_explicit(&slot->capacity, tokens, memory_order_relaxed);
    prefix_index_set_capacity(knowledge->index, backend->slot, tokens);
}

void knowledge_set_learned_capacity(struct knowledge *knowledge, const struct backend *backend,
                                    uint32_t tokens)
{
    const struct knowledge_slot *slot = knowledge_slot_of(knowledge, backend);
    if (atomic_load_explicit(&slot->reported, memory_order_relaxed) == 0) {
        knowledge_set_capacity(knowledge, backend, tokens);
    }
}

// False: the queue was full, and the index stays as it was.
static bool knowledge_send(struct knowledge *knowledge, uint32_t sender,
                           const struct backend *backend, struct prefix_update update)
{
    update.backend = backend->slot;
    if (update.key_count > prefix_update_keys_max) {
        update.key_count = prefix_update_keys_max;
    }
    return prefix_updates_send(knowledge->updates, sender, &update);
}

static bool knowledge_forget(struct knowledge *knowledge, uint32_t sender,
                             const struct backend *backend)
{
    return knowledge_send(knowledge, sender, backend,
                          (struct prefix_update){.verb = PREFIX_FORGET});
}

static void knowledge_forget_emptied(struct knowledge *knowledge, uint32_t sender,
                                     const struct backend *backend)
{
    knowledge_forget(knowledge, sender, backend);
    knowledge_note(knowledge, sender, backend, (struct prefix_note){.kind = PREFIX_NOTE_EMPTIED});
}

// A capacity that the engine reports replaces the learned one.
static void follow_reported_capacity(struct knowledge *knowledge, const struct backend *backend)
{
    struct knowledge_slot *slot = knowledge_slot_of(knowledge, backend);
    uint32_t reported =
        capacity_told(atomic_load_explicit(&backend->load.cache_tokens, memory_order_relaxed));

    if (reported != atomic_load_explicit(&slot->reported, memory_order_relaxed)) {
        atomic_store_explicit(&slot->reported, reported, memory_order_relaxed);
        knowledge_set_capacity(knowledge, backend, reported);
    }
}

bool knowledge_owns(struct knowledge *knowledge, uint32_t sender, const struct backend *backend)
{
    struct knowledge_slot *slot = knowledge_slot_of(knowledge, backend);
    unsigned lives = atomic_load_explicit(&backend->shared.lives, memory_order_relaxed);
    uint_fast64_t mine = hash_pair(backend->id, lives) | 1;
    uint_fast64_t owner = atomic_load_explicit(&slot->owner, memory_order_relaxed);

    if (owner == mine) {
        follow_reported_capacity(knowledge, backend);
        return true;
    }
    if (atomic_compare_exchange_strong_explicit(&slot->owner, &owner, mine, memory_order_relaxed,
                                                memory_order_relaxed)) {
        atomic_store_explicit(&slot->misses, 0, memory_order_relaxed);
        atomic_store_explicit(&slot->reported, 0, memory_order_relaxed);
        knowledge_set_capacity(knowledge, backend, 0);
        if (!knowledge_forget(knowledge, sender, backend)) {
            // The next caller tries again.
            atomic_store_explicit(&slot->owner, 0, memory_order_relaxed);
        }
    }
    return false;
}

// Nothing is noted of a prediction without a number.
static void knowledge_note_store(struct knowledge *knowledge, uint32_t sender,
                                 const struct backend *backend, const struct prefix_update *update)
{
    static const enum prefix_note_kind kinds[] = {[PREFIX_PREDICTED] = PREFIX_NOTE_PREDICT,
                                                  [PREFIX_EXPECTED] = PREFIX_NOTE_EXPECT,
                                                  [PREFIX_CONFIRMED] = PREFIX_NOTE_CONFIRM};
    if (update->residency == PREFIX_CONFIRMED || update->prediction != 0) {
        knowledge_note(knowledge, sender, backend,
                       (struct prefix_note){.kind = kinds[update->residency],
                                            .prediction = update->prediction,
                                            .block_tokens = update->block_tokens,
                                            .keys = update->keys,
                                            .key_count = update->key_count});
    }
}

void knowledge_store(struct knowledge *knowledge, uint32_t sender, const struct backend *backend,
                     const struct prefix_update *update)
{
    struct prefix_update copy = *update;
    copy.verb = PREFIX_STORE;
    knowledge_send(knowledge, sender, backend, copy);
    knowledge_note_store(knowledge, sender, backend, update);
}

void knowledge_withdraw(struct knowledge *knowledge, uint32_t sender, const struct backend *backend,
                        const struct prefix_update *update)
{
    struct prefix_update copy = *update;
    copy.verb = PREFIX_DROP;
    copy.residency = PREFIX_PREDICTED;
    knowledge_send(knowledge, sender, backend, copy);
    knowledge_note(
        knowledge, sender, backend,
        (struct prefix_note){.kind = PREFIX_NOTE_WITHDRAW, .prediction = update->prediction});
}

void knowledge_move_session(struct knowledge *knowledge, uint32_t sender,
                            const struct backend *backend, const struct prefix_update *update,
                            uint32_t before)
{
    ASSERT(update->key_count == 1);
    if (before != UINT32_MAX && before != backend->slot) {
        ASSERT(before < knowledge->slot_count);
        prefix_updates_send(knowledge->updates, sender,
                            &(struct prefix_update){.verb = PREFIX_DROP,
                                                    .residency = PREFIX_PREDICTED,
                                                    .backend = before,
                                                    .keys = update->keys,
                                                    .key_count = 1});
    }
    struct prefix_update copy = *update;
    copy.verb = PREFIX_STORE;
    copy.residency = PREFIX_PREDICTED;
    knowledge_send(knowledge, sender, backend, copy);
    knowledge_note(
        knowledge, sender, backend,
        (struct prefix_note){.kind = PREFIX_NOTE_SESSION, .keys = update->keys, .key_count = 1});
}

void knowledge_merge(struct knowledge *knowledge, uint32_t sender,
                     const struct prefix_update *update, void (*pause)(void))
{
    for (uint32_t tries = 0; tries < merge_tries_max; tries++) {
        if (prefix_updates_try(knowledge->updates, update)) {
            return;
        }
        pause();
    }
    prefix_updates_send(knowledge->updates, sender, update);
}

// Eviction takes old blocks first, so an engine that misses several prompts in a row has lost its
// whole cache.  A single miss proves nothing, even of young blocks: a request may ask not to use
// the cache.
static bool is_emptied(struct knowledge_slot *slot, enum capacity_verdict verdict)
{
    if (verdict == CAPACITY_HELD) {
        atomic_store_explicit(&slot->misses, 0, memory_order_relaxed);
        return false;
    }
    unsigned before = atomic_fetch_add_explicit(&slot->misses, 1, memory_order_relaxed);
    if (before + 1 < (verdict == CAPACITY_EMPTIED ? young_misses_in_a_row : misses_in_a_row)) {
        return false;
    }
    atomic_store_explicit(&slot->misses, 0, memory_order_relaxed);
    return true;
}

void knowledge_learn(struct knowledge *knowledge, uint32_t sender, struct backend *backend,
                     const struct knowledge_truth *truth)
{
    struct knowledge_slot *slot = knowledge_slot_of(knowledge, backend);
    uint32_t belief = atomic_load_explicit(&slot->capacity, memory_order_relaxed);
    bool was_there = (uint64_t)truth->cached_tokens + truth->slack_tokens >= truth->believed_tokens;
    enum capacity_verdict verdict;

    atomic_fetch_add_explicit(&backend->load.predicted_tokens, truth->believed_tokens,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&backend->load.cached_tokens, truth->cached_tokens,
                              memory_order_relaxed);
    if (truth->believed_tokens <= truth->slack_tokens) {
        return; // too small a prediction to be wrong
    }
    uint32_t learned = capacity_learn(
        belief, &(struct capacity_sample){.age = truth->age, .was_there = was_there}, &verdict);
    if (learned != belief && atomic_load_explicit(&slot->reported, memory_order_relaxed) == 0) {
        knowledge_set_capacity(knowledge, backend, learned);
        knowledge_note(knowledge, sender, backend,
                       (struct prefix_note){.kind = PREFIX_NOTE_CAPACITY, .age = learned});
    }
    if (is_emptied(slot, verdict)) {
        knowledge_forget_emptied(knowledge, sender, backend);
    } else if (verdict == CAPACITY_EVICTED) {
        knowledge_send(knowledge, sender, backend,
                       (struct prefix_update){.verb = PREFIX_FORGET_OLDER, .age = truth->age});
        knowledge_note(knowledge, sender, backend,
                       (struct prefix_note){.kind = PREFIX_NOTE_EVICTED, .age = truth->age});
    }
}

// Far more was cached than expected, in several responses without one between them whose cached
// blocks events had reported.  A prediction that was right only because of an earlier response does
// not end the count.
static bool is_untold(struct knowledge_slot *slot, const struct knowledge_report *report)
{
    if (report->cached_tokens < audit_tokens_min) {
        return false;
    }
    if (report->reported_tokens >= report->cached_tokens / 2) {
        atomic_store_explicit(&slot->untold, 0, memory_order_relaxed);
        return false;
    }
    if (report->expected_tokens >= report->cached_tokens / 2) {
        return false;
    }
    unsigned before = atomic_fetch_add_explicit(&slot->untold, 1, memory_order_relaxed);
    if (before + 1 < misses_in_a_row) {
        return false;
    }
    atomic_store_explicit(&slot->untold, 0, memory_order_relaxed);
    return true;
}

void knowledge_audit(struct knowledge *knowledge, uint32_t sender, struct backend *backend,
                     const struct knowledge_report *report)
{
    struct knowledge_slot *slot = knowledge_slot_of(knowledge, backend);

    atomic_fetch_add_explicit(&backend->load.predicted_tokens, report->reported_tokens,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&backend->load.cached_tokens, report->cached_tokens,
                              memory_order_relaxed);
    if (is_untold(slot, report)) {
        atomic_fetch_add_explicit(&backend->shared.events_wrong, 1, memory_order_relaxed);
    }
    if (report->reported_tokens < audit_tokens_min) {
        return;
    }
    // Blocks may be evicted while the request waits, after the events that we know: allow for half.
    enum capacity_verdict verdict =
        report->cached_tokens >= report->reported_tokens / 2 ? CAPACITY_HELD : CAPACITY_EVICTED;
    if (is_emptied(slot, verdict)) {
        atomic_fetch_add_explicit(&backend->shared.events_wrong, 1, memory_order_relaxed);
        knowledge_forget_emptied(knowledge, sender, backend);
    }
}

void knowledge_status(const struct knowledge *knowledge, struct knowledge_status *out)
{
    prefix_index_usage(knowledge->index, &out->index);
    out->letters_lost = prefix_updates_dropped(knowledge->updates);
}
