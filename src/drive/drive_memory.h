// SPDX-License-Identifier: Apache-2.0
//
// drive_memory.h -- what engines have said in conversations, so that the next turn can repeat it.
//
// A user sends back the answer that it got, not the one that somebody planned: only that is in the
// engine's cache.  Answers lie one behind the other in a ring; when it is full the oldest go.
//
//     ring   [ answer 7 ][ answer 8 ]......[ answer 5 ][ answer 6 ]
//                                    ^ next
//
// Text is kept as it stands in JSON, escapes and all, and so can be put into another JSON.
//
// Limits: drive_memory_size bytes of text and drive_memory_answers answers.  What was forgotten is made
// up again by who asks for it.  Threads: one owner.  Memory: reserved at first, used as it fills.
#pragma once

#include "base/slice.h"

enum {
    drive_memory_size = 256 << 20,
    drive_memory_answers = 1 << 20,
};

struct drive_memory;

// NULL when there is no address space.
struct drive_memory *drive_memory_create(void);
void drive_memory_destroy(struct drive_memory **memory);

// `id` is of the piece that the answer is in the prompts to come.  An empty text says that there was an
// answer but nobody knows it.
void drive_memory_keep(struct drive_memory *memory, uint64_t session, uint64_t id,
                       struct slice text);

// False when it never was an answer, or was forgotten.  The text is good until the next _keep.
bool drive_memory_find(const struct drive_memory *memory, uint64_t session, uint64_t id,
                       struct slice *text);
