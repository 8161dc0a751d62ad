// SPDX-License-Identifier: Apache-2.0
//
// tokenizer_internal.h -- the parts of a tokenizer, and of its file while it is loaded.
//
//     tokenizer.json --tokenizer_load.c--+
//                                        +--> tokenizer_draft --tokenizer_build.c--> tokenizer
//     a file of ranks --rank_file.c------+
//
// Two families are known.  In one, symbols are bytes, and the file spells them in an alphabet of
// its own, which is undone while loading.  In the other (SentencePiece), symbols are characters and
// a space is the character "▁": the file says so with Replace and Prepend or with Metaspace.  Both
// are folded into the merging, so that no text is copied for them.
#pragma once

#include "base/slice.h"
#include "base/status.h"
#include "json/json.h"
#include "tokenizer/added.h"
#include "tokenizer/bpe/bpe.h"
#include "tokenizer/space_mark.h"
#include "tokenizer/split/split.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary_internal.h"

// Where a space is put before a gap that a cut has not made.
enum space_rule {
    SPACE_NOWHERE,
    SPACE_EACH_GAP,     // Prepend: before the normalizer's input
    SPACE_UNLESS_THERE, // Metaspace "always", ByteLevel add_prefix_space: unless there is one
    SPACE_FIRST,        // Metaspace "first": the same, but only where the text begins
};

// From a gap to pieces.
struct pipeline {
    bool is_nfc;
    bool by_character;     // SentencePiece
    bool replaces_spaces;  // in the normalizer: added tokens that it changes are found by "▁"
    bool splits_at_spaces; // by_character: a piece ends before each space
    enum space_rule space_rule;
    enum split_kind split;
};

// The ids that the post-processor puts before a text, or behind it.
enum { special_ids_max = 16 };
struct special_ids {
    uint32_t ids[special_ids_max];
    uint32_t count;
};

struct tokenizer {
    struct pipeline pipeline;
    struct added *added;      // in the text as it is; NULL: none
    struct added *normalized; // in the normalizer's result; NULL: none
    struct bpe *bpe;
    struct special_ids before;
    struct special_ids behind;

    // Where a text may be cut, and where a gap.  Where the pipeline puts a space before each gap,
    // no cut follows the last byte of an added token: the part behind it would look like the rest
    // of a gap.
    struct split_cuts text_cuts;
    struct split_cuts gap_cuts;
    bool is_last_of_added[256];

    // The program that comes with a file of ranks cuts longer texts and runs.  0: it does not.
    uint32_t text_characters_max;
    uint32_t run_characters_max;

    uint32_t id_count;
    uint32_t *token_ends; // by id
    uint8_t *token_bytes;
    uint64_t fingerprint;
};

// Enough for one part of a gap, normalized and with its spaces spelled out.
enum { scratch_text_size = 3 * tokenizer_piece_max + 64 };

struct tokenizer_scratch {
    const struct tokenizer *tokenizer;
    struct bpe_scratch *bpe;
    // Pages that no text needs are never touched.
    uint8_t *normal; // of scratch_text_size: the normalizer's result
    uint8_t *spaced; // the same, with the spaces that are put into it
    uint32_t *ids;   // tokenizer_piece_max + 1, for when the caller's space may be too small
};

// The first place at or after `from`, above 0, where these cuts allow one; text.size when no place
// does.
size_t tokenizer_find_cut(const struct tokenizer *tokenizer, const struct split_cuts *cuts,
                          struct slice text, size_t from);

struct load_added {
    struct added_token token; // without text and id, which are the word's
    uint32_t word;            // of the vocabulary
    bool is_normalized;
};

// A tokenizer while it is loaded: the contents of its file.
struct tokenizer_draft {
    struct tokenizer_error *error;
    enum status status; // if not OK: why loading has stopped

    struct vocabulary vocabulary; // the model's words first, then the added ones it does not have
    uint32_t model_word_count;
    struct bpe_merge *merges;
    uint32_t merge_count;
    uint32_t merge_capacity;
    bool spells_bytes; // words are in the byte alphabet
    bool ignore_merges;
    bool byte_fallback;
    bool fuse_unknown;
    uint32_t unknown_word;

    struct load_added *added;
    uint32_t added_count;

    struct pipeline pipeline;
    struct special_ids before;
    struct special_ids behind;
    uint32_t text_characters_max;
    uint32_t run_characters_max;
    uint64_t fingerprint;
};

// Builds the tokenizer if the file was read; frees the draft.  Returns the final status.
enum status load_finish(struct tokenizer_draft *load, bool is_read, struct tokenizer **out);

// Loading stops at the first error: functions that return false have called one of these two, which
// set the draft's status, write the reason and return false.
bool load_refuse(struct tokenizer_draft *load, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool load_exhausted(struct tokenizer_draft *load);

// Ends the refusal of a component that exists but is not implemented.
#define LOAD_ADVICE "route this model by text"

// The first characters of a text, for a message.
struct load_excerpt {
    char text[61];
};
struct load_excerpt load_excerpt(struct slice text);

// The word is new to the vocabulary.
bool load_add_word(struct tokenizer_draft *load, struct slice word, uint32_t id);
bool load_add_merge(struct tokenizer_draft *load, const struct bpe_merge *merge);

// The readers of the parts of a tokenizer.json; each value comes with all its text, or is
// JSON_ABSENT or JSON_NULL.
bool load_pipeline(struct tokenizer_draft *load, const struct json_value *normalizer,
                   const struct json_value *pre_tokenizer);
bool load_post_processor(struct tokenizer_draft *load, const struct json_value *value);
bool load_added_tokens(struct tokenizer_draft *load, const struct json_value *value);

// The cursor stands at the model's object, which was just handed out.
bool load_model(struct tokenizer_draft *load, struct json *json);

// A string of the file, unescaped; refused when it is not a string or does not fit.
enum { load_string_size = 4096 };
struct load_string {
    uint8_t space[load_string_size];
    struct slice text;
};
bool load_string(struct tokenizer_draft *load, const struct json_value *value, const char *name,
                 struct load_string *out);

// A member that is true or false, or missing.
bool load_flag(struct tokenizer_draft *load, const struct json_value *value, const char *name,
               bool otherwise, bool *out);

// Checks that the parts fit each other, and makes the tokenizer.
bool tokenizer_build(struct tokenizer_draft *load, struct tokenizer **out);
