// SPDX-License-Identifier: Apache-2.0
//
// dialects.h -- the tokenizers that a configuration names, from their files.
//
//     DIR/tokenizer.json           required, unless the path names a file of ranks
//     DIR/tokenizer_config.json    special tokens, chat template
//     DIR/chat_template.jinja      the chat template, if it has a file of its own
#pragma once

#include "config/config.h"
#include "dialect/token_reader.h"

// IO: a required file cannot be read; otherwise as dialect_create.
enum status dialects_load(const struct config_tokenizer *row, struct dialect **out,
                          char error[dialect_error_size]);

// All tokenizers of the configuration, and a memo for so many threads.  A file that cannot be read
// is an error, whose reason is printed; a tokenizer that is refused is logged and left out.  `*out`
// is NULL without any.
enum status dialects_open(const struct config *config, uint32_t thread_count,
                          struct dialect_set **out);
void dialects_close(struct dialect_set **set);
