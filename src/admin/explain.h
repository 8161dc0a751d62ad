// SPDX-License-Identifier: Apache-2.0
//
// explain.h -- where a request would go, and why.
//
// The same reading, matching and choosing as for a real request, on the same knowledge, with nobody
// counted in and nothing sent.  A policy that has a memory of its own (whose turn it is, who owned a
// prefix) is asked without it, since each worker has another.
#pragma once

#include "base/slice.h"
#include "http/problem.h"

struct admin_options;
struct text;

struct explain_request {
    struct slice path; // of the request that is explained
    struct slice body;
    uint64_t now_us;
};

// Writes a JSON document.  False: `*problem` says why there is none.
bool explain_write(const struct admin_options *options, const struct explain_request *request,
                   struct text *json, enum http_problem *problem);
