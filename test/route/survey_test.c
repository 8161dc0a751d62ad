// SPDX-License-Identifier: Apache-2.0

#include "base/prefill_curve.h"
#include "base/reclaim.h"
#include "fleet/load.h"
#include "prefix/prefix_index_internal.h"
#include "route/survey_internal.h"
#include "test.h"

#include <math.h>

static bool is_near(double actual, double expected, double percent)
{
    return fabs(actual - expected) <= expected * percent / 100;
}

enum { fleet_size_max = 2000, block_tokens = 16 };

static struct reclaim reclaim;
static struct fleet *fleet;
static struct knowledge *knowledge;
static struct survey survey;
static struct backend *backends[fleet_size_max];
static struct rng rng;
static const uint64_t keys[] = {11, 22, 33, 44};
static struct route_tried nobody;

static void set_up(uint32_t count)
{
    reclaim_init(&reclaim, 0);
    fleet = fleet_create(
        &(struct fleet_limits){.backend_count_max = fleet_size_max, .pool_count = 1}, &reclaim);
    for (uint32_t i = 0; i < count; i++) {
        char url[32];
        snprintf(url, sizeof(url), "http://b%u", i);
        backends[i] =
            fleet_add(fleet, &(struct fleet_spec){.url = url, .host = "h", .weight = 1 + i % 3});
    }
    ASSERT(fleet_publish(fleet));
    knowledge = knowledge_create(&(struct knowledge_options){.memory = 4 << 20,
                                                             .ledger_memory = 4 << 20,
                                                             .backend_count_max = fleet_size_max,
                                                             .sender_count = 1});
    ASSERT(knowledge != NULL && survey_init(&survey, fleet_size_max));
    for (uint32_t i = 0; i < count; i++) {
        knowledge_owns(knowledge, 0, backends[i]);
    }
    rng.state = 5;
    nobody = (struct route_tried){0};
}

static void tear_down(void)
{
    survey_fini(&survey);
    knowledge_destroy(&knowledge);
    fleet_destroy(&fleet);
}

static void take_at(const struct route_request *request, bool may_sample, uint64_t now_us)
{
    const struct fleet_view *view = fleet_view(fleet);
    struct survey_task task = {.knowledge = knowledge,
                               .view = view,
                               .group = &view->pools[0],
                               .request = request,
                               .tried = &nobody,
                               .now_us = now_us,
                               .speed_life_ms = load_speed_ms,
                               .host_worth = 0.5F,
                               .disk_worth = 0.25F,
                               .reads_prompt = true,
                               .may_sample = may_sample};
    survey_match(&survey, &task);
    survey_collect(&survey, &task, &rng);
}

static void take(const struct route_request *request, bool may_sample)
{
    take_at(request, may_sample, 1000000);
}

static void hold(const struct backend *backend, const uint64_t *held, uint32_t count)
{
    knowledge_store(
        knowledge, 0, backend,
        &(struct prefix_update){
            .keys = held, .key_count = count, .block_tokens = block_tokens, .now_s = 1});
}

static const struct route_request request = {.keys = keys,
                                             .key_count = 4,
                                             .prompt_tokens = 70,
                                             .block_tokens = block_tokens,
                                             .block_share = block_tokens};

static const struct policy_target *target_of(const struct backend *backend)
{
    for (uint32_t i = 0; i < survey.count; i++) {
        if (survey.backends[i] == backend) {
            return &survey.targets[i];
        }
    }
    return NULL;
}

TEST(each_target_shows_its_blocks_and_its_load)
{
    set_up(3);
    hold(backends[1], keys, 2);
    hold(backends[2], keys, 4);
    struct load_request running = {.prompt_tokens = 500, .uncached_tokens = 300};
    load_begin(&backends[1]->load, &running, 1);
    take(&request, false);
    CHECK_EQ(survey.count, 3);
    CHECK_EQ(target_of(backends[0])->matched_blocks, 0);
    CHECK_EQ(target_of(backends[1])->matched_blocks, 2);
    CHECK_EQ(target_of(backends[1])->matched_tokens, 32);
    CHECK_EQ(target_of(backends[1])->queued_tokens, 300);
    CHECK_EQ(target_of(backends[2])->matched_tokens, 64);
    CHECK_EQ(target_of(backends[2])->weight, 3);
    CHECK(target_of(backends[2])->prefill_ms > 0);
    tear_down();
}

// Thirty prompts of 10,000 tokens that took so long, the last until second 1.
static void show_speed(struct backend *backend, uint64_t prefill_ms)
{
    for (int i = 0; i < 30; i++) {
        struct load_request shown = {.prompt_tokens = 10000, .uncached_tokens = 10000};
        load_begin(&backend->load, &shown, 1000000 - prefill_ms * 1000);
        load_output(&backend->load, &shown, 0, 1000000);
        load_end(&backend->load, &shown);
    }
}

TEST(a_backend_without_a_learned_speed_gets_that_of_the_others)
{
    set_up(3);
    take(&request, false);
    CHECK(target_of(backends[0])->prefill_ms == PREFILL_SHIPPED_TOKEN_MS);
    CHECK(target_of(backends[0])->step_ms == PREFILL_SHIPPED_STEP_MS);
    show_speed(backends[1], 1000);
    take(&request, false);
    float learned = target_of(backends[1])->prefill_ms;
    CHECK(learned > 2 * PREFILL_SHIPPED_TOKEN_MS);
    CHECK(target_of(backends[0])->prefill_ms > 0.99F * learned);
    CHECK(target_of(backends[2])->step_ms > 0.99F * target_of(backends[1])->step_ms);
    tear_down();
}

static const uint64_t second_us = 1000000;

// The others are as they were a moment ago.
static void take_after(uint64_t seconds)
{
    for (int i = 1; i < 4; i++) {
        atomic_store(&backends[i]->load.prefill_at_ms, 1000 + (uint32_t)seconds * 1000);
        atomic_store(&backends[i]->load.step_at_ms, 1000 + (uint32_t)seconds * 1000);
    }
    take_at(&request, false, second_us + seconds * second_us);
}

TEST(an_old_speed_fades_towards_that_of_the_others)
{
    static const uint64_t slow_ms[] = {100, 400, 990};
    for (size_t i = 0; i < ARRAY_COUNT(slow_ms); i++) {
        set_up(4);
        show_speed(backends[0], slow_ms[i]);
        for (int k = 1; k < 4; k++) {
            show_speed(backends[k], 20);
        }
        take_after(0);
        const struct policy_target *target = target_of(backends[0]);
        float usual = target_of(backends[1])->prefill_ms;
        CHECK(target->prefill_ms > usual * (float)slow_ms[i] / 20 * 0.9F);
        take_after(3);
        CHECK(target->prefill_ms > usual * 2);
        take_after(14);
        // The usual speed includes a little of the slow one.
        CHECK(target->prefill_ms < usual * 2.2F);
        CHECK(target->step_ms < target_of(backends[1])->step_ms * 2.2F);
        CHECK(target_of(backends[1])->prefill_ms < usual * 1.1F);
        tear_down();
    }
}

TEST(a_speed_counts_in_full_while_a_request_tries_its_backend)
{
    set_up(4);
    show_speed(backends[0], 400);
    for (int k = 1; k < 4; k++) {
        show_speed(backends[k], 20);
    }
    take_after(0);
    float slow = target_of(backends[0])->prefill_ms;
    struct load_request trying = {.prompt_tokens = 500, .uncached_tokens = 300};
    load_begin(&backends[0]->load, &trying, 15 * second_us);
    take_after(14);
    CHECK(is_near((double)target_of(backends[0])->prefill_ms, (double)slow, 1));
    load_assume_first_token(&backends[0]->load, &trying, 15 * second_us);
    take_after(14);
    CHECK(target_of(backends[0])->prefill_ms < slow / 4);
    tear_down();
}

static void send_requests(struct backend *backend, int count, uint64_t now_us)
{
    for (int i = 0; i < count; i++) {
        struct load_request sent = {.prompt_tokens = 200, .uncached_tokens = 100};
        load_begin(&backend->load, &sent, now_us);
        load_end(&backend->load, &sent);
    }
}

TEST(a_backend_that_joins_is_lent_the_recent_work_of_the_others)
{
    set_up(2);
    take_at(&request, false, second_us);
    send_requests(backends[0], 60, 600 * second_us);
    send_requests(backends[1], 120, 600 * second_us); // of weight 2
    backends[2] =
        fleet_add(fleet, &(struct fleet_spec){.url = "http://b2", .host = "h", .weight = 3});
    ASSERT(fleet_publish(fleet));
    take_at(&request, false, 600 * second_us);
    CHECK(is_near((double)target_of(backends[0])->recent_requests, 60, 1));
    CHECK(is_near((double)target_of(backends[2])->recent_requests, 180, 1));
    CHECK(is_near((double)target_of(backends[2])->recent_tokens, 18000, 1));
    // Later it is judged by its own work.
    take_at(&request, false, 6000 * second_us);
    send_requests(backends[0], 60, 6000 * second_us);
    take_at(&request, false, 6000 * second_us);
    CHECK(target_of(backends[2])->recent_requests < 5);
    tear_down();
}

TEST(backends_that_began_together_are_lent_nothing)
{
    set_up(3);
    take_at(&request, false, second_us);
    send_requests(backends[0], 8, 2 * second_us);
    take_at(&request, false, 2 * second_us);
    CHECK(is_near((double)target_of(backends[0])->recent_requests, 8, 1));
    CHECK(target_of(backends[1])->recent_requests == 0);
    tear_down();
}

TEST(speeds_that_are_all_old_stay_what_they_are)
{
    set_up(2);
    show_speed(backends[0], 400);
    show_speed(backends[1], 400);
    take(&request, false);
    float before = target_of(backends[0])->prefill_ms;
    take_at(&request, false, 100000 * second_us);
    CHECK(is_near((double)target_of(backends[0])->prefill_ms, (double)before, 1));
    tear_down();
}

TEST(matches_of_one_request_are_gone_for_the_next)
{
    set_up(3);
    hold(backends[1], keys, 2);
    take(&request, false);
    static const uint64_t others[] = {99};
    take(&(struct route_request){.keys = others, .key_count = 1, .block_tokens = 1}, false);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(target_of(backends[i])->matched_blocks, 0);
    }
    tear_down();
}

TEST(a_session_is_found_at_its_last_backend)
{
    set_up(3);
    uint64_t block = knowledge_session_block(77);
    hold(backends[0], &block, 1);
    hold(backends[0], keys, 4); // makes what was before it older
    hold(backends[2], &block, 1);
    struct route_request of_session = request;
    of_session.session_key = 77;
    take(&of_session, false);
    CHECK(target_of(backends[2])->has_session);
    CHECK(!target_of(backends[0])->has_session);
    of_session.session_key = 78;
    take(&of_session, false);
    CHECK(!target_of(backends[2])->has_session);
    tear_down();
}

TEST(a_session_that_moved_is_not_found_at_an_idle_former_backend)
{
    set_up(3);
    uint64_t block = knowledge_session_block(77);
    hold(backends[0], &block, 1);
    knowledge_move_session(knowledge, 0, backends[2],
                           &(struct prefix_update){.keys = &block, .key_count = 1},
                           backends[0]->slot);
    hold(backends[2], keys, 4); // the new one works, the old one does not
    struct route_request of_session = request;
    of_session.session_key = 77;
    take(&of_session, false);
    CHECK(target_of(backends[2])->has_session);
    CHECK(!target_of(backends[0])->has_session);
    tear_down();
}

// Whether every `step`-th backend from `first` on is a target that holds so many blocks.
static bool all_are_seen(uint32_t first, uint32_t step, uint32_t blocks)
{
    for (uint32_t i = first; i < fleet_size_max; i += step) {
        const struct policy_target *target = target_of(backends[i]);
        if (target == NULL || target->matched_blocks != blocks) {
            return false;
        }
    }
    return true;
}

TEST(in_a_large_fleet_all_holders_and_some_others_are_surveyed)
{
    set_up(fleet_size_max);
    for (uint32_t i = 7; i < fleet_size_max; i += 200) {
        hold(backends[i], keys, 3);
    }
    for (int round = 0; round < 50; round++) {
        take(&request, true);
        CHECK(survey.count >= 10 + survey_sample / 4);
        CHECK(survey.count <= 10 + survey_sample * 2);
        CHECK(all_are_seen(7, 200, 3));
    }
    take(&request, false);
    CHECK_EQ(survey.count, fleet_size_max);
    tear_down();
}

TEST(a_prefix_that_all_hold_does_not_make_all_surveyed)
{
    set_up(fleet_size_max);
    for (uint32_t i = 0; i < fleet_size_max; i++) {
        hold(backends[i], keys, i % 400 == 7 ? 3 : 1);
    }
    uint32_t seen = 0;
    for (int round = 0; round < 50; round++) {
        take(&request, true);
        seen += survey.count;
        CHECK(all_are_seen(7, 400, 3));
    }
    CHECK(seen >= 50 * survey_sample * 3 / 4);
    CHECK(seen <= 50 * survey_sample * 5 / 4);
    tear_down();
}

// Of the hundred that hold most, dozens are looked at, and some of those who hold less.
TEST(a_sample_of_many_equal_holders_is_not_diluted_by_the_others)
{
    set_up(fleet_size_max);
    for (uint32_t i = 0; i < fleet_size_max; i++) {
        hold(backends[i], keys, i % 20 == 3 ? 4 : 1);
    }
    uint32_t best = 0;
    uint32_t others = 0;
    for (int round = 0; round < 50; round++) {
        take(&request, true);
        for (uint32_t i = 0; i < survey.count; i++) {
            bool is_best = survey.targets[i].matched_blocks == 4;
            best += is_best;
            others += !is_best;
        }
    }
    CHECK(best >= 50 * survey_sample * 3 / 4 && best <= 50 * survey_sample * 5 / 4);
    CHECK(others >= 50 * survey_sample * 3 / 4 && others <= 50 * survey_sample * 5 / 4);
    tear_down();
}

// Sixty-three distinct depths cannot be, but whoever is among the best by any margin is seen.
TEST(the_best_holders_are_surveyed_whatever_the_others_hold)
{
    set_up(fleet_size_max);
    for (uint32_t i = 0; i < fleet_size_max; i++) {
        hold(backends[i], keys, i % 40 == 0 ? 4 : i % 40 == 1 ? 3 : 2);
    }
    for (int round = 0; round < 20; round++) {
        take(&request, true);
        CHECK(all_are_seen(0, 40, 4));
        // Fifty have four blocks, and fifty more have three: the sixty-fourth is one of these.
        CHECK(survey.count >= 50 + survey_sample / 2);
        CHECK(survey.count <= 50 + survey_sample * 3);
    }
    tear_down();
}

TEST(a_sample_without_ready_members_leads_to_a_full_survey)
{
    set_up(fleet_size_max);
    for (uint32_t i = 0; i < fleet_size_max; i++) {
        if (i != 1234) {
            backend_set_probe(backends[i], BACKEND_PROBE_DOWN, 0);
        }
    }
    for (int round = 0; round < 10; round++) {
        take(&request, true);
        CHECK_EQ(survey.tier, BACKEND_READY);
        CHECK_EQ(survey.count, 1);
        CHECK(survey.backends[0] == backends[1234]);
    }
    tear_down();
}

static void tell_cache(struct backend *backend, double tokens)
{
    struct load_report report = {
        .running = -1, .waiting = -1, .kv_usage = -1, .cache_tokens = tokens, .block_tokens = -1};
    load_report(&backend->load, &report, 1);
}

// Makes the blocks that the backend holds `tokens` tokens older.
static void take_others(const struct backend *backend, uint32_t tokens)
{
    static uint64_t strange = 1000;
    for (uint32_t i = 0; i < tokens / block_tokens; i++) {
        strange++;
        hold(backend, &strange, 1);
    }
}

static float reuse_in(uint32_t pool_size)
{
    take(&request, false);
    return survey_reuse(&survey, pool_size);
}

TEST(a_prefix_without_a_holder_has_no_reuse)
{
    set_up(4);
    CHECK(reuse_in(4) == 0);
    tear_down();
}

// A reported capacity counts an eighth more, as in the index.  One of four targets used the prefix
// 1,600 tokens ago; if all four held it, each would use it every 6,400 tokens.
TEST(reuse_is_the_capacity_over_the_tokens_between_two_uses)
{
    set_up(4);
    for (int i = 0; i < 4; i++) {
        tell_cache(backends[i], 40000);
    }
    hold(backends[1], keys, 4);
    take_others(backends[1], 1600);
    CHECK(is_near(reuse_in(4), 45000.0 / (1600 * 4), 1));
    CHECK(is_near(reuse_in(400), 45000.0 / (1600 * 400), 1));
    tear_down();
}

TEST(holders_share_the_uses_and_the_most_recent_use_counts)
{
    set_up(4);
    for (int i = 0; i < 4; i++) {
        tell_cache(backends[i], 40000);
    }
    hold(backends[1], keys, 4);
    take_others(backends[1], 1600);
    hold(backends[2], keys, 4);
    take_others(backends[2], 8000);
    CHECK(is_near(reuse_in(4), 45000.0 * 2 / (1600 * 4), 1));
    // A backend with less of the prefix does not count as a holder, however recent.
    hold(backends[3], keys, 3);
    CHECK(is_near(reuse_in(4), 45000.0 * 2 / (1600 * 4), 1));
    tear_down();
}

TEST(an_unknown_cache_counts_as_a_usual_one_and_an_age_of_zero_as_a_block)
{
    set_up(2);
    hold(backends[0], keys, 4);
    CHECK(is_near(reuse_in(2), 50000.0 / (16 * 2), 1));
    tell_cache(backends[0], 300000);
    CHECK(is_near(reuse_in(2), 193750.0 / (16 * 2), 1));
    tear_down();
}

// Blocks that engines report.

// A response whose event has not come by then has none.
static const uint64_t long_after_us = 4000000;

static const struct route_request exact_request = {.keys = keys,
                                                   .key_count = 4,
                                                   .prompt_tokens = 70,
                                                   .block_tokens = block_tokens,
                                                   .block_share = block_tokens,
                                                   .by_token_ids = true};

static uint32_t tell(const struct backend *backend, const uint64_t *held, uint32_t count,
                     uint32_t after, enum prefix_tier tier)
{
    uint32_t places[8];
    ASSERT(prefix_ledger_enter(knowledge_ledger(knowledge),
                               &(struct prefix_entry){.keys = held,
                                                      .key_count = count,
                                                      .after = after,
                                                      .backend = backend->slot,
                                                      .tier = tier},
                               places) == count);
    return places[count - 1];
}

static void set_events(struct backend *backend, enum backend_events events)
{
    atomic_store_explicit(&backend->shared.events, events, memory_order_relaxed);
}

static struct route_holding holding_of(const struct route_request *of,
                                       const struct backend *backend)
{
    struct survey_task task = {
        .knowledge = knowledge, .request = of, .host_worth = 0.5F, .disk_worth = 0.25F};
    return survey_holding(&survey, &task, backend);
}

static void confirm(const struct backend *backend, const uint64_t *held, uint32_t count)
{
    knowledge_store(knowledge, 0, backend,
                    &(struct prefix_update){.keys = held,
                                            .key_count = count,
                                            .block_tokens = block_tokens,
                                            .residency = PREFIX_CONFIRMED,
                                            .now_s = 1});
}

TEST(live_events_overrule_blocks_that_were_confirmed_once)
{
    set_up(2);
    confirm(backends[0], keys, 4);
    confirm(backends[1], keys, 4);
    tell(backends[0], keys, 2, 0, PREFIX_GPU);
    set_events(backends[0], BACKEND_EVENTS_LIVE);
    set_events(backends[1], BACKEND_EVENTS_LIVE);
    take_at(&exact_request, false, long_after_us);
    CHECK_EQ(target_of(backends[0])->matched_blocks, 2);
    CHECK_EQ(target_of(backends[0])->matched_tokens, 32);
    CHECK_EQ(target_of(backends[1])->matched_blocks, 0);
    CHECK(holding_of(&exact_request, backends[0]).by_events);
    CHECK_EQ(holding_of(&exact_request, backends[0]).confirmed, 2);
    tear_down();
}

TEST(blocks_being_computed_count_before_their_event_comes)
{
    set_up(2);
    tell(backends[0], keys, 2, 0, PREFIX_GPU);
    set_events(backends[0], BACKEND_EVENTS_LIVE);
    set_events(backends[1], BACKEND_EVENTS_LIVE);
    hold(backends[0], keys, 4);
    hold(backends[1], keys, 3);
    take(&exact_request, false);
    CHECK_EQ(target_of(backends[0])->matched_blocks, 4);
    CHECK_EQ(target_of(backends[1])->matched_blocks, 3);
    CHECK_EQ(holding_of(&exact_request, backends[0]).reported_tokens, 32);
    tear_down();
}

TEST(a_request_in_flight_does_not_bring_back_evicted_blocks)
{
    set_up(1);
    tell(backends[0], keys, 2, 0, PREFIX_GPU);
    set_events(backends[0], BACKEND_EVENTS_LIVE);
    confirm(backends[0], keys, 4);
    // Somebody else's prompt begins alike, and is on its way.
    knowledge_store(knowledge, 0, backends[0],
                    &(struct prefix_update){.keys = keys,
                                            .key_count = 2,
                                            .block_tokens = block_tokens,
                                            .residency = PREFIX_EXPECTED,
                                            .now_s = 1});
    take_at(&exact_request, false, long_after_us);
    CHECK_EQ(target_of(backends[0])->matched_blocks, 2);
    tear_down();
}

TEST(the_blocks_of_a_response_count_for_two_seconds_without_their_event)
{
    set_up(1);
    tell(backends[0], keys, 2, 0, PREFIX_GPU);
    set_events(backends[0], BACKEND_EVENTS_LIVE);
    confirm(backends[0], keys, 4);
    take_at(&exact_request, false, 3000000);
    CHECK_EQ(target_of(backends[0])->matched_blocks, 4);
    CHECK_EQ(holding_of(&exact_request, backends[0]).reported_tokens, 32);
    take_at(&exact_request, false, long_after_us);
    CHECK_EQ(target_of(backends[0])->matched_blocks, 2);
    tear_down();
}

TEST(blocks_that_events_removed_do_not_count_after_a_response)
{
    set_up(2);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t third = tell(backends[i], keys, 3, 0, PREFIX_GPU);
        uint32_t fourth = tell(backends[i], keys + 3, 1, third, PREFIX_GPU);
        set_events(backends[i], BACKEND_EVENTS_LIVE);
        prefix_ledger_leave(knowledge_ledger(knowledge), fourth, backends[i]->slot, PREFIX_GPU);
        prefix_ledger_leave(knowledge_ledger(knowledge), third, backends[i]->slot, PREFIX_GPU);
        confirm(backends[i], keys, 4);
    }
    prefix_ledger_note_computed(knowledge_ledger(knowledge), keys[2], backends[1]->slot);
    take(&exact_request, false);
    CHECK_EQ(target_of(backends[0])->matched_blocks, 2);
    CHECK_EQ(target_of(backends[1])->matched_blocks, 4);
    tear_down();
}

TEST(while_events_are_learned_the_larger_of_index_and_events_counts)
{
    set_up(2);
    confirm(backends[0], keys, 4);
    tell(backends[0], keys, 2, 0, PREFIX_GPU);
    confirm(backends[1], keys, 1);
    tell(backends[1], keys, 3, 0, PREFIX_GPU);
    set_events(backends[0], BACKEND_EVENTS_LEARNING);
    set_events(backends[1], BACKEND_EVENTS_LEARNING);
    take(&exact_request, false);
    CHECK_EQ(target_of(backends[0])->matched_blocks, 4);
    CHECK_EQ(target_of(backends[1])->matched_blocks, 3);
    CHECK(!holding_of(&exact_request, backends[1]).by_events);
    tear_down();
}

TEST(a_request_with_keys_of_text_is_judged_by_the_index)
{
    set_up(1);
    confirm(backends[0], keys, 3);
    set_events(backends[0], BACKEND_EVENTS_LIVE);
    take(&request, false);
    CHECK_EQ(target_of(backends[0])->matched_blocks, 3);
    CHECK(!holding_of(&request, backends[0]).by_events);
    tear_down();
}

TEST(a_backend_without_events_is_judged_by_the_index_beside_one_with_events)
{
    set_up(2);
    confirm(backends[0], keys, 3);
    tell(backends[1], keys, 2, 0, PREFIX_GPU);
    set_events(backends[1], BACKEND_EVENTS_LIVE);
    take(&exact_request, false);
    CHECK_EQ(target_of(backends[0])->matched_blocks, 3);
    CHECK_EQ(target_of(backends[1])->matched_blocks, 2);
    tear_down();
}

TEST(slow_tiers_are_worth_less_and_expected_all_the_same)
{
    set_up(1);
    uint32_t last = tell(backends[0], keys, 1, 0, PREFIX_GPU);
    last = tell(backends[0], keys + 1, 1, last, PREFIX_HOST);
    tell(backends[0], keys + 2, 1, last, PREFIX_DISK);
    set_events(backends[0], BACKEND_EVENTS_LIVE);
    take(&exact_request, false);
    struct route_holding holding = holding_of(&exact_request, backends[0]);
    CHECK_EQ(holding.tokens, 48);
    CHECK_EQ(holding.host_tokens, 16);
    CHECK_EQ(holding.disk_tokens, 16);
    CHECK_EQ(holding.worth_tokens, 16 + 8 + 4);
    CHECK_EQ(holding.expected_tokens, 48);
    CHECK_EQ(target_of(backends[0])->matched_tokens, 28);
    tear_down();
}

TEST(the_last_block_of_a_prompt_is_always_computed)
{
    set_up(1);
    tell(backends[0], keys, 4, 0, PREFIX_GPU);
    set_events(backends[0], BACKEND_EVENTS_LIVE);
    struct route_request whole = exact_request;
    whole.prompt_tokens = 64;
    take(&whole, false);
    CHECK_EQ(holding_of(&whole, backends[0]).expected_tokens, 48);
    whole.prompt_tokens = 65;
    take(&whole, false);
    CHECK_EQ(holding_of(&whole, backends[0]).expected_tokens, 64);
    tear_down();
}

TEST(engines_with_another_block_size_are_searched_by_their_own_keys)
{
    set_up(2);
    static const uint64_t large[] = {501, 502};
    tell(backends[0], keys, 3, 0, PREFIX_GPU);
    tell(backends[1], large, 2, 0, PREFIX_GPU);
    set_events(backends[0], BACKEND_EVENTS_LIVE);
    set_events(backends[1], BACKEND_EVENTS_LIVE);
    struct route_request mixed = exact_request;
    mixed.others[0] = (struct route_chain){.keys = large, .key_count = 2, .block_tokens = 32};
    mixed.other_count = 1;
    take(&mixed, false);
    CHECK_EQ(target_of(backends[0])->matched_tokens, 48);
    CHECK_EQ(target_of(backends[1])->matched_tokens, 64);
    CHECK_EQ(target_of(backends[1])->matched_blocks, 4);
    CHECK_EQ(holding_of(&mixed, backends[1]).expected_tokens, 64);
    mixed.prompt_tokens = 64;
    take(&mixed, false);
    CHECK_EQ(holding_of(&mixed, backends[1]).expected_tokens, 32);
    tear_down();
}

TEST(a_prompt_that_is_shorter_than_one_engines_block_may_be_held_by_another)
{
    set_up(2);
    static const uint64_t small[] = {501, 502};
    tell(backends[1], small, 2, 0, PREFIX_GPU);
    set_events(backends[0], BACKEND_EVENTS_LIVE);
    set_events(backends[1], BACKEND_EVENTS_LIVE);
    struct route_request brief = exact_request;
    brief.key_count = 0;
    brief.prompt_tokens = 10;
    brief.others[0] = (struct route_chain){.keys = small, .key_count = 2, .block_tokens = 4};
    brief.other_count = 1;
    take(&brief, false);
    CHECK_EQ(target_of(backends[0])->matched_tokens, 0);
    CHECK_EQ(target_of(backends[1])->matched_tokens, 8);
    CHECK_EQ(holding_of(&brief, backends[1]).expected_tokens, 8);
    tear_down();
}

TEST(a_prompt_longer_than_its_keys_may_have_more_blocks_there)
{
    set_up(1);
    tell(backends[0], keys, 3, 0, PREFIX_GPU);
    set_events(backends[0], BACKEND_EVENTS_LIVE);
    struct route_request lengthy = exact_request;
    lengthy.prompt_tokens = 1000;
    take(&lengthy, false);
    CHECK(holding_of(&lengthy, backends[0]).by_events); // it ends before
    lengthy.key_count = 3;
    take(&lengthy, false);
    struct route_holding holding = holding_of(&lengthy, backends[0]);
    CHECK(!holding.by_events);
    CHECK_EQ(holding.expected_tokens, 48);
    tear_down();
}

TEST(blocks_being_computed_are_counted_in_the_blocks_of_the_engine)
{
    set_up(1);
    set_events(backends[0], BACKEND_EVENTS_LIVE);
    atomic_store(&backends[0]->load.told_block_tokens, 32);
    hold(backends[0], keys, 3);
    static const uint64_t large[] = {501, 502};
    struct route_request mixed = exact_request;
    mixed.others[0] = (struct route_chain){.keys = large, .key_count = 2, .block_tokens = 32};
    mixed.other_count = 1;
    take(&mixed, false);
    struct route_holding holding = holding_of(&mixed, backends[0]);
    CHECK(holding.by_events);
    CHECK_EQ(holding.tokens, 48);
    CHECK_EQ(holding.expected_tokens, 32);
    tear_down();
}

TEST(blocks_of_a_size_that_was_not_searched_are_not_known)
{
    set_up(1);
    set_events(backends[0], BACKEND_EVENTS_LIVE);
    confirm(backends[0], keys, 3);
    atomic_store(&backends[0]->load.told_block_tokens, 64);
    take(&exact_request, false);
    CHECK_EQ(target_of(backends[0])->matched_blocks, 3);
    CHECK(!holding_of(&exact_request, backends[0]).by_events);
    tear_down();
}

TEST(the_discount_for_slow_tiers_never_exceeds_the_tokens)
{
    set_up(1);
    static const uint64_t small[] = {601, 602, 603};
    tell(backends[0], small, 3, 0, PREFIX_HOST);
    set_events(backends[0], BACKEND_EVENTS_LEARNING);
    confirm(backends[0], keys, 1);
    struct route_request mixed = exact_request;
    mixed.others[0] = (struct route_chain){.keys = small, .key_count = 3, .block_tokens = 8};
    mixed.other_count = 1;
    take(&mixed, false);
    struct survey_task task = {.knowledge = knowledge, .request = &mixed};
    struct route_holding holding = survey_holding(&survey, &task, backends[0]);
    CHECK_EQ(holding.tokens, 16);
    CHECK_EQ(holding.host_tokens, 24);
    CHECK_EQ(holding.worth_tokens, 0);
    tear_down();
}

TEST(a_server_that_took_over_a_slot_has_the_blocks_of_its_events)
{
    set_up(1);
    confirm(backends[0], keys, 3);
    tell(backends[0], keys, 2, 0, PREFIX_GPU);
    set_events(backends[0], BACKEND_EVENTS_LIVE);
    backend_lost(backends[0]);
    take(&exact_request, false);
    CHECK_EQ(target_of(backends[0])->matched_blocks, 2);
    CHECK_EQ(target_of(backends[0])->matched_tokens, 32);
    take(&exact_request, false);
    CHECK_EQ(target_of(backends[0])->matched_blocks, 2);
    tear_down();
}

TEST(reported_blocks_of_one_request_are_gone_for_the_next)
{
    set_up(2);
    tell(backends[1], keys, 2, 0, PREFIX_GPU);
    set_events(backends[1], BACKEND_EVENTS_LIVE);
    take(&exact_request, false);
    CHECK_EQ(target_of(backends[1])->matched_blocks, 2);
    static const uint64_t others[] = {99};
    struct route_request next = exact_request;
    next.keys = others;
    next.key_count = 1;
    take(&next, false);
    CHECK_EQ(target_of(backends[1])->matched_blocks, 0);
    tear_down();
}

// The state that a match sees if the writer moves the holder behind it.
static void double_holder(const struct backend *backend)
{
    const struct prefix_runs *runs = &knowledge_index(knowledge)->runs;
    struct granule *run = granule_at(runs, find_own(runs, keys[0]));
    _Atomic uint64_t *holder = find_holder(runs, run, backend->slot);
    ASSERT(holder != NULL);
    _Atomic uint64_t *other = &run->words[holder == run->words ? holder_words : 0];
    for (uint32_t i = 0; i < holder_words; i++) {
        PUT(&other[i], OWN(&holder[i]));
    }
}

TEST(a_holder_met_twice_leaves_room_for_backends_that_only_events_report)
{
    set_up(2);
    survey_fini(&survey);
    ASSERT(survey_init(&survey, 2));
    confirm(backends[0], keys, 4);
    double_holder(backends[0]);
    tell(backends[1], keys, 2, 0, PREFIX_GPU);
    set_events(backends[1], BACKEND_EVENTS_LIVE);
    take(&exact_request, false);
    CHECK_EQ(survey.hit_count, 3);
    CHECK_EQ(target_of(backends[0])->matched_blocks, 4);
    CHECK_EQ(target_of(backends[1])->matched_blocks, 2);
    tear_down();
}

TEST(in_a_large_group_a_reported_holder_is_surveyed)
{
    set_up(1000);
    for (uint32_t i = 0; i < 1000; i++) {
        set_events(backends[i], BACKEND_EVENTS_LIVE);
    }
    tell(backends[777], keys, 4, 0, PREFIX_GPU);
    for (int i = 0; i < 20; i++) {
        take(&exact_request, true);
        CHECK(survey.count < 200);
        CHECK(target_of(backends[777]) != NULL);
    }
    tear_down();
}
