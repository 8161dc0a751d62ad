// SPDX-License-Identifier: Apache-2.0
//
// overview_json.h -- the router as those see it who watch: totals, the last minute, every backend, the line of
// time against what round-robin would have given, the hottest prefixes.  docs/admin-api.md shows one.
//
// What is not known is null.  Without a scribe nothing is known but the fleet and the workers' own counts.  Its
// lock is held only while figures are copied.
#pragma once

#include "base/slice.h"

struct admin_options;
struct text;

struct overview_request {
    uint64_t now_ms; // the loop's
    uint64_t uptime_ms;
    uint64_t wall_ms;
    uint64_t since_ms; // of the line of time, only points that began after that
};

// Returns when the last point that was told began; since_ms: there was none.
uint64_t overview_json_add(const struct admin_options *options,
                           const struct overview_request *request, struct text *json);
