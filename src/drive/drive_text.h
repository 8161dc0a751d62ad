// SPDX-License-Identifier: Apache-2.0
//
// drive_text.h -- the body of a request, made of the pieces of a work item.
//
//     pieces        [ 7: 600 tokens ][ 12: 80 ][ 31: 200, a response ][ 13: 90 ]
//     chat          system            user      assistant               user
//     completions   one prompt, the same text without a seam
//     ids           that prompt as token ids: four bytes of text are one, a little-endian number
//
// A piece has the same text in every prompt, so prompts with equal first pieces share a prefix.  A
// response that was kept (drive_memory.h) is repeated verbatim; others are generated like any
// piece.  In chat the first of several pieces is the system message and the others are the user's.
// A trace has no such boundary and is one user message (`one_message`), so that a short prompt is a
// prefix of a longer one.
//
// Ids are those of a simulated engine, which takes four bytes for a token.  The last bytes of a
// response are left out if they do not fill a token.
//
// Pure.  Memory: none of its own.
#pragma once

#include "api/prompt.h"
#include "base/slice.h"
#include "sim/workload/workload.h"

struct drive_memory;
struct text;

enum drive_api { DRIVE_CHAT, DRIVE_COMPLETIONS, DRIVE_IDS, drive_api_count };

struct drive_shape {
    enum drive_api api;
    const char *model;
    bool one_message;
    bool stream;
    bool ignore_eos;     // the engine is to go on to the last of output_tokens
    bool names_sessions; // as `user`
    bool is_greedy;      // the engine does not sample: temperature 0
};

struct drive_api_kind {
    const char *name;
    const char *path;
    enum prompt_api api; // by which responses are read
};

extern const struct drive_api_kind drive_apis[drive_api_count];

// Enough room for the body.
size_t drive_text_size(const struct drive_shape *shape, const struct work_item *item,
                       const struct drive_memory *memory);

void drive_text_write(const struct drive_shape *shape, const struct work_item *item,
                      const struct drive_memory *memory, struct text *out);
