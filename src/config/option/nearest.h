// SPDX-License-Identifier: Apache-2.0
//
// nearest.h -- which word was meant: the candidate with the fewest typing mistakes.
//
//     struct config_nearest nearest = {.word = "bdy_size"};
//     config_nearest_offer(&nearest, "body_size");  // once for each candidate
//     nearest.best                                  // NULL if every candidate is too far
#pragma once

#include "base/text.h"

struct config_nearest {
    const char *word;
    const char *best; // keeps a candidate
    uint32_t distance;
};

// Keeps `candidate` when it is near, and nearer than those before.  Of equals the first stays.
void config_nearest_offer(struct config_nearest *nearest, const char *candidate);

// Appends which names there are instead of `word`: the nearest, or all of them.  `name_at` returns
// NULL past the last.
void config_nearest_explain(const char *word, const char *(*name_at)(uint32_t index),
                            struct text *why);
