// SPDX-License-Identifier: Apache-2.0
//
// The preprocessor turns the JSON of the rows into strings.

#include "dialect/certify_suite.h"

#include "base/base.h"

static const struct certify_case cases[] = {
#define CHAT(title, ...) {.name = title, .members = #__VA_ARGS__},
#define CHAT_ONLY(title, ...) {.name = title, .members = #__VA_ARGS__, .is_chat_only = true},
#define COMPLETION(title, ...) {.name = title, .members = #__VA_ARGS__, .is_completion = true},
#include "dialect/certify_suite.def"
#undef CHAT
#undef CHAT_ONLY
#undef COMPLETION
};

uint32_t certify_case_count(void)
{
    return ARRAY_COUNT(cases);
}

const struct certify_case *certify_case(uint32_t index)
{
    ASSERT(index < ARRAY_COUNT(cases));
    return &cases[index];
}
