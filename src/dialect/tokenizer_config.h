// SPDX-License-Identifier: Apache-2.0
//
// tokenizer_config.h -- reads a tokenizer_config.json: chat templates and the tokens that they
// name.
//
//     {"bos_token": "<s>",                               a token is a text,
//      "eos_token": {"content": "</s>", "lstrip": ...},  or an object around one,
//      "pad_token": null,                                or not there
//      "extra_special_tokens": {"image_token": "<i>"},   more of them, by names of their own
//      "chat_template": "{% for ... %}"}                 or [{"name": "default", "template": ""}]
//
// Only the members that templates need are read.  Members about the tokenizer itself change ids and
// are not applied: the tokenizer.json must be the effective one.  A null or empty token does not
// become a variable of templates, as in transformers.  Lists of tokens (additional_special_tokens)
// have no names and are left out.  Of duplicate members the last counts, as in Python.
//
// Memory: one block, owned by the result.  Threads: pure.
#pragma once

#include "base/slice.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// Seven names are standard; the most seen in addition is eight.
enum { tokenizer_config_token_max = 32 };

struct tokenizer_config_token {
    struct slice name; // bos_token
    struct slice text;
};

struct tokenizer_config {
    struct slice template;      // the default one; empty: the file has none
    struct slice tool_template; // the one named tool_use; empty: the default one serves
    struct tokenizer_config_token tokens[tokenizer_config_token_max];
    uint32_t token_count;
    void *memory;
};

// MALFORMED: not such a file.  TOO_LARGE: more tokens with names than tokenizer_config_token_max,
// or nested too deep.  EXHAUSTED: out of memory.  On success the caller owes tokenizer_config_free.
enum status tokenizer_config_read(struct slice json, struct tokenizer_config *out);

void tokenizer_config_free(struct tokenizer_config *config);
