// SPDX-License-Identifier: Apache-2.0
//
// drive_memory.h -- keeps the responses of conversations, so that the next turn can repeat them.
//
// A user sends back the response that it got, not the one that the workload planned: only the
// former is in the engine's cache.  Responses lie in a ring; when it is full the oldest go.
//
//     ring   [ response 7 ][ response 8 ]......[ response 5 ][ response 6 ]
//                                    ^ next
//
// Text is kept JSON-escaped, as it came, and can be put into another JSON document as it is.
//
// Limits: drive_memory_size bytes of text and drive_memory_responses responses.  The caller
// generates a response that was forgotten.  Threads: one owner.  Memory: reserved at first, used as
// it fills.
#pragma once

#include "base/slice.h"

enum {
    drive_memory_size = 256 << 20,
    drive_memory_responses = 1 << 20,
};

struct drive_memory;

// NULL when address space is short.
struct drive_memory *drive_memory_create(void);
void drive_memory_destroy(struct drive_memory **memory);

// `id` is the piece that the response becomes in later prompts.  An empty text: the response exists
// but is unknown.
void drive_memory_keep(struct drive_memory *memory, uint64_t session, uint64_t id,
                       struct slice text);

// False: it is not a response, or was forgotten.  The text is good until the next _keep.
bool drive_memory_find(const struct drive_memory *memory, uint64_t session, uint64_t id,
                       struct slice *text);
