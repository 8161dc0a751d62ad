// SPDX-License-Identifier: Apache-2.0
//
// events_json.h -- what is heard of a backend's KV cache, as JSON.
//
//     {"state": "live", "endpoint": "tcp://10.0.0.7:5557", "rank": 0, "ranks": 1,
//      "connected": true, "block_tokens": 16, "orphans_waiting": 0, "silent_ms": 12,
//      "stream": {"number": 4711, "messages": 4711, "gaps": 0, ...},
//      "told": {"blocks": 81920, "stored": 120345, ...}}
//
// `number` is the next one that is expected, `blocks` what is held now.
//
// The counts are those of kv_follower.h and kv_holdings.h, by their names.  A backend that nobody listens to
// has the first line only.
#pragma once

struct backend;
struct kv_feed_status;
struct text;

// `heard` is NULL where nobody listens.
void events_json_add(const struct backend *backend, const struct kv_feed_status *heard,
                     struct text *json);
