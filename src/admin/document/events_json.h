// SPDX-License-Identifier: Apache-2.0
//
// events_json.h -- the state of a backend's KV event feed as JSON.
//
//     {"state": "live", "endpoint": "tcp://10.0.0.7:5557", "rank": 0, "ranks": 1,
//      "connected": true, "block_tokens": 16, "orphans_waiting": 0, "silent_ms": 12,
//      "stream": {"number": 4711, "messages": 4711, "gaps": 0, ...},
//      "told": {"blocks": 81920, "stored": 120345, ...}}
//
// `number` is the next sequence number that is expected, `blocks` the blocks that the backend holds
// now.
//
// The counts are those of kv_follower.h and kv_holdings.h, under their names.  A backend without a
// feed has the first line only.
#pragma once

struct backend;
struct json_writer;
struct kv_feed_status;

// `status` is NULL for a backend without a feed.
void events_json_put(const struct backend *backend, const struct kv_feed_status *status,
                     struct json_writer *json);
