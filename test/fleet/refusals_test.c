// SPDX-License-Identifier: Apache-2.0

#include "fleet/refusals.h"

#include "test.h"

enum { chat_kind = 11, other_kind = 12 };

static const struct refusal_rules rules = {.eject_time_ms = 1000, .eject_time_max_ms = 3000};

static bool refuse(struct refusals *refusals, uint64_t now_ms)
{
    return refusals_note(refusals, chat_kind, false, now_ms, &rules);
}

static void produce(struct refusals *refusals, uint64_t now_ms, int count)
{
    for (int i = 0; i < count; i++) {
        refusals_note_output(refusals, chat_kind, false, now_ms);
    }
}

static enum refusal_state look(const struct refusals *refusals, uint64_t now_ms)
{
    return refusals_look(refusals, chat_kind, now_ms);
}

static bool begin_trial(struct refusals *refusals, uint64_t now_ms)
{
    bool on_trial = false;
    return refusals_begin(refusals, chat_kind, now_ms, false, &on_trial) && on_trial;
}

// Out at `now_ms`.
static void convict(struct refusals *refusals, uint64_t now_ms)
{
    refuse(refusals, now_ms);
    refuse(refusals, now_ms);
    CHECK(!refusals_prove(refusals, chat_kind, now_ms, &rules));
    CHECK(refusals_prove(refusals, chat_kind, now_ms, &rules));
}

TEST(the_second_refusal_in_a_row_makes_a_backend_suspect)
{
    struct refusals refusals = {0};
    produce(&refusals, 10, 3);
    CHECK(!refuse(&refusals, 10));
    produce(&refusals, 10, 1);
    CHECK(!refuse(&refusals, 10));
    CHECK(refuse(&refusals, 10));
    CHECK_EQ(look(&refusals, 10), REFUSAL_NOTED);
    CHECK_EQ(look(&refusals, 10 + refusal_noted_ms), REFUSAL_NONE); // a witness again
}

TEST(a_backend_is_suspect_when_one_more_refusal_would_be_asked_about)
{
    struct refusals refusals = {0};
    CHECK(!refusals_are_suspect(&refusals, chat_kind));
    refuse(&refusals, 10);
    CHECK(refusals_are_suspect(&refusals, chat_kind));
    CHECK(!refusals_are_suspect(&refusals, other_kind));
    produce(&refusals, 10, 1);
    CHECK(!refusals_are_suspect(&refusals, chat_kind));
}

TEST(refusals_without_proof_never_eject)
{
    struct refusals refusals = {0};
    for (int i = 0; i < 1000; i++) {
        refuse(&refusals, 10);
    }
    CHECK_EQ(look(&refusals, 10), REFUSAL_NOTED);
    CHECK_EQ(refusals_out_count(&refusals, 10), 0);
    CHECK(refusals_are_usual(&refusals, chat_kind, 10));
}

TEST(refusals_are_not_usual_while_another_backend_is_asked_or_soon_after_a_request_was_to_blame)
{
    struct refusals refusals = {0};
    for (int i = 0; i < 20; i++) {
        refuse(&refusals, 10);
    }
    CHECK(refusals_may_ask(&refusals, chat_kind, 10));
    refusals_ask(&refusals, chat_kind, 10);
    CHECK(!refusals_are_usual(&refusals, chat_kind, 10 + refusal_ask_ms - 1));
    CHECK(refusals_are_usual(&refusals, chat_kind, 10 + refusal_ask_ms));
    refusals_absolve(&refusals, chat_kind, true, 20);
    for (int i = 0; i < 20; i++) {
        refuse(&refusals, 20);
    }
    CHECK(!refusals_are_usual(&refusals, chat_kind, 19 + refusal_fresh_ms));
    CHECK(refusals_are_usual(&refusals, chat_kind, 20 + refusal_fresh_ms));
}

TEST(refusals_are_rare_where_output_is_fresh_and_few_are_refused)
{
    struct refusals refusals = {0};
    CHECK(!refusals_are_rare(&refusals, chat_kind, 5000));
    produce(&refusals, 5000, 1);
    CHECK(refusals_are_rare(&refusals, chat_kind, 5000));
    CHECK(!refusals_are_rare(&refusals, chat_kind, 5000 + refusal_fresh_ms));
    refuse(&refusals, 5000);
    CHECK(refusals_are_rare(&refusals, chat_kind, 5000));
    refuse(&refusals, 5000);
    CHECK(!refusals_are_rare(&refusals, chat_kind, 5000));
}

// Proven for that kind.
static void convict_kind(struct refusals *refusals, uint64_t kind, uint64_t now_ms)
{
    refusals_note(refusals, kind, false, now_ms, &rules);
    for (int i = 0; i < refusal_proofs; i++) {
        refusals_prove(refusals, kind, now_ms, &rules);
    }
}

TEST(a_backend_proven_for_three_kinds_is_out_for_all_until_one_has_output)
{
    struct refusals refusals = {0};
    convict_kind(&refusals, 1, 10);
    CHECK(refusals_are_suspect(&refusals, 77)); // the first refusal of another kind is asked about
    convict_kind(&refusals, 2, 20);
    CHECK_EQ(refusals_look(&refusals, 77, 20), REFUSAL_NONE);
    convict_kind(&refusals, 3, 30);
    CHECK_EQ(refusals_look(&refusals, 77, 30), REFUSAL_OUT);
    CHECK_EQ(refusals_look(&refusals, 77, 29 + rules.eject_time_ms), REFUSAL_OUT);
    CHECK_EQ(refusals_look(&refusals, 77, 30 + rules.eject_time_ms), REFUSAL_NONE);
    bool on_trial = false;
    uint64_t now_ms = 40 + rules.eject_time_ms;
    CHECK(refusals_begin(&refusals, 1, now_ms, false, &on_trial) && on_trial);
    refusals_note(&refusals, 1, true, now_ms, &rules);
    CHECK_EQ(refusals_look(&refusals, 77, now_ms), REFUSAL_NONE); // its request may be to blame
    CHECK(!refusals_prove(&refusals, 1, now_ms, &rules));
    CHECK_EQ(refusals_look(&refusals, 77, now_ms + rules.eject_time_ms), REFUSAL_OUT);
    CHECK(refusals_begin(&refusals, 2, now_ms, false, &on_trial) && on_trial);
    refusals_note_output(&refusals, 2, true, now_ms);
    CHECK_EQ(refusals_look(&refusals, 77, now_ms), REFUSAL_NONE);
    CHECK(!refusals_are_suspect(&refusals, 77));
}

TEST(output_between_ejections_keeps_other_kinds_in)
{
    struct refusals refusals = {0};
    for (uint64_t kind = 1; kind <= 6; kind++) {
        convict_kind(&refusals, kind, 10);
        refusals_note_output(&refusals, 99, false, 10);
    }
    CHECK_EQ(refusals_out_count(&refusals, 10), 6);
    CHECK_EQ(refusals_look(&refusals, 77, 10), REFUSAL_NONE);
}

TEST(two_proofs_eject_and_only_for_their_kind)
{
    struct refusals refusals = {0};
    convict(&refusals, 10);
    CHECK_EQ(look(&refusals, 10), REFUSAL_OUT);
    CHECK_EQ(look(&refusals, 1009), REFUSAL_OUT);
    CHECK_EQ(refusals_look(&refusals, other_kind, 10), REFUSAL_NONE);
    CHECK_EQ(refusals_out_count(&refusals, 10), 1);
}

TEST(output_between_two_proofs_takes_the_first_back)
{
    struct refusals refusals = {0};
    refuse(&refusals, 10);
    refuse(&refusals, 10);
    CHECK(!refusals_prove(&refusals, chat_kind, 10, &rules));
    produce(&refusals, 10, 1);
    CHECK(!refusals_prove(&refusals, chat_kind, 10, &rules));
    CHECK(refusals_prove(&refusals, chat_kind, 10, &rules));
}

TEST(a_backend_gives_way_while_another_one_is_asked)
{
    struct refusals refusals = {0};
    refuse(&refusals, 10);
    refuse(&refusals, 10);
    CHECK(refusals_may_ask(&refusals, chat_kind, 100));
    refusals_ask(&refusals, chat_kind, 100);
    CHECK_EQ(look(&refusals, 100 + refusal_ask_ms - 1), REFUSAL_ASKED);
    CHECK_EQ(look(&refusals, 100 + refusal_ask_ms), REFUSAL_NONE);
}

TEST(after_a_request_that_was_to_blame_no_backend_is_asked_about_the_next)
{
    struct refusals refusals = {0};
    produce(&refusals, 5000, 1);
    CHECK(!refuse(&refusals, 5001));
    refusals_absolve(&refusals, chat_kind, true, 5002);
    CHECK(!refuse(&refusals, 5003));
    CHECK(!refusals_may_ask(&refusals, chat_kind, 5002 + refusal_rest_ms - 1));
    CHECK(refusals_may_ask(&refusals, chat_kind, 5002 + refusal_rest_ms));
    refusals_ask(&refusals, chat_kind, 5002 + refusal_rest_ms);
    refusals_absolve(&refusals, chat_kind, false, 6000);
    CHECK(refusals_may_ask(&refusals, chat_kind, 6001));
    refusals_ask(&refusals, chat_kind, 6001);
}

TEST(bad_requests_do_not_shield_a_backend_that_only_refuses)
{
    struct refusals refusals = {0};
    produce(&refusals, 5000, 1);
    for (int i = 0; i < refusal_run - 1; i++) {
        refuse(&refusals, 5001);
    }
    refusals_absolve(&refusals, chat_kind, true, 5002);
    CHECK(!refusals_may_ask(&refusals, chat_kind, 5003));
    refuse(&refusals, 5100);
    CHECK(refuse(&refusals, 5100));
    refusals_absolve(&refusals, chat_kind, true, 5101);
    CHECK(refusals_may_ask(&refusals, chat_kind, 5102));
    CHECK(refuse(&refusals, 5102));
    produce(&refusals, 5103, 1);
    refusals_absolve(&refusals, chat_kind, true, 5104);
    CHECK(!refusals_may_ask(&refusals, chat_kind, 5105));
}

TEST(a_bad_request_does_not_clear_a_backend_without_output)
{
    struct refusals refusals = {0};
    refuse(&refusals, 10);
    CHECK(refuse(&refusals, 10));
    refusals_absolve(&refusals, chat_kind, true, 11);
    CHECK(refuse(&refusals, 12));
    CHECK(refusals_may_ask(&refusals, chat_kind, 12));
    refusals_ask(&refusals, chat_kind, 12);
}

TEST(a_backend_with_output_of_late_does_not_give_way)
{
    struct refusals refusals = {0};
    produce(&refusals, 5000, 1);
    refuse(&refusals, 5000);
    CHECK(refusals_may_ask(&refusals, chat_kind, 5000));
    refusals_ask(&refusals, chat_kind, 5000);
    CHECK_EQ(look(&refusals, 5000), REFUSAL_NOTED);
    CHECK(refusals_may_ask(&refusals, chat_kind, 8000));
    refusals_ask(&refusals, chat_kind, 8000);
    CHECK_EQ(look(&refusals, 8000), REFUSAL_ASKED);
}

TEST(a_request_that_others_refuse_too_absolves)
{
    struct refusals refusals = {0};
    refuse(&refusals, 10);
    refuse(&refusals, 10);
    CHECK(refusals_may_ask(&refusals, chat_kind, 100));
    refusals_ask(&refusals, chat_kind, 100);
    refusals_absolve(&refusals, chat_kind, false, 11);
    CHECK_EQ(look(&refusals, 11), REFUSAL_NONE);
    CHECK(!refusals_any(&refusals));
    CHECK(!refuse(&refusals, 12));
}

TEST(after_an_ejection_one_request_is_on_trial)
{
    struct refusals refusals = {0};
    bool on_trial = true;
    convict(&refusals, 10);
    CHECK(begin_trial(&refusals, 1010));
    CHECK_EQ(look(&refusals, 1010), REFUSAL_OUT);
    CHECK(!refusals_begin(&refusals, chat_kind, 1010, false, &on_trial));
    CHECK(refusals_begin(&refusals, chat_kind, 1010, true, &on_trial)); // panic
    CHECK(!on_trial);
    refusals_end_trial(&refusals, chat_kind);
    CHECK(begin_trial(&refusals, 1011));
}

TEST(a_refused_trial_ejects_for_twice_as_long_up_to_the_maximum)
{
    struct refusals refusals = {0};
    uint64_t now_ms = 10;
    convict(&refusals, now_ms);
    static const uint64_t times_ms[] = {1000, 2000, 3000, 3000};
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(look(&refusals, now_ms + times_ms[i] - 1), REFUSAL_OUT);
        now_ms += times_ms[i];
        CHECK(begin_trial(&refusals, now_ms));
        CHECK(refusals_note(&refusals, chat_kind, true, now_ms, &rules));
        CHECK(!refusals_prove(&refusals, chat_kind, now_ms, &rules)); // it is out already
    }
}

TEST(a_trial_whose_request_is_to_blame_is_followed_by_another)
{
    struct refusals refusals = {0};
    convict(&refusals, 10);
    CHECK(begin_trial(&refusals, 1010));
    refusals_note(&refusals, chat_kind, true, 1010, &rules);
    refusals_absolve(&refusals, chat_kind, true, 1012);
    CHECK(begin_trial(&refusals, 1012));
    refusals_note(&refusals, chat_kind, true, 1012, &rules);
    CHECK_EQ(look(&refusals, 1012 + 1999), REFUSAL_OUT);
    CHECK(begin_trial(&refusals, 1012 + 2000));
}

TEST(output_on_trial_brings_the_backend_back_and_two_proofs_more_take_it_out)
{
    struct refusals refusals = {0};
    convict(&refusals, 10);
    CHECK(begin_trial(&refusals, 1010));
    refusals_note_output(&refusals, chat_kind, true, 1010);
    CHECK_EQ(look(&refusals, 1010), REFUSAL_NOTED);
    CHECK(refuse(&refusals, 1011));
    CHECK(!refusals_prove(&refusals, chat_kind, 1011, &rules));
    CHECK(refusals_prove(&refusals, chat_kind, 1011, &rules));
    CHECK_EQ(look(&refusals, 1011 + 1999), REFUSAL_OUT);
}

TEST(output_of_older_requests_does_not_end_an_ejection)
{
    struct refusals refusals = {0};
    convict(&refusals, 10);
    produce(&refusals, 11, 5);
    CHECK_EQ(look(&refusals, 11), REFUSAL_OUT);
}

TEST(output_for_a_while_clears_the_record)
{
    struct refusals refusals = {0};
    convict(&refusals, 10);
    CHECK(begin_trial(&refusals, 1010));
    refusals_note_output(&refusals, chat_kind, true, 1010);
    produce(&refusals, 1011, 20);
    CHECK(!refusals_any(&refusals));
    convict(&refusals, 2000);
    CHECK_EQ(look(&refusals, 2999), REFUSAL_OUT);
    CHECK(begin_trial(&refusals, 3000));
}

TEST(kinds_that_are_out_stay_in_the_table_and_others_make_room)
{
    struct refusals refusals = {0};
    convict(&refusals, 10);
    for (uint64_t kind = 100; kind < 200; kind++) {
        CHECK(refusals_note(&refusals, kind, false, 20 + kind, &rules));
    }
    CHECK_EQ(look(&refusals, 20), REFUSAL_OUT);
    CHECK_EQ(refusals_look(&refusals, 199, 300), REFUSAL_NOTED);
    CHECK_EQ(refusals_look(&refusals, 100, 300), REFUSAL_NONE);
}

TEST(output_is_remembered_for_ten_seconds)
{
    struct refusals refusals = {0};
    CHECK(!refusals_has_output(&refusals, chat_kind, 10));
    produce(&refusals, 5000, 1);
    CHECK(refusals_has_output(&refusals, chat_kind, 5000 + refusal_fresh_ms - 1));
    CHECK(!refusals_has_output(&refusals, chat_kind, 5000 + refusal_fresh_ms));
    CHECK(!refusals_has_output(&refusals, other_kind, 5000));
}

TEST(requests_of_no_kind_leave_no_record)
{
    struct refusals refusals = {0};
    CHECK(!refusals_note(&refusals, 0, false, 10, &rules));
    refusals_note_output(&refusals, 0, false, 10);
    CHECK(!refusals_any(&refusals));
    CHECK_EQ(refusals_look(&refusals, 0, 10), REFUSAL_NONE);
}

TEST(suspect_kinds_of_long_ago_make_room)
{
    struct refusals refusals = {0};
    for (uint64_t kind = 100; kind < 100 + refusal_kind_count; kind++) {
        refusals_note(&refusals, kind, false, 20, &rules);
        CHECK(refusals_note(&refusals, kind, false, 20, &rules));
    }
    CHECK(!refuse(&refusals, 30));
    CHECK(!refuse(&refusals, 30)); // no room
    CHECK(!refuse(&refusals, 70000));
    CHECK(refuse(&refusals, 70000));
}
