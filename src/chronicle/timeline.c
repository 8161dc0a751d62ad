// SPDX-License-Identifier: Apache-2.0

#include "chronicle/timeline.h"

#include "base/base.h"
#include "chronicle/account_internal.h"
#include "metrics/wait_scale.h"

#include <stdlib.h>

// Steps back that count as a correction of the clock, not as a jump.
enum { nudge_steps = 2 };

struct waits {
    uint32_t measured[wait_fine_count];
    uint32_t model[wait_fine_count];
    uint32_t shadow_model[wait_fine_count];
};

struct stretch {
    uint64_t step;
    struct chronicle_figures sums;
    struct waits waits;
};

struct timeline {
    bool has_begun;
    uint64_t begin_ms; // of the first figures
    uint64_t now_ms;
    struct stretch open;
    struct stretch closed[timeline_minute_steps - 1]; // by step
    // These numbers only grow; a point is at its number modulo chronicle_point_max.
    uint64_t first_point;
    uint64_t point_end;
    struct chronicle_point points[chronicle_point_max];
};

struct timeline *timeline_create(void)
{
    return calloc(1, sizeof(struct timeline));
}

void timeline_destroy(struct timeline **timeline)
{
    free(*timeline);
    *timeline = NULL;
}

// All are NAN where nothing was measured.
static void add_percentiles(const struct waits *waits, struct chronicle_figures *figures)
{
    double least = 0;
    figures_no_percentiles(figures);
    for (uint32_t i = 0; i < chronicle_percentile_count; i++) {
        double measured = wait_quantile(waits->measured, wait_fine, account_percentiles[i]);
        double model = wait_quantile(waits->model, wait_fine, account_percentiles[i]);
        figures->ttft_ms[i] = measured;
        if (measured >= 0 && model >= 0) {
            // A higher percentile is never a shorter wait.
            double moved = measured +
                           wait_quantile(waits->shadow_model, wait_fine, account_percentiles[i]) -
                           model;
            least = moved > least ? moved : least;
            figures->shadow_ttft_ms[i] = least;
        }
    }
}

static void close_open(struct timeline *timeline)
{
    const struct stretch *open = &timeline->open;
    struct chronicle_point *point = &timeline->points[timeline->point_end % chronicle_point_max];

    point->wall_ms = open->step * chronicle_step_ms;
    point->figures = open->sums;
    point->figures.span_s = chronicle_step_ms / 1000.0;
    add_percentiles(&open->waits, &point->figures);
    timeline->point_end++;
    if (timeline->point_end - timeline->first_point > chronicle_point_max) {
        timeline->first_point++;
    }
    timeline->closed[open->step % (timeline_minute_steps - 1)] = *open;
}

// The open stretch stays open, under the new time.
static void jump_back(struct timeline *timeline, uint64_t wall_ms)
{
    timeline->open.step = wall_ms / chronicle_step_ms;
    timeline->begin_ms = wall_ms;
    memset(timeline->closed, 0, sizeof(timeline->closed));
    while (timeline->point_end > timeline->first_point &&
           timeline->points[(timeline->point_end - 1) % chronicle_point_max].wall_ms +
                   chronicle_step_ms >
               wall_ms) {
        timeline->point_end--;
    }
}

uint64_t timeline_tick(struct timeline *timeline, uint64_t wall_ms)
{
    uint64_t step = wall_ms / chronicle_step_ms;

    if (!timeline->has_begun) {
        timeline->has_begun = true;
        timeline->begin_ms = wall_ms;
        timeline->open.step = step;
    } else if (step > timeline->open.step) {
        close_open(timeline);
        timeline->open = (struct stretch){.step = step};
    } else if (step + nudge_steps < timeline->open.step) {
        jump_back(timeline, wall_ms);
    } else if (wall_ms < timeline->now_ms) {
        return timeline->open.step;
    }
    timeline->now_ms = wall_ms;
    return timeline->open.step;
}

void timeline_note(struct timeline *timeline, const struct receipt_share *account)
{
    struct stretch *open = &timeline->open;
    figures_add(&open->sums, &account->sums);
    if (!(account->ttft_ms >= 0)) {
        return;
    }
    open->waits.measured[wait_bucket(account->ttft_ms, wait_fine)]++;
    if (account->model_ms >= 0) {
        open->waits.model[wait_bucket(account->model_ms, wait_fine)]++;
        open->waits.shadow_model[wait_bucket(account->shadow_model_ms, wait_fine)]++;
    }
}

uint32_t timeline_points(const struct timeline *timeline, uint64_t since_ms,
                         struct chronicle_point *out, uint32_t out_max)
{
    uint64_t number = timeline->point_end;
    // From the end: most callers want the last few.
    while (number > timeline->first_point &&
           timeline->points[(number - 1) % chronicle_point_max].wall_ms > since_ms) {
        number--;
    }
    uint32_t count = 0;
    while (count < out_max && number < timeline->point_end) {
        out[count++] = timeline->points[number++ % chronicle_point_max];
    }
    return count;
}

static void add_waits(struct waits *to, const struct waits *more)
{
    for (uint32_t i = 0; i < wait_fine_count; i++) {
        to->measured[i] += more->measured[i];
        to->model[i] += more->model[i];
        to->shadow_model[i] += more->shadow_model[i];
    }
}

void timeline_recent(const struct timeline *timeline, struct chronicle_figures *out)
{
    const struct stretch *open = &timeline->open;
    struct waits waits = open->waits;

    *out = open->sums;
    for (uint32_t i = 0; i < timeline_minute_steps - 1; i++) {
        const struct stretch *closed = &timeline->closed[i];
        if (closed->step < open->step && closed->step + timeline_minute_steps > open->step) {
            figures_add(out, &closed->sums);
            add_waits(&waits, &closed->waits);
        }
    }
    add_percentiles(&waits, out);
    out->span_s = timeline_span_s(timeline, timeline_minute_steps);
}

double timeline_span_s(const struct timeline *timeline, uint32_t step_count)
{
    uint64_t from_step =
        timeline->open.step >= step_count ? timeline->open.step + 1 - step_count : 0;
    uint64_t from_ms = from_step * chronicle_step_ms;
    from_ms = from_ms > timeline->begin_ms ? from_ms : timeline->begin_ms;
    return (double)(timeline->now_ms - from_ms) / 1000;
}
