// SPDX-License-Identifier: Apache-2.0

#include "metrics/meters_sum.h"

#include "test.h"

#include <stdlib.h>
#include <string.h>

enum { slot_count = 3 };

static struct meters *make(void)
{
    size_t size = (meters_size(slot_count) + 63) / 64 * 64;
    void *block = aligned_alloc(64, size);
    ASSERT(block != NULL);
    memset(block, 0, size);
    return meters_over(block, slot_count);
}

static void note(struct meters *meters, const char *model, const struct policy *policy,
                 uint64_t backend)
{
    struct receipt receipt = {.decision.chosen.backend = backend,
                              .outcome = RECEIPT_OK,
                              .decision.policy = policy,
                              .prompt_tokens = 10,
                              .first_us = 1000,
                              .end_us = 2000,
                              .stage_ns = {100}};
    struct receipt_parts parts = {.model = slice_str(model)};
    meters_note(meters, &receipt, &parts, 1, strcmp(model, "?") != 0);
}

// "model/policy count" of each, in their order.
static const char *kinds_text(struct meters_sum *sum, uint64_t backend)
{
    static char text[1024];
    const struct meters_kind_sum *kinds;
    uint32_t count = meters_sum_kinds(sum, 1, backend, &kinds);
    size_t size = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        struct slice name = meters_sum_model(sum, kinds[i].place);
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%.*s/%s %lu;", (int)name.size,
                                 name.bytes, kinds[i].policy,
                                 (unsigned long)kinds[i].outcomes[RECEIPT_OK]);
    }
    return text;
}

TEST(the_same_name_is_the_same_model_whatever_number_workers_gave_it)
{
    struct meters *meters[] = {make(), NULL, make()};
    const struct policy *const warm = &policy_warm;
    char other_name[] = "warm";
    const struct policy other_warm = {.name = other_name};
    note(meters[0], "a", warm, 7);
    note(meters[0], "b", warm, 7);
    note(meters[2], "b", &other_warm, 7);
    note(meters[2], "a", warm, 7);
    note(meters[2], "a", NULL, 7);

    struct meters_sum *sum = meters_sum_open((const struct meters *const *)meters, 3);
    struct meter_counts counts;
    struct meters_slot_sum slot;
    CHECK_EQ(meters_sum_model_count(sum), 3);
    CHECK(slice_is(meters_sum_model(sum, 0), "other"));
    CHECK(slice_is(meters_sum_model(sum, 1), "a"));
    CHECK_STR(kinds_text(sum, 7), "a/warm 2;b/warm 2;a/none 1;");
    meters_sum_duration(sum, 1, METERS_TTFT, &counts);
    CHECK_EQ(counts.sum_ns, 3000000);
    CHECK_EQ(counts.buckets[0], 3);
    meters_sum_duration(sum, 2, METERS_TOTAL, &counts);
    CHECK_EQ(counts.sum_ns, 4000000);
    meters_sum_duration(sum, 0, METERS_TOTAL, &counts);
    CHECK_EQ(counts.sum_ns, 0);
    meters_sum_stage(sum, 0, &counts);
    CHECK_EQ(counts.buckets[0], 5);
    meters_sum_slot(sum, 1, 7, &slot);
    CHECK_EQ(slot.prompt_tokens, 50);
    CHECK_EQ(slot.ttft_count, 5);
    meters_sum_close(&sum);
    free(meters[0]);
    free(meters[2]);
}

TEST(a_model_that_is_called_other_is_one_of_the_others)
{
    struct meters *meters[] = {make()};
    struct meter_counts counts;
    note(meters[0], "other", &policy_warm, 7);
    note(meters[0], "?", &policy_warm, 7);
    struct meters_sum *sum = meters_sum_open((const struct meters *const *)meters, 1);
    CHECK_EQ(meters_sum_model_count(sum), 1);
    CHECK_STR(kinds_text(sum, 7), "other/warm 2;");
    meters_sum_duration(sum, 0, METERS_TTFT, &counts);
    CHECK_EQ(counts.buckets[0], 2);
    meters_sum_close(&sum);
    free(meters[0]);
}

TEST(counts_of_the_slots_former_backend_are_dropped)
{
    struct meters *meters[] = {make(), make()};
    struct meters_slot_sum slot;
    note(meters[0], "m", &policy_warm, 7);
    note(meters[1], "m", &policy_warm, 7);
    note(meters[1], "m", &policy_warm, 8); // the other worker has not met it yet
    struct meters_sum *sum = meters_sum_open((const struct meters *const *)meters, 2);
    CHECK_STR(kinds_text(sum, 8), "m/warm 1;");
    CHECK_STR(kinds_text(sum, 9), "");
    meters_sum_slot(sum, 1, 8, &slot);
    CHECK_EQ(slot.prompt_tokens, 10);
    meters_sum_slot(sum, slot_count, 8, &slot);
    CHECK_EQ(slot.prompt_tokens, 0);
    meters_sum_close(&sum);
    free(meters[0]);
    free(meters[1]);
}

TEST(a_model_that_comes_meanwhile_is_left_to_the_next_time)
{
    struct meters *meters[] = {make()};
    struct meter_counts counts;
    note(meters[0], "a", &policy_warm, 7);
    struct meters_sum *sum = meters_sum_open((const struct meters *const *)meters, 1);
    note(meters[0], "b", &policy_warm, 7);
    CHECK_STR(kinds_text(sum, 7), "a/warm 1;");
    meters_sum_duration(sum, 0, METERS_TTFT, &counts);
    CHECK_EQ(counts.buckets[0], 0);
    meters_sum_close(&sum);
    sum = meters_sum_open((const struct meters *const *)meters, 1);
    CHECK_STR(kinds_text(sum, 7), "a/warm 1;b/warm 1;");
    meters_sum_close(&sum);
    free(meters[0]);
}

TEST(without_meters_all_is_nothing)
{
    struct meters_sum *sum = meters_sum_open(NULL, 0);
    struct meter_counts counts;
    CHECK_EQ(meters_sum_model_count(sum), 1);
    meters_sum_stage(sum, RECEIPT_STAGE_QUEUE, &counts);
    CHECK_EQ(counts.sum_ns, 0);
    CHECK_EQ(meters_sum_unrouted(sum, RECEIPT_GONE), 0);
    meters_sum_close(&sum);
    CHECK(sum == NULL);
}
