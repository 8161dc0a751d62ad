// SPDX-License-Identifier: Apache-2.0
//
// members.h -- the members of the fleet, for the chronicle, which otherwise knows only receipts.
#pragma once

#include "chronicle/chronicle.h"

struct fleet;

// As many as fit into `out`.
uint32_t members_of(const struct fleet *fleet, uint64_t now_ms, struct chronicle_member *out,
                    uint32_t out_max);
