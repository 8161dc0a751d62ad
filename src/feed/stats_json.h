// SPDX-License-Identifier: Apache-2.0
//
// stats_json.h -- reads the numbers of an engine's load from JSON.
//
//     [{...}, {"numActiveRequests": 3, "kvCacheStats": {...}}]   TensorRT-LLM: its last steps
//     {"loads": [{"num_running_reqs": 1, ...}, ...]}             SGLang: each of its ranks
//     {...}                                                      one object
//
// Of a list of steps only the last is read; of a list of ranks all, or the one with the wanted
// `dp_rank`.  Members of kvCacheStats are read like the others.  A document that is not valid JSON
// as a whole is ignored.
#pragma once

#include "base/slice.h"

// `name` lies in the page, escapes as they stand.  The value is what exposition_number takes.
typedef void stats_json_fn(void *owner, struct slice name, double value);

void stats_json_read(struct slice page, uint32_t rank, stats_json_fn *number, void *owner);
