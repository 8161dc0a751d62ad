// SPDX-License-Identifier: Apache-2.0
//
// drive_text.h -- the body of a request, made of the pieces of a work item.
//
//     pieces        [ 7: 600 tokens ][ 12: 80 ][ 31: 200, an answer ][ 13: 90 ]
//     chat          system            user      assistant             user
//     completions   one prompt, the same text without a seam
//     ids           that prompt as token ids: four bytes of text are one, a little-endian number
//
// The text of a piece is the same wherever it stands, so two prompts with equal first pieces have equal
// beginnings.  An answer that was kept (drive_memory.h) is repeated as it came; one that nobody kept is
// made up like all else.  In chat the first of several pieces is what the application says and the
// others are its user's; a trace knows no such seam and is one message of the user (`one_message`), so
// that a short prompt is a beginning of a longer one.
//
// Ids are those of a simulated engine, which takes four bytes for a token; of an answer whose size is no
// multiple of four the rest is left out.
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
};

struct drive_api_kind {
    const char *name;
    const char *path;
    enum prompt_api api; // that answers are read by
};

extern const struct drive_api_kind drive_apis[drive_api_count];

// Enough room for the body.
size_t drive_text_size(const struct drive_shape *shape, const struct work_item *item,
                       const struct drive_memory *memory);

void drive_text_write(const struct drive_shape *shape, const struct work_item *item,
                      const struct drive_memory *memory, struct text *out);
