// SPDX-License-Identifier: Apache-2.0
//
// chain_token.h -- adds token ids to a chain one by one.
#pragma once

#include "prefix/prefix_chain.h"

static inline void chain_add_token(struct prefix_chain *chain, uint32_t token)
{
    uint8_t bytes[4] = {(uint8_t)token, (uint8_t)(token >> 8), (uint8_t)(token >> 16),
                        (uint8_t)(token >> 24)};
    prefix_chain_add(chain, slice_of(bytes, sizeof(bytes)));
}
