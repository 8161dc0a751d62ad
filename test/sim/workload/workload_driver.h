// SPDX-License-Identifier: Apache-2.0
//
// workload_driver.h -- runs a workload on a fleet that has room for all: every response takes a
// fixed time and a time for each token.  A function sees each item when it is taken.
#pragma once

#include "base/base.h"
#include "sim/engine/due_queue.h"
#include "sim/workload/workload.h"

#include <stdlib.h>

struct workload_driver {
    void *owner;
    void (*taken)(void *owner, const struct work_item *item);
    void (*done)(void *owner, const struct work_item *item, uint64_t now_us);
    uint64_t first_us; // of every answer
    uint64_t token_us; // and for each of its tokens
};

static inline void driver_take(const struct workload_driver *driver, struct workload *workload,
                               struct due_queue *out)
{
    struct work_item *item = malloc(sizeof(*item));
    ASSERT(item != NULL);
    workload_take(workload, item);
    if (driver->taken != NULL) {
        driver->taken(driver->owner, item);
    }
    uint64_t response_us = driver->first_us + driver->token_us * item->output_tokens;
    due_queue_push(
        out,
        (struct due){.at_us = item->due_us + response_us, .order = item->number, .what = item});
}

static inline void driver_finish(const struct workload_driver *driver, struct workload *workload,
                                 struct due_queue *out)
{
    struct due due = due_queue_pop(out);
    struct work_item *item = due.what;
    if (driver->done != NULL) {
        driver->done(driver->owner, item, due.at_us);
    }
    workload_done(workload, item, due.at_us);
    free(item);
}

// To its end.
static inline void driver_run(const struct workload_driver *driver, struct workload *workload)
{
    struct due_queue out = {0};
    while (!workload_is_over(workload)) {
        uint64_t at_us = 0;
        const struct due *first = due_queue_first(&out);
        bool is_due = workload_peek(workload, &at_us);
        ASSERT(is_due || first != NULL);
        if (is_due && (first == NULL || at_us < first->at_us)) {
            driver_take(driver, workload, &out);
        } else {
            driver_finish(driver, workload, &out);
        }
    }
    due_queue_fini(&out);
}
