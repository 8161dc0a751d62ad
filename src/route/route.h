// SPDX-License-Identifier: Apache-2.0
//
// route.h -- from a request to a backend.
//
// Reads from the body what routing needs, finds who serves the model, leaves out who cannot be used,
// and lets the pool's policy choose among the rest.  Of the backends that were not tried yet, the
// best tier that has any is used: ready ones; else those that asked for a pause; else, since trying
// beats refusing, those that are down.
//
// Threads: one struct route per worker, which shares nothing but the backends' own counters.
// Memory: allocated by route_create; deciding allocates nothing.
#pragma once

#include "base/rng.h"
#include "base/slice.h"
#include "fleet/fleet.h"

struct policy;
struct policy_target;

enum { route_model_size_max = 512, route_tried_max = 16 };

// Room for what a body says with escapes in it.
struct route_scratch {
    uint8_t model[route_model_size_max];
    uint8_t user[route_model_size_max];
};

struct route_request {
    struct slice model;   // empty when the body names none
    uint64_t session_key; // 0 when there is no session
};

struct route_tried {
    uint64_t ids[route_tried_max];
    uint32_t count;
};

enum route_verdict {
    ROUTE_CHOSEN,
    ROUTE_NO_SUCH_MODEL,
    ROUTE_NO_BACKEND, // nobody is left who serves it
};

struct route_choice {
    struct backend *backend; // counted in by backend_begin; the caller owes backend_end
    bool on_trial;
};

struct route_options {
    const struct policy *const *policies; // one for each pool
    uint32_t pool_count;
    uint32_t target_count_max;
    uint32_t load_bound_percent;
    uint64_t seed;
};

struct route;

// NULL when memory is short.
struct route *route_create(const struct route_options *options);
void route_destroy(struct route **route);

// What the body says, if it is a JSON object; otherwise nothing.  The slices lie in `body` or in
// `scratch`.  `session` is a session key that the headers gave; without one the JSON field `user` is
// the session.
void route_read(struct slice body, struct slice session, struct route_scratch *scratch,
                struct route_request *out);

enum route_verdict route_choose(struct route *route, const struct fleet_view *view,
                                const struct route_request *request,
                                const struct route_tried *tried, uint64_t now_ms,
                                struct route_choice *out);

bool route_was_tried(const struct route_tried *tried, const struct backend *backend);

// Whether anybody of that tier or a better one is left to choose, without choosing.
bool route_has_more(const struct fleet_view *view, const struct route_request *request,
                    const struct route_tried *tried, enum backend_tier worst, uint64_t now_ms);
