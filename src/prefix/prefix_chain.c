// SPDX-License-Identifier: Apache-2.0
//
// The seed is XXH3 over "model 00 adapter 00 salt", and a key is XXH3 over its block with the key
// before it as the seed.

#include "prefix/prefix_chain.h"

#include "base/base.h"
#include "base/hash.h"

// Names of models, adapters and tenants that are longer than this together are hashed one by one.
enum { space_size_max = 1024 };

// The domain of text: prompts of tokens never meet it.
static const uint64_t text_domain = 0x7478657420666f20;

static bool has_zero(struct slice bytes)
{
    return bytes.size > 0 && memchr(bytes.bytes, 0, bytes.size) != NULL;
}

static uint64_t space_seed(const struct prefix_space *space)
{
    const struct slice parts[] = {space->model, space->adapter, space->salt};
    uint8_t joined[space_size_max];
    size_t size = 0;
    bool plain = true;
    uint64_t apart = 0;

    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        // A zero inside a name would let one tenant spell the salt of another.
        plain = plain && !has_zero(parts[i]) && parts[i].size < sizeof(joined) - size;
        if (!plain) {
            continue;
        }
        if (parts[i].size > 0) {
            memcpy(joined + size, parts[i].bytes, parts[i].size);
        }
        size += parts[i].size;
        joined[size++] = 0;
    }
    if (plain) {
        return hash_bytes(slice_of(joined, size - 1), 0); // the last has nothing to be kept from
    }
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        apart = hash_pair(apart, hash_bytes(parts[i], parts[i].size));
    }
    return apart;
}

uint64_t prefix_seed(const struct prefix_space *space)
{
    uint64_t seed = space_seed(space);
    return space->secret != 0 ? hash_pair(seed, space->secret) : seed;
}

uint64_t prefix_text_seed(const struct prefix_space *space)
{
    return hash_pair(prefix_seed(space), text_domain);
}

void prefix_chain_begin(struct prefix_chain *chain, uint64_t seed, uint32_t block_size,
                        uint64_t *keys, uint32_t key_capacity)
{
    ASSERT(block_size > 0 && block_size <= prefix_block_size_max);

    chain->keys = keys;
    chain->copy = NULL;
    chain->key_count = 0;
    chain->key_capacity = key_capacity;
    chain->block_size = block_size;
    chain->pending = 0;
    chain->last = seed;
    chain->size = 0;
}

static bool is_full(const struct prefix_chain *chain)
{
    return chain->key_count == chain->key_capacity;
}

static void name_block(struct prefix_chain *chain, const uint8_t *block)
{
    if (chain->copy != NULL) {
        memcpy(chain->copy + (size_t)chain->key_count * chain->block_size, block,
               chain->block_size);
    }
    chain->last = hash_bytes(slice_of(block, chain->block_size), chain->last);
    chain->keys[chain->key_count++] = chain->last;
}

// Completes the block that has begun, as far as the bytes go; returns what is left of them.
static struct slice fill_block(struct prefix_chain *chain, struct slice bytes)
{
    size_t missing = chain->block_size - chain->pending;
    size_t taken = bytes.size < missing ? bytes.size : missing;

    memcpy(chain->block + chain->pending, bytes.bytes, taken);
    chain->pending += (uint32_t)taken;
    if (chain->pending == chain->block_size) {
        chain->pending = 0;
        name_block(chain, chain->block);
    }
    return slice_of(bytes.bytes + taken, bytes.size - taken);
}

void prefix_chain_add(struct prefix_chain *chain, struct slice bytes)
{
    chain->size += bytes.size;
    if (bytes.size == 0 || is_full(chain)) {
        return;
    }
    if (chain->pending > 0) {
        bytes = fill_block(chain, bytes);
    }
    while (bytes.size >= chain->block_size && !is_full(chain)) {
        name_block(chain, bytes.bytes);
        bytes = slice_of(bytes.bytes + chain->block_size, bytes.size - chain->block_size);
    }
    if (bytes.size > 0 && !is_full(chain)) {
        fill_block(chain, bytes);
    }
}

void prefix_chain_copy(const struct prefix_chain *from, uint64_t *keys, uint32_t key_capacity,
                       struct prefix_chain *out)
{
    ASSERT(key_capacity >= from->key_count);

    // Bytes that found no room are gone, so a chain that has lost some goes no further.
    uint64_t named = (uint64_t)from->key_count * from->block_size + from->pending;
    out->keys = keys;
    out->copy = NULL;
    out->key_count = from->key_count;
    out->key_capacity = from->size == named ? key_capacity : from->key_count;
    out->block_size = from->block_size;
    out->pending = from->pending;
    out->last = from->last;
    out->size = from->size;
    // The rest of the block is never read.
    memcpy(out->block, from->block, from->pending);
    if (from->key_count > 0) {
        memcpy(keys, from->keys, from->key_count * sizeof(*keys));
    }
}
