// SPDX-License-Identifier: Apache-2.0

#include "sim/workload/content.h"

#include "base/rng.h"

// Three letters and a space make one token.
static const char letters[32] = "abcdefghijklmnopqrstuvwxyzaeioun";

static uint64_t content_chain(uint64_t before, uint64_t id, uint32_t from, uint32_t tokens)
{
    uint64_t place = (uint64_t)from << 32 | tokens;
    return rng_mix(before + id * 0x9e3779b97f4a7c15 + rng_mix(place));
}

uint32_t content_keys(const struct piece *pieces, uint32_t count, uint32_t block_tokens,
                      uint64_t *keys, uint32_t key_max)
{
    uint64_t last = 0x77617270617468;
    uint32_t lacking = block_tokens; // of the present block
    uint32_t made = 0;

    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t from = 0; from < pieces[i].tokens && made < key_max;) {
            uint32_t left = pieces[i].tokens - from;
            uint32_t part = left < lacking ? left : lacking;
            last = content_chain(last, pieces[i].id, from, part);
            from += part;
            lacking -= part;
            if (lacking == 0) {
                keys[made++] = last;
                lacking = block_tokens;
            }
        }
    }
    return made;
}

void content_text(uint64_t id, uint32_t from, uint32_t tokens, char *out)
{
    for (uint32_t i = 0; i < tokens; i++) {
        uint64_t word = rng_mix(id * 0x9e3779b97f4a7c15 + from + i + 1);
        out[0] = letters[word & 31];
        out[1] = letters[word >> 5 & 31];
        out[2] = letters[word >> 10 & 31];
        out[3] = ' ';
        out += content_token_size;
    }
}
