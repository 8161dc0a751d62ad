// SPDX-License-Identifier: Apache-2.0
//
// backend_json.h -- one backend as GET /backends shows it.  docs/admin-api.md shows one.
//
// Unknown values are null: speeds before they are learned, a cache size before it is reported.
#pragma once

#include "base/slice.h"

struct admin_options;
struct backend;
struct json_writer;

struct backend_json_request {
    uint64_t now_ms;
    bool has_histogram; // of predicted cache hits; some kilobytes
};

void backend_json_put(const struct admin_options *options, const struct backend *backend,
                      const struct backend_json_request *request, struct json_writer *json);

// The members that /overview shows as well: id, url, pool, weight, state, in_flight, requests,
// failures, models.
void backend_json_put_summary(const struct admin_options *options, const struct backend *backend,
                              uint64_t now_ms, struct json_writer *json);
