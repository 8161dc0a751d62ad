// SPDX-License-Identifier: Apache-2.0

#include "chronicle/backend_minute.h"

#include "base/base.h"
#include "chronicle/account_internal.h"
#include "chronicle/timeline.h"
#include "metrics/wait_scale.h"

#include <stdlib.h>
#include <string.h>

struct part {
    uint64_t step;
#define X(type, compact, name) compact name;
    CHRONICLE_SUM_MAP(X)
#undef X
    uint16_t waits[wait_coarse_count]; // saturating
};

struct minute {
    struct part parts[timeline_minute_steps]; // by step
};

struct backend_minute {
    uint32_t member_max;
    struct minute *minutes;
};

struct backend_minute *backend_minute_create(uint32_t member_max)
{
    struct backend_minute *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return NULL;
    }
    self->member_max = member_max;
    self->minutes = calloc(member_max + 1, sizeof(*self->minutes));
    if (self->minutes == NULL) {
        backend_minute_destroy(&self);
    }
    return self;
}

void backend_minute_destroy(struct backend_minute **minutes)
{
    if (*minutes != NULL) {
        free((*minutes)->minutes);
        free(*minutes);
        *minutes = NULL;
    }
}

void backend_minute_note(struct backend_minute *minutes, uint32_t slot, uint64_t step,
                         const struct receipt_share *account)
{
    ASSERT(slot < minutes->member_max);
    struct part *part = &minutes->minutes[slot].parts[step % timeline_minute_steps];
    const struct chronicle_figures *sums = &account->sums;

    if (part->step != step) {
        *part = (struct part){.step = step};
    }
#define X(type, compact, name) part->name += (compact)sums->name;
    CHRONICLE_SUM_MAP(X)
#undef X
    if (account->ttft_ms >= 0) {
        uint16_t *count = &part->waits[wait_bucket(account->ttft_ms, wait_coarse)];
        *count = (uint16_t)(*count + (*count < UINT16_MAX));
    }
}

void backend_minute_sum(const struct backend_minute *minutes, uint32_t slot, uint64_t step,
                        struct chronicle_figures *out)
{
    ASSERT(slot < minutes->member_max);
    uint32_t waits[wait_coarse_count] = {0};

    *out = (struct chronicle_figures){0};
    for (uint32_t i = 0; i < timeline_minute_steps; i++) {
        const struct part *part = &minutes->minutes[slot].parts[i];
        if (part->step > step || part->step + timeline_minute_steps <= step) {
            continue;
        }
#define X(type, compact, name) out->name += (type)part->name;
        CHRONICLE_SUM_MAP(X)
#undef X
        for (uint32_t bucket = 0; bucket < wait_coarse_count; bucket++) {
            waits[bucket] += part->waits[bucket];
        }
    }
    figures_no_percentiles(out);
    for (uint32_t i = 0; i < chronicle_percentile_count; i++) {
        out->ttft_ms[i] = wait_quantile(waits, wait_coarse, account_percentiles[i]);
    }
}

void backend_minute_forget(struct backend_minute *minutes, uint32_t slot)
{
    ASSERT(slot < minutes->member_max);
    memset(&minutes->minutes[slot], 0, sizeof(minutes->minutes[slot]));
}
