// SPDX-License-Identifier: Apache-2.0

#include "kvevent/kv_orphans.h"

#include "base/base.h"
#include "base/rng.h"

#include <stdlib.h>

enum { parent_heads = 1024, block_heads = 4096 };

struct heads {
    struct list_node *by_parent[parent_heads];
    struct list_node *by_hash[block_heads];
};

struct kv_orphans {
    struct heads *heads; // most engines never have an orphan: taken when the first one comes
    struct kv_orphan *oldest;
    struct kv_orphan *newest;
    uint32_t count;
    size_t size;
};

static struct list_node **parent_head(struct kv_orphans *orphans, uint64_t parent)
{
    return &orphans->heads->by_parent[rng_mix(parent) % parent_heads];
}

static struct list_node **block_head(struct kv_orphans *orphans, uint64_t hash)
{
    return &orphans->heads->by_hash[rng_mix(hash) % block_heads];
}

struct kv_orphans *kv_orphans_create(void)
{
    return calloc(1, sizeof(struct kv_orphans));
}

void kv_orphans_destroy(struct kv_orphans **orphans)
{
    if (*orphans == NULL) {
        return;
    }
    kv_orphans_clear(*orphans, prefix_tier_count);
    free((*orphans)->heads);
    free(*orphans);
    *orphans = NULL;
}

uint32_t kv_orphans_count(const struct kv_orphans *orphans)
{
    return orphans->count;
}

// Removes it from every list; its memory stays.
static void orphan_detach(struct kv_orphans *orphans, struct kv_orphan *orphan)
{
    ASSERT(orphans->count > 0 && orphans->size >= orphan->size);
    list_remove(&orphan->by_parent);
    for (uint32_t i = 0; i < orphan->notice.hash_count; i++) {
        list_remove(&orphan->blocks[i].by_hash);
    }
    if (orphan->newer != NULL) {
        orphan->newer->older = orphan->older;
    } else {
        orphans->newest = orphan->older;
    }
    if (orphan->older != NULL) {
        orphan->older->newer = orphan->newer;
    } else {
        orphans->oldest = orphan->newer;
    }
    orphans->count--;
    orphans->size -= orphan->size;
}

static void orphan_drop(struct kv_orphans *orphans, struct kv_orphan *orphan)
{
    orphan_detach(orphans, orphan);
    kv_orphan_free(orphan);
}

void kv_orphan_free(struct kv_orphan *orphan)
{
    free(orphan);
}

static size_t extras_size(const struct kv_notice *notice)
{
    size_t size = notice->extra_count * sizeof(struct kv_extra);
    for (uint32_t i = 0; i < notice->extra_count; i++) {
        size += notice->extras[i].bytes.size;
    }
    return size;
}

static size_t orphan_size(const struct kv_notice *notice)
{
    return sizeof(struct kv_orphan) +
           notice->hash_count * (sizeof(struct kv_orphan_block) + sizeof(uint64_t)) +
           notice->token_count * sizeof(uint32_t) + extras_size(notice);
}

// Copies and moves on.
static void *orphan_append(char **at, const void *from, size_t size)
{
    void *copy = *at;
    if (size > 0) {
        memcpy(copy, from, size);
    }
    *at += size;
    return copy;
}

// One piece of memory, the widest alignment first.  NULL when memory is short.
static struct kv_orphan *orphan_copy(const struct kv_notice *notice, uint64_t now_ms)
{
    size_t size = orphan_size(notice);
    struct kv_orphan *orphan = malloc(size);
    if (orphan == NULL) {
        return NULL;
    }
    char *at = (char *)(orphan + 1);
    *orphan = (struct kv_orphan){.notice = *notice,
                                 .blocks = (struct kv_orphan_block *)(void *)at,
                                 .stored_ms = now_ms,
                                 .size = size};
    at += notice->hash_count * sizeof(struct kv_orphan_block);
    struct kv_extra *extras =
        orphan_append(&at, notice->extras, notice->extra_count * sizeof(struct kv_extra));
    orphan->notice.extras = extras;
    orphan->notice.hashes =
        orphan_append(&at, notice->hashes, notice->hash_count * sizeof(uint64_t));
    orphan->notice.tokens =
        orphan_append(&at, notice->tokens, notice->token_count * sizeof(uint32_t));
    for (uint32_t i = 0; i < notice->extra_count; i++) {
        struct slice bytes = notice->extras[i].bytes;
        extras[i].bytes = slice_of(orphan_append(&at, bytes.bytes, bytes.size), bytes.size);
    }
    // Only the first block of a prompt needs these.
    orphan->notice.adapter = (struct slice){0};
    orphan->notice.salt = (struct slice){0};
    return orphan;
}

static void orphan_attach(struct kv_orphans *orphans, struct kv_orphan *orphan)
{
    ASSERT(orphans->heads != NULL && orphans->count < kv_orphan_max);
    list_push(parent_head(orphans, orphan->notice.parent), &orphan->by_parent);
    for (uint32_t i = 0; i < orphan->notice.hash_count; i++) {
        orphan->blocks[i] = (struct kv_orphan_block){.orphan = orphan, .index = i};
        list_push(block_head(orphans, orphan->notice.hashes[i]), &orphan->blocks[i].by_hash);
    }
    orphan->older = orphans->newest;
    *(orphans->newest != NULL ? &orphans->newest->newer : &orphans->oldest) = orphan;
    orphans->newest = orphan;
    orphans->count++;
    orphans->size += orphan->size;
}

uint32_t kv_orphans_keep(struct kv_orphans *orphans, const struct kv_notice *notice,
                         uint64_t now_ms)
{
    ASSERT(notice->has_parent);
    size_t size = orphan_size(notice);
    if (orphans->heads == NULL) {
        orphans->heads = calloc(1, sizeof(*orphans->heads));
    }
    if (orphans->heads == NULL || size > kv_orphan_bytes_max) {
        return 1;
    }
    uint32_t lost = 0;
    while (orphans->count == kv_orphan_max || orphans->size > kv_orphan_bytes_max - size) {
        orphan_drop(orphans, orphans->oldest);
        lost++;
    }
    struct kv_orphan *orphan = orphan_copy(notice, now_ms);
    if (orphan == NULL) {
        return lost + 1;
    }
    orphan_attach(orphans, orphan);
    return lost;
}

struct kv_orphan *kv_orphans_take(struct kv_orphans *orphans, uint64_t parent)
{
    if (orphans->count == 0) {
        return NULL;
    }
    // The oldest is the last of the list.
    struct kv_orphan *found = NULL;
    for (struct list_node *node = *parent_head(orphans, parent); node != NULL; node = node->next) {
        struct kv_orphan *orphan = CONTAINER_OF(node, struct kv_orphan, by_parent);
        found = orphan->notice.parent == parent ? orphan : found;
    }
    if (found != NULL) {
        orphan_detach(orphans, found);
    }
    return found;
}

bool kv_orphans_remove(struct kv_orphans *orphans, uint64_t hash, enum prefix_tier tier,
                       bool all_copies)
{
    if (orphans->count == 0) {
        return false;
    }
    // The oldest is the last of the list.
    struct kv_orphan_block *found = NULL;
    for (struct list_node *node = *block_head(orphans, hash); node != NULL; node = node->next) {
        struct kv_orphan_block *block = CONTAINER_OF(node, struct kv_orphan_block, by_hash);
        const struct kv_notice *notice = &block->orphan->notice;
        if (notice->hashes[block->index] == hash && notice->tier == tier && !block->is_gone) {
            block->is_gone = all_copies;
            found = block;
        }
    }
    if (found != NULL) {
        found->is_gone = true;
    }
    return found != NULL;
}

static bool orphan_is_due(const struct kv_orphan *orphan, uint64_t now_ms)
{
    return orphan != NULL && now_ms >= orphan->stored_ms + kv_orphan_age_ms;
}

bool kv_orphans_are_due(const struct kv_orphans *orphans, uint64_t now_ms)
{
    return orphan_is_due(orphans->oldest, now_ms);
}

uint32_t kv_orphans_expire(struct kv_orphans *orphans, uint64_t now_ms)
{
    uint32_t lost = 0;
    struct kv_orphan *orphan = orphans->oldest;
    while (orphan_is_due(orphan, now_ms)) {
        struct kv_orphan *newer = orphan->newer;
        orphan_drop(orphans, orphan);
        orphan = newer;
        lost++;
    }
    return lost;
}

void kv_orphans_clear(struct kv_orphans *orphans, enum prefix_tier tier)
{
    struct kv_orphan *orphan = orphans->oldest;
    while (orphan != NULL) {
        struct kv_orphan *newer = orphan->newer;
        if (tier == prefix_tier_count || orphan->notice.tier == tier) {
            orphan_drop(orphans, orphan);
        }
        orphan = newer;
    }
}
