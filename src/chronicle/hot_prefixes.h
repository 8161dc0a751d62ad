// SPDX-License-Identifier: Apache-2.0
//
// hot_prefixes.h -- the most frequent prompt prefixes, and the backends that hold them.
//
// Counts the prefixes of 1, 2, 4 … 8,192 blocks, whose keys receipts have.  Counts halve every five
// minutes.  There are far more prefixes than places, and nearly all of them come only once.  So:
//
//     A prompt enters one depth further each time: of its unknown keys, only the first may displace
//     another.  A prompt that comes once costs one place instead of fourteen; a hot one is known
//     whole after fourteen requests.  While there are empty places, all keys enter at once.
//
//     A new key displaces the lowest count among eight, and starts at that count (space-saving).
//     So no count is ever too low by more than the displaced requests; the possible excess is kept
//     beside the count and subtracted when it is shown.
//
// Holders come from decisions.  A backend that served a request holds all of its prompt; a rival
// holds the prefix if as many tokens were expected of it, and otherwise does not.  Backends without
// a decision keep their state.
//
// Threads: one at a time.  Memory: taken by _create: about 64 bytes for each prefix and a bit for
// each backend.
#pragma once

#include "chronicle/chronicle.h"

struct hot_prefixes;

enum { hot_prefixes_half_ms = 300000 };

// NULL when memory is short.
struct hot_prefixes *hot_prefixes_create(uint32_t prefix_max, uint32_t member_max);
void hot_prefixes_destroy(struct hot_prefixes **prefixes);

// Lets counts fade.
void hot_prefixes_fade(struct hot_prefixes *prefixes, uint64_t elapsed_ms);

// One request, with backends by their slots.
struct hot_sighting {
    const uint64_t *depths;
    uint32_t depth_count;
    uint32_t block_tokens;
    uint32_t others; // further requests that it stands for
    uint32_t holder; // holds all of the prompt now; or chronicle_no_slot
    uint32_t rival_count;
    struct {
        uint32_t slot; // or chronicle_no_slot
        uint32_t expected_tokens;
    } rivals[decision_rival_max];
};

void hot_prefixes_note(struct hot_prefixes *prefixes, const struct hot_sighting *sighting);

// The backend of that slot has left: it holds nothing.
void hot_prefixes_forget(struct hot_prefixes *prefixes, uint32_t slot);

// See chronicle.h; `holders` are slots.  Prefixes of a single recent request are left out.
uint32_t hot_prefixes_list(const struct hot_prefixes *prefixes, struct chronicle_prefix *out,
                           uint32_t out_max);
