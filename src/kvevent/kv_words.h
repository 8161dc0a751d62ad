// SPDX-License-Identifier: Apache-2.0
//
// kv_words.h -- words that engines use in their events, in msgpack and in JSON.
#pragma once

#include "base/slice.h"
#include "prefix/prefix_ledger.h"

// The tier of a medium, in any case.  No name: the GPU.  Unknown names: the slowest tier.
enum prefix_tier kv_tier_of(struct slice medium);

// Whether groups of this kind of attention keep every block of a prefix, so that their blocks
// decide what is a hit.  An engine that names no kind has one group, which does.
bool kv_attention_decides(struct slice kind);
