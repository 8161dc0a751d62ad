// SPDX-License-Identifier: Apache-2.0
//
// bound -- the hit rate of a workload with one infinite cache.
//
// Prompts are compared piece by piece, not block by block: those that begin with the same pieces
// differ within one of them, and share whole blocks up to there but for the last.  For each piece
// behind each prefix, a table has how much of it was ever seen.  A table of blocks is thirty times
// as long; filling it took a third of a run.

#include "base/base.h"
#include "base/hash.h"
#include "sim/array.h"
#include "sim/lab.h"

#include <stdlib.h>

struct seen {
    uint64_t place; // the piece and all before it; 0: empty
    uint32_t tokens;
};

// Open addressing; grows.
struct seen_table {
    struct seen *entries;
    uint64_t mask; // 0: there are none yet
    uint64_t count;
};

static struct seen *seen_find(const struct seen_table *table, uint64_t place)
{
    uint64_t at = place & table->mask;
    while (table->entries[at].place != 0 && table->entries[at].place != place) {
        at = (at + 1) & table->mask;
    }
    return &table->entries[at];
}

static void seen_make_room(struct seen_table *table)
{
    if (table->count * 2 < table->mask) {
        return;
    }
    struct seen_table grown = {.mask = table->mask > 0 ? table->mask * 2 + 1 : 1023,
                               .count = table->count};
    grown.entries = calloc(grown.mask + 1, sizeof(*grown.entries));
    ASSERT(grown.entries != NULL);
    for (uint64_t i = 0; table->mask > 0 && i <= table->mask; i++) {
        if (table->entries[i].place != 0) {
            *seen_find(&grown, table->entries[i].place) = table->entries[i];
        }
    }
    free(table->entries);
    *table = grown;
}

// How much of it was seen before; from now on at least `tokens` were.
static uint32_t seen_add(struct seen_table *table, uint64_t place, uint32_t tokens)
{
    seen_make_room(table);
    place = place != 0 ? place : 1;
    struct seen *seen = seen_find(table, place);
    uint32_t before = seen->tokens;
    table->count += seen->place == 0;
    seen->place = place;
    seen->tokens = tokens > before ? tokens : before;
    return before;
}

// Of one request.
struct asked {
    double hits;
    double tokens;
};

struct bound {
    struct seen_table seen;
    uint32_t block_tokens;
    struct asked *asked;
    uint32_t count;
    uint32_t capacity;
};

static void bound_note(struct bound *bound, struct asked asked)
{
    bound->asked = array_grow(bound->asked, bound->count, &bound->capacity, sizeof(*bound->asked));
    bound->asked[bound->count++] = asked;
}

static void bound_ask(struct bound *bound, const struct work_item *item)
{
    uint64_t behind = 0;
    uint32_t shared = 0;
    bool is_same = true;

    // The last piece is the response, which the next turn repeats.
    for (uint32_t i = 0; i <= item->piece_count; i++) {
        uint32_t tokens = item->pieces[i].tokens;
        uint64_t place = hash_pair(behind, item->pieces[i].id);
        uint32_t seen = seen_add(&bound->seen, place, tokens);
        if (is_same && i < item->piece_count) {
            shared += seen < tokens ? seen : tokens;
            is_same = seen >= tokens;
        }
        behind = hash_pair(place, tokens);
    }
    // Whole blocks, and never the last token.
    uint32_t blocks = shared / bound->block_tokens;
    uint32_t most = (item->prompt_tokens - 1) / bound->block_tokens;
    blocks = blocks < most ? blocks : most;
    bound_note(bound, (struct asked){.hits = (double)blocks * bound->block_tokens,
                                     .tokens = item->prompt_tokens});
}

bool lab_bound(const struct lab_options *options, double *rate, char error[lab_error_size])
{
    struct workload *workload = workload_create(&options->workload, error);
    if (workload == NULL) {
        return false;
    }
    struct bound bound = {.block_tokens = options->profile->block_tokens};
    uint64_t at_us;

    while (workload_peek(workload, &at_us)) {
        struct work_item item;
        workload_take(workload, &item);
        bound_ask(&bound, &item);
        workload_done(workload, &item, at_us);
    }
    double hits = 0;
    double tokens = 0;
    for (uint32_t i = (uint32_t)(options->warm_up * (double)bound.count); i < bound.count; i++) {
        hits += bound.asked[i].hits;
        tokens += bound.asked[i].tokens;
    }
    *rate = tokens > 0 ? hits / tokens : 0;
    workload_destroy(&workload);
    free(bound.seen.entries);
    free(bound.asked);
    return true;
}
