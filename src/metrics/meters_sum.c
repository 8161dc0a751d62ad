// SPDX-License-Identifier: Apache-2.0

#include "metrics/meters_sum.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

// One more than the models of a worker: all others, which are at place 0.
enum { numbers_of_worker = meters_model_max + 1 };

// Of numbers that mean nothing yet.  A model that comes while we read is left to the next one who does: it must
// not be others' now and its own later, since a counter does not go back.
#define NO_PLACE UINT32_MAX

struct meters_source {
    const struct meters *meters;
    uint32_t places[numbers_of_worker]; // by the number that the worker gave
};

struct meters_sum {
    struct meters_source *workers; // those that count
    uint32_t count;
    struct slice *names;
    uint32_t name_count;
    struct meters_kind_sum *kinds;
};

static uint64_t read(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static uint32_t place_of_name(struct meters_sum *sum, struct slice name)
{
    for (uint32_t i = 0; i < sum->name_count; i++) {
        if (slice_equal(sum->names[i], name)) {
            return i;
        }
    }
    sum->names[sum->name_count] = name;
    return sum->name_count++;
}

static void add_worker(struct meters_sum *sum, const struct meters *meters)
{
    uint32_t model_count = atomic_load_explicit(&meters->model_count, memory_order_acquire);
    struct meters_source *worker = &sum->workers[sum->count++];

    for (uint32_t number = 0; number < numbers_of_worker; number++) {
        bool is_known = number > 0 && number <= model_count;
        worker->places[number] =
            is_known ? place_of_name(sum, meters_model_name(meters, number)) : NO_PLACE;
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
            add_worker(sum, meters[i]);
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

static void add_histogram(const struct meter_histogram *from, struct meter_counts *to)
{
    to->sum_ns += read(&from->sum_ns);
    for (uint32_t i = 0; i <= meter_bucket_max; i++) {
        to->buckets[i] += read(&from->buckets[i]);
    }
}

static const struct meter_histogram *duration_of(const struct meter_model *model,
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
            add_histogram(duration_of(&meters->models[meters_model_max], duration), out);
        }
        for (uint32_t number = 1; number < numbers_of_worker; number++) {
            if (sum->workers[i].places[number] == place) {
                add_histogram(duration_of(&meters->models[number - 1], duration), out);
            }
        }
    }
}

void meters_sum_stage(const struct meters_sum *sum, enum receipt_stage stage,
                      struct meter_counts *out)
{
    *out = (struct meter_counts){0};
    for (uint32_t i = 0; i < sum->count; i++) {
        add_histogram(&sum->workers[i].meters->stages[stage], out);
    }
}

uint64_t meters_sum_homeless(const struct meters_sum *sum, enum receipt_outcome outcome)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < sum->count; i++) {
        count += read(&sum->workers[i].meters->homeless[outcome]);
    }
    return count;
}

// NULL: that worker has not met the backend.
static const struct meter_slot *slot_of(const struct meters *meters, uint32_t slot,
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
        const struct meter_slot *found = slot_of(sum->workers[i].meters, slot, backend);
        if (found == NULL) {
            continue;
        }
        out->prompt_tokens += read(&found->prompt_tokens);
        out->output_tokens += read(&found->output_tokens);
        out->expected_tokens += read(&found->expected_tokens);
        out->cached_tokens += read(&found->cached_tokens);
        out->wrong_tokens += read(&found->wrong_tokens);
        out->told_count += read(&found->told_count);
        out->told_prompt_tokens += read(&found->told_prompt_tokens);
        out->saved_us += read(&found->saved_us);
        out->ttft_us += read(&found->ttft_us);
        out->ttft_count += read(&found->ttft_count);
    }
}

static struct meters_kind_sum *kind_at(struct meters_sum *sum, uint32_t *count, uint32_t place,
                                       const char *policy)
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

static void add_kinds(struct meters_sum *sum, const struct meters_source *worker,
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
        struct meters_kind_sum *to = kind_at(sum, count, place, policy == NULL ? "none" : policy);
        for (uint32_t j = 0; j < RECEIPT_OUTCOME_COUNT; j++) {
            to->outcomes[j] += read(&kind->outcomes[j]);
        }
    }
}

uint32_t meters_sum_kinds(struct meters_sum *sum, uint32_t slot, uint64_t backend,
                          const struct meters_kind_sum **out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sum->count; i++) {
        const struct meter_slot *found = slot_of(sum->workers[i].meters, slot, backend);
        if (found != NULL) {
            add_kinds(sum, &sum->workers[i], found, &count);
        }
    }
    *out = sum->kinds;
    return count;
}
