// SPDX-License-Identifier: Apache-2.0
//
// nearest.h -- which word was meant: the candidate with the fewest typing mistakes.
//
//     struct config_nearest nearest = {.word = "bdy_size"};
//     config_nearest_offer(&nearest, "body_size");  // once for each candidate
//     nearest.best                                  // NULL if every candidate is too far
#pragma once

#include <stdint.h>

struct config_nearest {
    const char *word;
    const char *best; // keeps a candidate
    uint32_t distance;
};

// Keeps `candidate` when it is near, and nearer than those before.  Of equals the first stays.
void config_nearest_offer(struct config_nearest *nearest, const char *candidate);
