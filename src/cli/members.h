// SPDX-License-Identifier: Apache-2.0
//
// members.h -- tells the chronicle who is in the fleet: it knows backends by their receipts alone.
#pragma once

#include <stdint.h>

struct fleet;
struct scribe;

void members_tell(const struct fleet *fleet, uint64_t now_ms, struct scribe *scribe);
