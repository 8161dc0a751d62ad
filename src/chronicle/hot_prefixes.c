// SPDX-License-Identifier: Apache-2.0

#include "chronicle/hot_prefixes.h"

#include "base/base.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ways = 8, word_bits = 64 };

// The unit of counts grows with time, so that fading does not touch every count.
struct prefix {
    uint64_t key;    // 0: empty
    uint64_t parent; // the key at half the depth; 0: none
    double count;
    double excess; // the count may be too high by this
    uint32_t tokens;
};

struct hot_prefixes {
    uint32_t prefix_count;
    uint32_t mask; // of sets
    uint32_t member_max;
    uint32_t holder_words; // for each prefix
    double unit;           // the weight of one request now
    double sighting_max;   // the largest weight of one sighting; fades with the counts
    double total;          // of all requests
    struct prefix *prefixes;
    uint64_t *holders;
    // For _list alone.
    uint32_t *order;
    bool *is_covered;
};

struct hot_prefixes *hot_prefixes_create(uint32_t prefix_max, uint32_t member_max)
{
    struct hot_prefixes *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return NULL;
    }
    uint32_t count = ways;
    while (count < prefix_max) {
        count *= 2;
    }
    self->prefix_count = count;
    self->mask = count / ways - 1;
    self->member_max = member_max;
    self->holder_words = (member_max + word_bits - 1) / word_bits;
    self->unit = 1;
    self->prefixes = calloc(count, sizeof(*self->prefixes));
    self->holders = calloc((size_t)count * self->holder_words + 1, sizeof(*self->holders));
    self->order = calloc(count, sizeof(*self->order));
    self->is_covered = calloc(count, sizeof(*self->is_covered));
    if (self->prefixes == NULL || self->holders == NULL || self->order == NULL ||
        self->is_covered == NULL) {
        hot_prefixes_destroy(&self);
    }
    return self;
}

void hot_prefixes_destroy(struct hot_prefixes **prefixes)
{
    if (*prefixes != NULL) {
        free((*prefixes)->prefixes);
        free((*prefixes)->holders);
        free((*prefixes)->order);
        free((*prefixes)->is_covered);
        free(*prefixes);
        *prefixes = NULL;
    }
}

static void scale_all(struct hot_prefixes *self, double factor)
{
    for (uint32_t i = 0; i < self->prefix_count; i++) {
        self->prefixes[i].count *= factor;
        self->prefixes[i].excess *= factor;
    }
    self->total *= factor;
    self->sighting_max *= factor;
}

void hot_prefixes_fade(struct hot_prefixes *prefixes, uint64_t elapsed_ms)
{
    static const double unit_max = 1e12;
    prefixes->unit *= exp2((double)elapsed_ms / hot_prefixes_half_ms);
    if (prefixes->unit > unit_max) {
        // After a jump of years the unit is infinite, and all counts become 0.
        scale_all(prefixes, 1 / prefixes->unit);
        prefixes->unit = 1;
    }
}

static uint64_t *holders_of(const struct hot_prefixes *self, uint32_t place)
{
    return &self->holders[(size_t)place * self->holder_words];
}

static uint32_t first_place(const struct hot_prefixes *self, uint64_t key)
{
    return ((uint32_t)rng_mix(key) & self->mask) * ways;
}

// The place of the key, or prefix_count.
static uint32_t find(const struct hot_prefixes *self, uint64_t key)
{
    uint32_t first = first_place(self, key);
    for (uint32_t place = first; place < first + ways; place++) {
        if (self->prefixes[place].key == key) {
            return place;
        }
    }
    return self->prefix_count;
}

// The place with the lowest count among those of the key; an empty one has 0.
static uint32_t lowest_place(const struct hot_prefixes *self, uint64_t key)
{
    uint32_t first = first_place(self, key);
    uint32_t lowest = first;
    for (uint32_t place = first + 1; place < first + ways; place++) {
        if (self->prefixes[place].count < self->prefixes[lowest].count) {
            lowest = place;
        }
    }
    return lowest;
}

static uint32_t let_in(struct hot_prefixes *self, uint64_t key, uint64_t parent, uint32_t tokens)
{
    uint32_t lowest = lowest_place(self, key);
    struct prefix *prefix = &self->prefixes[lowest];
    *prefix = (struct prefix){.key = key,
                              .parent = parent,
                              .count = prefix->count,
                              .excess = prefix->count,
                              .tokens = tokens};
    memset(holders_of(self, lowest), 0, self->holder_words * sizeof(uint64_t));
    return lowest;
}

static void set_holder(const struct hot_prefixes *self, uint32_t place, uint32_t slot,
                       bool is_holder)
{
    if (slot == chronicle_no_slot) {
        return;
    }
    ASSERT(slot < self->member_max);
    uint64_t *word = &holders_of(self, place)[slot / word_bits];
    uint64_t bit = 1ULL << (slot % word_bits);
    *word = is_holder ? *word | bit : *word & ~bit;
}

static void see(struct hot_prefixes *self, uint32_t place, const struct hot_sighting *sighting)
{
    self->prefixes[place].count += (1 + sighting->others) * self->unit;
    for (uint32_t i = 0; i < sighting->rival_count; i++) {
        set_holder(self, place, sighting->rivals[i].slot,
                   sighting->rivals[i].expected_tokens >= self->prefixes[place].tokens);
    }
    set_holder(self, place, sighting->holder, true);
}

// Places of a set are filled in order and never emptied, so the last one tells.
static bool has_empty(const struct hot_prefixes *self, uint64_t key)
{
    return self->prefixes[first_place(self, key) + ways - 1].key == 0;
}

void hot_prefixes_note(struct hot_prefixes *prefixes, const struct hot_sighting *sighting)
{
    ASSERT(sighting->depth_count <= receipt_depth_max);
    bool has_let_in = false;

    double weight = (1 + sighting->others) * prefixes->unit;
    prefixes->sighting_max = fmax(prefixes->sighting_max, weight);
    prefixes->total += weight;
    for (uint32_t depth = 0; depth < sighting->depth_count; depth++) {
        uint64_t key = sighting->depths[depth];
        uint32_t place = key == 0 ? prefixes->prefix_count : find(prefixes, key);
        bool is_new = place == prefixes->prefix_count && key != 0;
        bool is_free = is_new && has_empty(prefixes, key);
        if (is_free || (is_new && !has_let_in)) {
            uint64_t parent = depth == 0 ? 0 : sighting->depths[depth - 1];
            place = let_in(prefixes, key, parent, sighting->block_tokens << depth);
            has_let_in = has_let_in || !is_free;
        }
        if (place != prefixes->prefix_count) {
            see(prefixes, place, sighting);
        }
    }
}

void hot_prefixes_forget(struct hot_prefixes *prefixes, uint32_t slot)
{
    for (uint32_t place = 0; place < prefixes->prefix_count; place++) {
        set_holder(prefixes, place, slot, false);
    }
}

// Requests that were certainly counted.
static double certain(const struct prefix *prefix)
{
    return prefix->count - prefix->excess;
}

// A single sighting does not count.
static bool is_shared(const struct hot_prefixes *self, const struct prefix *prefix)
{
    return certain(prefix) > fmax(self->sighting_max, self->unit);
}

// Marks prefixes whose extension to the next depth has nearly all of their requests.
static void mark_covered(const struct hot_prefixes *self)
{
    static const double nearly_all = 0.9;
    memset(self->is_covered, 0, self->prefix_count * sizeof(*self->is_covered));
    for (uint32_t i = 0; i < self->prefix_count; i++) {
        const struct prefix *prefix = &self->prefixes[i];
        uint32_t parent = prefix->parent == 0 ? self->prefix_count : find(self, prefix->parent);
        // It may have entered one sighting later than its parent.
        if (parent != self->prefix_count && is_shared(self, prefix) &&
            certain(prefix) + self->sighting_max >= nearly_all * certain(&self->prefixes[parent])) {
            self->is_covered[parent] = true;
        }
    }
}

static int by_count(const void *a, const void *b, void *owner)
{
    const struct hot_prefixes *self = owner;
    const struct prefix *one = &self->prefixes[*(const uint32_t *)a];
    const struct prefix *other = &self->prefixes[*(const uint32_t *)b];
    double difference = certain(other) - certain(one);
    return (difference > 0) - (difference < 0);
}

static void describe(const struct hot_prefixes *self, uint32_t place, struct chronicle_prefix *out)
{
    const struct prefix *prefix = &self->prefixes[place];
    const uint64_t *holders = holders_of(self, place);

    *out = (struct chronicle_prefix){.key = prefix->key,
                                     .tokens = prefix->tokens,
                                     .requests = certain(prefix) / self->unit,
                                     .share = certain(prefix) / self->total};
    for (uint32_t word = 0; word < self->holder_words; word++) {
        for (uint64_t bits = holders[word]; bits != 0; bits &= bits - 1) {
            if (out->holder_count < chronicle_holder_max) {
                out->holders[out->holder_count] =
                    word * word_bits + (uint32_t)__builtin_ctzll(bits);
            }
            out->holder_count++;
        }
    }
}

uint32_t hot_prefixes_list(const struct hot_prefixes *prefixes, struct chronicle_prefix *out,
                           uint32_t out_max)
{
    uint32_t count = 0;

    mark_covered(prefixes);
    for (uint32_t place = 0; place < prefixes->prefix_count; place++) {
        const struct prefix *prefix = &prefixes->prefixes[place];
        if (prefix->key != 0 && !prefixes->is_covered[place] && is_shared(prefixes, prefix)) {
            prefixes->order[count++] = place;
        }
    }
    struct hot_prefixes owner = *prefixes;
    qsort_r(prefixes->order, count, sizeof(*prefixes->order), by_count, &owner);
    count = count < out_max ? count : out_max;
    for (uint32_t i = 0; i < count; i++) {
        describe(prefixes, prefixes->order[i], &out[i]);
    }
    return count;
}
