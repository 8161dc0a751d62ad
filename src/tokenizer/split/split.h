// SPDX-License-Identifier: Apache-2.0
//
// split.h -- cuts a gap of text into the pieces that merging stays within.
//
// Tokenizer files say where to cut with regular expressions.  There are few of them in the world; each is
// known here by its exact text and has a scanner written by hand.  Spelling changes meaning, so a text
// that is not known byte for byte is refused, never guessed.
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

// The kind of one pattern, by its text after JSON decoding.  False when it is not known.  The three
// patterns of DeepSeek V3 are one kind, known by split_find_sequence.  Matches are pieces and so is what
// lies between them ("Isolated"); all patterns but DeepSeek's match everywhere, so that removing what is
// not matched ("Removed" and inverted) is the same.
bool split_find(struct slice pattern, enum split_kind *out);
bool split_find_sequence(const struct slice *patterns, uint32_t count, enum split_kind *out);

// By the name that goes with a file of ranks: gpt2, llama3, ... False when unknown.  The pattern is then
// read as tiktoken reads it.
bool split_find_name(struct slice name, enum split_kind *out);

// Cuts on from *at: writes where the next pieces end, at most `capacity` of them, and moves *at to the
// end of the last.  Returns how many; 0 only at the end of the gap.  The gap is valid UTF-8 of less
// than 4 GB, and everything ends with it: look-ahead, runs, the text.
uint32_t split_pieces(enum split_kind kind, struct slice gap, size_t *at, uint32_t *ends,
                      uint32_t capacity);

// Whether a text may be cut after a line feed that something not white follows ('/' excepted where
// the kind says so), and before a single space between two characters that are not white.
struct split_cuts {
    bool after_line;
    bool after_line_before_slash;
    bool before_space;
};
struct split_cuts split_cuts(enum split_kind kind);
