// SPDX-License-Identifier: Apache-2.0
//
// problem.h -- the errors that the router reports in its own name, in OpenAI's shape, so that the
// clients' libraries map them to their exceptions.
#pragma once

#include "base/slice.h"

struct text;

enum http_problem {
    HTTP_PROBLEM_NONE,
#define PROBLEM(id, status, type, code, message) HTTP_PROBLEM_##id,
#include "http/problems.def"
#undef PROBLEM
    HTTP_PROBLEM_COUNT
};

struct http_problem_response {
    enum http_problem problem;
    struct slice detail;     // what and where; may be empty; cut after 1,024 bytes
    struct slice request_id; // may be empty
    uint32_t retry_after_s;  // 0: not said
    bool close;              // the connection ends with this response
    bool without_body;       // the request is HEAD
};

uint16_t http_problem_status(enum http_problem problem);
const char *http_problem_code(enum http_problem problem);

// {"error":{"message":…,"type":…,"param":null,"code":…}}
void http_problem_document(enum http_problem problem, struct slice detail, struct text *out);

// The whole response, head and document: at most 8,192 bytes of document.
void http_problem_response(const struct http_problem_response *answer, struct text *out);

// The reason phrase of a status that the router uses itself.
const char *http_reason(uint16_t status);
