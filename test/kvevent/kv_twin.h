// SPDX-License-Identifier: Apache-2.0
//
// kv_twin.h -- the promises of kv_holdings.h and prefix_ledger.h for one rank of an engine, in
// the simplest form: a list of names with their keys and copies, and a list of orphans.
//
// Names are found by a table of lists; all else is a plain search.  It is given the same
// notices.  Of ignored events it knows other sizes, other groups and remote ones; memory is never
// short.
#pragma once

#include "base/base.h"
#include "base/hash.h"
#include "kvevent/kv_notice.h"
#include "kvevent/kv_orphans.h"
#include "prefix/prefix_chain.h"

#include <stdlib.h>

enum { twin_heads = 8192 };

struct twin_name {
    struct twin_name *next;
    uint64_t hash;
    enum prefix_tier tier;
    uint64_t key;
    uint32_t copies;
};

// How many names mean a key in each tier.
struct twin_key {
    struct twin_key *next;
    uint64_t key;
    uint32_t names[prefix_tier_count];
};

struct twin_orphan {
    struct twin_orphan *next;
    struct kv_notice notice; // with memory of its own
    bool *is_gone;
    bool is_adopted;
    uint64_t stored_ms;
};

struct kv_twin {
    bool is_set;
    bool has_group;
    uint32_t group;
    uint32_t block_tokens;
    uint64_t name_count;
    struct twin_name *names[twin_heads];
    struct twin_key *keys[twin_heads];
    struct twin_orphan *orphans; // the oldest first
};

static inline struct twin_name **twin_find(struct kv_twin *twin, uint64_t hash,
                                           enum prefix_tier tier)
{
    struct twin_name **at = &twin->names[hash % twin_heads];
    while (*at != NULL && ((*at)->hash != hash || (*at)->tier != tier)) {
        at = &(*at)->next;
    }
    return at;
}

// The key that a name means in any tier.  False: it is not known.
static inline bool twin_key_of(struct kv_twin *twin, uint64_t hash, uint64_t *key)
{
    for (enum prefix_tier tier = 0; tier < prefix_tier_count; tier++) {
        struct twin_name *name = *twin_find(twin, hash, tier);
        if (name != NULL) {
            *key = name->key;
            return true;
        }
    }
    return false;
}

static inline void twin_count(struct kv_twin *twin, uint64_t key, enum prefix_tier tier, int change)
{
    struct twin_key **at = &twin->keys[key % twin_heads];
    while (*at != NULL && (*at)->key != key) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        *at = calloc(1, sizeof(**at));
        ASSERT(*at != NULL);
        (*at)->key = key;
    }
    struct twin_key *found = *at;
    found->names[tier] += (uint32_t)change;
    if (found->names[0] + found->names[1] + found->names[2] == 0) {
        *at = found->next;
        free(found);
    }
}

// The fastest tier in which a block is held, or prefix_tier_count.
static inline enum prefix_tier twin_tier_of(const struct kv_twin *twin, uint64_t key)
{
    const struct twin_key *at = twin->keys[key % twin_heads];
    while (at != NULL && at->key != key) {
        at = at->next;
    }
    enum prefix_tier tier = 0;
    while (tier < prefix_tier_count && (at == NULL || at->names[tier] == 0)) {
        tier++;
    }
    return tier;
}

static inline void twin_add(struct kv_twin *twin, uint64_t hash, enum prefix_tier tier,
                            uint64_t key)
{
    struct twin_name **at = twin_find(twin, hash, tier);
    if (*at == NULL) {
        *at = calloc(1, sizeof(**at));
        ASSERT(*at != NULL);
        **at = (struct twin_name){.hash = hash, .tier = tier};
        twin->name_count++;
    } else if ((*at)->key == key) {
        (*at)->copies++;
        return;
    } else {
        twin_count(twin, (*at)->key, tier, -1);
    }
    (*at)->key = key;
    (*at)->copies = 1;
    twin_count(twin, key, tier, 1);
}

static inline void twin_forget(struct kv_twin *twin, struct twin_name **at)
{
    struct twin_name *name = *at;
    twin_count(twin, name->key, name->tier, -1);
    *at = name->next;
    twin->name_count--;
    free(name);
}

static inline bool twin_remove_from(struct twin_orphan *orphan, uint64_t hash)
{
    for (uint32_t i = 0; i < orphan->notice.hash_count; i++) {
        if (orphan->notice.hashes[i] == hash && !orphan->is_gone[i]) {
            orphan->is_gone[i] = true;
            return true;
        }
    }
    return false;
}

static inline void twin_remove_orphan(struct kv_twin *twin, uint64_t hash, enum prefix_tier tier,
                                      bool all_copies)
{
    for (struct twin_orphan *orphan = twin->orphans; orphan != NULL; orphan = orphan->next) {
        if (orphan->notice.tier == tier && twin_remove_from(orphan, hash) && !all_copies) {
            return;
        }
    }
}

static inline void twin_remove(struct kv_twin *twin, uint64_t hash, enum prefix_tier tier,
                               uint32_t copies_left)
{
    struct twin_name **at = twin_find(twin, hash, tier);
    copies_left = twin->is_set ? 0 : copies_left;
    if (*at == NULL) {
        twin_remove_orphan(twin, hash, tier, copies_left == 0);
        return;
    }
    (*at)->copies = copies_left == UINT32_MAX ? (*at)->copies - 1 : copies_left;
    if ((*at)->copies == 0) {
        twin_forget(twin, at);
    }
}

static inline void twin_store(struct kv_twin *twin, const struct kv_notice *notice, uint64_t key)
{
    for (uint32_t i = 0; i < notice->hash_count; i++) {
        key = hash_bytes(slice_of(notice->tokens + (size_t)i * notice->block_tokens,
                                  notice->block_tokens * sizeof(uint32_t)),
                         key);
        twin_add(twin, notice->hashes[i], notice->tier, key);
    }
}

static inline void twin_drop_orphan(struct twin_orphan **at)
{
    struct twin_orphan *orphan = *at;
    *at = orphan->next;
    free(orphan->is_gone);
    free(orphan);
}

static inline void twin_keep(struct kv_twin *twin, const struct kv_notice *notice, uint64_t now_ms)
{
    size_t hashes_size = notice->hash_count * sizeof(uint64_t);
    size_t tokens_size = notice->token_count * sizeof(uint32_t);
    struct twin_orphan *orphan = malloc(sizeof(*orphan) + hashes_size + tokens_size);
    ASSERT(orphan != NULL);
    char *at = (char *)(orphan + 1);
    *orphan = (struct twin_orphan){.notice = *notice,
                                   .is_gone = calloc(notice->hash_count, sizeof(bool)),
                                   .stored_ms = now_ms};
    ASSERT(orphan->is_gone != NULL);
    orphan->notice.hashes = memcpy(at, notice->hashes, hashes_size);
    orphan->notice.tokens = memcpy(at + hashes_size, notice->tokens, tokens_size);
    struct twin_orphan **end = &twin->orphans;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = orphan;
}

// Stores the first orphan whose parent is known.
static inline bool twin_adopt_one(struct kv_twin *twin)
{
    for (struct twin_orphan *orphan = twin->orphans; orphan != NULL; orphan = orphan->next) {
        uint64_t key;
        if (!orphan->is_adopted && twin_key_of(twin, orphan->notice.parent, &key)) {
            orphan->is_adopted = true;
            twin_store(twin, &orphan->notice, key);
            return true;
        }
    }
    return false;
}

static inline void twin_adopt(struct kv_twin *twin)
{
    bool is_any = false;
    while (twin_adopt_one(twin)) {
        is_any = true;
    }
    struct twin_orphan **at = &twin->orphans;
    while (is_any && *at != NULL) {
        struct twin_orphan *orphan = *at;
        if (!orphan->is_adopted) {
            at = &orphan->next;
            continue;
        }
        *at = orphan->next;
        for (uint32_t i = 0; i < orphan->notice.hash_count; i++) {
            if (orphan->is_gone[i]) {
                twin_remove(twin, orphan->notice.hashes[i], orphan->notice.tier, UINT32_MAX);
            }
        }
        orphan->next = NULL;
        twin_drop_orphan(&orphan);
    }
}

// Of a tier, or of all: prefix_tier_count.
static inline void twin_clear(struct kv_twin *twin, enum prefix_tier tier)
{
    for (uint32_t i = 0; i < twin_heads; i++) {
        struct twin_name **at = &twin->names[i];
        while (*at != NULL) {
            if (tier == prefix_tier_count || (*at)->tier == tier) {
                twin_forget(twin, at);
            } else {
                at = &(*at)->next;
            }
        }
    }
    struct twin_orphan **at = &twin->orphans;
    while (*at != NULL) {
        if (tier == prefix_tier_count || (*at)->notice.tier == tier) {
            twin_drop_orphan(at);
        } else {
            at = &(*at)->next;
        }
    }
}

static inline void kv_twin_purge(struct kv_twin *twin)
{
    twin_clear(twin, prefix_tier_count);
    twin->has_group = false;
    twin->block_tokens = 0;
}

static inline void twin_placeholder(struct kv_twin *twin, const struct kv_notice *notice)
{
    for (uint32_t i = 0; i < notice->hash_count; i++) {
        uint64_t key;
        if (twin_key_of(twin, notice->hashes[i], &key)) {
            twin_add(twin, notice->hashes[i], notice->tier, key);
        }
    }
}

static inline void twin_stored(struct kv_twin *twin, const struct kv_notice *notice,
                               uint64_t now_ms)
{
    uint64_t key =
        prefix_seed(&(struct prefix_space){.adapter = notice->adapter, .salt = notice->salt});
    if (notice->block_tokens == 0 || notice->token_count == 0) {
        twin_placeholder(twin, notice);
        return;
    }
    twin->block_tokens = twin->block_tokens != 0 ? twin->block_tokens : notice->block_tokens;
    if (notice->block_tokens > twin->block_tokens && notice->tier == PREFIX_GPU) {
        twin_clear(twin, prefix_tier_count);
        twin->block_tokens = notice->block_tokens;
    }
    if (notice->block_tokens != twin->block_tokens) {
        return;
    }
    if (notice->has_group && !twin->has_group) {
        twin->has_group = true;
        twin->group = notice->group;
    }
    if (notice->has_parent && !twin_key_of(twin, notice->parent, &key)) {
        twin_keep(twin, notice, now_ms);
        return;
    }
    twin_store(twin, notice, key);
    twin_adopt(twin);
}

static inline void kv_twin_apply(struct kv_twin *twin, const struct kv_notice *notice,
                                 uint64_t now_ms)
{
    while (twin->orphans != NULL && now_ms >= twin->orphans->stored_ms + kv_orphan_age_ms) {
        twin_drop_orphan(&twin->orphans);
    }
    if (notice->is_remote ||
        (notice->has_group && twin->has_group && notice->group != twin->group)) {
        return;
    }
    if (notice->kind == KV_NOTICE_STORED && notice->decides && notice->is_plain) {
        twin_stored(twin, notice, now_ms);
    } else if (notice->kind == KV_NOTICE_REMOVED) {
        for (uint32_t i = 0; i < notice->hash_count; i++) {
            uint32_t left = notice->copies_left != NULL ? notice->copies_left[i] : UINT32_MAX;
            twin_remove(twin, notice->hashes[i], notice->tier, left);
        }
    } else if (notice->kind == KV_NOTICE_CLEARED) {
        twin_clear(twin, PREFIX_GPU);
    }
}

// The expected match of this backend; zero blocks if it holds none.
static inline struct prefix_hit kv_twin_match(const struct kv_twin *twin, const uint64_t *keys,
                                              uint32_t key_count)
{
    struct prefix_hit hit = {0};
    for (; hit.blocks < key_count; hit.blocks++) {
        enum prefix_tier tier = twin_tier_of(twin, keys[hit.blocks]);
        if (tier == prefix_tier_count) {
            break;
        }
        hit.host += tier == PREFIX_HOST;
        hit.disk += tier == PREFIX_DISK;
    }
    return hit;
}
