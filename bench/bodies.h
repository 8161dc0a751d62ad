// SPDX-License-Identifier: Apache-2.0
//
// bodies.h -- request bodies of every usual kind, and chunks of an answer, made up from a seed: the
// same bytes in every run, and no files.
//
// All have the form that clients send, without spaces between the items.  They differ in what most
// of their bytes are, which is what the speed of a scanner depends on.
#pragma once

#include "base/text.h"

struct body_kind {
    const char *name;
    // Appends one whole body that ends soon after text->size has reached `size`.
    void (*write)(struct text *text, size_t size);
};

// scan_200k is an agent in the middle of its work: a system prompt, tools with their schemas, turns
// of English and of code, calls whose arguments are JSON in a string, files that tools returned, a
// few turns in Chinese and one picture as base64.  Each other kind is one of these alone.
extern const struct body_kind body_kinds[];
extern const size_t body_kind_count;

// One event of a streamed chat completion, of about 200 bytes; `number` varies its text.
void body_write_chunk(struct text *text, uint32_t number);
