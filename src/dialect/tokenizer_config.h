// SPDX-License-Identifier: Apache-2.0
//
// tokenizer_config.h -- reads a tokenizer_config.json: chat templates, and the special tokens that they name.
//
//     {"bos_token": "<s>",                               a token is a text,
//      "eos_token": {"content": "</s>", "lstrip": ...},  or an object around one,
//      "pad_token": null,                                or not there
//      "extra_special_tokens": {"image_token": "<i>"},   more of them, by names of their own
//      "chat_template": "{% for ... %}"}                 or [{"name": "default", "template": "..."}, ...]
//
// Only what templates need.  What the file says about the tokenizer itself changes ids and is not applied:
// the tokenizer.json must be the effective one.  A token that is null or empty is no variable of templates,
// as in transformers; lists of tokens (additional_special_tokens) have no names and are left out.
//
// Of members that come twice the last one counts, as in Python.
//
// Memory: one block, owned by the result.  Threads: pure.
#pragma once

#include "base/slice.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// Seven have names that are known; the most seen with names of their own is eight.
enum { tokenizer_config_token_max = 32 };

struct tokenizer_config_token {
    struct slice name; // bos_token
    struct slice text;
};

struct tokenizer_config {
    struct slice template;      // the default one; empty: there is none
    struct slice tool_template; // the one named tool_use; empty: the default one serves
    struct tokenizer_config_token tokens[tokenizer_config_token_max];
    uint32_t token_count;
    bool adds_bos; // add_bos_token is true
    bool adds_eos;
    bool has_adds_bos; // it is there at all
    bool has_adds_eos;
    void *memory;
};

// MALFORMED: not such a file; TOO_LARGE: more tokens with names than tokenizer_config_token_max, or nested
// too deep; EXHAUSTED: memory is short.  On success the caller owes tokenizer_config_free.
enum status tokenizer_config_read(struct slice json, struct tokenizer_config *out);

// The same of a special_tokens_map.json, which has tokens and nothing else: the rest of `out` is empty.
enum status tokenizer_config_read_tokens(struct slice json, struct tokenizer_config *out);

void tokenizer_config_free(struct tokenizer_config *config);
