// SPDX-License-Identifier: Apache-2.0

#include "chronicle/shadow_cache.h"

#include "base/base.h"
#include "base/rng.h"

#include <stdlib.h>

enum {
    ways = 5,                   // as many as fit into a cache line
    generation_max = 64,        // counted apart; older ones are counted as one
    generations_per_cache = 32, // so that the size is kept to 3%
    weight_tokens = 16,         // tokens per unit of `weights`
    // One set of the table is enough for so many tokens of caches: their samples, and three or four
    // depths for each of those, fill two thirds of it.
    set_tokens = 400,
    sets_per_cache = 8192,
    sets_least = 1 << 14,
    sets_most = 1 << 19,
    key_max = receipt_sampled_max + receipt_depth_max,
    // The first depth beyond receipt_sampled_max samples: log2(64 * 16).
    tail_depth = 10,
};

_Static_assert(receipt_sampled_max *receipt_sample == 1 << tail_depth, "samples end there");

// Blocks with the same place in the table: one cache line of the processor.
struct set {
    uint32_t tags[ways]; // 0: empty
    uint32_t generations[ways];
    uint16_t caches[ways];
    uint16_t weights[ways];
    uint32_t unused;
};

_Static_assert(sizeof(struct set) == 64, "one line");

// Numbers of generations only grow, and go round after 2^32.
struct generations {
    uint64_t size;    // tokens
    uint64_t total;   // of all living generations
    uint32_t oldest;  // counted apart; older living ones are counted in it
    uint32_t living;  // the first generation that is not evicted
    uint32_t current; // the last one
    uint32_t tokens[generation_max];
};

struct shadow_cache {
    uint32_t cache_max;
    uint32_t set_max;
    uint32_t mask; // of sets that are in use
    void *block;
    struct set *sets;
    struct generations *caches;
};

static uint32_t power_above(uint64_t wanted)
{
    uint32_t count = sets_least;
    while (count < sets_most && count < wanted) {
        count *= 2;
    }
    return count;
}

struct shadow_cache *shadow_cache_create(uint32_t cache_max)
{
    ASSERT(cache_max <= UINT16_MAX);
    struct shadow_cache *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return NULL;
    }
    self->cache_max = cache_max;
    self->set_max = power_above((uint64_t)cache_max * sets_per_cache);
    self->mask = sets_least - 1;
    // calloc, not aligned_alloc: zeroed pages of the kernel cost nothing until they are used.
    self->block = calloc(self->set_max + 1, sizeof(struct set));
    // The first whole line.
    size_t skip = -(uintptr_t)self->block % sizeof(struct set);
    self->sets = (struct set *)((char *)self->block + skip);
    self->caches = calloc(cache_max + 1, sizeof(*self->caches));
    if (self->block == NULL || self->caches == NULL) {
        shadow_cache_destroy(&self);
    }
    return self;
}

void shadow_cache_destroy(struct shadow_cache **caches)
{
    if (*caches != NULL) {
        free((*caches)->block);
        free((*caches)->caches);
        free(*caches);
        *caches = NULL;
    }
}

void shadow_cache_expect(struct shadow_cache *caches, uint64_t tokens)
{
    uint32_t wanted = power_above(tokens / set_tokens);
    wanted = wanted < caches->set_max ? wanted : caches->set_max;
    caches->mask = wanted - 1 > caches->mask ? wanted - 1 : caches->mask;
}

void shadow_cache_set_size(struct shadow_cache *caches, uint32_t cache, uint64_t tokens)
{
    ASSERT(cache < caches->cache_max);
    caches->caches[cache].size = tokens;
}

void shadow_cache_clear(struct shadow_cache *caches, uint32_t cache)
{
    ASSERT(cache < caches->cache_max);
    struct generations *own = &caches->caches[cache];
    uint32_t next = own->current + 1;
    *own = (struct generations){.size = own->size, .living = next, .oldest = next, .current = next};
}

static bool is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

static uint32_t *tokens_of(struct generations *own, uint32_t generation)
{
    uint32_t counted = is_before(generation, own->oldest) ? own->oldest : generation;
    return &own->tokens[counted % generation_max];
}

static void weigh_out(struct generations *own, uint32_t generation, uint32_t weight)
{
    uint32_t *tokens = tokens_of(own, generation);
    uint32_t out = weight * weight_tokens;
    out = out < *tokens ? out : *tokens;
    *tokens -= out;
    own->total -= out;
}

static void weigh_in(struct generations *own, uint32_t tokens)
{
    own->tokens[own->current % generation_max] += tokens;
    own->total += tokens;
}

static void kill_oldest(struct generations *own)
{
    uint32_t *tokens = tokens_of(own, own->oldest);
    own->total -= *tokens;
    *tokens = 0;
    own->oldest++;
    own->living = own->oldest;
}

// Counts the two oldest generations as one from now on.
static void join_oldest(struct generations *own)
{
    uint32_t *tokens = tokens_of(own, own->oldest);
    uint32_t moved = *tokens;
    *tokens = 0;
    own->oldest++;
    *tokens_of(own, own->oldest) += moved;
}

// After a prompt: begins a new generation when it is time, and evicts the oldest ones.
static void settle(struct generations *own)
{
    if (own->tokens[own->current % generation_max] > own->size / generations_per_cache) {
        own->current++;
        if (own->current - own->oldest >= generation_max) {
            join_oldest(own);
        }
    }
    // A generation is evicted as a whole, so the size is exceeded by up to half of one.
    while (own->oldest != own->current &&
           own->total > own->size + *tokens_of(own, own->oldest) / 2) {
        kill_oldest(own);
    }
}

static uint64_t hash_of(uint64_t key, uint32_t cache)
{
    return rng_mix(key + (cache + 1) * 0x9e3779b97f4a7c15);
}

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)hash | 1;
}

static struct set *set_of(const struct shadow_cache *self, uint64_t hash)
{
    return &self->sets[(hash >> 32) & self->mask];
}

// An empty or evicted place, or the oldest block, which then leaves its cache.
static uint32_t make_room(struct shadow_cache *self, struct set *set)
{
    uint32_t victim = 0;
    uint32_t victim_age = 0;

    for (uint32_t way = 0; way < ways; way++) {
        const struct generations *other = &self->caches[set->caches[way]];
        if (set->tags[way] == 0 || is_before(set->generations[way], other->living)) {
            return way;
        }
        uint32_t age = other->current - set->generations[way];
        if (age > victim_age) {
            victim = way;
            victim_age = age;
        }
    }
    weigh_out(&self->caches[set->caches[victim]], set->generations[victim], set->weights[victim]);
    return victim;
}

// The hash includes the cache.  Two blocks of one set are confused once in 2^31.
static uint32_t way_of(const struct set *set, uint32_t tag)
{
    uint32_t found = ways;
    for (uint32_t way = 0; way < ways; way++) {
        found = set->tags[way] == tag ? way : found;
    }
    return found;
}

// Uses the block, which becomes the youngest.  Returns whether the cache held it.
static bool touch(struct shadow_cache *self, uint32_t cache, uint64_t hash, uint32_t weight)
{
    struct generations *own = &self->caches[cache];
    struct set *set = set_of(self, hash);
    uint32_t way = way_of(set, tag_of(hash));
    bool was_there = way < ways && !is_before(set->generations[way], own->living);

    if (was_there) {
        weigh_out(own, set->generations[way], set->weights[way]);
    } else if (way == ways) {
        way = make_room(self, set);
    }
    set->tags[way] = tag_of(hash);
    set->caches[way] = (uint16_t)cache;
    set->generations[way] = own->current;
    set->weights[way] = (uint16_t)weight;
    weigh_in(own, weight * weight_tokens);
    return was_there;
}

// The keys of the prefix that the cache holds.
struct found {
    uint32_t sampled; // in a row, from the first
    uint32_t depths;  // likewise
};

static uint32_t weight_of(uint64_t tokens)
{
    uint64_t weight = (tokens + weight_tokens / 2) / weight_tokens;
    return weight < UINT16_MAX ? (uint32_t)weight : UINT16_MAX;
}

static bool has_tail(const struct shadow_prompt *prompt)
{
    return prompt->sampled_count == receipt_sampled_max;
}

static uint32_t depth_weight(const struct shadow_prompt *prompt, uint32_t depth,
                             uint32_t block_count)
{
    if (depth < tail_depth || !has_tail(prompt)) {
        return 0;
    }
    uint32_t from = 1U << depth;
    uint32_t to = depth + 1 == prompt->depth_count ? block_count : 2 * from;
    return weight_of((uint64_t)(to - from) * prompt->block_tokens);
}

static struct found touch_all(struct shadow_cache *self, uint32_t cache,
                              const struct shadow_prompt *prompt, uint32_t block_count)
{
    uint64_t hashes[key_max] = {0};
    uint32_t count = prompt->sampled_count + prompt->depth_count;
    struct found found = {0};

    // The table is larger than the processor's caches: prefetch all lines before using the first.
    for (uint32_t i = 0; i < count; i++) {
        uint64_t key = i < prompt->sampled_count ? prompt->sampled[i]
                                                 : prompt->depths[i - prompt->sampled_count];
        // A key may be both sampled and a depth: two entries, since they weigh differently.
        hashes[i] = hash_of(key + (i < prompt->sampled_count), cache);
        __builtin_prefetch(set_of(self, hashes[i]), 1);
    }
    uint32_t weight = weight_of((uint64_t)receipt_sample * prompt->block_tokens);
    for (uint32_t i = 0; i < prompt->sampled_count; i++) {
        bool was_there = touch(self, cache, hashes[i], weight);
        found.sampled += was_there && found.sampled == i;
    }
    for (uint32_t i = 0; i < prompt->depth_count; i++) {
        bool was_there = touch(self, cache, hashes[prompt->sampled_count + i],
                               depth_weight(prompt, i, block_count));
        found.depths += was_there && found.depths == i;
    }
    return found;
}

// N, within the bounds of the depths: the last depth is 2^(count - 1) blocks.
static uint32_t agreed_count(const struct shadow_prompt *prompt)
{
    uint32_t least = 1U << (prompt->depth_count - 1);
    uint32_t most = prompt->depth_count < receipt_depth_max ? 2 * least - 1 : UINT32_MAX;
    uint32_t count = prompt->block_count > least ? prompt->block_count : least;
    return count < most ? count : most;
}

// L, of N blocks.
static double length_found(const struct shadow_prompt *prompt, struct found found,
                           uint32_t block_count)
{
    if (found.depths == 0) {
        return 0;
    }
    double least = (double)(1U << (found.depths - 1));
    double most = found.depths < prompt->depth_count ? 2 * least - 1 : block_count;
    double length = (least + most) / 2;

    if (has_tail(prompt)) {
        // All samples are from the first 1,024 blocks or so; beyond them only depths tell the
        // length.
        if (found.sampled < receipt_sampled_max) {
            length = (double)found.sampled * receipt_sample;
        }
    } else if (prompt->sampled_count > 0) {
        length = (double)block_count * found.sampled / prompt->sampled_count;
    }
    length = length > least ? length : least;
    return length < most ? length : most;
}

void shadow_cache_add(struct shadow_cache *caches, uint32_t cache, uint32_t tokens)
{
    ASSERT(cache < caches->cache_max);
    weigh_in(&caches->caches[cache], tokens);
    settle(&caches->caches[cache]);
}

double shadow_cache_use(struct shadow_cache *caches, uint32_t cache,
                        const struct shadow_prompt *prompt)
{
    ASSERT(cache < caches->cache_max);
    ASSERT(prompt->sampled_count <= receipt_sampled_max);
    ASSERT(prompt->depth_count <= receipt_depth_max);
    struct generations *own = &caches->caches[cache];
    double share = 0;

    if (prompt->depth_count > 0) {
        uint32_t block_count = agreed_count(prompt);
        struct found found = touch_all(caches, cache, prompt, block_count);
        share = length_found(prompt, found, block_count) / block_count;
    }
    weigh_in(own, prompt->other_tokens);
    settle(own);
    return share;
}

double shadow_prompt_tokens(const struct shadow_prompt *prompt)
{
    return prompt->depth_count == 0 ? 0 : (double)agreed_count(prompt) * prompt->block_tokens;
}

// By bits above those that select sampled keys.
static bool passes(uint64_t key, uint32_t shift)
{
    return (key & (((1ULL << shift) - 1) * receipt_sample)) == 0;
}

// The keys of a prompt, in their order.
struct walk {
    struct shadow_cache *caches;
    uint32_t cache;
    struct shadow_sieve sieve;
    bool is_lost; // a key was missing, so the prefix ends before it
    struct shadow_evidence evidence;
};

static void walk_over(struct walk *walk, uint64_t key, uint64_t tokens)
{
    if (!passes(key, walk->sieve.keep_shift)) {
        return;
    }
    bool was_there = touch(walk->caches, walk->cache, hash_of(key + 1, walk->cache),
                           weight_of(tokens << walk->sieve.keep_shift));
    if (passes(key, walk->sieve.judge_shift)) {
        double stands_for = (double)(tokens << walk->sieve.judge_shift);
        walk->is_lost = walk->is_lost || !was_there;
        walk->evidence.seen_tokens += stands_for;
        walk->evidence.found_tokens += walk->is_lost ? 0 : stands_for;
    }
}

struct shadow_evidence shadow_cache_use_sieved(struct shadow_cache *caches, uint32_t cache,
                                               const struct shadow_prompt *prompt,
                                               struct shadow_sieve sieve)
{
    ASSERT(cache < caches->cache_max);
    ASSERT(prompt->depth_count <= receipt_depth_max && sieve.judge_shift >= sieve.keep_shift);
    struct generations *own = &caches->caches[cache];
    struct walk walk = {.caches = caches, .cache = cache, .sieve = sieve};

    uint64_t tokens = (uint64_t)receipt_sample * prompt->block_tokens;
    if (has_tail(prompt)) {
        tokens = (uint64_t)agreed_count(prompt) * prompt->block_tokens / receipt_sampled_max;
    }
    for (uint32_t i = 0; i < prompt->sampled_count; i++) {
        walk_over(&walk, prompt->sampled[i], tokens);
    }
    // When all keys are followed, depths are too, so that they can be evidence again later.
    for (uint32_t i = 0; sieve.keep_shift == 0 && i < prompt->depth_count; i++) {
        touch(caches, cache, hash_of(prompt->depths[i], cache), 0);
    }
    weigh_in(own, prompt->other_tokens);
    settle(own);
    return walk.evidence;
}
