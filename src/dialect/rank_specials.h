// SPDX-License-Identifier: Apache-2.0
//
// rank_specials.h -- reads special tokens from tokenizer_config.json, for models with a file of
// ranks.
//
// A file of ranks has no special tokens; models that come with one list them as
//
//     "added_tokens_decoder": {"163584": {"content": "[BOS]", ...}, ...}
//
// Memory: one block, owned by the result.  Threads: pure.
#pragma once

#include "tokenizer/tokenizer.h"

struct rank_specials {
    struct tokenizer_special *items;
    uint32_t count;
};

// A file without that member has no special tokens.  MALFORMED: not such a file.  EXHAUSTED: out of
// memory.  On success the caller owes rank_specials_free.
enum status rank_specials_read(struct slice json, struct rank_specials *out);
void rank_specials_free(struct rank_specials *specials);
