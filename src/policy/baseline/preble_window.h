// SPDX-License-Identifier: Apache-2.0
//
// preble_window.h -- the prompts of the last three minutes, as the policy `preble` counts them.
//
// A request counts for the prefix that it mostly consists of, and a prefix for the targets that its
// requests went to.  This gives the recent prefill work of every target:
//
//     work(target) = sum over prefixes placed on it of misses * tokens / places
//
//     requests  [ oldest ... newest ]     leave after three minutes
//                   |
//     prefixes  { key, tokens, requests, misses, places }     leave with their last request
//                                                  |
//     targets   { identity, work }                 leaves with its last prefix
//
// A prefix has at least one request in the ring, so there are never more prefixes than requests.
// Work is updated with every change, in parts of a token that any number of places divides:
// subtraction undoes addition exactly, and reading is a lookup.
//
// Limits: preble_requests_max requests, beyond which the oldest leave before their time;
// preble_places_max targets of one prefix, beyond which the first one placed leaves; and
// preble_targets_max targets, beyond which a prefix is not placed.
//
// Memory: one struct of fixed size, which starts zeroed.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    preble_window_ms = 3 * 60 * 1000,
    preble_requests_max = 8192,
    preble_targets_max = 8192,
    preble_places_max = 8,
    preble_buckets = 8192, // a power of two
};

// Links are positions plus one; 0 ends a list.
struct preble_prefix {
    uint64_t key;
    uint64_t moved_from; // the identity of a target that gave it away; 0: none
    uint64_t moved_to;   // and of the one that got it; 0: none
    uint32_t tokens;     // its own, without the prefix before it
    uint32_t request_count;
    uint32_t miss_count; // requests whose target did not hold it
    uint16_t next;       // in its bucket, or in the free list
    uint16_t place_count;
    uint16_t places[preble_places_max]; // positions in `targets`, the first placed first
};

struct preble_target {
    uint64_t identity;
    uint64_t work; // in parts of a token
    uint32_t prefix_count;
    uint16_t next;
};

struct preble_request {
    uint64_t at_ms;
    uint16_t prefix; // position
    bool is_miss;
};

struct preble_window {
    struct preble_request requests[preble_requests_max]; // a ring
    uint32_t oldest;
    uint32_t request_count;

    struct preble_prefix prefixes[preble_requests_max];
    uint16_t prefix_buckets[preble_buckets];
    uint16_t prefix_free;
    uint16_t prefix_end; // entries from here on were never used

    struct preble_target targets[preble_targets_max];
    uint16_t target_buckets[preble_buckets];
    uint16_t target_free;
    uint16_t target_end;
};

// One request; `tokens` is used if the key is new.
struct preble_note {
    uint64_t key;
    uint32_t tokens;
    uint64_t identity; // of the target that it went to
    bool is_miss;
    uint64_t now_ms;
};

// Removes requests that are older than the window.
void preble_window_expire(struct preble_window *window, uint64_t now_ms);

void preble_window_add(struct preble_window *window, const struct preble_note *note);

// NULL: unknown key.  Valid until the next call that changes the window.
struct preble_prefix *preble_window_find(struct preble_window *window, uint64_t key);

// In tokens.
double preble_window_work(const struct preble_window *window, uint64_t identity);

// Among the prefixes that are placed on `from` and not on `to`, with some work and more than one
// request: the one with the least work, NULL if there are none.  `count` is their number.
struct preble_prefix *preble_window_cheapest(struct preble_window *window, uint64_t from,
                                             uint64_t to, uint32_t *count);

// The work of this prefix at each of its places, in tokens.
double preble_prefix_work(const struct preble_prefix *prefix);

// Requests for this prefix go to `to` instead of `from` from now on; with `from` 0, to `to` and to
// its other places.
void preble_window_move(struct preble_window *window, struct preble_prefix *prefix, uint64_t from,
                        uint64_t to);
