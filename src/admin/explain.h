// SPDX-License-Identifier: Apache-2.0
//
// explain.h -- where a request would go, and why.
//
// The request is read, matched and routed like a real one, on the same knowledge, but not counted
// and not sent.  A policy with a state (the next backend of a rotation, owners of prefixes) decides
// with a copy of it.
#pragma once

#include "base/slice.h"
#include "http/problem.h"

struct admin_options;
struct json_writer;

struct explain_request {
    struct slice path; // of the request that is explained
    struct slice body;
    uint64_t now_us;
};

// False, with nothing written: `*problem` says why.
bool explain_write(const struct admin_options *options, const struct explain_request *request,
                   struct json_writer *json, enum http_problem *problem);
