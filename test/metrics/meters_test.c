// SPDX-License-Identifier: Apache-2.0

#include "metrics/meters.h"

#include "base/rng.h"
#include "test.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { slot_count = 4 };

static struct meters *make(void)
{
    size_t size = (meters_size(slot_count) + 63) / 64 * 64;
    void *block = aligned_alloc(64, size);
    ASSERT(block != NULL);
    memset(block, 0, size);
    return meters_over(block, slot_count);
}

static void note(struct meters *meters, const struct receipt *receipt, const char *model,
                 uint32_t slot)
{
    struct receipt_parts parts = {.model = slice_str(model)};
    meters_note(meters, receipt, &parts, slot, true);
}

static const struct meter_scale *const scales[] = {&meter_scale_request, &meter_scale_token,
                                                   &meter_scale_stage};

// Looks at all bounds.
static uint32_t naive_bucket(const struct meter_scale *scale, uint64_t duration_ns)
{
    uint32_t bucket = 0;
    while (bucket < scale->count && duration_ns > meter_scale_bound_ns(scale, bucket)) {
        bucket++;
    }
    return bucket;
}

// At every bound and beside it, and for any duration.
static bool agrees_with_naive(const struct meter_scale *scale, struct rng *rng)
{
    bool good = true;
    for (uint32_t bucket = 0; bucket < scale->count; bucket++) {
        uint64_t bound = meter_scale_bound_ns(scale, bucket);
        good = good && meter_scale_bucket(scale, bound) == bucket &&
               meter_scale_bucket(scale, bound + 1) == bucket + 1 &&
               meter_scale_bucket(scale, bound - 1) == naive_bucket(scale, bound - 1);
    }
    for (int round = 0; round < 20000; round++) {
        uint64_t duration = rng_next(rng) >> rng_below(rng, 64);
        good = good && meter_scale_bucket(scale, duration) == naive_bucket(scale, duration);
    }
    return good;
}

TEST(a_duration_is_in_the_first_bucket_whose_bound_it_does_not_exceed)
{
    struct rng rng = {3};
    for (size_t i = 0; i < ARRAY_COUNT(scales); i++) {
        CHECK_EQ(meter_scale_bucket(scales[i], 0), 0);
        CHECK_EQ(meter_scale_bucket(scales[i], UINT64_MAX), scales[i]->count);
        CHECK(agrees_with_naive(scales[i], &rng));
    }
}

static double bound_s(const struct meter_scale *scale, uint32_t bucket)
{
    return (double)meter_scale_bound_ns(scale, bucket) * 1e-9;
}

static bool rises_evenly(const struct meter_scale *scale)
{
    double factor = exp2(1.0 / scale->per_octave);
    bool good = true;
    for (uint32_t bucket = 1; bucket < scale->count; bucket++) {
        double step = bound_s(scale, bucket) / bound_s(scale, bucket - 1);
        good = good && fabs(step / factor - 1) < 0.002;
    }
    return good;
}

TEST(bounds_rise_by_the_same_factor_from_first_to_last)
{
    const double ends_s[][2] = {{0.001, 1048.576}, {0.0001, 13.1072}, {2.5e-7, 4.194304}};
    for (size_t i = 0; i < ARRAY_COUNT(scales); i++) {
        CHECK(scales[i]->count <= meter_bucket_max);
        CHECK(fabs(bound_s(scales[i], 0) - ends_s[i][0]) < 1e-12);
        CHECK(fabs(bound_s(scales[i], scales[i]->count - 1) - ends_s[i][1]) < 1e-9);
        CHECK(rises_evenly(scales[i]));
    }
}

static uint64_t bucket_count(const struct meter_histogram *histogram,
                             const struct meter_scale *scale, uint64_t duration_ns)
{
    return histogram->buckets[meter_scale_bucket(scale, duration_ns)];
}

TEST(one_request_is_counted_everywhere_it_belongs)
{
    struct meters *meters = make();
    struct receipt receipt = {.decision.chosen.backend = 9,
                              .outcome = RECEIPT_OK,
                              .decision.policy = &policy_warm,
                              .first_us = 120000,
                              .last_us = 620000,
                              .end_us = 621000,
                              .stage_ns = {[RECEIPT_STAGE_PARSE] = 4000},
                              .prompt_tokens = 1000,
                              .decision.chosen.expected_tokens = 512,
                              .cached_tokens = 480,
                              .output_tokens = 51,
                              .has_cached_tokens = true,
                              .saved_us = 77};
    note(meters, &receipt, "m", 2);
    const struct meter_slot *slot = &meters->slots[2];
    const struct meter_model *model = &meters->models[0];
    CHECK_EQ(slot->backend, 9);
    CHECK_EQ(slot->prompt_tokens, 1000);
    CHECK_EQ(slot->output_tokens, 51);
    CHECK_EQ(slot->expected_tokens, 512);
    CHECK_EQ(slot->cached_tokens, 480);
    CHECK_EQ(slot->wrong_tokens, 32);
    CHECK_EQ(slot->told_prompt_tokens, 1000);
    CHECK_EQ(slot->saved_us, 77);
    CHECK_EQ(slot->ttft_us, 120000);
    CHECK_EQ(slot->kinds[0].outcomes[RECEIPT_OK], 1);
    CHECK_STR(slot->kinds[0].policy, "warm");
    CHECK(slice_is(meters_model_name(meters, slot->kinds[0].model), "m"));
    CHECK_EQ(bucket_count(&model->ttft, &meter_scale_request, 120000000), 1);
    CHECK_EQ(bucket_count(&model->tpot, &meter_scale_token, 10000000), 1);
    CHECK_EQ(model->tpot.sum_ns, 10000000);
    CHECK_EQ(bucket_count(&model->total, &meter_scale_request, 621000000), 1);
    CHECK_EQ(meters->stages[RECEIPT_STAGE_PARSE].sum_ns, 4000);
    CHECK_EQ(bucket_count(&meters->stages[RECEIPT_STAGE_MATCH], &meter_scale_stage, 0), 0);
    free(meters);
}

TEST(events_that_did_not_happen_are_not_timed)
{
    struct meters *meters = make();
    struct receipt whole = {
        .decision.chosen.backend = 1, .outcome = RECEIPT_OK, .output_tokens = 9, .end_us = 5};
    struct receipt broken = {.decision.chosen.backend = 1,
                             .outcome = RECEIPT_BROKEN,
                             .first_us = 10,
                             .last_us = 10,
                             .end_us = 30,
                             .output_tokens = 1};
    note(meters, &whole, "m", 0);
    note(meters, &broken, "m", 0);
    const struct meter_model *model = &meters->models[0];
    CHECK_EQ(model->ttft.sum_ns, 10000); // an answer that is not streamed shows no first token
    CHECK_EQ(model->tpot.sum_ns, 0);     // one token has no next
    CHECK_EQ(model->total.sum_ns, 5000); // what broke off has no end
    CHECK_EQ(meters->slots[0].told_count, 0);
    free(meters);
}

TEST(requests_without_a_backend_are_counted_under_none)
{
    struct meters *meters = make();
    note(meters, &(struct receipt){.outcome = RECEIPT_REFUSED}, "m", UINT32_MAX);
    note(meters, &(struct receipt){.outcome = RECEIPT_LOCAL}, "", 0);
    CHECK_EQ(meters->unrouted[RECEIPT_REFUSED], 1);
    CHECK_EQ(meters->unrouted[RECEIPT_LOCAL], 1);
    CHECK_EQ(meters->model_count, 0);
    CHECK_EQ(meters->slots[0].backend, 0);
    free(meters);
}

TEST(a_slot_that_changes_hands_begins_at_zero)
{
    struct meters *meters = make();
    struct receipt receipt = {.decision.chosen.backend = 1,
                              .outcome = RECEIPT_OK,
                              .decision.policy = &policy_warm,
                              .prompt_tokens = 10,
                              .cached_tokens = 3,
                              .has_cached_tokens = true};
    note(meters, &receipt, "m", 1);
    note(meters, &receipt, "n", 1);
    receipt.decision.chosen.backend = 2;
    receipt.outcome = RECEIPT_BUSY;
    note(meters, &receipt, "n", 1);
    const struct meter_slot *slot = &meters->slots[1];
    CHECK_EQ(slot->backend, 2);
    CHECK_EQ(slot->prompt_tokens, 10);
    CHECK_EQ(slot->wrong_tokens, 3);
    CHECK_EQ(slot->kinds[0].outcomes[RECEIPT_OK], 0);
    CHECK_EQ(slot->kinds[0].outcomes[RECEIPT_BUSY], 1);
    CHECK(slice_is(meters_model_name(meters, slot->kinds[0].model), "n"));
    CHECK_EQ(slot->kinds[1].model, 0);
    free(meters);
}

TEST(a_late_count_does_not_change_the_slots_new_backend)
{
    struct meters *meters = make();
    struct receipt receipt = {.decision.chosen.backend = 2,
                              .outcome = RECEIPT_OK,
                              .decision.policy = &policy_warm,
                              .prompt_tokens = 10,
                              .end_us = 1};
    note(meters, &receipt, "m", 1);
    receipt.decision.chosen.backend = 1;
    note(meters, &receipt, "m", 1);
    const struct meter_slot *slot = &meters->slots[1];
    CHECK_EQ(slot->backend, 2);
    CHECK_EQ(slot->prompt_tokens, 10);
    CHECK_EQ(slot->kinds[0].outcomes[RECEIPT_OK], 1);
    CHECK_EQ(meters->models[0].total.sum_ns, 2000); // a client has waited for it all the same
    free(meters);
}

TEST(models_beyond_the_limit_and_unserved_ones_are_others)
{
    struct meters *meters = make();
    struct receipt receipt = {.decision.chosen.backend = 1, .outcome = RECEIPT_OK, .end_us = 1};
    char name[2 * meters_model_size];

    for (int i = 0; i < meters_model_max + 5; i++) {
        snprintf(name, sizeof(name), "model-%d", i);
        note(meters, &receipt, name, 0);
    }
    struct receipt_parts parts = {.model = slice_str("invented")};
    meters_note(meters, &receipt, &parts, 0, false);
    CHECK_EQ(meters->model_count, meters_model_max);
    CHECK_EQ(meters->models[meters_model_max].total.sum_ns, 6000);
    const struct meter_slot *slot = &meters->slots[0];
    CHECK_EQ(slot->kinds[meters_kind_max].outcomes[RECEIPT_OK],
             meters_model_max + 6 - meters_kind_max);
    CHECK(slice_is(meters_model_name(meters, slot->kinds[meters_kind_max].model), "other"));
    free(meters);
}

TEST(long_names_are_cut_and_fit)
{
    struct meters *meters = make();
    struct receipt receipt = {.decision.chosen.backend = 1, .outcome = RECEIPT_OK};
    char name[2 * meters_model_size];

    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    note(meters, &receipt, name, 0);
    name[meters_model_size] = '\0';
    note(meters, &receipt, name, 0);
    CHECK_EQ(meters->model_count, 1);
    CHECK(slice_is(meters_model_name(meters, 1), name));
    free(meters);
}

// The twin keeps every receipt and counts anew for each question.
enum { twin_count = 20000, twin_models = 5 };

static const struct policy *const twin_policies[] = {&policy_warm, &policy_round_robin, NULL};

struct twin {
    struct receipt receipt;
    uint32_t slot;
    uint32_t model;
};

static struct twin twins[twin_count];

static void invent(struct rng *rng, uint32_t number, struct twin *out)
{
    uint32_t slot = rng_below(rng, slot_count);
    *out = (struct twin){
        .slot = slot,
        .model = rng_below(rng, twin_models),
        .receipt = {
            // Now and then another backend has the slot.
            .decision.chosen.backend =
                rng_below(rng, 20) == 0 ? 0 : 1 + slot + number / 5000 * slot_count,
            .outcome = RECEIPT_OK + rng_below(rng, RECEIPT_OUTCOME_COUNT - 1),
            .decision.policy = twin_policies[rng_below(rng, ARRAY_COUNT(twin_policies))],
            .first_us = rng_below(rng, 2) == 0 ? 0 : 1 + rng_below(rng, 3000000),
            .end_us = 4000000,
            .prompt_tokens = rng_below(rng, 9000),
            .decision.chosen.expected_tokens = rng_below(rng, 9000),
            .cached_tokens = rng_below(rng, 9000),
            .has_cached_tokens = rng_below(rng, 3) == 0,
            .saved_us = rng_below(rng, 1000),
            .stage_ns = {rng_below(rng, 5000), 0, rng_below(rng, 100000), 1, UINT32_MAX},
        }};
}

// Receipts of those who have the slots in the end.
static uint64_t twin_sum(uint32_t slot, uint64_t (*value)(const struct receipt *receipt))
{
    uint64_t backend = 1 + slot + (twin_count - 1) / 5000 * slot_count;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < twin_count; i++) {
        sum += twins[i].receipt.decision.chosen.backend == backend ? value(&twins[i].receipt) : 0;
    }
    return sum;
}

static uint64_t prompt_tokens(const struct receipt *receipt)
{
    return receipt->prompt_tokens;
}

static uint64_t wrong_tokens(const struct receipt *receipt)
{
    int64_t wrong = (int64_t)receipt->decision.chosen.expected_tokens - receipt->cached_tokens;
    return receipt->has_cached_tokens ? (uint64_t)llabs(wrong) : 0;
}

static uint64_t saved_us(const struct receipt *receipt)
{
    return receipt->saved_us;
}

static uint64_t first_us(const struct receipt *receipt)
{
    return receipt->first_us;
}

static uint64_t refused_by_warm(const struct receipt *receipt)
{
    return receipt->outcome == RECEIPT_REFUSED && receipt->decision.policy == twin_policies[0];
}

static uint64_t slot_refused_by_warm(const struct meter_slot *slot)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < meters_kind_max; i++) {
        sum += slot->kinds[i].policy == policy_warm.name ? slot->kinds[i].outcomes[RECEIPT_REFUSED]
                                                         : 0;
    }
    return sum;
}

TEST(counts_are_those_of_whoever_keeps_every_receipt)
{
    struct meters *meters = make();
    struct rng rng = {11};
    // Two of five models: with three policies all kinds have a place.
    static const char *const names[twin_models] = {"a", "b", "a", "b", "a"};

    for (uint32_t i = 0; i < twin_count; i++) {
        invent(&rng, i, &twins[i]);
        note(meters, &twins[i].receipt, names[twins[i].model], twins[i].slot);
    }
    for (uint32_t slot = 0; slot < slot_count; slot++) {
        const struct meter_slot *mine = &meters->slots[slot];
        CHECK_EQ(mine->prompt_tokens, twin_sum(slot, prompt_tokens));
        CHECK_EQ(mine->wrong_tokens, twin_sum(slot, wrong_tokens));
        CHECK_EQ(mine->saved_us, twin_sum(slot, saved_us));
        CHECK_EQ(mine->ttft_us, twin_sum(slot, first_us));
        CHECK_EQ(slot_refused_by_warm(mine), twin_sum(slot, refused_by_warm));
    }
    uint64_t buckets[2][meter_bucket_max + 1] = {0};
    for (uint32_t i = 0; i < twin_count; i++) {
        const struct receipt *receipt = &twins[i].receipt;
        if (receipt->decision.chosen.backend != 0 && receipt->first_us > 0 &&
            names[twins[i].model][0] == 'a') {
            buckets[0][naive_bucket(&meter_scale_request, receipt->first_us * 1000)]++;
        }
        if (receipt->stage_ns[2] > 0) {
            buckets[1][naive_bucket(&meter_scale_stage, receipt->stage_ns[2])]++;
        }
    }
    const struct meter_model *a = &meters->models[meters->models[0].name[0] == 'a' ? 0 : 1];
    for (uint32_t i = 0; i <= meter_bucket_max; i++) {
        CHECK_EQ(a->ttft.buckets[i], buckets[0][i]);
        CHECK_EQ(meters->stages[2].buckets[i], buckets[1][i]);
    }
    free(meters);
}

enum { written_count = 300000 };

static void *write_all(void *argument)
{
    struct meters *meters = argument;
    char name[8];
    for (uint32_t i = 0; i < written_count; i++) {
        snprintf(name, sizeof(name), "m%u", i / 10000 % 7);
        note(meters,
             &(struct receipt){.decision.chosen.backend = 1,
                               .outcome = RECEIPT_OK,
                               .decision.policy = &policy_warm,
                               .prompt_tokens = 3,
                               .first_us = 1 + i},
             name, 0);
    }
    return NULL;
}

// Of the counts that a reader sees none goes back, and every name is whole.
static uint64_t read_requests(const struct meters *meters, bool *names_are_whole)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < meters_kind_max; i++) {
        const struct meter_kind *kind = &meters->slots[0].kinds[i];
        uint32_t model = atomic_load_explicit(&kind->model, memory_order_acquire);
        if (model == 0) {
            break;
        }
        struct slice name = meters_model_name(meters, model);
        *names_are_whole &= name.size == 2 && name.bytes[0] == 'm' && kind->policy[0] == 'w';
        sum += atomic_load_explicit(&kind->outcomes[RECEIPT_OK], memory_order_relaxed);
    }
    return sum;
}

TEST(a_reader_sees_whole_names_and_counts_that_only_grow)
{
    struct meters *meters = make();
    pthread_t thread;
    uint64_t last = 0;
    bool is_good = true;

    CHECK_EQ(pthread_create(&thread, NULL, write_all, meters), 0);
    while (last < written_count && is_good) {
        uint64_t now = read_requests(meters, &is_good);
        is_good = is_good && now >= last && now <= written_count;
        last = now;
    }
    pthread_join(thread, NULL);
    CHECK(is_good);
    CHECK_EQ(last, written_count);
    CHECK_EQ(meters->slots[0].prompt_tokens, 3 * written_count);
    free(meters);
}
