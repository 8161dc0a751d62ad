// SPDX-License-Identifier: Apache-2.0
//
// bound -- what of a workload's prompts one cache without end would have.

#include "base/base.h"
#include "sim/lab.h"

#include <stdlib.h>

// A set of keys: open addressing; grows.
struct key_set {
    uint64_t *places;
    uint64_t mask;
    uint64_t count;
};

static bool key_set_add(struct key_set *set, uint64_t key)
{
    if (set->count * 2 >= set->mask) {
        struct key_set grown = {.mask = set->mask * 2 + 1};
        grown.places = calloc(grown.mask + 1, sizeof(uint64_t));
        ASSERT(grown.places != NULL);
        for (uint64_t i = 0; set->places != NULL && i <= set->mask; i++) {
            if (set->places[i] != 0) {
                key_set_add(&grown, set->places[i]);
            }
        }
        free(set->places);
        *set = grown;
    }
    key = key != 0 ? key : 1;
    uint64_t at = key & set->mask;
    while (set->places[at] != 0 && set->places[at] != key) {
        at = (at + 1) & set->mask;
    }
    if (set->places[at] == key) {
        return false;
    }
    set->places[at] = key;
    set->count++;
    return true;
}

// The longest prompt that a trace may have is bounded too.
enum { key_count_max = 1 << 16 };

struct bound {
    struct key_set seen;
    uint64_t *keys;
    uint32_t block_tokens;
    double *hits;   // of each request
    double *tokens; // likewise
    uint64_t count;
    uint64_t capacity;
};

static void note(struct bound *bound, double hits, double tokens)
{
    if (bound->count == bound->capacity) {
        bound->capacity = bound->capacity * 2 + 1024;
        bound->hits = realloc(bound->hits, bound->capacity * sizeof(double));
        bound->tokens = realloc(bound->tokens, bound->capacity * sizeof(double));
        ASSERT(bound->hits != NULL && bound->tokens != NULL);
    }
    bound->hits[bound->count] = hits;
    bound->tokens[bound->count++] = tokens;
}

static void ask(struct bound *bound, const struct work_item *item)
{
    uint32_t count = content_keys(item->pieces, item->piece_count + 1, bound->block_tokens,
                                  bound->keys, key_count_max);
    uint32_t prompt = (item->prompt_tokens - 1) / bound->block_tokens;
    uint32_t found = 0;
    bool is_found = true;

    for (uint32_t i = 0; i < count; i++) {
        is_found = !key_set_add(&bound->seen, bound->keys[i]) && is_found;
        found += is_found && i < prompt;
    }
    note(bound, (double)found * bound->block_tokens, item->prompt_tokens);
}

bool lab_bound(const struct lab_options *options, double *rate, char error[lab_error_size])
{
    struct workload *workload = workload_create(&options->workload, error);
    if (workload == NULL) {
        return false;
    }
    struct bound bound = {.keys = calloc(key_count_max, sizeof(uint64_t)),
                          .block_tokens = options->profile->block_tokens};
    uint64_t at_us;

    ASSERT(bound.keys != NULL);
    while (workload_peek(workload, &at_us)) {
        struct work_item item;
        workload_take(workload, &item);
        ask(&bound, &item);
        workload_done(workload, &item, at_us);
    }
    double hits = 0;
    double tokens = 0;
    for (uint64_t i = (uint64_t)(options->warm_up * (double)bound.count); i < bound.count; i++) {
        hits += bound.hits[i];
        tokens += bound.tokens[i];
    }
    *rate = tokens > 0 ? hits / tokens : 0;
    workload_destroy(&workload);
    free(bound.seen.places);
    free(bound.keys);
    free(bound.hits);
    free(bound.tokens);
    return true;
}
