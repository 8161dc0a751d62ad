// SPDX-License-Identifier: Apache-2.0
//
// stats_json.h -- the numbers that engines list as JSON.
//
//     [{...}, {"numActiveRequests": 3, "kvCacheStats": {...}}]   TensorRT-LLM: its last steps
//     {"loads": [{"num_running_reqs": 1, ...}, ...]}             SGLang: each of its ranks
//     {...}                                                      one object
//
// Of steps the last counts alone, of ranks every one, or the one that is asked for (its `dp_rank`).  Members of kvCacheStats are told as the others are.
// What is no JSON from its first to its last byte says nothing.
#pragma once

#include "base/slice.h"

// `name` lies in the page, escapes as they stand.  The value is what exposition_number takes.
typedef void stats_json_fn(void *owner, struct slice name, double value);

enum { stats_json_all_ranks = UINT32_MAX };

void stats_json_read(struct slice page, uint32_t rank, stats_json_fn *number, void *owner);
