// SPDX-License-Identifier: Apache-2.0
//
// hot_prefixes.h -- which beginnings of prompts come most often, and who holds them.
//
// Counted are the beginnings of 1, 2, 4 … 8,192 blocks, whose keys receipts have.  A count fades by half every
// five minutes.  There are far more beginnings than places, nearly all of them seen once.  So:
//
//     a prompt is let in one step deeper each time: of the keys that are not here only the first takes a place
//     from another.  What comes once costs one place and not fourteen, what is hot is known whole after fourteen
//     requests.  Empty places are anybody's, so the first prompts are known whole at once.
//
//     a key that needs a place takes that of the lowest count among eight, and begins where that one was
//     (space-saving): nobody's count is ever too low by more than those requests, and what it may be too high by
//     is kept beside it.  Shown is the count without that.
//
// Holders are as decisions show them.  Who did a request well holds all of its prompt; of the others that were
// looked at, those who were thought to have so many tokens hold it, and those who were not do not (any
// more).  Backends that no decision looks at stay as they were.
//
// Threads: one at a time.  Memory: taken by _create: about 64 bytes for each prefix and a bit for each backend.
#pragma once

#include "chronicle/chronicle.h"

struct hot_prefixes;

enum { hot_prefixes_half_ms = 300000 };

// NULL when memory is short.
struct hot_prefixes *hot_prefixes_create(uint32_t prefix_max, uint32_t member_max);
void hot_prefixes_destroy(struct hot_prefixes **prefixes);

// So much time has passed.
void hot_prefixes_fade(struct hot_prefixes *prefixes, uint64_t elapsed_ms);

// What a decision shows, in numbers of members (member_table.h).
struct hot_sighting {
    const uint64_t *depths;
    uint32_t depth_count;
    uint32_t block_tokens;
    uint32_t others; // requests that it stands for beside itself
    uint32_t holder; // that has all of it now, or chronicle_no_slot
    uint32_t rival_count;
    struct {
        uint32_t slot; // or chronicle_no_slot
        uint32_t expected_tokens;
    } rivals[decision_rival_max];
};

void hot_prefixes_note(struct hot_prefixes *prefixes, const struct hot_sighting *sighting);

// That number has nobody any more, and holds nothing.
void hot_prefixes_forget(struct hot_prefixes *prefixes, uint32_t slot);

// See chronicle.h; `holders` are numbers.  What came but once lately is no prefix that anybody shares, and is left
// out.
uint32_t hot_prefixes_list(const struct hot_prefixes *prefixes, struct chronicle_prefix *out,
                           uint32_t out_max);
