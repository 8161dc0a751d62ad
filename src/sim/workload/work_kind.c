// SPDX-License-Identifier: Apache-2.0

#include "sim/workload/work_kind.h"

#include "base/base.h"

#include <string.h>

static const struct work_kind kinds[] = {
// In the order of struct work_prompt.
#define PROMPT(...)                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define KIND(id, least, most, common, pause, think, varies, text, ...)                             \
    {                                                                                              \
        .name = #id,                                                                               \
        .summary = (text),                                                                         \
        .turns_min = (least),                                                                      \
        .turns_max = (most),                                                                       \
        .common_tokens = (common),                                                                 \
        .pause_s = pause,                                                                          \
        .think_s = think,                                                                          \
        .varies_share = (varies),                                                                  \
        .prompts = {__VA_ARGS__},                                                                  \
    },
#include "sim/workload/workloads.def"
#undef KIND
#undef PROMPT
};

const struct work_kind *work_kind_find(const char *name)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

const struct work_kind *work_kind_at(uint32_t index)
{
    return index < ARRAY_COUNT(kinds) ? &kinds[index] : NULL;
}

double work_kind_mean_turns(const struct work_kind *kind)
{
    return (kind->turns_min + kind->turns_max) / 2.0;
}
