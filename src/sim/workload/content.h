// SPDX-License-Identifier: Apache-2.0
//
// content.h -- the text of simulated prompts.
//
// A prompt is a list of pieces: so many tokens of something that has a number.  Two prompts that
// begin with the same pieces share a prefix; they differ from the middle of a piece or of a block
// on, as real ones do.
//
//     [ 7: 6000 tokens ][ 912: 1200 tokens ]      a shared system prompt, and a question of its own
//     [ 7: 6000 tokens ][ 913: 1150 tokens ]
//
// The same pieces become keys of blocks, for simulated caches, or text, for engines behind HTTP:
// then a token is content_token_size bytes.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { content_token_size = 4 };

struct piece {
    uint64_t id;
    uint32_t tokens;
};

// The keys of the whole blocks, chained: one stands for all up to and including its block.  Returns
// their number, at most key_max.
uint32_t content_keys(const struct piece *pieces, uint32_t count, uint32_t block_tokens,
                      uint64_t *keys, uint32_t key_max);

// The text of tokens [from, from + tokens) of a piece: letters and spaces, content_token_size bytes
// each, the same for the same piece wherever it stands.  No terminating zero.
void content_text(uint64_t id, uint32_t from, uint32_t tokens, char *out);
