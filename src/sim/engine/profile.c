// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/profile.h"

#include "base/base.h"

#include <string.h>

static const struct profile profiles[] = {
#define PROFILE(model, tokens, bytes, w, k, p, ax, as, asc, bp, bd, ed)                            \
    {                                                                                              \
        .name = (model),                                                                           \
        .kv_tokens = (tokens),                                                                     \
        .kv_bytes_per_token = (bytes),                                                             \
        .block_tokens = profile_block_tokens,                                                      \
        .step_tokens = profile_step_tokens,                                                        \
        .sequences_max = profile_sequences_max,                                                    \
        .context_max = profile_context_max,                                                        \
        .step = {.floor_ms = (w),                                                                  \
                 .token_ms = (k),                                                                  \
                 .sharpness = (p),                                                                 \
                 .cross_ms = (ax),                                                                 \
                 .square_ms = (as),                                                                \
                 .square_behind_ms = (asc),                                                        \
                 .cached_ms = (bp),                                                                \
                 .context_ms = (bd),                                                               \
                 .sequence_ms = (ed)},                                                             \
    },
#include "sim/engine/profiles.def"
#undef PROFILE
};

bool profile_find(const char *name, struct profile *out)
{
    for (size_t i = 0; i < ARRAY_COUNT(profiles); i++) {
        if (strcmp(profiles[i].name, name) == 0) {
            *out = profiles[i];
            return true;
        }
    }
    return false;
}

const char *profile_name(uint32_t index)
{
    return index < ARRAY_COUNT(profiles) ? profiles[index].name : NULL;
}
