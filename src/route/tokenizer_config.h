// SPDX-License-Identifier: Apache-2.0
//
// tokenizer_config.h -- reads a tokenizer_config.json: chat templates, and the special tokens that they name.
//
// Only what templates need.  What the file says about the tokenizer itself changes ids and is not applied:
// the tokenizer.json must be the effective one.
//
// Memory: one block, owned by the result.
#pragma once

#include "base/slice.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// bos_token, eos_token, ..., by their names in the file, as templates see them.
enum { tokenizer_config_token_max = 16 };

struct tokenizer_config_token {
    struct slice name;
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

// MALFORMED: not such a file; EXHAUSTED: memory is short.  On success the caller owes
// tokenizer_config_free.
enum status tokenizer_config_read(struct slice json, struct tokenizer_config *out);
void tokenizer_config_free(struct tokenizer_config *config);
