// SPDX-License-Identifier: Apache-2.0

#include "metrics/meters_sum.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

// Numbers of one worker: its models, and 0, which is unused.
enum { numbers_of_worker = meters_model_max + 1 };

// The place of an unused number.  A model that a worker adds while we read is left to the next sum:
// counted as "other" now and by name later, the counter of "other" would go back.
#define NO_PLACE UINT32_MAX

struct meters_sum_worker {
    const struct meters *meters;
    uint32_t places[numbers_of_worker]; // by the worker's number
};

struct meters_sum {
    struct meters_sum_worker *workers; // those with meters
    uint32_t count;
    struct slice *names;
    uint32_t name_count;
    struct meters_kind_sum *kinds;
};

static uint64_t meters_sum_read(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static uint32_t meters_sum_place_of_name(struct meters_sum *sum, struct slice name)
{
    for (uint32_t i = 0; i < sum->name_count; i++) {
        if (slice_equal(sum->names[i], name)) {
            return i;
        }
    }
    sum->names[sum->name_count] = name;
    return sum->name_count++;
}

static void meters_sum_add_worker(struct meters_sum *sum, const struct meters *meters)
{
    uint32_t model_count = atomic_load_explicit(&meters->model_count, memory_order_acquire);
    struct meters_sum_worker *worker = &sum->workers[sum->count++];

    for (uint32_t number = 0; number < numbers_of_worker; number++) {
        bool is_known = number > 0 && number <= model_count;
        worker->places[number] =
            is_known ? meters_sum_place_of_name(sum, meters_model_name(meters, number)) : NO_PLACE;
    }
    worker->meters = meters;
}

struct meters_sum *meters_sum_open(const struct meters *const *meters, uint32_t count)
{
    struct meters_sum *sum = calloc(1, sizeof(*sum));
    if (sum == NULL) {
        return NULL;
    }
    sum->workers = calloc((size_t)count + 1, sizeof(*sum->workers));
    sum->names = calloc((size_t)count * meters_model_max + 1, sizeof(*sum->names));
    sum->kinds = calloc((size_t)(count + 1) * (meters_kind_max + 1), sizeof(*sum->kinds));
    if (sum->workers == NULL || sum->names == NULL || sum->kinds == NULL) {
        meters_sum_close(&sum);
        return NULL;
    }
    sum->names[sum->name_count++] = slice_str("other");
    for (uint32_t i = 0; i < count; i++) {
        if (meters[i] != NULL) {
            meters_sum_add_worker(sum, meters[i]);
        }
    }
    return sum;
}

void meters_sum_close(struct meters_sum **sum_ptr)
{
    struct meters_sum *sum = *sum_ptr;
    *sum_ptr = NULL;

    if (sum != NULL) {
        free(sum->workers);
        free(sum->names);
        free(sum->kinds);
        free(sum);
    }
}

uint32_t meters_sum_worker_count(const struct meters_sum *sum)
{
    return sum->count;
}

uint32_t meters_sum_model_count(const struct meters_sum *sum)
{
    return sum->name_count;
}

struct slice meters_sum_model(const struct meters_sum *sum, uint32_t place)
{
    ASSERT(place < sum->name_count);
    return sum->names[place];
}

static void meters_sum_add_histogram(const struct meter_histogram *from, struct meter_counts *to)
{
    to->sum_ns += meters_sum_read(&from->sum_ns);
    for (uint32_t i = 0; i <= meter_bucket_max; i++) {
        to->buckets[i] += meters_sum_read(&from->buckets[i]);
    }
}

static const struct meter_histogram *meters_sum_duration_of(const struct meter_model *model,
                                                            enum meters_duration duration)
{
    switch (duration) {
    case METERS_TTFT:
        return &model->ttft;
    case METERS_TPOT:
        return &model->tpot;
    default:
        return &model->total;
    }
}

void meters_sum_duration(const struct meters_sum *sum, uint32_t place,
                         enum meters_duration duration, struct meter_counts *out)
{
    *out = (struct meter_counts){0};
    for (uint32_t i = 0; i < sum->count; i++) {
        const struct meters *meters = sum->workers[i].meters;
        if (place == 0) {
            meters_sum_add_histogram(
                meters_sum_duration_of(&meters->models[meters_model_max], duration), out);
        }
        for (uint32_t number = 1; number < numbers_of_worker; number++) {
            if (sum->workers[i].places[number] == place) {
                meters_sum_add_histogram(
                    meters_sum_duration_of(&meters->models[number - 1], duration), out);
            }
        }
    }
}

void meters_sum_stage(const struct meters_sum *sum, enum receipt_stage stage,
                      struct meter_counts *out)
{
    *out = (struct meter_counts){0};
    for (uint32_t i = 0; i < sum->count; i++) {
        meters_sum_add_histogram(&sum->workers[i].meters->stages[stage], out);
    }
}

uint64_t meters_sum_unrouted(const struct meters_sum *sum, enum receipt_outcome outcome)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < sum->count; i++) {
        count += meters_sum_read(&sum->workers[i].meters->unrouted[outcome]);
    }
    return count;
}

// NULL: that worker has no counts of the backend.
static const struct meter_slot *meters_sum_slot_of(const struct meters *meters, uint32_t slot,
                                                   uint64_t backend)
{
    if (slot >= meters->slot_count) {
        return NULL;
    }
    const struct meter_slot *found = &meters->slots[slot];
    bool is_its_own = atomic_load_explicit(&found->backend, memory_order_acquire) == backend;
    return is_its_own ? found : NULL;
}

void meters_sum_slot(const struct meters_sum *sum, uint32_t slot, uint64_t backend,
                     struct meters_slot_sum *out)
{
    *out = (struct meters_slot_sum){0};
    for (uint32_t i = 0; i < sum->count; i++) {
        const struct meter_slot *found = meters_sum_slot_of(sum->workers[i].meters, slot, backend);
        if (found == NULL) {
            continue;
        }
#define X(name) out->name += meters_sum_read(&found->name);
        METER_SLOT_MAP(X)
#undef X
    }
}

static struct meters_kind_sum *meters_sum_kind_at(struct meters_sum *sum, uint32_t *count,
                                                  uint32_t place, const char *policy)
{
    for (uint32_t i = 0; i < *count; i++) {
        struct meters_kind_sum *kind = &sum->kinds[i];
        if (kind->place == place && (kind->policy == policy || strcmp(kind->policy, policy) == 0)) {
            return kind;
        }
    }
    struct meters_kind_sum *kind = &sum->kinds[(*count)++];
    *kind = (struct meters_kind_sum){.place = place, .policy = policy};
    return kind;
}

static void meters_sum_add_kinds(struct meters_sum *sum, const struct meters_sum_worker *worker,
                                 const struct meter_slot *slot, uint32_t *count)
{
    for (uint32_t i = 0; i <= meters_kind_max; i++) {
        const struct meter_kind *kind = &slot->kinds[i];
        uint32_t number = atomic_load_explicit(&kind->model, memory_order_acquire);
        uint32_t place = number == meters_other ? 0 : worker->places[number];
        if (place == NO_PLACE) {
            continue;
        }
        const char *policy = atomic_load_explicit(&kind->policy, memory_order_relaxed);
        struct meters_kind_sum *to =
            meters_sum_kind_at(sum, count, place, policy == NULL ? "none" : policy);
        for (uint32_t j = 0; j < RECEIPT_OUTCOME_COUNT; j++) {
            to->outcomes[j] += meters_sum_read(&kind->outcomes[j]);
        }
    }
}

uint32_t meters_sum_kinds(struct meters_sum *sum, uint32_t slot, uint64_t backend,
                          const struct meters_kind_sum **out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sum->count; i++) {
        const struct meter_slot *found = meters_sum_slot_of(sum->workers[i].meters, slot, backend);
        if (found != NULL) {
            meters_sum_add_kinds(sum, &sum->workers[i], found, &count);
        }
    }
    *out = sum->kinds;
    return count;
}
