// SPDX-License-Identifier: Apache-2.0
//
// pushed_events.h -- takes KV events that an engine, or something beside it, has sent to the admin
// API.
//
// A document (kv_json.h) is read to its end before any of it is handed on, so that it counts as a
// whole or not at all.  It names its backend, by URL and rank or by id; or else each of its events
// does, by id.
#pragma once

#include "base/slice.h"
#include "http/problem.h"

struct admin_options;

enum { pushed_events_backends_max = 16 }; // in one document

struct pushed_events_refusal {
    enum http_problem problem;
    char detail[256];
};

// False: `*why` says why nothing was taken.
bool pushed_events_take(const struct admin_options *options, struct slice document,
                        struct pushed_events_refusal *why);
