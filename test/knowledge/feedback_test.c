// SPDX-License-Identifier: Apache-2.0

#include "knowledge/feedback.h"

#include "fleet/traffic.h"
#include "fleet/truth.h"
#include "knowledge/knowledge.h"
#include "test.h"

enum { key_count = 32, block_tokens = 64 };

static struct knowledge *knowledge;
static struct backend backend;
static uint64_t keys[key_count];
static struct decision decision;
static struct feedback_input input;
static struct feedback feedback;

static void set_up(void)
{
    knowledge = knowledge_create(&(struct knowledge_options){.memory = 1 << 20,
                                                             .ledger_memory = 1 << 20,
                                                             .ttl_s = 3600,
                                                             .backend_count_max = 4,
                                                             .sender_count = 1});
    ASSERT(knowledge != NULL);
    backend = (struct backend){.id = 7, .slot = 2};
    load_init(&backend.load);
    for (uint64_t i = 0; i < key_count; i++) {
        keys[i] = (i + 1) * 0x9e3779b97f4a7c15;
    }
    CHECK(!knowledge_owns(knowledge, 0, &backend));
    decision = (struct decision){
        .prompt_tokens = 24 * block_tokens, .prompt_blocks = 24, .session_slot = UINT32_MAX};
    input = (struct feedback_input){.knowledge = knowledge,
                                    .backend = &backend,
                                    .decision = &decision,
                                    .keys = keys,
                                    .key_count = 24,
                                    .block_tokens = block_tokens,
                                    .is_named = true};
}

static void tear_down(void)
{
    knowledge_destroy(&knowledge);
}

static struct prefix_hit held(void)
{
    struct prefix_hit hit = {0};
    prefix_index_match(knowledge_index(knowledge), keys, key_count, 1, &hit, 1);
    return hit;
}

TEST(a_prompt_in_flight_is_predicted_and_counted_as_load)
{
    set_up();
    feedback_begin(&feedback, &input, 1000000);
    CHECK_EQ(held().blocks, 24);
    CHECK_EQ(held().confirmed, 0);
    CHECK_EQ(backend.load.queued_tokens, 24 * block_tokens);
    feedback_confirm(&feedback, keys, 1000000);
    CHECK_EQ(held().confirmed, 24);
    feedback_end(&feedback, keys);
    CHECK_EQ(backend.load.queued_tokens, 0);
    CHECK_EQ(backend.load.requests, 0);
    tear_down();
}

TEST(the_speed_that_the_decision_counted_on_lets_the_response_repair_the_learned_one)
{
    set_up();
    for (int i = 0; i < 100; i++) {
        feedback_begin(&feedback, &input, 1000000);
        load_output(&backend.load, &feedback.load, 1, 3000000);
        feedback_end(&feedback, keys);
    }
    float slow_ms = load_prefill_ms(&backend.load);
    decision.chosen.token_ms = slow_ms / 8;
    feedback_begin(&feedback, &input, 1000000);
    load_output(&backend.load, &feedback.load, 1, 1050000);
    feedback_end(&feedback, keys);
    CHECK(load_prefill_ms(&backend.load) < slow_ms / 7);
    tear_down();
}

TEST(a_prediction_without_output_is_withdrawn_except_for_blocks_held_before)
{
    set_up();
    decision.chosen.matched_blocks = 4;
    feedback_begin(&feedback, &input, 1000000);
    CHECK_EQ(held().blocks, 24);
    feedback_end(&feedback, keys);
    feedback_end(&feedback, keys);
    CHECK_EQ(held().blocks, 4);
    CHECK_EQ(backend.load.requests, 0);
    tear_down();
}

TEST(a_complete_response_is_confirmed_and_updates_the_mean_output)
{
    set_up();
    struct traffic *traffic = knowledge_traffic(knowledge, 0);
    for (uint64_t i = 0; i < 20; i++) {
        feedback_begin(&feedback, &input, 1000000);
        load_output(&backend.load, &feedback.load, 1, 1100000);
        feedback_complete(&feedback, &(struct feedback_usage){.output_tokens = 50}, keys, key_count,
                          1600000);
        feedback_end(&feedback, keys);
    }
    CHECK_EQ(held().confirmed, key_count);
    struct traffic_view view;
    traffic_read(traffic, 2000000, &view);
    CHECK(view.output_tokens == 50);
    CHECK(view.decode_ms == 500);
    tear_down();
}

TEST(confirmed_blocks_that_the_engine_lacks_are_forgotten)
{
    set_up();
    feedback_begin(&feedback, &input, 1000000);
    feedback_confirm(&feedback, keys, 1000000);
    feedback_end(&feedback, keys);
    decision.chosen.confirmed_tokens = decision.chosen.matched_tokens = 24 * block_tokens;
    decision.chosen.matched_blocks = 24;
    for (int i = 0; i < 2; i++) {
        feedback_begin(&feedback, &input, 1000000);
        feedback_complete(&feedback, &(struct feedback_usage){.has_cached_tokens = true}, keys, 0,
                          1000000);
        feedback_end(&feedback, keys);
    }
    CHECK_EQ(held().blocks, 0);
    tear_down();
}

TEST(a_session_lives_where_its_last_request_went)
{
    set_up();
    input.session_key = 99;
    uint64_t block = knowledge_session_block(99);
    struct prefix_hit hit = {0};
    feedback_begin(&feedback, &input, 1000000);
    CHECK_EQ(prefix_index_match(knowledge_index(knowledge), &block, 1, 1, &hit, 1), 1);
    CHECK_EQ(hit.backend, 2);
    feedback_end(&feedback, keys);
    tear_down();
}

// With live KV events.

static void set_up_with_events(void)
{
    set_up();
    decision.chosen.by_events = true;
}

TEST(with_events_a_prompt_stays_predicted_until_its_response_is_complete)
{
    set_up_with_events();
    feedback_begin(&feedback, &input, 1000000);
    feedback_confirm(&feedback, keys, 1000000);
    CHECK_EQ(held().blocks, 24);
    CHECK_EQ(held().confirmed, 0);
    feedback_complete(&feedback, &(struct feedback_usage){0}, keys, 24, 1000000);
    CHECK_EQ(held().confirmed, 24);
    feedback_end(&feedback, keys);
    CHECK_EQ(held().confirmed, 24);
    tear_down();
}

TEST(with_events_a_response_ends_the_eviction_of_its_first_unreported_block)
{
    set_up_with_events();
    struct prefix_ledger *ledger = knowledge_ledger(knowledge);
    uint32_t places[24];
    CHECK_EQ(prefix_ledger_enter(
                 ledger,
                 &(struct prefix_entry){.keys = keys, .key_count = 24, .backend = backend.slot},
                 places),
             24);
    prefix_ledger_leave_all(ledger, places + 4, 20, backend.slot, PREFIX_GPU);
    decision.chosen.reported_tokens = 4 * block_tokens;
    feedback_begin(&feedback, &input, 1000000);
    CHECK(prefix_ledger_is_evicted(ledger, keys[4], backend.slot));
    feedback_complete(&feedback, &(struct feedback_usage){0}, keys, 24, 1000000);
    CHECK(!prefix_ledger_is_evicted(ledger, keys[4], backend.slot));
    CHECK(prefix_ledger_is_evicted(ledger, keys[5], backend.slot));
    feedback_end(&feedback, keys);
    tear_down();
}

TEST(with_events_every_new_block_is_predicted)
{
    set_up_with_events();
    decision.chosen.matched_blocks = 23;
    feedback_begin(&feedback, &input, 1000000);
    CHECK_EQ(held().blocks, 24);
    feedback_end(&feedback, keys);
    tear_down();
}

TEST(with_events_evicted_blocks_are_expected_again)
{
    set_up_with_events();
    feedback_begin(&feedback, &input, 1000000);
    feedback_complete(&feedback, &(struct feedback_usage){0}, keys, 24, 1000000);
    feedback_end(&feedback, keys);
    feedback_begin(&feedback, &input, 1000000);
    CHECK_EQ(held().blocks, 24);
    CHECK_EQ(held().confirmed, 0);
    feedback_end(&feedback, keys);
    tear_down();
}

TEST(with_events_a_broken_response_leaves_no_prediction)
{
    set_up_with_events();
    decision.chosen.matched_blocks = 4;
    feedback_begin(&feedback, &input, 1000000);
    feedback_confirm(&feedback, keys, 1000000);
    feedback_end(&feedback, keys);
    CHECK_EQ(held().blocks, 4);
    tear_down();
}

static uint32_t pending(uint32_t from)
{
    return prefix_index_pending(
        knowledge_index(knowledge),
        &(struct prefix_pending){
            .keys = keys, .key_count = 24, .from = from, .backend = backend.slot, .now_s = 1});
}

TEST(with_events_a_broken_request_leaves_no_reported_block_pending)
{
    set_up_with_events();
    decision.chosen.reported_tokens = 4 * block_tokens;
    decision.chosen.matched_blocks = 4;
    feedback_begin(&feedback, &input, 1000000);
    CHECK_EQ(pending(2), 22);
    feedback_end(&feedback, keys);
    // If the engine evicted the third and fourth now, no request would be computing them.
    CHECK_EQ(pending(2), 0);
    CHECK_EQ(held().confirmed, 4);
    tear_down();
}

TEST(with_events_a_broken_request_keeps_the_pending_blocks_of_another)
{
    set_up_with_events();
    struct feedback first;
    struct decision first_decision = decision;
    input.decision = &first_decision;
    feedback_begin(&first, &input, 1000000);
    input.decision = &decision;
    decision.chosen.matched_blocks = 24;
    feedback_begin(&feedback, &input, 1000000);
    feedback_end(&feedback, keys);
    CHECK_EQ(pending(0), 24);
    feedback_complete(&first, &(struct feedback_usage){0}, keys, 24, 1000000);
    feedback_end(&first, keys);
    CHECK_EQ(pending(0), 0);
    tear_down();
}

static void respond_with_cached(uint32_t reported, uint64_t cached)
{
    decision.chosen.reported_tokens = decision.chosen.expected_tokens = reported;
    feedback_begin(&feedback, &input, 1000000);
    feedback_complete(&feedback,
                      &(struct feedback_usage){.has_cached_tokens = true, .cached_tokens = cached},
                      keys, 24, 1000000);
    feedback_end(&feedback, keys);
}

TEST(each_response_is_recorded_by_the_source_of_its_prediction)
{
    set_up_with_events();
    struct truth_view view;
    respond_with_cached(640, 640);
    respond_with_cached(640, 512);
    truth_read(&backend.truth, TRUTH_BY_EVENTS, 1000, &view);
    CHECK_EQ(view.all.count, 2);
    CHECK_EQ(view.all.equal, 1);
    CHECK_EQ(view.last_actual, 512);
    decision.chosen.by_events = false;
    respond_with_cached(640, 640);
    truth_read(&backend.truth, TRUTH_BELIEVED, 1000, &view);
    CHECK_EQ(view.all.count, 1);
    tear_down();
}

TEST(three_responses_that_contradict_the_events_make_them_wrong)
{
    set_up_with_events();
    respond_with_cached(640, 0);
    respond_with_cached(640, 0);
    respond_with_cached(640, 400);
    respond_with_cached(640, 0);
    respond_with_cached(640, 0);
    CHECK_EQ(backend.shared.events_wrong, 0);
    respond_with_cached(640, 0);
    CHECK_EQ(backend.shared.events_wrong, 1);
    tear_down();
}

TEST(a_last_block_that_is_computed_again_does_not_contradict_the_events)
{
    set_up_with_events();
    for (int i = 0; i < 6; i++) {
        decision.chosen.reported_tokens = block_tokens; // all of the prompt
        decision.chosen.expected_tokens = 0;
        feedback_begin(&feedback, &input, 1000000);
        feedback_complete(&feedback, &(struct feedback_usage){.has_cached_tokens = true}, keys, 1,
                          1000000);
        feedback_end(&feedback, keys);
    }
    CHECK_EQ(backend.shared.events_wrong, 0);
    tear_down();
}

// Requests of a router that shares: each path leaves notes from which others can tell what it did.
static struct prefix_note note;
static uint64_t number;

static void set_up_tapped(void)
{
    set_up();
    knowledge_destroy(&knowledge);
    knowledge = knowledge_create(&(struct knowledge_options){.memory = 1 << 20,
                                                             .ledger_memory = 1 << 20,
                                                             .ttl_s = 3600,
                                                             .backend_count_max = 4,
                                                             .sender_count = 1,
                                                             .is_tapped = true});
    ASSERT(knowledge != NULL);
    input.knowledge = knowledge;
    (void)knowledge_owns(knowledge, 0, &backend);
}

static bool take_note(enum prefix_note_kind kind, uint64_t prediction, uint32_t count)
{
    return prefix_tap_take(knowledge_tap(knowledge), &note) && note.kind == kind &&
           note.prediction == prediction && note.key_count == count;
}

static bool has_no_note(void)
{
    return !prefix_tap_take(knowledge_tap(knowledge), &note);
}

static bool begin_with(enum prefix_note_kind kind)
{
    feedback_begin(&feedback, &input, 1000000);
    number = feedback.prediction;
    return number != 0 && take_note(kind, number, 24);
}

TEST(a_whole_request_notes_a_prediction_and_its_confirmations)
{
    set_up_tapped();
    CHECK(begin_with(PREFIX_NOTE_PREDICT));
    feedback_confirm(&feedback, keys, 1000000);
    CHECK(take_note(PREFIX_NOTE_CONFIRM, number, 24));
    feedback_complete(&feedback, &(struct feedback_usage){0}, keys, key_count, 1000000);
    CHECK(take_note(PREFIX_NOTE_CONFIRM, number, key_count));
    feedback_end(&feedback, keys);
    CHECK(has_no_note());
    tear_down();
}

TEST(a_request_without_output_notes_a_withdrawal)
{
    set_up_tapped();
    CHECK(begin_with(PREFIX_NOTE_PREDICT));
    feedback_end(&feedback, keys);
    CHECK(take_note(PREFIX_NOTE_WITHDRAW, number, 0));
    feedback_end(&feedback, keys);
    CHECK(has_no_note());
    tear_down();
}

TEST(a_request_that_breaks_off_after_output_leaves_its_confirmation)
{
    set_up_tapped();
    CHECK(begin_with(PREFIX_NOTE_PREDICT));
    feedback_confirm(&feedback, keys, 1000000);
    feedback_confirm(&feedback, keys, 1000000);
    CHECK(take_note(PREFIX_NOTE_CONFIRM, number, 24));
    feedback_end(&feedback, keys);
    CHECK(has_no_note());
    tear_down();
}

TEST(a_request_that_was_not_predicted_notes_its_confirmation_alone)
{
    set_up_tapped();
    decision.chosen.matched_blocks = 20;
    feedback_begin(&feedback, &input, 1000000);
    CHECK_EQ(feedback.prediction, 0);
    CHECK(has_no_note());
    feedback_complete(&feedback, &(struct feedback_usage){0}, keys, 24, 1000000);
    CHECK(take_note(PREFIX_NOTE_CONFIRM, 0, 24));
    feedback_end(&feedback, keys);
    CHECK(has_no_note());
    tear_down();
}

TEST(a_request_without_keys_notes_nothing)
{
    set_up_tapped();
    input.is_named = false;
    input.key_count = 0;
    feedback_begin(&feedback, &input, 1000000);
    feedback_confirm(&feedback, keys, 1000000);
    feedback_complete(&feedback, &(struct feedback_usage){0}, keys, 0, 1000000);
    feedback_end(&feedback, keys);
    CHECK(has_no_note());
    tear_down();
}

TEST(with_events_a_request_notes_an_expectation_that_its_response_ends)
{
    set_up_tapped();
    decision.chosen.by_events = true;
    CHECK(begin_with(PREFIX_NOTE_EXPECT));
    feedback_confirm(&feedback, keys, 1000000);
    CHECK(has_no_note());
    feedback_complete(&feedback, &(struct feedback_usage){0}, keys, 24, 1000000);
    CHECK(take_note(PREFIX_NOTE_CONFIRM, number, 24));
    feedback_end(&feedback, keys);
    CHECK(has_no_note());
    tear_down();
}

TEST(with_events_a_broken_request_notes_reported_blocks_and_a_withdrawal)
{
    set_up_tapped();
    decision.chosen.by_events = true;
    decision.chosen.reported_tokens = 4 * block_tokens;
    CHECK(begin_with(PREFIX_NOTE_EXPECT));
    feedback_confirm(&feedback, keys, 1000000);
    feedback_end(&feedback, keys);
    CHECK(take_note(PREFIX_NOTE_CONFIRM, 0, 4));
    CHECK(take_note(PREFIX_NOTE_WITHDRAW, number, 0));
    CHECK(has_no_note());
    tear_down();
}

TEST(a_request_of_a_session_notes_where_it_went)
{
    set_up_tapped();
    input.session_key = 99;
    CHECK(begin_with(PREFIX_NOTE_PREDICT));
    CHECK(take_note(PREFIX_NOTE_SESSION, 0, 1));
    CHECK_EQ(note.keys[0], knowledge_session_block(99));
    feedback_end(&feedback, keys);
    tear_down();
}
