// SPDX-License-Identifier: Apache-2.0
//
// chat.h -- made-up conversations, as the bodies of chat requests.
//
// English with some code, and so with escapes in about one byte of sixty.  Conversations of the
// same application begin with the same system prompt and share nothing else.  The same numbers give
// the same bytes, always.
#pragma once

#include "base/text.h"

struct chat_plan {
    uint32_t application;
    uint32_t conversation;
    uint32_t system_size; // bytes of the system prompt, about
    uint32_t size;        // of the whole body, within a turn; the system prompt included
    bool has_user;        // the body names the user, and so a session
};

enum {
    chat_body_extra_max = 4096, // what a body may be larger than its `size`
    chat_stamp_digits = 12,
};

struct chat_body {
    size_t last_size; // of the last message, which is the user's
    size_t stamp_at;  // behind the beginning of the body: digits near the beginning of that message
};

// Appends one body.
struct chat_body chat_write(const struct chat_plan *shape, struct text *text);

// Makes the last message one that was never sent before.
void chat_stamp(uint8_t *digits, uint64_t number);
