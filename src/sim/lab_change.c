// SPDX-License-Identifier: Apache-2.0

#include "sim/lab_change.h"

#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const double lab_change_window_s[lab_change_windows] = {10, 30, 60};

// Changes at the same time happen in their order.
static bool lab_change_is_before(const struct lab_changes *changes, uint32_t one, uint32_t other)
{
    double one_s = changes->items[one].at_s;
    double other_s = changes->items[other].at_s;
    return one_s < other_s || (one_s == other_s && one < other);
}

// Backends that had joined before that change, those of the start included.
static uint32_t lab_joined_before(const struct lab_changes *changes, uint32_t index)
{
    uint32_t count = changes->backend_count;
    for (uint32_t i = 0; i < changes->count; i++) {
        bool counts = changes->items[i].kind == LAB_JOIN && lab_change_is_before(changes, i, index);
        count += counts ? changes->items[i].number : 0;
    }
    return count;
}

static bool has_left_before(const struct lab_changes *changes, uint32_t number, uint32_t index)
{
    bool has_left = false;
    for (uint32_t i = 0; i < changes->count; i++) {
        const struct lab_change *change = &changes->items[i];
        has_left |= change->kind == LAB_LEAVE && change->number == number &&
                    lab_change_is_before(changes, i, index);
    }
    return has_left;
}

// Backends that take requests at that time.
static uint32_t lab_present_at(const struct lab_changes *changes, double at_s)
{
    uint32_t count = changes->backend_count;
    for (uint32_t i = 0; i < changes->count; i++) {
        const struct lab_change *change = &changes->items[i];
        if (change->at_s <= at_s) {
            count += change->kind == LAB_JOIN ? change->number : 0;
            count -= change->kind == LAB_LEAVE ? 1 : 0;
        }
    }
    return count;
}

bool lab_changes_check(const struct lab_changes *changes, char error[lab_change_error_size])
{
    ASSERT(changes->count <= lab_change_max && changes->backend_count > 0);
    for (uint32_t i = 0; i < changes->count; i++) {
        const struct lab_change *change = &changes->items[i];
        uint32_t joined = lab_joined_before(changes, i);
        if (change->kind == LAB_JOIN) {
            continue;
        }
        if (change->number == 0 || change->number > joined) {
            snprintf(error, lab_change_error_size, "%.64s: there are backends 1 to %u then",
                     change->name, joined);
            return false;
        }
        if (has_left_before(changes, change->number, i)) {
            snprintf(error, lab_change_error_size, "%.64s: that backend has left before",
                     change->name);
            return false;
        }
        if (lab_present_at(changes, change->at_s) == 0) {
            snprintf(error, lab_change_error_size, "%.64s: no backend is left then", change->name);
            return false;
        }
    }
    return true;
}

uint32_t lab_changes_total(const struct lab_changes *changes)
{
    uint32_t count = changes->backend_count;
    for (uint32_t i = 0; i < changes->count; i++) {
        count += changes->items[i].kind == LAB_JOIN ? changes->items[i].number : 0;
    }
    return count;
}

double lab_changes_next(const struct lab_changes *changes, double at_s)
{
    double next_s = INFINITY;
    for (uint32_t i = 0; i < changes->count; i++) {
        const struct lab_change *change = &changes->items[i];
        if (change->kind != LAB_SLOW && change->at_s >= at_s) {
            next_s = fmin(next_s, change->at_s);
        }
    }
    return next_s;
}

double lab_changes_slowness(const struct lab_changes *changes, uint32_t number, double at_s)
{
    double factor = 1;
    for (uint32_t i = 0; i < changes->count; i++) {
        const struct lab_change *change = &changes->items[i];
        if (change->kind == LAB_SLOW && change->number == number && change->at_s <= at_s &&
            at_s < change->until_s) {
            factor *= change->factor;
        }
    }
    return factor;
}

static bool is_within(const struct figure_sample *sample, double from_s, double window_s)
{
    return sample->due_ms >= from_s * 1000 && sample->due_ms < (from_s + window_s) * 1000;
}

// Whether the change is about that backend, which counts from 0.
static bool lab_change_concerns(const struct lab_changes *changes, uint32_t index, uint32_t backend)
{
    const struct lab_change *change = &changes->items[index];
    uint32_t first =
        change->kind == LAB_JOIN ? lab_joined_before(changes, index) : change->number - 1;
    uint32_t count = change->kind == LAB_JOIN ? change->number : 1;
    return backend >= first && backend < first + count;
}

void lab_changes_sum(const struct lab_changes *changes, uint32_t index,
                     const struct figure_sample *samples, uint32_t sample_count,
                     struct lab_change_figures *out)
{
    const struct lab_change *change = &changes->items[index];
    double from_s = change->kind == LAB_SLOW ? change->until_s : change->at_s;
    double concerned = change->kind == LAB_JOIN ? change->number : 1;
    double present = lab_present_at(changes, from_s) + (change->kind == LAB_LEAVE ? 1 : 0);
    double *ttft_ms = calloc((size_t)sample_count + 1, sizeof(*ttft_ms));
    uint32_t count = 0;

    ASSERT(ttft_ms != NULL);
    *out = (struct lab_change_figures){.ttft_p50 = -1, .ttft_p99 = -1};
    for (uint32_t w = 0; w < lab_change_windows; w++) {
        uint32_t sent = 0;
        count = 0;
        for (uint32_t i = 0; i < sample_count; i++) {
            if (is_within(&samples[i], from_s, lab_change_window_s[w])) {
                ttft_ms[count++] = samples[i].first_ms;
                sent += lab_change_concerns(changes, index, samples[i].backend);
            }
        }
        bool is_known = count > 0 && concerned > 0;
        out->share[w] = is_known ? sent / concerned / (count / present) : -1;
    }
    if (count > 0) {
        struct distribution ttft = figures_distribution(ttft_ms, count);
        out->ttft_p50 = ttft.p50;
        out->ttft_p99 = ttft.p99;
    }
    free(ttft_ms);
}
