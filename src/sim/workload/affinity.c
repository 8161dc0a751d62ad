// SPDX-License-Identifier: Apache-2.0

#include "sim/workload/affinity.h"

#include "sim/array.h"

#include <stdlib.h>

void affinity_note(struct affinity *affinity, uint64_t prefix, double due_ms, uint32_t backend)
{
    affinity->visits = array_grow(affinity->visits, affinity->count, &affinity->capacity,
                                  sizeof(struct affinity_visit));
    affinity->visits[affinity->count] = (struct affinity_visit){
        .prefix = prefix, .due_ms = due_ms, .number = affinity->count, .backend = backend};
    affinity->count++;
}

static int affinity_by_prefix(const void *a, const void *b)
{
    const struct affinity_visit *one = a;
    const struct affinity_visit *other = b;
    if (one->prefix != other->prefix) {
        return one->prefix < other->prefix ? -1 : 1;
    }
    return (one->number > other->number) - (one->number < other->number);
}

double affinity_rate(struct affinity *affinity, double from_ms)
{
    uint32_t counted = 0;
    uint32_t same = 0;

    if (affinity->count == 0) {
        return 0;
    }
    qsort(affinity->visits, affinity->count, sizeof(struct affinity_visit), affinity_by_prefix);
    for (uint32_t i = 0; i < affinity->count; i++) {
        const struct affinity_visit *visit = &affinity->visits[i];
        if (visit->due_ms >= from_ms) {
            counted++;
            same +=
                i > 0 && visit[-1].prefix == visit->prefix && visit[-1].backend == visit->backend;
        }
    }
    return counted > 0 ? (double)same / counted : 0;
}

void affinity_fini(struct affinity *affinity)
{
    free(affinity->visits);
    *affinity = (struct affinity){0};
}
