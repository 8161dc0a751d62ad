// SPDX-License-Identifier: Apache-2.0
//
// certify_suite.h -- the requests that dialects are examined with.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct certify_case {
    const char *name;
    const char *members; // of the request's JSON object, without braces and model
    bool is_completion;  // a text, not a chat
};

uint32_t certify_case_count(void);
const struct certify_case *certify_case(uint32_t index);
