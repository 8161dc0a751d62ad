// SPDX-License-Identifier: Apache-2.0
//
// kv_pool.h -- the paged KV cache of one engine: its blocks, their users, and an index of their
// keys.
//
// A block is free, or used by one or several requests.  A block whose content is complete has a
// name, its key, under which it can be found again, also while it is free: free blocks with a name
// are reused last, in the order in which they became free.
//
//     free list   head [ no name ][ no name ][ k9 ][ k8 ][ k3 ] tail
//                  ^ taken first                          ^ appended when released
//
// Equal blocks are not merged: of several with one name the oldest is found.
//
// Threads: one owner.  Memory: taken by _create.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct kv_pool;

// Told the number and the name of each block that is taken for something else.
typedef void kv_pool_evicted_fn(void *owner, uint32_t block, uint64_t key);

// NULL when memory is short.  `evicted` may be NULL.
struct kv_pool *kv_pool_create(uint32_t block_count, kv_pool_evicted_fn *evicted, void *owner);
void kv_pool_destroy(struct kv_pool **pool);

uint32_t kv_pool_free_count(const struct kv_pool *pool);
uint32_t kv_pool_block_count(const struct kv_pool *pool);

// How many of the first `count` keys are found one after the other; *idle of their blocks are free.
uint32_t kv_pool_match(const struct kv_pool *pool, const uint64_t *keys, uint32_t count,
                       uint32_t *idle);

// Uses the blocks of the first `count` keys, all of which were found.
void kv_pool_share(struct kv_pool *pool, const uint64_t *keys, uint32_t count, uint32_t *blocks);

// Uses `count` new blocks; the caller has made sure that there are so many.
void kv_pool_take(struct kv_pool *pool, uint32_t count, uint32_t *blocks);

// From now on each block is found under its key.
void kv_pool_name(struct kv_pool *pool, const uint32_t *blocks, const uint64_t *keys,
                  uint32_t count);

// The request does not use these any more; the last ones are reused first.
void kv_pool_release(struct kv_pool *pool, const uint32_t *blocks, uint32_t count);

// Free blocks lose their names as if they had been taken, those that would be taken first before
// others.
void kv_pool_evict_free(struct kv_pool *pool);

// Removes all names, without callbacks.
void kv_pool_clear(struct kv_pool *pool);
