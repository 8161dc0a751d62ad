// SPDX-License-Identifier: Apache-2.0

#include "metrics/meters.h"

#include "base/base.h"
#include "base/hash.h"

#include <string.h>

const struct meter_scale meter_scale_request = {
    .per_octave = 6,
    .count = 121,
    .steps = {1000000, 1122462, 1259921, 1414214, 1587401, 1781797},
};
const struct meter_scale meter_scale_token = {
    .per_octave = 4,
    .count = 69,
    .steps = {100000, 118921, 141421, 168179},
};
const struct meter_scale meter_scale_stage = {
    .per_octave = 2,
    .count = 49,
    .steps = {250, 354},
};

static uint32_t meter_log2(uint64_t number)
{
    return 63 - (uint32_t)__builtin_clzll(number);
}

// The highest bits give the octave; a few comparisons without a branch give the step.
uint32_t meter_scale_bucket(const struct meter_scale *scale, uint64_t duration_ns)
{
    uint64_t first = scale->steps[0];

    if (duration_ns <= first) {
        return 0;
    }
    if (duration_ns > meter_scale_bound_ns(scale, scale->count - 1)) {
        return scale->count;
    }
    uint32_t octave = meter_log2(duration_ns - 1) - meter_log2(first);
    octave -= duration_ns - 1 < first << octave;
    uint32_t bucket = octave * scale->per_octave + 1;
    for (uint32_t i = 1; i < scale->per_octave; i++) {
        bucket += duration_ns > scale->steps[i] << octave;
    }
    return bucket;
}

size_t meters_size(uint32_t slot_count)
{
    return sizeof(struct meters) + slot_count * sizeof(struct meter_slot);
}

struct meters *meters_over(void *block, uint32_t slot_count)
{
    struct meters *meters = block;
    ASSERT((uintptr_t)block % _Alignof(struct meters) == 0);
    meters->slot_count = slot_count;
    return meters;
}

// One writer, so no atomic addition is needed.
static void meter_add(atomic_uint_fast64_t *counter, uint64_t amount)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + amount,
                          memory_order_relaxed);
}

static void meter_add_duration(struct meter_histogram *histogram, const struct meter_scale *scale,
                               uint64_t duration_ns)
{
    meter_add(&histogram->sum_ns, duration_ns);
    meter_add(&histogram->buckets[meter_scale_bucket(scale, duration_ns)], 1);
}

struct slice meters_model_name(const struct meters *meters, uint32_t number)
{
    if (number == meters_other) {
        return slice_str("other");
    }
    ASSERT(number > 0 && number <= meters_model_max);
    const struct meter_model *model = &meters->models[number - 1];
    return slice_of(model->name, model->name_size);
}

static uint32_t meters_add_model(struct meters *meters, struct slice name, uint64_t hash,
                                 uint32_t count)
{
    struct meter_model *model = &meters->models[count];
    memcpy(model->name, name.bytes, name.size);
    model->name_size = (uint32_t)name.size;
    meters->model_hashes[count] = hash;
    atomic_store_explicit(&meters->model_count, count + 1, memory_order_release);
    return count + 1;
}

static uint32_t meters_number_of(struct meters *meters, struct slice name)
{
    uint32_t count = atomic_load_explicit(&meters->model_count, memory_order_relaxed);

    name.size = name.size < meters_model_size ? name.size : meters_model_size;
    uint64_t hash = hash_bytes(name, 0);
    for (uint32_t i = 0; i < count; i++) {
        if (meters->model_hashes[i] == hash &&
            slice_equal(meters_model_name(meters, i + 1), name)) {
            return i + 1;
        }
    }
    return count < meters_model_max ? meters_add_model(meters, name, hash, count) : meters_other;
}

static void meter_note_model(struct meter_model *model, const struct receipt *receipt)
{
    if (receipt->first_us > 0) {
        meter_add_duration(&model->ttft, &meter_scale_request, receipt->first_us * 1000);
        if (receipt->output_tokens > 1 && receipt->last_us > receipt->first_us) {
            meter_add_duration(&model->tpot, &meter_scale_token,
                               (receipt->last_us - receipt->first_us) * 1000 /
                                   (receipt->output_tokens - 1));
        }
    }
    if (receipt->outcome == RECEIPT_OK) {
        meter_add_duration(&model->total, &meter_scale_request, receipt->end_us * 1000);
    }
}

static void meter_slot_take_over(struct meter_slot *slot, uint64_t backend)
{
#define X(name) atomic_store_explicit(&slot->name, 0, memory_order_relaxed);
    METER_SLOT_MAP(X)
#undef X
    for (uint32_t i = 0; i <= meters_kind_max; i++) {
        struct meter_kind *kind = &slot->kinds[i];
        atomic_store_explicit(&kind->model, 0, memory_order_relaxed);
        for (uint32_t j = 0; j < RECEIPT_OUTCOME_COUNT; j++) {
            atomic_store_explicit(&kind->outcomes[j], 0, memory_order_relaxed);
        }
    }
    // A reader that sees the new backend sees the zeros.
    atomic_store_explicit(&slot->backend, backend, memory_order_release);
}

// Policies are constants: the same one is the same pointer.
static struct meter_kind *meter_kind_of(struct meter_slot *slot, uint32_t model, const char *policy)
{
    for (uint32_t i = 0; i < meters_kind_max; i++) {
        struct meter_kind *kind = &slot->kinds[i];
        uint32_t found = atomic_load_explicit(&kind->model, memory_order_relaxed);
        if (found == 0) {
            atomic_store_explicit(&kind->policy, policy, memory_order_relaxed);
            atomic_store_explicit(&kind->model, model, memory_order_release);
            return kind;
        }
        if (found == model && atomic_load_explicit(&kind->policy, memory_order_relaxed) == policy) {
            return kind;
        }
    }
    struct meter_kind *rest = &slot->kinds[meters_kind_max];
    atomic_store_explicit(&rest->policy, "other", memory_order_relaxed);
    atomic_store_explicit(&rest->model, meters_other, memory_order_release);
    return rest;
}

static void meter_note_told(struct meter_slot *slot, const struct receipt *receipt)
{
    uint32_t expected = receipt->decision.chosen.expected_tokens;
    uint32_t cached = receipt->cached_tokens;

    meter_add(&slot->told_count, 1);
    meter_add(&slot->told_prompt_tokens, receipt->prompt_tokens);
    meter_add(&slot->expected_tokens, expected);
    meter_add(&slot->cached_tokens, cached);
    meter_add(&slot->wrong_tokens, expected > cached ? expected - cached : cached - expected);
}

static void meter_note_slot(struct meter_slot *slot, const struct receipt *receipt)
{
    meter_add(&slot->prompt_tokens, receipt->prompt_tokens);
    meter_add(&slot->output_tokens, receipt->output_tokens);
    meter_add(&slot->saved_us, receipt->saved_us);
    if (receipt->has_cached_tokens) {
        meter_note_told(slot, receipt);
    }
    if (receipt->first_us > 0) {
        meter_add(&slot->ttft_us, receipt->first_us);
        meter_add(&slot->ttft_count, 1);
    }
}

void meters_note(struct meters *meters, const struct receipt *receipt,
                 const struct receipt_parts *parts, uint32_t slot, bool is_served)
{
    ASSERT(receipt->outcome != RECEIPT_RUNNING);
    for (uint32_t i = 0; i < RECEIPT_STAGE_COUNT; i++) {
        if (receipt->stage_ns[i] > 0) {
            meter_add_duration(&meters->stages[i], &meter_scale_stage, receipt->stage_ns[i]);
        }
    }
    if (receipt->decision.chosen.backend == 0) {
        meter_add(&meters->unrouted[receipt->outcome], 1);
        return;
    }
    ASSERT(slot < meters->slot_count);
    struct meter_slot *mine = &meters->slots[slot];
    uint32_t model = is_served ? meters_number_of(meters, parts->model) : meters_other;

    meter_note_model(&meters->models[model == meters_other ? meters_model_max : model - 1],
                     receipt);
    uint64_t owner = atomic_load_explicit(&mine->backend, memory_order_relaxed);
    if (owner > receipt->decision.chosen.backend) {
        return; // its backend has left, and another one has the slot
    }
    if (owner != receipt->decision.chosen.backend) {
        meter_slot_take_over(mine, receipt->decision.chosen.backend);
    }
    meter_note_slot(mine, receipt);
    meter_add(&meter_kind_of(mine, model, receipt_policy_name(receipt))->outcomes[receipt->outcome],
              1);
}
