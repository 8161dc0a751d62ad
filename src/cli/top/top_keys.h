// SPDX-License-Identifier: Apache-2.0
//
// top_keys.h -- from the bytes that a terminal sends to keys, and what each does to the view.
//
// Keys beyond letters come as sequences (ESC [ A is an arrow), which may arrive in pieces.  An
// unknown sequence is skipped as a whole, so that half of it never counts as letters.
#pragma once

#include "cli/top/top_screen.h"

enum top_key {
    TOP_KEY_NONE, // nothing yet, or nothing that is known
    TOP_KEY_UP,
    TOP_KEY_DOWN,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_LETTER, // in `letter`
};

struct top_keys {
    uint32_t state;
    uint32_t number; // the parameter of a sequence
    char letter;
};

// Takes one byte.
enum top_key top_keys_take(struct top_keys *keys, uint8_t byte);

enum top_effect { TOP_STAY, TOP_REPAINT, TOP_QUIT };

// REPAINT: the screen itself may be in disorder.
enum top_effect top_keys_press(struct top_view *view, enum top_key key, char letter);
