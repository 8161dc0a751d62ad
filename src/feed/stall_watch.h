// SPDX-License-Identifier: Apache-2.0
//
// stall_watch.h -- finds the backends that make no progress, for the keeper.
//
// fleet/progress.h says when a backend is stalled.  The keeper looks a few times a second, so that
// a decision reads one word only, and the log says once that a backend stalls and once that it
// moves again.
//
// Threads: the keeper's.
#pragma once

#include <stdint.h>

struct fleet;

// `limit_ms` is health.stall_time; 0: no backend is ever stalled.
void stall_watch_look(const struct fleet *fleet, uint32_t limit_ms, uint64_t now_ms);
