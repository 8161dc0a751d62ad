// SPDX-License-Identifier: Apache-2.0
//
// split.h -- cuts a gap of text into the pieces that merging stays within.
//
// Tokenizer files say where to cut with regular expressions.  Few are in use; each is known here
// byte for byte and has a scanner written by hand.  Spelling changes meaning, so any other text is
// refused.
#pragma once

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum split_kind {
    SPLIT_NONE, // the gap is one piece
    SPLIT_GPT2,
    SPLIT_DIGITS_GPT2, // each digit (Rust's) alone, then gpt2 on what is between
    SPLIT_LLAMA3,
    SPLIT_QWEN2,
    SPLIT_QWEN35,
    SPLIT_CL100K,          // as Hugging Face reads the pattern: a number is one piece
    SPLIT_CL100K_TIKTOKEN, // as tiktoken does: three digits are
    SPLIT_O200K,
    SPLIT_TEKKEN,
    SPLIT_KIMI,
    SPLIT_DSV3,
    SPLIT_COUNT,
};

// The kind of one pattern, or of the three of DeepSeek V3, by their texts after JSON decoding.
// False when they are not known.  Matches are pieces, and so is the text between them ("Isolated").
// All patterns but DeepSeek's match everywhere, so that removing unmatched text ("Removed" and
// inverted) is the same.
bool split_find(const struct slice *patterns, uint32_t count, enum split_kind *out);

// The kind by its name in the configuration of a file of ranks: gpt2, llama3, ...  False when
// unknown.  The pattern is then read as tiktoken reads it.
bool split_find_name(struct slice name, enum split_kind *out);

// Cuts on from *at: writes the ends of the next pieces, at most `capacity` of them, and moves *at
// to the end of the last.  Returns how many; 0 only at the end of the gap.  The gap is valid UTF-8
// of less than 4 GB.  Look-ahead and runs end with it.
uint32_t split_pieces(enum split_kind kind, struct slice gap, size_t *at, uint32_t *ends,
                      uint32_t capacity);

// Whether a text may be cut after a line feed before a visible character ('/' only if the kind says
// so), and before a single space between two visible characters.
struct split_cuts {
    bool after_line;
    bool after_line_before_slash;
    bool before_space;
};
struct split_cuts split_cuts(enum split_kind kind);
