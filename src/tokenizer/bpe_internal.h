// SPDX-License-Identifier: Apache-2.0
//
// bpe_internal.h -- the model and what a thread needs beside it.
#pragma once

#include "tokenizer/bpe.h"
#include "tokenizer/bpe_merge.h"
#include "tokenizer/bpe_symbols.h"
#include "tokenizer/bpe_table.h"
#include "tokenizer/bpe_vocab.h"

struct bpe {
    struct bpe_table table;
    struct bpe_symbols symbols;
    struct bpe_vocab vocab;
    bool ignore_merges;
};

struct bpe_scratch {
    const struct bpe *bpe;
    struct bpe_room *room;
};
