// SPDX-License-Identifier: Apache-2.0

#include "chronicle/chronicle.h"

#include "rotation_world.h"
#include "test.h"

static const uint64_t begin_ms = 1700000000000;

static struct chronicle *make(uint32_t decision_max)
{
    return chronicle_create(&(struct chronicle_options){
        .decision_max = decision_max, .member_max = world_member_max, .hot_max = 1024, .seed = 8});
}

static void set_two(struct chronicle *chronicle)
{
    const struct chronicle_member members[] = {
        {.id = 1, .slot = 1, .is_usable = true, .cache_tokens = 100000, .token_ms = 0.1F},
        {.id = 2, .slot = 2, .is_usable = true, .cache_tokens = 100000, .token_ms = 0.1F},
    };
    chronicle_set_members(chronicle, members, 2);
}

// A backend's slot is its id here, as long as slots suffice.
static uint32_t slot_of(uint64_t id)
{
    return (uint32_t)(id % world_member_max);
}

static void note(struct chronicle *chronicle, struct receipt receipt)
{
    receipt.decision.chosen.slot = slot_of(receipt.decision.chosen.backend);
    struct fixture_receipt made;
    char text[32];
    int size = snprintf(text, sizeof(text), "id-%u", (unsigned)receipt.number);
    chronicle_note(chronicle,
                   receipt_make(&made, receipt, NULL,
                                (struct receipt_parts){.id = slice_of(text, (size_t)size)}));
}

static uint64_t last_serial(const struct chronicle *chronicle)
{
    struct chronicle_decision last = {0};
    chronicle_decisions(chronicle, 0, &last, 1);
    return last.serial;
}

TEST(where_requests_are_many_the_list_reaches_back_a_second_and_has_every_failure)
{
    struct chronicle *chronicle = make(100);
    uint32_t number = 0;

    chronicle_tick(chronicle, begin_ms);
    for (uint32_t i = 0; i < 2000; i++) {
        note(chronicle, (struct receipt){.number = number++,
                                         .decision.chosen.backend = 1,
                                         .outcome = RECEIPT_OK});
    }
    chronicle_tick(chronicle, begin_ms + 1000);
    uint64_t before = last_serial(chronicle);
    for (uint32_t i = 0; i < 2000; i++) {
        note(chronicle, (struct receipt){.number = number++,
                                         .decision.chosen.backend = 1,
                                         .outcome = i % 200 == 0 ? RECEIPT_FAILED : RECEIPT_OK,
                                         .is_announced = i % 200 == 1});
    }
    // About one in twenty, and the twenty that are kept whatever comes.
    uint64_t kept = last_serial(chronicle) - before;
    CHECK(kept > 80 && kept < 170);
    chronicle_destroy(&chronicle);
}

TEST(a_running_request_is_only_in_the_list_of_decisions)
{
    struct chronicle *chronicle = make(10);
    struct chronicle_figures figures;
    struct chronicle_decision found;

    set_two(chronicle);
    chronicle_tick(chronicle, begin_ms);
    note(chronicle,
         (struct receipt){.number = 4, .decision.chosen.backend = 1, .outcome = RECEIPT_RUNNING});
    chronicle_total(chronicle, &figures);
    CHECK_EQ(figures.requests, 0);
    CHECK(chronicle_find(chronicle, slice_str("id-4"), &found));
    CHECK_EQ(found.receipt->outcome, RECEIPT_RUNNING);
    CHECK_EQ(found.shadow_backend, 0);
    CHECK(isnan(found.shadow_ttft_ms));

    note(chronicle, (struct receipt){.number = 4,
                                     .decision.chosen.backend = 2,
                                     .outcome = RECEIPT_OK,
                                     .first_us = 7000,
                                     .prompt_tokens = 100,
                                     .cached_tokens = 30,
                                     .has_cached_tokens = true});
    chronicle_total(chronicle, &figures);
    CHECK_EQ(figures.requests, 1);
    CHECK_EQ(figures.cached_tokens, 30);
    CHECK(isnan(figures.ttft_ms[0]));
    CHECK_EQ(chronicle_decisions(chronicle, 1, &found, 1), 1);
    CHECK_EQ(found.serial, 2);
    CHECK_EQ(found.shadow_backend, 1);
    CHECK_EQ(found.shadow_cached_tokens, 30);
    CHECK_EQ(found.shadow_ttft_ms, 7);
    chronicle_destroy(&chronicle);
    CHECK(chronicle == NULL);
}

TEST(every_outcome_counts_where_it_should)
{
    struct chronicle *chronicle = make(0);
    struct chronicle_figures figures;

    set_two(chronicle);
    chronicle_tick(chronicle, begin_ms);
    for (uint32_t outcome = RECEIPT_OK; outcome < RECEIPT_OUTCOME_COUNT; outcome++) {
        bool has_backend = outcome != RECEIPT_LOCAL && outcome != RECEIPT_REFUSED;
        note(chronicle, (struct receipt){.number = outcome,
                                         .decision.chosen.backend = has_backend ? 1 : 0,
                                         .outcome = (enum receipt_outcome)outcome,
                                         .prompt_tokens = 100,
                                         .cached_tokens = 50,
                                         .has_cached_tokens = outcome == RECEIPT_OK});
    }
    chronicle_tick(chronicle, begin_ms + 10000);
    chronicle_recent(chronicle, &figures);
    CHECK_EQ(figures.requests, RECEIPT_OUTCOME_COUNT - 1);
    CHECK_EQ(figures.failures, 4);
    CHECK_EQ(figures.told_prompt_tokens, 100);
    CHECK_EQ(figures.cached_tokens, 50);
    CHECK_EQ(figures.span_s, 10);
    CHECK(chronicle_backend(chronicle, 1, 1, &figures));
    CHECK_EQ(figures.requests, RECEIPT_OUTCOME_COUNT - 3);
    CHECK_EQ(figures.span_s, 10);
    CHECK(chronicle_backend(chronicle, 2, 2, &figures));
    CHECK_EQ(figures.requests, 0);
    CHECK(!chronicle_backend(chronicle, 3, 3, &figures));
    chronicle_tick(chronicle, begin_ms + 100000);
    chronicle_backend(chronicle, 1, 1, &figures);
    CHECK_EQ(figures.requests, 0);
    chronicle_destroy(&chronicle);
}

enum { changes = 3 };

// Every member has one more request than in the round before; those that joined have the first.
static bool each_has_its_own(struct chronicle *chronicle, const struct chronicle_member *members,
                             uint32_t round)
{
    struct chronicle_figures figures;
    bool is_so = true;

    for (uint32_t i = 0; i < world_member_max; i++) {
        uint64_t id = members[i].id;
        uint32_t stayed = (world_member_max - 1 - i) / changes;
        note(chronicle, (struct receipt){.decision.chosen.backend = id, .outcome = RECEIPT_OK});
        is_so = is_so && chronicle_backend(chronicle, members[i].slot, id, &figures) &&
                figures.requests == 1 + (round < stayed ? round : stayed) &&
                !chronicle_backend(chronicle, members[i].slot, id + world_member_max, &figures);
    }
    return is_so;
}

// Three leave in each round, and three others get their slots.
TEST(a_slot_that_changes_hands_begins_without_requests)
{
    struct chronicle *chronicle = make(4);
    struct chronicle_member members[world_member_max];
    struct chronicle_figures figures;

    chronicle_tick(chronicle, begin_ms);
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < world_member_max; i++) {
            uint64_t id = 1 + round * changes + i;
            members[i] = (struct chronicle_member){
                .id = id, .slot = slot_of(id), .is_usable = true, .token_ms = 1};
        }
        chronicle_set_members(chronicle, members, world_member_max);
        CHECK(each_has_its_own(chronicle, members, round));
    }
    chronicle_set_members(chronicle, members, 0);
    CHECK(!chronicle_backend(chronicle, members[0].slot, members[0].id, &figures));
    note(chronicle,
         (struct receipt){.decision.chosen.backend = members[0].id, .outcome = RECEIPT_OK});
    chronicle_destroy(&chronicle);
}

TEST(hot_prefixes_name_their_holders_by_id)
{
    struct chronicle *chronicle = make(4);
    struct chronicle_prefix prefix;
    static struct fixture_prompt prompt;
    struct fixture_receipt made;
    struct decision_party rivals[1] = {{.backend = 2, .slot = 2, .expected_tokens = 64}};

    set_two(chronicle);
    chronicle_tick(chronicle, begin_ms);
    for (uint32_t i = 0; i < 5; i++) {
        prompt_add(&prompt, i);
    }
    for (uint32_t i = 0; i < 6; i++) {
        chronicle_note(chronicle, receipt_make(&made,
                                               (struct receipt){.number = i,
                                                                .decision.chosen.backend = 1,
                                                                .decision.chosen.slot = 1,
                                                                .outcome = RECEIPT_OK,
                                                                .prompt_tokens = 85,
                                                                .block_tokens = 16,
                                                                .rival_count = 1},
                                               &prompt, (struct receipt_parts){.rivals = rivals}));
    }
    CHECK_EQ(chronicle_prefixes(chronicle, &prefix, 1), 1);
    CHECK(prefix.key == prompt.keys[3]);
    CHECK_EQ(prefix.tokens, 64);
    CHECK_EQ(prefix.holder_count, 2);
    CHECK_EQ(prefix.holders[0], 1);
    CHECK_EQ(prefix.holders[1], 2);
    chronicle_destroy(&chronicle);
}

// Ten thousand in a second: from the next one on few keys are followed.
TEST(at_a_high_rate_all_requests_count_and_round_robin_is_estimated_within_five_points)
{
    struct chronicle *chronicle = make(100);
    struct chronicle_member members[world_member_max];
    struct chronicle_figures before;
    struct chronicle_figures after;
    struct chronicle_decision last;
    double exact = 0;
    enum { second = 10000, count = 16000 };

    world_run(&(struct world_options){
        .work = FEW, .member_count = 4, .cache_tokens = 300000, .request_count = count});
    world_members(members, 300000);
    chronicle_set_members(chronicle, members, 4);
    chronicle_tick(chronicle, begin_ms);
    for (uint32_t i = 0; i < count; i++) {
        if (i == second) {
            chronicle_tick(chronicle, begin_ms + 1000);
            chronicle_total(chronicle, &before);
        }
        chronicle_note(chronicle, world_receipt(i));
        exact += i < second ? 0 : world.requests[i].rotation_tokens;
    }
    chronicle_total(chronicle, &after);
    CHECK_EQ(after.requests, count);
    CHECK_EQ(chronicle_decisions(chronicle, 0, &last, 1), 1);
    CHECK(last.serial >= second && last.serial < count);
    double prompts = (double)(after.told_prompt_tokens - before.told_prompt_tokens);
    double estimated = after.shadow_cached_tokens - before.shadow_cached_tokens;
    CHECK(fabs(estimated - exact) / prompts < 0.05);

    // Twelve documents are all there is, whoever was noted.
    struct chronicle_prefix prefixes[20];
    double share = 0;
    uint32_t prefix_count = chronicle_prefixes(chronicle, prefixes, 20);
    CHECK(prefix_count >= 12);
    for (uint32_t i = 0; i < prefix_count; i++) {
        share += prefixes[i].share;
    }
    CHECK(share > 0.9 && share < 1.6);
    chronicle_destroy(&chronicle);
}

static double rotation_ms[world_request_max];

static int by_size(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

// A second in which there was nothing but a crowd that came to no backend.
static void make_busy(struct chronicle *chronicle)
{
    for (uint32_t i = 0; i < 10000; i++) {
        note(chronicle, (struct receipt){.number = i, .outcome = RECEIPT_LOCAL});
    }
    chronicle_tick(chronicle, begin_ms + 1000);
}

// Percentiles of all requests at once: time stands still, so all are in the last minute.
static void check_percentiles(enum workload_name work, bool is_busy)
{
    struct chronicle *chronicle = make(0);
    struct chronicle_member members[world_member_max];
    struct chronicle_figures figures;
    uint32_t count = is_busy ? 12000 : 3000;

    world_run(&(struct world_options){.work = work,
                                      .member_count = 4,
                                      .cache_tokens = 300000,
                                      .request_count = count,
                                      .load = 0.6,
                                      .answer_s = 3});
    world_members(members, 300000);
    chronicle_set_members(chronicle, members, 4);
    chronicle_tick(chronicle, begin_ms);
    if (is_busy) {
        make_busy(chronicle);
    }
    for (uint32_t i = 0; i < count; i++) {
        chronicle_note(chronicle, world_receipt(i));
        rotation_ms[i] = world.requests[i].rotation_ttft_ms;
    }
    qsort(rotation_ms, count, sizeof(rotation_ms[0]), by_size);
    chronicle_recent(chronicle, &figures);
    printf("# measured %.0f %.0f %.0f ms, estimated %.0f %.0f %.0f, exactly %.0f %.0f %.0f\n",
           figures.ttft_ms[0], figures.ttft_ms[1], figures.ttft_ms[2], figures.shadow_ttft_ms[0],
           figures.shadow_ttft_ms[1], figures.shadow_ttft_ms[2], rotation_ms[count / 2],
           rotation_ms[count * 95 / 100], rotation_ms[count * 99 / 100]);
    CHECK(fabs(figures.shadow_ttft_ms[0] / rotation_ms[count / 2] - 1) < 0.2);
    CHECK(fabs(figures.shadow_ttft_ms[1] / rotation_ms[count * 95 / 100] - 1) < 0.2);
    CHECK(fabs(figures.shadow_ttft_ms[2] / rotation_ms[count * 99 / 100] - 1) < 0.2);
    chronicle_destroy(&chronicle);
}

TEST(percentiles_of_round_robin_are_estimated_within_a_fifth)
{
    check_percentiles(DOCUMENTS, false);
}

TEST(at_a_high_rate_they_are_as_well)
{
    check_percentiles(DOCUMENTS, true);
    check_percentiles(CHATS, true);
}
