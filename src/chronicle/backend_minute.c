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
    uint32_t requests;
    uint32_t failures;
    uint32_t prompt_tokens;
    uint32_t output_tokens;
    uint32_t told_prompt_tokens;
    uint32_t cached_tokens;
    float shadow_cached_tokens;
    float saved_s;
    float shadow_saved_s;
    uint16_t waits[wait_coarse_count]; // full ones stay as they are
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

void backend_minute_note(struct backend_minute *minutes, uint32_t number, uint64_t step,
                         const struct receipt_share *account)
{
    ASSERT(number < minutes->member_max);
    struct part *part = &minutes->minutes[number].parts[step % timeline_minute_steps];
    const struct chronicle_figures *sums = &account->sums;

    if (part->step != step) {
        *part = (struct part){.step = step};
    }
    part->requests += (uint32_t)sums->requests;
    part->failures += (uint32_t)sums->failures;
    part->prompt_tokens += (uint32_t)sums->prompt_tokens;
    part->output_tokens += (uint32_t)sums->output_tokens;
    part->told_prompt_tokens += (uint32_t)sums->told_prompt_tokens;
    part->cached_tokens += (uint32_t)sums->cached_tokens;
    part->shadow_cached_tokens += (float)sums->shadow_cached_tokens;
    part->saved_s += (float)sums->saved_s;
    part->shadow_saved_s += (float)sums->shadow_saved_s;
    if (account->ttft_ms >= 0) {
        uint16_t *count = &part->waits[wait_bucket(account->ttft_ms, wait_coarse)];
        *count = (uint16_t)(*count + (*count < UINT16_MAX));
    }
}

static struct chronicle_figures sums_of(const struct part *part)
{
    return (struct chronicle_figures){
        .requests = part->requests,
        .failures = part->failures,
        .prompt_tokens = part->prompt_tokens,
        .output_tokens = part->output_tokens,
        .told_prompt_tokens = part->told_prompt_tokens,
        .cached_tokens = part->cached_tokens,
        .shadow_cached_tokens = (double)part->shadow_cached_tokens,
        .saved_s = (double)part->saved_s,
        .shadow_saved_s = (double)part->shadow_saved_s,
    };
}

void backend_minute_sum(const struct backend_minute *minutes, uint32_t number, uint64_t step,
                        struct chronicle_figures *out)
{
    ASSERT(number < minutes->member_max);
    uint32_t waits[wait_coarse_count] = {0};

    *out = (struct chronicle_figures){0};
    for (uint32_t i = 0; i < timeline_minute_steps; i++) {
        const struct part *part = &minutes->minutes[number].parts[i];
        if (part->step > step || part->step + timeline_minute_steps <= step) {
            continue;
        }
        struct chronicle_figures sums = sums_of(part);
        figures_add(out, &sums);
        for (uint32_t bucket = 0; bucket < wait_coarse_count; bucket++) {
            waits[bucket] += part->waits[bucket];
        }
    }
    figures_no_percentiles(out);
    for (uint32_t i = 0; i < chronicle_percentile_count; i++) {
        out->ttft_ms[i] = wait_quantile(waits, wait_coarse, account_percentiles[i]);
    }
}

void backend_minute_forget(struct backend_minute *minutes, uint32_t number)
{
    ASSERT(number < minutes->member_max);
    memset(&minutes->minutes[number], 0, sizeof(minutes->minutes[number]));
}
