// SPDX-License-Identifier: Apache-2.0

#include "knowledge/knowledge.h"

#include "fleet/load.h"
#include "test.h"

enum { key_count = 32, block_tokens = 64 };

static struct knowledge *knowledge;
static struct backend backend;
static uint64_t keys[key_count];

static void set_up(void)
{
    knowledge = knowledge_create(&(struct knowledge_options){
        .memory = 1 << 20, .ttl_s = 3600, .backend_count_max = 4, .sender_count = 1});
    ASSERT(knowledge != NULL);
    backend = (struct backend){.id = 7, .slot = 2};
    load_init(&backend.load);
    for (uint64_t i = 0; i < key_count; i++) {
        keys[i] = (i + 1) * 0x9e3779b97f4a7c15;
    }
    CHECK(!knowledge_owns(knowledge, 0, &backend));
}

static void tear_down(void)
{
    knowledge_destroy(&knowledge);
}

static void store(uint32_t count, enum prefix_residency residency)
{
    knowledge_store(knowledge, 0, &backend,
                    &(struct prefix_update){.residency = residency,
                                            .keys = keys,
                                            .key_count = count,
                                            .block_tokens = block_tokens,
                                            .now_s = 1});
}

static uint32_t matched(void)
{
    struct prefix_hit hit = {0};
    uint32_t count = prefix_index_match(knowledge_index(knowledge), keys, key_count, 1, &hit, 1);
    return count == 0 ? 0 : hit.blocks;
}

// `tokens` of other prompts, new to the backend.
static void fill(uint32_t tokens)
{
    static uint64_t next = 1;
    for (uint32_t i = 0; i < tokens / block_tokens; i++) {
        uint64_t key = next++ * 0xd1342543de82ef95;
        knowledge_store(knowledge, 0, &backend,
                        &(struct prefix_update){.residency = PREFIX_CONFIRMED,
                                                .keys = &key,
                                                .key_count = 1,
                                                .block_tokens = block_tokens,
                                                .now_s = 1});
    }
}

TEST(a_backend_that_takes_a_slot_over_starts_with_nothing)
{
    set_up();
    CHECK(knowledge_owns(knowledge, 0, &backend));
    store(8, PREFIX_CONFIRMED);
    CHECK_EQ(matched(), 8);
    struct backend heir = {.id = 8, .slot = 2};
    load_init(&heir.load);
    CHECK(!knowledge_owns(knowledge, 0, &heir));
    CHECK_EQ(matched(), 0);
    CHECK(knowledge_owns(knowledge, 0, &heir));
    tear_down();
}

TEST(misses_of_one_life_do_not_count_against_the_next)
{
    set_up();
    struct knowledge_truth miss = {.believed_tokens = 1000, .slack_tokens = 10, .age = 100000};
    knowledge_learn(knowledge, 0, &backend, &miss);
    knowledge_learn(knowledge, 0, &backend, &miss);
    backend_lost(&backend);
    CHECK(!knowledge_owns(knowledge, 0, &backend));
    store(8, PREFIX_CONFIRMED);
    knowledge_learn(knowledge, 0, &backend, &miss);
    CHECK_EQ(matched(), 8);
    tear_down();
}

TEST(predicted_blocks_can_be_withdrawn_and_confirmed_ones_stay)
{
    set_up();
    store(8, PREFIX_CONFIRMED);
    store(20, PREFIX_PREDICTED);
    CHECK_EQ(matched(), 20);
    knowledge_withdraw(knowledge, 0, &backend,
                       &(struct prefix_update){.keys = keys, .key_count = 20});
    CHECK_EQ(matched(), 8);
    tear_down();
}

TEST(a_restarted_engine_holds_nothing)
{
    set_up();
    store(8, PREFIX_CONFIRMED);
    backend_lost(&backend);
    CHECK(!knowledge_owns(knowledge, 0, &backend));
    CHECK_EQ(matched(), 0);
    CHECK(knowledge_owns(knowledge, 0, &backend));
    tear_down();
}

TEST(an_engine_that_misses_two_young_prompts_was_emptied)
{
    set_up();
    store(32, PREFIX_CONFIRMED);
    struct knowledge_truth truth = {
        .believed_tokens = 32 * block_tokens, .cached_tokens = 0, .slack_tokens = 128, .age = 10};
    knowledge_learn(knowledge, 0, &backend, &truth);
    CHECK_EQ(matched(), 32);
    knowledge_learn(knowledge, 0, &backend, &truth);
    CHECK_EQ(matched(), 0);
    CHECK_EQ(atomic_load(&backend.load.predicted_tokens), 2 * 32 * block_tokens);
    CHECK_EQ(atomic_load(&backend.load.cached_tokens), 0);
    tear_down();
}

TEST(several_misses_in_a_row_mean_an_empty_cache_not_evictions)
{
    set_up();
    fill(20000);
    store(32, PREFIX_CONFIRMED);
    fill(6000);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(matched(), 32);
        knowledge_learn(knowledge, 0, &backend,
                        &(struct knowledge_truth){.believed_tokens = 32 * block_tokens,
                                                  .cached_tokens = 0,
                                                  .slack_tokens = 128,
                                                  .age = 20000});
    }
    CHECK_EQ(matched(), 0);
    tear_down();
}

TEST(differences_within_the_slack_are_ignored)
{
    set_up();
    store(32, PREFIX_CONFIRMED);
    knowledge_learn(knowledge, 0, &backend,
                    &(struct knowledge_truth){.believed_tokens = 32 * block_tokens,
                                              .cached_tokens = 32 * block_tokens - 100,
                                              .slack_tokens = 128,
                                              .age = 10});
    CHECK_EQ(matched(), 32);
    tear_down();
}

TEST(blocks_older_than_an_evicted_one_are_forgotten_too)
{
    set_up();
    store(32, PREFIX_CONFIRMED);
    fill(100000);
    CHECK_EQ(matched(), 32);
    knowledge_learn(
        knowledge, 0, &backend,
        &(struct knowledge_truth){
            .believed_tokens = 5000, .cached_tokens = 0, .slack_tokens = 128, .age = 50000});
    CHECK_EQ(matched(), 0);
    tear_down();
}

TEST(the_reported_capacity_bounds_the_believed_blocks)
{
    set_up();
    store(32, PREFIX_CONFIRMED);
    fill(100000);
    CHECK_EQ(matched(), 32);
    load_report(&backend.load,
                &(struct load_report){.running = -1,
                                      .waiting = -1,
                                      .kv_usage = -1,
                                      .cache_tokens = 50000,
                                      .block_tokens = -1},
                1);
    CHECK(knowledge_owns(knowledge, 0, &backend));
    CHECK_EQ(matched(), 0);
    tear_down();
}

// The number of wrong events after so many responses, whose engine had reported `reported` tokens.
static unsigned wrong_after(uint32_t reported, uint32_t cached, int responses)
{
    for (int i = 0; i < responses; i++) {
        knowledge_audit(knowledge, 0, &backend,
                        &(struct knowledge_report){.reported_tokens = reported,
                                                   .expected_tokens = reported,
                                                   .cached_tokens = cached});
    }
    return backend.shared.events_wrong;
}

TEST(events_are_wrong_when_three_responses_in_a_row_had_less_than_half)
{
    set_up();
    CHECK_EQ(wrong_after(1000, 499, 2), 0);
    CHECK_EQ(wrong_after(1000, 500, 1), 0); // half may be evicted while the request waits
    CHECK_EQ(wrong_after(1000, 499, 2), 0);
    CHECK_EQ(wrong_after(1000, 499, 1), 1);
    CHECK_EQ(wrong_after(1000, 0, 2), 1); // the count starts over
    CHECK_EQ(wrong_after(1000, 0, 1), 2);
    CHECK_EQ(matched(), 0);
    tear_down();
}

TEST(few_tokens_prove_no_events_wrong)
{
    set_up();
    CHECK_EQ(wrong_after(63, 0, 10), 0);
    CHECK_EQ(wrong_after(0, 63, 10), 0);
    CHECK_EQ(wrong_after(64, 0, 3), 1);
    CHECK_EQ(backend.load.predicted_tokens, 63 * 10 + 64 * 3);
    CHECK_EQ(backend.load.cached_tokens, 630);
    tear_down();
}

TEST(events_are_wrong_when_three_responses_in_a_row_had_more_than_twice_as_much)
{
    set_up();
    store(8, PREFIX_CONFIRMED);
    CHECK_EQ(wrong_after(0, 5000, 2), 0);
    CHECK_EQ(wrong_after(2500, 5000, 1), 0);
    CHECK_EQ(wrong_after(2499, 5000, 2), 0);
    CHECK_EQ(wrong_after(2499, 5000, 1), 1);
    CHECK_EQ(wrong_after(0, 5000, 3), 2);
    CHECK_EQ(matched(), 8); // the belief stays, and counts while the events are learned anew
    tear_down();
}

TEST(wrong_events_make_the_index_forget_the_backend)
{
    set_up();
    store(8, PREFIX_CONFIRMED);
    CHECK_EQ(wrong_after(1000, 0, 3), 1);
    CHECK_EQ(matched(), 0);
    tear_down();
}

static struct prefix_note note;

static void set_up_tapped(void)
{
    knowledge = knowledge_create(&(struct knowledge_options){.memory = 1 << 20,
                                                             .ttl_s = 3600,
                                                             .backend_count_max = 4,
                                                             .sender_count = 2,
                                                             .is_tapped = true});
    ASSERT(knowledge != NULL);
    backend = (struct backend){.id = 7, .identity = 77, .slot = 2};
    atomic_store(&backend.shared.lives, 3);
    load_init(&backend.load);
    for (uint64_t i = 0; i < key_count; i++) {
        keys[i] = (i + 1) * 0x9e3779b97f4a7c15;
    }
    CHECK(!knowledge_owns(knowledge, 0, &backend));
}

static bool take_note(enum prefix_note_kind kind)
{
    return prefix_tap_take(knowledge_tap(knowledge), &note) && note.kind == kind &&
           note.backend == 77 && note.lives == 3;
}

static bool has_no_note(void)
{
    return !prefix_tap_take(knowledge_tap(knowledge), &note);
}

TEST(without_a_tap_there_are_no_numbers)
{
    set_up();
    CHECK(knowledge_tap(knowledge) == NULL);
    CHECK_EQ(knowledge_number(knowledge, 0), 0);
    tear_down();
}

TEST(numbers_of_two_senders_differ)
{
    set_up_tapped();
    uint64_t first = knowledge_number(knowledge, 0);
    uint64_t second = knowledge_number(knowledge, 1);
    CHECK(first != 0 && second != 0 && first != second);
    CHECK(knowledge_number(knowledge, 0) != first);
    tear_down();
}

TEST(a_store_leaves_a_note_of_its_kind_and_number)
{
    set_up_tapped();
    CHECK(has_no_note()); // the takeover of the slot is told by the life
    struct prefix_update update = {.residency = PREFIX_PREDICTED,
                                   .keys = keys,
                                   .key_count = 5,
                                   .block_tokens = block_tokens,
                                   .prediction = 9};
    knowledge_store(knowledge, 0, &backend, &update);
    CHECK(take_note(PREFIX_NOTE_PREDICT));
    CHECK_EQ(note.prediction, 9);
    CHECK_EQ(note.key_count, 5);
    CHECK_EQ(note.keys[4], keys[4]);
    CHECK_EQ(note.block_tokens, block_tokens);
    update.residency = PREFIX_EXPECTED;
    knowledge_store(knowledge, 0, &backend, &update);
    CHECK(take_note(PREFIX_NOTE_EXPECT));
    update.residency = PREFIX_CONFIRMED;
    knowledge_store(knowledge, 0, &backend, &update);
    CHECK(take_note(PREFIX_NOTE_CONFIRM));
    CHECK_EQ(note.prediction, 9);
    CHECK(has_no_note());
    tear_down();
}

TEST(a_prediction_without_a_number_leaves_no_note)
{
    set_up_tapped();
    store(5, PREFIX_PREDICTED);
    CHECK(has_no_note());
    store(5, PREFIX_CONFIRMED);
    CHECK(take_note(PREFIX_NOTE_CONFIRM));
    CHECK_EQ(note.prediction, 0);
    tear_down();
}

TEST(a_withdrawal_and_a_session_leave_notes)
{
    set_up_tapped();
    knowledge_withdraw(knowledge, 0, &backend,
                       &(struct prefix_update){.keys = keys, .key_count = 5, .prediction = 9});
    CHECK(take_note(PREFIX_NOTE_WITHDRAW));
    CHECK_EQ(note.prediction, 9);
    CHECK_EQ(note.key_count, 0);
    knowledge_move_session(knowledge, 0, &backend,
                           &(struct prefix_update){.keys = keys, .key_count = 1}, UINT32_MAX);
    CHECK(take_note(PREFIX_NOTE_SESSION));
    CHECK_EQ(note.key_count, 1);
    CHECK_EQ(note.keys[0], keys[0]);
    CHECK(has_no_note());
    tear_down();
}

TEST(an_emptied_cache_leaves_a_note)
{
    set_up_tapped();
    store(key_count, PREFIX_CONFIRMED);
    CHECK(take_note(PREFIX_NOTE_CONFIRM));
    struct knowledge_truth truth = {.believed_tokens = 20 * block_tokens, .age = 100};
    knowledge_learn(knowledge, 0, &backend, &truth);
    while (matched() > 0) {
        knowledge_learn(knowledge, 0, &backend, &truth);
    }
    bool was_told = false;
    while (prefix_tap_take(knowledge_tap(knowledge), &note)) {
        was_told |= note.kind == PREFIX_NOTE_EMPTIED && note.backend == 77;
    }
    CHECK(was_told);
    tear_down();
}

TEST(an_eviction_leaves_notes_of_its_age_and_of_the_capacity)
{
    set_up_tapped();
    store(key_count, PREFIX_CONFIRMED);
    CHECK(take_note(PREFIX_NOTE_CONFIRM));
    fill(100000);
    while (prefix_tap_take(knowledge_tap(knowledge), &note)) {
    }
    knowledge_learn(knowledge, 0, &backend,
                    &(struct knowledge_truth){.believed_tokens = 20 * block_tokens, .age = 90000});
    CHECK(take_note(PREFIX_NOTE_CAPACITY));
    CHECK_EQ(note.age, 180000);
    CHECK(take_note(PREFIX_NOTE_EVICTED));
    CHECK_EQ(note.age, 90000);
    tear_down();
}

static uint32_t pauses;

static void count_pause(void)
{
    pauses++;
}

TEST(a_merge_changes_the_index_and_leaves_no_note)
{
    set_up_tapped();
    pauses = 0;
    knowledge_merge(knowledge, 1,
                    &(struct prefix_update){.verb = PREFIX_STORE,
                                            .residency = PREFIX_CONFIRMED,
                                            .backend = backend.slot,
                                            .keys = keys,
                                            .key_count = 12,
                                            .now_s = 1},
                    count_pause);
    CHECK_EQ(matched(), 12);
    CHECK(has_no_note());
    CHECK_EQ(pauses, 0);
    tear_down();
}
