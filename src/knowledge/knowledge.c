// SPDX-License-Identifier: Apache-2.0

#include "knowledge/knowledge.h"

#include "base/base.h"
#include "base/hash.h"
#include "fleet/capacity.h"
#include "fleet/load.h"

#include <stdlib.h>

// Sessions and prompts share the index, and never a key.
static const uint64_t session_domain = 0x73657373696f6e73;

enum { misses_in_a_row = 3, young_misses_in_a_row = 2, audit_tokens_min = 64 };

struct slot {
    atomic_uint_fast64_t owner; // the backend's id and life; 0: nobody yet
    atomic_uint misses;         // in a row, of what was believed to be there
    atomic_uint capacity;       // believed, in tokens; 0: no bound is known
    atomic_uint told;           // the same as the engine told it
};

struct knowledge {
    struct prefix_index *index;
    struct prefix_mail *mail;
    struct prefix_ledger *ledger; // may be NULL
    struct slot *slots;
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
    knowledge->slots = calloc(options->backend_count_max, sizeof(struct slot));
    knowledge->index = prefix_index_create(&(struct prefix_limits){
        .block = options->block,
        .memory = options->memory,
        .backend_count_max = options->backend_count_max,
        .ttl_s = options->ttl_s,
    });
    knowledge->mail = knowledge->index == NULL
                          ? NULL
                          : prefix_mail_create(knowledge->index, options->sender_count);
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
    if (knowledge->slots == NULL || knowledge->mail == NULL || !has_ledger) {
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
    prefix_mail_destroy(&knowledge->mail);
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

struct traffic *knowledge_traffic(struct knowledge *knowledge, uint32_t pool)
{
    ASSERT(pool < fleet_pool_count_max);
    return &knowledge->traffic[pool];
}

static struct slot *slot_of(struct knowledge *knowledge, const struct backend *backend)
{
    ASSERT(backend->slot < knowledge->slot_count);
    return &knowledge->slots[backend->slot];
}

uint32_t knowledge_capacity(const struct knowledge *knowledge, const struct backend *backend)
{
    ASSERT(backend->slot < knowledge->slot_count);
    return atomic_load_explicit(&knowledge->slots[backend->slot].capacity, memory_order_relaxed);
}

static void set_capacity(struct knowledge *knowledge, const struct backend *backend,
                         uint32_t tokens)
{
    struct slot *slot = slot_of(knowledge, backend);
    atomic_store_explicit(&slot->capacity, tokens, memory_order_relaxed);
    prefix_index_set_capacity(knowledge->index, backend->slot, tokens);
}

// False: the letter was lost, and all is believed as before.
static bool forget(struct knowledge *knowledge, uint32_t sender, const struct backend *backend)
{
    return prefix_mail_send(
        knowledge->mail, sender,
        &(struct prefix_letter){.verb = PREFIX_FORGET, .backend = backend->slot});
}

// What the engine tells of its size beats what answers show.
static void follow_report(struct knowledge *knowledge, const struct backend *backend)
{
    struct slot *slot = slot_of(knowledge, backend);
    uint32_t told =
        capacity_told(atomic_load_explicit(&backend->load.cache_tokens, memory_order_relaxed));

    if (told != atomic_load_explicit(&slot->told, memory_order_relaxed)) {
        atomic_store_explicit(&slot->told, told, memory_order_relaxed);
        set_capacity(knowledge, backend, told);
    }
}

bool knowledge_owns(struct knowledge *knowledge, uint32_t sender, const struct backend *backend)
{
    struct slot *slot = slot_of(knowledge, backend);
    unsigned lives = atomic_load_explicit(&backend->shared.lives, memory_order_relaxed);
    uint_fast64_t mine = hash_pair(backend->id, lives) | 1;
    uint_fast64_t owner = atomic_load_explicit(&slot->owner, memory_order_relaxed);

    if (owner == mine) {
        follow_report(knowledge, backend);
        return true;
    }
    if (atomic_compare_exchange_strong_explicit(&slot->owner, &owner, mine, memory_order_relaxed,
                                                memory_order_relaxed)) {
        atomic_store_explicit(&slot->misses, 0, memory_order_relaxed);
        atomic_store_explicit(&slot->told, 0, memory_order_relaxed);
        set_capacity(knowledge, backend, 0);
        if (!forget(knowledge, sender, backend)) {
            atomic_store_explicit(&slot->owner, 0, memory_order_relaxed); // whoever asks next tries
        }
    }
    return false;
}

static void send(struct knowledge *knowledge, uint32_t sender, const struct backend *backend,
                 struct prefix_letter letter)
{
    letter.backend = backend->slot;
    if (letter.key_count > prefix_letter_keys_max) {
        letter.key_count = prefix_letter_keys_max;
    }
    prefix_mail_send(knowledge->mail, sender, &letter);
}

void knowledge_store(struct knowledge *knowledge, uint32_t sender, const struct backend *backend,
                     const struct prefix_letter *letter)
{
    struct prefix_letter copy = *letter;
    copy.verb = PREFIX_STORE;
    send(knowledge, sender, backend, copy);
}

void knowledge_withdraw(struct knowledge *knowledge, uint32_t sender, const struct backend *backend,
                        const struct prefix_letter *letter)
{
    struct prefix_letter copy = *letter;
    copy.verb = PREFIX_DROP;
    copy.residency = PREFIX_PREDICTED;
    send(knowledge, sender, backend, copy);
}

void knowledge_move_session(struct knowledge *knowledge, uint32_t sender, uint64_t block,
                            uint32_t slot)
{
    ASSERT(slot < knowledge->slot_count);
    prefix_mail_send(knowledge->mail, sender,
                     &(struct prefix_letter){.verb = PREFIX_DROP,
                                             .residency = PREFIX_PREDICTED,
                                             .backend = slot,
                                             .keys = &block,
                                             .key_count = 1});
}

// An engine that evicts still has what is young: one that has nothing of several prompts in a row has
// nothing at all.  One alone proves nothing, however young: a request may ask not to be read from
// the cache.
static bool is_emptied(struct slot *slot, enum capacity_verdict verdict)
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
    struct slot *slot = slot_of(knowledge, backend);
    uint32_t belief = atomic_load_explicit(&slot->capacity, memory_order_relaxed);
    bool was_there = (uint64_t)truth->cached_tokens + truth->slack_tokens >= truth->believed_tokens;
    enum capacity_verdict verdict;

    atomic_fetch_add_explicit(&backend->load.predicted_tokens, truth->believed_tokens,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&backend->load.cached_tokens, truth->cached_tokens,
                              memory_order_relaxed);
    if (truth->believed_tokens <= truth->slack_tokens) {
        return; // nothing was claimed that could be wrong
    }
    uint32_t learned = capacity_learn(
        belief, &(struct capacity_sample){.age = truth->age, .was_there = was_there}, &verdict);
    if (learned != belief && atomic_load_explicit(&slot->told, memory_order_relaxed) == 0) {
        set_capacity(knowledge, backend, learned);
    }
    if (is_emptied(slot, verdict)) {
        forget(knowledge, sender, backend);
    } else if (verdict == CAPACITY_EVICTED) {
        prefix_mail_send(knowledge->mail, sender,
                         &(struct prefix_letter){.verb = PREFIX_FORGET_OLDER,
                                                 .backend = backend->slot,
                                                 .age = truth->age});
    }
}

void knowledge_audit(struct knowledge *knowledge, uint32_t sender, struct backend *backend,
                     uint32_t told_tokens, uint32_t cached_tokens)
{
    struct slot *slot = slot_of(knowledge, backend);

    atomic_fetch_add_explicit(&backend->load.predicted_tokens, told_tokens, memory_order_relaxed);
    atomic_fetch_add_explicit(&backend->load.cached_tokens, cached_tokens, memory_order_relaxed);
    if (told_tokens < audit_tokens_min) {
        return; // too little to prove anything
    }
    // What was evicted while the request waited is no lie: half of it may go.
    enum capacity_verdict verdict =
        cached_tokens >= told_tokens / 2 ? CAPACITY_HELD : CAPACITY_EVICTED;
    if (is_emptied(slot, verdict)) {
        atomic_fetch_add_explicit(&backend->shared.events_wrong, 1, memory_order_relaxed);
        forget(knowledge, sender, backend);
    }
}

void knowledge_status(const struct knowledge *knowledge, struct knowledge_status *out)
{
    prefix_index_usage(knowledge->index, &out->index);
    out->letters_lost = prefix_mail_lost(knowledge->mail);
}
