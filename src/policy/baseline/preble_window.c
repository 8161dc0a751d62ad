// SPDX-License-Identifier: Apache-2.0

#include "policy/baseline/preble_window.h"

#include "base/base.h"
#include "base/hash.h"

#include <string.h>

// The least common multiple of 1 .. preble_places_max.
enum { parts_per_token = 840 };
_Static_assert(preble_places_max == 8, "parts_per_token is made for 8");
_Static_assert((preble_buckets & (preble_buckets - 1)) == 0, "a bucket is found by masking");
_Static_assert(preble_requests_max < UINT16_MAX && preble_targets_max < UINT16_MAX, "links");

// Mixed, since keys and identities may have poor low bits.
static uint32_t preble_bucket(uint64_t hash)
{
    return (uint32_t)(hash_pair(hash, 0) & (preble_buckets - 1));
}

// Fits: all requests together miss at most 2^13 times 2^32 tokens, which is 55 bits in parts.
static uint64_t prefix_parts(const struct preble_prefix *prefix)
{
    if (prefix->place_count == 0) {
        return 0;
    }
    return (uint64_t)prefix->tokens * prefix->miss_count * (parts_per_token / prefix->place_count);
}

// Changes of a prefix happen between work_remove and work_add.
static void work_remove(struct preble_window *window, const struct preble_prefix *prefix)
{
    for (uint32_t i = 0; i < prefix->place_count; i++) {
        struct preble_target *target = &window->targets[prefix->places[i]];
        ASSERT(target->work >= prefix_parts(prefix));
        target->work -= prefix_parts(prefix);
    }
}

static void work_add(struct preble_window *window, const struct preble_prefix *prefix)
{
    for (uint32_t i = 0; i < prefix->place_count; i++) {
        window->targets[prefix->places[i]].work += prefix_parts(prefix);
    }
}

// The position plus one; 0: unknown.
static uint16_t target_find(const struct preble_window *window, uint64_t identity)
{
    uint16_t link = window->target_buckets[preble_bucket(identity)];
    while (link != 0 && window->targets[link - 1].identity != identity) {
        link = window->targets[link - 1].next;
    }
    return link;
}

// Adds the target if it is unknown; 0: the table is full.
static uint16_t target_take(struct preble_window *window, uint64_t identity)
{
    uint16_t link = target_find(window, identity);
    if (link != 0) {
        return link;
    }
    if (window->target_free != 0) {
        link = window->target_free;
        window->target_free = window->targets[link - 1].next;
    } else if (window->target_end < preble_targets_max) {
        link = ++window->target_end;
    } else {
        return 0;
    }
    uint16_t *bucket = &window->target_buckets[preble_bucket(identity)];
    window->targets[link - 1] = (struct preble_target){.identity = identity, .next = *bucket};
    *bucket = link;
    return link;
}

static void target_release(struct preble_window *window, uint16_t position)
{
    struct preble_target *target = &window->targets[position];
    target->prefix_count--;
    if (target->prefix_count > 0) {
        return;
    }
    ASSERT(target->work == 0);

    uint16_t *link = &window->target_buckets[preble_bucket(target->identity)];
    while (*link != position + 1) {
        ASSERT(*link != 0);
        link = &window->targets[*link - 1].next;
    }
    *link = target->next;
    target->next = window->target_free;
    window->target_free = (uint16_t)(position + 1);
}

// The number of the place; place_count: the prefix is not placed there.
static uint32_t place_find(const struct preble_window *window, const struct preble_prefix *prefix,
                           uint64_t identity)
{
    uint32_t i = 0;
    while (i < prefix->place_count && window->targets[prefix->places[i]].identity != identity) {
        i++;
    }
    return i;
}

static void place_remove(struct preble_window *window, struct preble_prefix *prefix, uint32_t place)
{
    uint16_t position = prefix->places[place];
    prefix->place_count--;
    memmove(&prefix->places[place], &prefix->places[place + 1],
            (prefix->place_count - place) * sizeof(prefix->places[0]));
    target_release(window, position);
}

// Between work_remove and work_add.
static void place_add(struct preble_window *window, struct preble_prefix *prefix, uint64_t identity)
{
    if (place_find(window, prefix, identity) < prefix->place_count) {
        return;
    }
    if (prefix->place_count == preble_places_max) {
        place_remove(window, prefix, 0);
    }
    uint16_t link = target_take(window, identity);
    if (link != 0) {
        window->targets[link - 1].prefix_count++;
        prefix->places[prefix->place_count] = (uint16_t)(link - 1);
        prefix->place_count++;
    }
}

struct preble_prefix *preble_window_find(struct preble_window *window, uint64_t key)
{
    uint16_t link = window->prefix_buckets[preble_bucket(key)];
    while (link != 0 && window->prefixes[link - 1].key != key) {
        link = window->prefixes[link - 1].next;
    }
    return link != 0 ? &window->prefixes[link - 1] : NULL;
}

static struct preble_prefix *prefix_take(struct preble_window *window, uint64_t key,
                                         uint32_t tokens)
{
    struct preble_prefix *prefix = preble_window_find(window, key);
    if (prefix != NULL) {
        return prefix;
    }
    uint16_t link = window->prefix_free;
    if (link != 0) {
        window->prefix_free = window->prefixes[link - 1].next;
    } else {
        // Each prefix has a request in the ring, and the ring has room for one more.
        ASSERT(window->prefix_end < preble_requests_max);
        link = ++window->prefix_end;
    }
    uint16_t *bucket = &window->prefix_buckets[preble_bucket(key)];
    prefix = &window->prefixes[link - 1];
    *prefix = (struct preble_prefix){.key = key, .tokens = tokens, .next = *bucket};
    *bucket = link;
    return prefix;
}

// After work_remove.
static void prefix_release(struct preble_window *window, struct preble_prefix *prefix)
{
    while (prefix->place_count > 0) {
        place_remove(window, prefix, 0);
    }
    uint16_t self = (uint16_t)(prefix - window->prefixes + 1);
    uint16_t *link = &window->prefix_buckets[preble_bucket(prefix->key)];
    while (*link != self) {
        ASSERT(*link != 0);
        link = &window->prefixes[*link - 1].next;
    }
    *link = prefix->next;
    prefix->next = window->prefix_free;
    window->prefix_free = self;
}

static void window_remove_oldest(struct preble_window *window)
{
    const struct preble_request *request = &window->requests[window->oldest];
    struct preble_prefix *prefix = &window->prefixes[request->prefix];
    window->oldest = (window->oldest + 1) % preble_requests_max;
    window->request_count--;

    work_remove(window, prefix);
    prefix->request_count--;
    prefix->miss_count -= request->is_miss;
    if (prefix->request_count == 0) {
        prefix_release(window, prefix);
    } else {
        work_add(window, prefix);
    }
}

void preble_window_expire(struct preble_window *window, uint64_t now_ms)
{
    while (window->request_count > 0 &&
           window->requests[window->oldest].at_ms + preble_window_ms < now_ms) {
        window_remove_oldest(window);
    }
}

void preble_window_add(struct preble_window *window, const struct preble_note *note)
{
    if (window->request_count == preble_requests_max) {
        window_remove_oldest(window);
    }
    struct preble_prefix *prefix = prefix_take(window, note->key, note->tokens);

    work_remove(window, prefix);
    prefix->request_count++;
    prefix->miss_count += note->is_miss;
    place_add(window, prefix, note->identity);
    work_add(window, prefix);

    uint32_t newest = (window->oldest + window->request_count) % preble_requests_max;
    window->requests[newest] = (struct preble_request){
        .at_ms = note->now_ms,
        .prefix = (uint16_t)(prefix - window->prefixes),
        .is_miss = note->is_miss,
    };
    window->request_count++;
}

double preble_window_work(const struct preble_window *window, uint64_t identity)
{
    uint16_t link = target_find(window, identity);
    return link != 0 ? (double)window->targets[link - 1].work / parts_per_token : 0;
}

double preble_prefix_work(const struct preble_prefix *prefix)
{
    return (double)prefix_parts(prefix) / parts_per_token;
}

struct preble_prefix *preble_window_cheapest(struct preble_window *window, uint64_t from,
                                             uint64_t to, uint32_t *count)
{
    struct preble_prefix *best = NULL;
    *count = 0;
    for (uint32_t i = 0; i < window->prefix_end; i++) {
        struct preble_prefix *prefix = &window->prefixes[i];
        // Free entries have no place and so no work.
        if (prefix->request_count < 2 || prefix_parts(prefix) == 0) {
            continue;
        }
        if (place_find(window, prefix, from) == prefix->place_count ||
            place_find(window, prefix, to) < prefix->place_count) {
            continue;
        }
        (*count)++;
        if (best == NULL || prefix_parts(prefix) < prefix_parts(best)) {
            best = prefix;
        }
    }
    return best;
}

void preble_window_move(struct preble_window *window, struct preble_prefix *prefix, uint64_t from,
                        uint64_t to)
{
    work_remove(window, prefix);
    uint32_t place = from != 0 ? place_find(window, prefix, from) : prefix->place_count;
    if (place < prefix->place_count) {
        place_remove(window, prefix, place);
    }
    place_add(window, prefix, to);
    work_add(window, prefix);
    prefix->moved_from = from;
    prefix->moved_to = to;
}
