// SPDX-License-Identifier: Apache-2.0
//
// members.h -- the fleet as the chronicle needs it: that knows backends by their receipts alone.
#pragma once

#include "chronicle/chronicle.h"

struct fleet;

// Those that fit into `out`.
uint32_t members_of(const struct fleet *fleet, uint64_t now_ms, struct chronicle_member *out,
                    uint32_t out_max);
