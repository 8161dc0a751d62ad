// SPDX-License-Identifier: Apache-2.0
//
// overview_json.h -- the document behind the dashboard and `top`: totals, the last minute, every
// backend, a time series beside the estimate for round-robin, the hottest prefixes.
// docs/admin-api.md shows one.
//
// Unknown values are null.  Without a scribe only the fleet and the workers' own counts are known.
// The scribe's lock is held only while figures are copied.
#pragma once

#include "base/slice.h"

struct admin_options;
struct json_writer;

struct overview_request {
    uint64_t now_ms; // the loop's
    uint64_t uptime_ms;
    uint64_t wall_ms;
    uint64_t since_ms; // the time series has only points that began after this
};

// *last_ms is when the last point of the series began; since_ms if the series is empty.  False,
// with nothing written: memory is short.
bool overview_json_put(const struct admin_options *options, const struct overview_request *request,
                       uint64_t *last_ms, struct json_writer *json);
