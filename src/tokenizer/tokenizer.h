// SPDX-License-Identifier: Apache-2.0
//
// tokenizer.h -- text to token ids, exactly as Hugging Face tokenizers computes them.
//
//     text --cut at added tokens--> gaps --normalize--> --split--> pieces --merge--> ids
//
// A file with a component that is not implemented here does not load, and the error names the
// component.  A file that loads gives the ids of tokenizers 0.23, for any valid UTF-8.
//
// A long text may be encoded in parts.  The ids of the whole are those of the parts, one after the
// other, if it is cut where tokenizer_cut says and every part but the first has `continues` set.
//
// Threads: a tokenizer does not change after loading and is shared; a scratch belongs to one
// thread.  Memory: taken while loading and by tokenizer_scratch_create.  Encoding allocates
// nothing.
#pragma once

#include "base/slice.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct tokenizer;
struct tokenizer_scratch;

struct tokenizer_error {
    char text[256]; // what is refused, and what to do about it
};

// `json` is a tokenizer.json; it is not needed afterwards.  MALFORMED: not such a file, or a
// component that is refused.  EXHAUSTED: out of memory.
enum status tokenizer_load(struct slice json, struct tokenizer **out,
                           struct tokenizer_error *error);

// A file of ranks as tiktoken has them (a token in base64, a space, its rank, a line each).
struct tokenizer_special {
    struct slice text;
    uint32_t id;
};
struct tokenizer_ranks {
    struct slice file;
    const char *pattern; // by name: gpt2 cl100k o200k kimi ...
    const struct tokenizer_special *specials;
    uint32_t special_count;
};
enum status tokenizer_load_ranks(const struct tokenizer_ranks *ranks, struct tokenizer **out,
                                 struct tokenizer_error *error);

void tokenizer_destroy(struct tokenizer **tokenizer);

// A hash of everything that decides which ids come out; memo.h keys its entries with it.
uint64_t tokenizer_fingerprint(const struct tokenizer *tokenizer);

// Bytes allocated while loading.
size_t tokenizer_memory(const struct tokenizer *tokenizer);

// All ids are below it.
uint32_t tokenizer_id_count(const struct tokenizer *tokenizer);

// The bytes that the id stands for in a text; empty for an unknown id.
struct slice tokenizer_token(const struct tokenizer *tokenizer, uint32_t id);

// NULL when out of memory.  Keeps the tokenizer.
struct tokenizer_scratch *tokenizer_scratch_create(const struct tokenizer *tokenizer);
void tokenizer_scratch_destroy(struct tokenizer_scratch **scratch);

struct tokenizer_input {
    struct slice text;
    bool adds_special; // with the post-processor's ids around the text, such as <s>
    bool continues;    // the text begins at a cut (tokenizer_cut)
    bool is_continued; // the text ends at a cut
};

// The most ids that a text of that size can have, specials included.
size_t tokenizer_bound(const struct tokenizer *tokenizer, size_t text_size);

// MALFORMED: the text is not UTF-8.  TOO_LARGE: one piece is longer than tokenizer_piece_max, or
// `capacity`, which may be less than tokenizer_bound, is not enough.
enum { tokenizer_piece_max = 1 << 20 };
enum status tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                             const struct tokenizer_input *input, uint32_t *ids, size_t capacity,
                             size_t *count);

// The first place at or after `from`, above 0, where the text may be cut; text.size when no place
// may.  Only a few bytes behind a place decide whether it is one, so texts with a common prefix
// have the same places in it.
size_t tokenizer_cut(const struct tokenizer *tokenizer, struct slice text, size_t from);

// Whether this tokenizer allows cuts at all.
bool tokenizer_has_cuts(const struct tokenizer *tokenizer);
