// SPDX-License-Identifier: Apache-2.0

#include "kvevent/kv_words.h"

#include "base/base.h"

static const struct {
    const char *name;
    enum prefix_tier tier;
} media[] = {
    {"", PREFIX_GPU},      {"GPU", PREFIX_GPU}, {"CPU", PREFIX_HOST}, {"CPU_PINNED", PREFIX_HOST},
    {"HOST", PREFIX_HOST},
};

static const char *const deciding[] = {"", "full_attention", "mla_attention",
                                       "sink_full_attention"};

enum prefix_tier kv_tier_of(struct slice medium)
{
    for (size_t i = 0; i < ARRAY_COUNT(media); i++) {
        if (slice_is_nocase(medium, media[i].name)) {
            return media[i].tier;
        }
    }
    return PREFIX_DISK;
}

bool kv_attention_decides(struct slice kind)
{
    for (size_t i = 0; i < ARRAY_COUNT(deciding); i++) {
        if (slice_is(kind, deciding[i])) {
            return true;
        }
    }
    return false;
}
