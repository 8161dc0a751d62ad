// SPDX-License-Identifier: Apache-2.0

#include "kvevent/kv_follower.h"

#include "kvevent/follower_scene.h"
#include "kvevent/kv_orphans.h"

TEST(a_publisher_that_starts_at_0_is_live_at_once)
{
    struct scene *scene = scene_open(true);
    CHECK_EQ(state(scene), KV_SILENT);
    CHECK(!wants(scene));
    CHECK_EQ(scene->action.until_ms, UINT64_MAX);
    live(scene, 0);
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK(!wants(scene));
    live(scene, 1);
    CHECK(holds_only(scene, 0, 1));
    CHECK_EQ(kv_follower_next(scene->follower), 2);
    CHECK_EQ(counts(scene)->messages, 2);
    CHECK_EQ(counts(scene)->replays, 0);
    scene_close(scene);
}

TEST(a_later_start_requests_a_replay_and_live_messages_wait_behind_it)
{
    struct scene *scene = scene_open(true);
    live(scene, 4);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 0);
    CHECK(!wants(scene));
    live(scene, 5);
    CHECK(!holds(scene, 4));
    replayed(scene, 0, 4);
    live(scene, 6);
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 6));
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK_EQ(counts(scene)->duplicates, 1);
    CHECK_EQ(counts(scene)->gaps, 0);
    CHECK_EQ(counts(scene)->purges, 0);
    CHECK_EQ(counts(scene)->replayed, 5);
    scene_close(scene);
}

TEST(an_engine_that_dropped_old_messages_is_learned_from_its_oldest)
{
    struct scene *scene = scene_open(true);
    live(scene, 9);
    CHECK(wants(scene));
    replayed(scene, 6, 9);
    replay_ends(scene);
    CHECK(holds_only(scene, 6, 9));
    CHECK_EQ(state(scene), KV_LEARNING);
    CHECK_EQ(kv_follower_since(scene->follower), 6);
    live(scene, 10);
    CHECK_EQ(state(scene), KV_LEARNING);
    scene_close(scene);
}

TEST(an_engine_whose_first_number_is_1_is_live)
{
    struct scene *scene = scene_open(true);
    live(scene, 1);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 0);
    replayed(scene, 1, 1);
    replay_ends(scene);
    CHECK_EQ(state(scene), KV_LIVE);
    live(scene, 2);
    CHECK(holds_only(scene, 1, 2));
    CHECK_EQ(kv_follower_since(scene->follower), 0);
    scene_close(scene);
}

TEST(without_replay_a_later_start_is_learned_from_there)
{
    struct scene *scene = scene_open(false);
    live(scene, 4);
    CHECK_EQ(state(scene), KV_LEARNING);
    CHECK(!wants(scene));
    live(scene, 5);
    CHECK(holds_only(scene, 4, 5));
    CHECK_EQ(counts(scene)->gaps, 0);
    CHECK_EQ(counts(scene)->purges, 0);
    scene_close(scene);
}

TEST(a_replay_is_requested_from_the_first_missing_message)
{
    struct scene *scene = scene_at(true, 3);
    live(scene, 7);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 4);
    live(scene, 8);
    CHECK(holds_only(scene, 0, 3));
    replayed(scene, 4, 7);
    CHECK(holds_only(scene, 0, 7));
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 8));
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK_EQ(counts(scene)->gaps, 1);
    CHECK_EQ(counts(scene)->lost, 3);
    CHECK_EQ(counts(scene)->purges, 0);
    scene_close(scene);
}

TEST(a_follower_with_a_gap_stays_live_for_a_moment_and_is_live_again_once_it_is_filled)
{
    struct scene *scene = scene_at(true, 3);
    live(scene, 7);
    CHECK(wants(scene));
    CHECK_EQ(state(scene), KV_LIVE);
    pass(scene, kv_late_ms - 1);
    live(scene, 9); // another gap, but what is missing is missing since then
    CHECK(!wants(scene));
    CHECK_EQ(state(scene), KV_LIVE);
    pass(scene, 1);
    CHECK(!wants(scene));
    CHECK_EQ(state(scene), KV_LEARNING);
    replayed(scene, 4, 9);
    replay_ends(scene);
    CHECK_EQ(state(scene), KV_LIVE);
    live(scene, 11);
    CHECK_EQ(state(scene), KV_LIVE);
    scene_close(scene);
}

TEST(a_replay_that_starts_too_late_forgets_all_holdings)
{
    struct scene *scene = scene_at(true, 3);
    live(scene, 9);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 4);
    replayed(scene, 6, 9);
    replay_ends(scene);
    CHECK(holds_only(scene, 6, 9));
    CHECK_EQ(state(scene), KV_LEARNING);
    CHECK_EQ(counts(scene)->purges, 1);
    scene_close(scene);
}

TEST(without_a_replay_a_gap_is_the_end_of_all_that_was_known)
{
    struct scene *scene = scene_at(false, 3);
    live(scene, 6);
    CHECK(holds_only(scene, 6, 6));
    CHECK_EQ(state(scene), KV_LEARNING);
    CHECK_EQ(counts(scene)->gaps, 1);
    CHECK_EQ(counts(scene)->purges, 1);
    live(scene, 7);
    CHECK(holds_only(scene, 6, 7));
    scene_close(scene);
}

TEST(a_gap_among_those_that_wait_is_asked_for_next)
{
    struct scene *scene = scene_at(true, 0);
    live(scene, 2);
    CHECK(wants(scene));
    live(scene, 4);
    replayed(scene, 1, 2);
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 2));
    CHECK(!wants(scene));
    CHECK_EQ(scene->action.until_ms, scene->now_ms + kv_replay_pause_min_ms);
    pass(scene, kv_replay_pause_min_ms);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 3);
    replayed(scene, 3, 4);
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 4));
    CHECK_EQ(state(scene), KV_LIVE);
    scene_close(scene);
}

// Lets a replay that is wanted be silent.  How long until the next; UINT64_MAX: there is none.
static uint64_t stay_silent(struct scene *scene)
{
    uint64_t asked_ms = scene->now_ms;
    ASSERT(scene->action.wants_replay && scene->action.until_ms == asked_ms + kv_replay_idle_ms);
    pass(scene, kv_replay_idle_ms - 1);
    ASSERT(!wants(scene) && !scene->action.drops_replay);
    pass(scene, 1);
    bool is_wanted = wants(scene);
    ASSERT(scene->action.drops_replay);
    if (!is_wanted && scene->action.until_ms != UINT64_MAX) {
        pass(scene, scene->action.until_ms - scene->now_ms);
        is_wanted = wants(scene);
    }
    return is_wanted ? scene->now_ms - asked_ms : UINT64_MAX;
}

// How long after a replay of `took_ms` the next is requested, when a message is missing again at
// once.
static uint64_t pause_after_ms(struct scene *scene, uint64_t first, uint64_t took_ms)
{
    uint64_t asked_ms = scene->now_ms;

    live(scene, first + 1);
    ASSERT(wants(scene));
    pass(scene, took_ms);
    replayed(scene, first, first + 1);
    replay_ends(scene);
    live(scene, first + 3);
    ASSERT(!wants(scene));
    pass(scene, scene->action.until_ms - scene->now_ms);
    ASSERT(wants(scene));
    return scene->now_ms - asked_ms;
}

TEST(the_longer_a_replay_took_the_later_is_the_next)
{
    struct scene *scene = scene_at(true, 0);
    CHECK_EQ(pause_after_ms(scene, 1, 0), kv_replay_pause_min_ms);
    scene_close(scene);
    scene = scene_at(true, 0);
    CHECK_EQ(pause_after_ms(scene, 1, 100), 400);
    scene_close(scene);
    scene = scene_at(true, 0);
    CHECK_EQ(pause_after_ms(scene, 1, 900), kv_replay_pause_ms);
    // Once no answer comes, it is as if there had never been a quick one.
    CHECK_EQ(stay_silent(scene), kv_replay_pause_ms * 2);
    scene_close(scene);
}

TEST(a_number_that_was_there_before_is_another_process)
{
    struct scene *scene = scene_at(true, 5);
    live(scene, 2);
    CHECK(holds_only(scene, 1, 0)); // nothing
    CHECK_EQ(counts(scene)->restarts, 1);
    CHECK_EQ(state(scene), KV_LEARNING);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 0);
    replayed(scene, 0, 2);
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 2));
    CHECK_EQ(state(scene), KV_LIVE);
    scene_close(scene);
}

TEST(another_process_that_starts_at_0_is_live_at_once)
{
    struct scene *scene = scene_at(true, 5);
    live(scene, 0);
    CHECK(holds_only(scene, 0, 0));
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK_EQ(counts(scene)->restarts, 1);
    CHECK_EQ(counts(scene)->purges, 1);
    CHECK(!wants(scene));
    scene_close(scene);
}

TEST(the_last_message_once_more_is_another_process_too)
{
    struct scene *scene = scene_at(false, 5);
    live(scene, 5);
    CHECK(holds_only(scene, 5, 5));
    CHECK_EQ(counts(scene)->restarts, 1);
    CHECK_EQ(state(scene), KV_LEARNING);
    scene_close(scene);
}

TEST(another_process_during_a_replay_ends_it)
{
    struct scene *scene = scene_at(true, 3);
    live(scene, 6);
    CHECK(wants(scene));
    replayed(scene, 4, 4);
    live(scene, 0);
    CHECK(!wants(scene));
    CHECK(scene->action.drops_replay);
    CHECK(holds_only(scene, 0, 0));
    CHECK_EQ(state(scene), KV_LIVE);
    replayed(scene, 5, 6); // of the old one, and of no use
    replay_ends(scene);
    live(scene, 1);
    CHECK(holds_only(scene, 0, 1));
    scene_close(scene);
}

TEST(a_lower_number_while_a_replay_is_waited_for_is_another_process)
{
    struct scene *scene = scene_at(true, 3);
    live(scene, 9);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 4);
    live(scene, 5);
    CHECK_EQ(counts(scene)->restarts, 1);
    CHECK(holds_only(scene, 1, 0));
    pass(scene, kv_replay_pause_ms);
    CHECK(wants(scene) && scene->action.drops_replay);
    CHECK_EQ(scene->action.from, 0);
    scene_close(scene);
}

TEST(number_0_is_a_restart_even_just_after_a_replay_of_it)
{
    struct scene *scene = scene_open(true);
    kv_follower_connected(scene->follower, scene->now_ms);
    pass(scene, kv_settle_ms);
    CHECK(wants(scene));
    replayed(scene, 0, 3);
    replay_ends(scene);
    live(scene, 0);
    CHECK_EQ(counts(scene)->restarts, 1);
    CHECK(holds_only(scene, 0, 0));
    CHECK_EQ(state(scene), KV_LIVE);
    scene_close(scene);
}

TEST(replayed_messages_may_come_live_during_the_replay)
{
    struct scene *scene = scene_open(true);
    kv_follower_connected(scene->follower, scene->now_ms);
    pass(scene, kv_settle_ms);
    CHECK(wants(scene));
    replayed(scene, 0, 5);
    live(scene, 4);
    live(scene, 5);
    live(scene, 6);
    CHECK_EQ(counts(scene)->restarts, 0);
    CHECK_EQ(counts(scene)->duplicates, 2);
    replayed(scene, 6, 6);
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 6));
    CHECK_EQ(state(scene), KV_LIVE);
    scene_close(scene);
}

TEST(replayed_messages_may_come_live_for_a_moment_after_the_replay)
{
    struct scene *scene = scene_at(true, 3);
    live(scene, 5);
    CHECK(wants(scene));
    replayed(scene, 4, 8);
    replay_ends(scene);
    CHECK_EQ(state(scene), KV_LIVE);
    live(scene, 6);
    live(scene, 7);
    CHECK_EQ(counts(scene)->duplicates, 3);
    CHECK_EQ(counts(scene)->restarts, 0);
    CHECK(holds_only(scene, 0, 8));
    pass(scene, kv_drained_ms);
    live(scene, 8);
    CHECK_EQ(counts(scene)->restarts, 1);
    CHECK(holds_only(scene, 1, 0));
    scene_close(scene);
}

TEST(a_new_connection_is_asked_for_all_before_it_says_anything)
{
    struct scene *scene = scene_open(true);
    kv_follower_connected(scene->follower, scene->now_ms);
    CHECK(!wants(scene));
    CHECK_EQ(scene->action.until_ms, scene->now_ms + kv_settle_ms);
    pass(scene, kv_settle_ms);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 0);
    CHECK_EQ(state(scene), KV_SILENT);
    replayed(scene, 0, 3);
    CHECK_EQ(state(scene), KV_LEARNING);
    replay_ends(scene);
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK(holds_only(scene, 0, 3));
    CHECK_EQ(counts(scene)->restarts, 0);
    live(scene, 3); // it was on its way
    live(scene, 4);
    CHECK(holds_only(scene, 0, 4));
    CHECK_EQ(counts(scene)->restarts, 0);
    scene_close(scene);
}

TEST(an_engine_that_has_said_nothing_stays_silent)
{
    struct scene *scene = scene_open(true);
    kv_follower_connected(scene->follower, scene->now_ms);
    pass(scene, kv_settle_ms);
    CHECK(wants(scene));
    replay_ends(scene);
    CHECK(!wants(scene));
    CHECK_EQ(scene->action.until_ms, UINT64_MAX);
    CHECK_EQ(state(scene), KV_SILENT);
    CHECK_EQ(counts(scene)->replays_failed, 0);
    live(scene, 0);
    CHECK_EQ(state(scene), KV_LIVE);
    scene_close(scene);
}

TEST(number_0_before_the_replay_makes_it_needless)
{
    struct scene *scene = scene_open(true);
    kv_follower_connected(scene->follower, scene->now_ms);
    live(scene, 0);
    CHECK_EQ(state(scene), KV_LIVE);
    pass(scene, kv_settle_ms);
    CHECK(!wants(scene));
    scene_close(scene);
}

TEST(a_reconnect_forgets_and_asks_for_all)
{
    struct scene *scene = scene_open(true);
    kv_follower_connected(scene->follower, scene->now_ms);
    live(scene, 0);
    live(scene, 1);
    kv_follower_disconnected(scene->follower);
    CHECK_EQ(state(scene), KV_LEARNING);
    CHECK(holds_only(scene, 0, 1));
    kv_follower_connected(scene->follower, scene->now_ms);
    CHECK(holds_only(scene, 1, 0));
    pass(scene, kv_settle_ms);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 0);
    replayed(scene, 0, 2);
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 2));
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK_EQ(counts(scene)->restarts, 1);
    scene_close(scene);
}

TEST(the_first_connection_may_be_reported_after_its_messages)
{
    struct scene *scene = scene_open(false);
    live(scene, 0);
    kv_follower_connected(scene->follower, scene->now_ms);
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK(holds_only(scene, 0, 0));
    scene_close(scene);
}

TEST(the_first_connection_requests_no_replay_of_known_messages)
{
    struct scene *scene = scene_open(true);
    live(scene, 0);
    kv_follower_connected(scene->follower, scene->now_ms);
    CHECK_EQ(state(scene), KV_LIVE);
    pass(scene, kv_settle_ms);
    CHECK(!wants(scene));
    scene_close(scene);
}

TEST(a_reconnect_without_replay_is_learned_from_later_messages)
{
    struct scene *scene = scene_open(false);
    kv_follower_connected(scene->follower, scene->now_ms);
    live(scene, 0);
    kv_follower_disconnected(scene->follower);
    kv_follower_connected(scene->follower, scene->now_ms);
    CHECK_EQ(state(scene), KV_LEARNING);
    live(scene, 1);
    CHECK(holds_only(scene, 1, 1));
    CHECK_EQ(state(scene), KV_LEARNING);
    scene_close(scene);
}

TEST(a_lost_connection_takes_its_replay_with_it)
{
    struct scene *scene = scene_open(true);
    kv_follower_connected(scene->follower, scene->now_ms);
    pass(scene, kv_settle_ms);
    CHECK(wants(scene));
    replayed(scene, 0, 1);
    kv_follower_disconnected(scene->follower);
    CHECK(!wants(scene));
    CHECK(scene->action.drops_replay);
    CHECK_EQ(state(scene), KV_LEARNING);
    pass(scene, 100ULL * kv_replay_pause_max_ms);
    CHECK(!wants(scene));
    scene_close(scene);
}

TEST(no_replay_is_requested_without_a_connection)
{
    struct scene *scene = scene_at(true, 3);
    kv_follower_disconnected(scene->follower);
    pass(scene, 10ULL * kv_quiet_ms);
    CHECK(!wants(scene));
    kv_follower_restarted(scene->follower, scene->now_ms);
    CHECK(holds_only(scene, 1, 0));
    CHECK(!wants(scene));
    CHECK_EQ(scene->action.until_ms, UINT64_MAX);
    scene_close(scene);
}

TEST(a_restart_that_others_saw_forgets_and_asks_for_all)
{
    struct scene *scene = scene_at(true, 3);
    kv_follower_restarted(scene->follower, scene->now_ms);
    CHECK(holds_only(scene, 1, 0));
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 0);
    replayed(scene, 0, 1);
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 1));
    CHECK_EQ(state(scene), KV_LIVE);
    scene_close(scene);
}

TEST(a_replay_that_leaves_some_out_is_asked_again_from_there)
{
    struct scene *scene = scene_at(true, 0);
    live(scene, 9);
    CHECK(wants(scene));
    replayed(scene, 1, 4);
    replayed(scene, 6, 9);
    CHECK(!wants(scene));
    CHECK(scene->action.drops_replay);
    CHECK(holds_only(scene, 0, 4));
    replay_ends(scene); // of the one that was dropped
    CHECK(holds_only(scene, 0, 4));
    pass(scene, kv_replay_pause_ms);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 5);
    replayed(scene, 5, 9);
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 9));
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK_EQ(counts(scene)->replays_failed, 0);
    scene_close(scene);
}

TEST(silent_replays_are_asked_again_less_and_less_often_and_then_given_up)
{
    struct scene *scene = scene_at(true, 3);
    live(scene, 6);
    live(scene, 7);
    CHECK(wants(scene));
    CHECK_EQ(stay_silent(scene), kv_replay_pause_ms * 2);
    CHECK_EQ(stay_silent(scene), kv_replay_pause_ms * 4);
    CHECK(holds_only(scene, 0, 3));
    pass(scene, kv_replay_idle_ms);
    CHECK(!wants(scene));
    CHECK(holds_only(scene, 6, 7));
    CHECK_EQ(state(scene), KV_LEARNING);
    CHECK_EQ(counts(scene)->replays, kv_replay_attempts);
    CHECK_EQ(counts(scene)->replays_failed, kv_replay_attempts);
    live(scene, 8);
    CHECK(holds_only(scene, 6, 8));
    // It rests: the next gap is not asked for.
    live(scene, 10);
    CHECK(!wants(scene));
    CHECK(holds_only(scene, 10, 10));
    pass(scene, kv_replay_pause_max_ms);
    live(scene, 12);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 11);
    scene_close(scene);
}

TEST(attempts_with_progress_in_between_are_not_given_up)
{
    struct scene *scene = scene_at(true, 3);
    live(scene, 20);
    CHECK(wants(scene));
    CHECK(stay_silent(scene) != UINT64_MAX);
    CHECK(stay_silent(scene) != UINT64_MAX);
    replayed(scene, 4, 4);
    CHECK_EQ(stay_silent(scene), kv_replay_idle_ms);
    CHECK_EQ(scene->action.from, 5);
    CHECK_EQ(stay_silent(scene), kv_replay_pause_ms * 2);
    CHECK_EQ(stay_silent(scene), kv_replay_pause_ms * 4);
    CHECK(holds_only(scene, 0, 4));
    scene_close(scene);
}

TEST(another_process_is_asked_for_a_replay_even_after_giving_up)
{
    struct scene *scene = scene_at(true, 3);
    live(scene, 6);
    CHECK(wants(scene));
    CHECK(stay_silent(scene) != UINT64_MAX);
    CHECK(stay_silent(scene) != UINT64_MAX);
    pass(scene, kv_replay_idle_ms);
    CHECK(!wants(scene));
    // Nor after a silence, as long as it rests.
    CHECK_EQ(scene->action.until_ms, scene->now_ms + kv_replay_pause_max_ms);
    pass(scene, kv_replay_pause_ms);
    live(scene, 4);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 0);
    scene_close(scene);
}

TEST(a_replay_that_moves_has_as_long_as_the_whole_may_take)
{
    struct scene *scene = scene_at(true, 0);
    live(scene, 5000);
    CHECK(wants(scene));
    uint64_t number = 1;
    for (uint64_t ms = 1000; ms < kv_replay_whole_ms; ms += 1000) {
        pass(scene, 1000);
        replayed(scene, number, number);
        number++;
        CHECK(!wants(scene) && !scene->action.drops_replay);
    }
    pass(scene, 1000);
    CHECK(wants(scene) && scene->action.drops_replay);
    CHECK_EQ(scene->action.from, number);
    scene_close(scene);
}

TEST(messages_that_overflow_the_queue_are_requested_again)
{
    struct scene *scene = scene_at(true, 0);
    uint64_t last = kv_waiting_max + 10;
    for (uint64_t i = 2; i <= last; i++) {
        live(scene, i);
    }
    CHECK_EQ(counts(scene)->overflows, 1);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 1);
    replayed(scene, 1, 20);
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 20));
    pass(scene, kv_replay_pause_ms);
    CHECK(wants(scene));
    CHECK_EQ(state(scene), KV_LEARNING);
    CHECK_EQ(scene->action.from, 21);
    replayed(scene, 21, last);
    replay_ends(scene);
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK_EQ(counts(scene)->purges, 0);
    CHECK(holds_only(scene, 0, 49));
    scene_close(scene);
}

TEST(a_queue_that_overflowed_when_all_is_given_up_goes_on_behind_it)
{
    struct scene *scene = scene_at(true, 0);
    for (uint64_t i = 2; i <= kv_waiting_max + 2; i++) {
        live(scene, i);
    }
    CHECK_EQ(counts(scene)->overflows, 1);
    CHECK(wants(scene));
    CHECK(stay_silent(scene) != UINT64_MAX);
    CHECK(stay_silent(scene) != UINT64_MAX);
    pass(scene, kv_replay_idle_ms);
    CHECK(!wants(scene));
    CHECK_EQ(kv_follower_next(scene->follower), kv_waiting_max + 3);
    CHECK_EQ(state(scene), KV_LEARNING);
    CHECK(holds_only(scene, 1, 0));
    scene_close(scene);
}

TEST(after_a_silence_it_asks_once_whether_there_was_more)
{
    struct scene *scene = scene_at(true, 3);
    CHECK_EQ(scene->action.until_ms, scene->now_ms + kv_quiet_ms);
    pass(scene, kv_quiet_ms);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 4);
    CHECK_EQ(state(scene), KV_LIVE);
    replayed(scene, 4, 5);
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 5));
    CHECK_EQ(state(scene), KV_LIVE);
    pass(scene, 100ULL * kv_quiet_ms);
    CHECK(!wants(scene));
    CHECK_EQ(scene->action.until_ms, UINT64_MAX);
    live(scene, 6);
    pass(scene, kv_quiet_ms);
    CHECK(wants(scene));
    live(scene, 7); // is not held up
    CHECK(holds_only(scene, 0, 7));
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK_EQ(counts(scene)->purges, 0);
    scene_close(scene);
}

TEST(a_replay_after_a_silence_that_fails_changes_nothing)
{
    struct scene *scene = scene_at(true, 3);
    pass(scene, kv_quiet_ms);
    CHECK(wants(scene));
    CHECK_EQ(stay_silent(scene), UINT64_MAX);
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK(holds_only(scene, 0, 3));
    live(scene, 4);
    CHECK(holds_only(scene, 0, 4));
    scene_close(scene);
}

TEST(a_gap_that_shows_during_such_a_replay_is_filled_by_it)
{
    struct scene *scene = scene_at(true, 3);
    pass(scene, kv_quiet_ms);
    CHECK(wants(scene));
    live(scene, 6);
    CHECK(holds_only(scene, 0, 3));
    replayed(scene, 4, 5);
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 6));
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK_EQ(counts(scene)->replays, 1);
    scene_close(scene);
}

TEST(distrust_forgets_all_holdings_and_requests_no_replay)
{
    struct scene *scene = scene_at(true, 3);
    kv_follower_distrust(scene->follower);
    CHECK(holds_only(scene, 1, 0));
    CHECK_EQ(state(scene), KV_LEARNING);
    CHECK(!wants(scene));
    live(scene, 4);
    live(scene, 5);
    CHECK(holds_only(scene, 4, 5));
    CHECK_EQ(state(scene), KV_LEARNING);
    CHECK_EQ(counts(scene)->restarts, 0);
    CHECK_EQ(counts(scene)->purges, 1);
    scene_close(scene);
}

TEST(distrust_does_not_disturb_a_replay)
{
    struct scene *scene = scene_at(true, 3);
    live(scene, 6);
    CHECK(wants(scene));
    kv_follower_distrust(scene->follower);
    CHECK(!wants(scene) && !scene->action.drops_replay);
    replayed(scene, 4, 5);
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 6));
    scene_close(scene);
}

TEST(another_process_is_trusted_again)
{
    struct scene *scene = scene_at(true, 3);
    kv_follower_distrust(scene->follower);
    live(scene, 0);
    CHECK_EQ(state(scene), KV_LIVE);
    scene_close(scene);
}

TEST(a_message_that_is_not_a_batch_forgets_all_holdings)
{
    struct scene *scene = scene_at(true, 3);
    kv_follower_live(scene->follower, &(struct kv_numbered){4, slice_str("\xc1")}, scene->now_ms);
    CHECK_EQ(counts(scene)->malformed, 1);
    CHECK(holds_only(scene, 1, 0));
    CHECK_EQ(state(scene), KV_LEARNING);
    CHECK(!wants(scene));
    live(scene, 5);
    CHECK(holds_only(scene, 5, 5));
    CHECK_EQ(kv_follower_since(scene->follower), 5);
    scene_close(scene);
}

TEST(the_number_that_ends_replays_does_not_count_a_batch)
{
    struct scene *scene = scene_at(true, 3);
    live(scene, UINT64_MAX);
    CHECK_EQ(counts(scene)->malformed, 1);
    CHECK_EQ(state(scene), KV_LIVE);
    live(scene, 4);
    CHECK(holds_only(scene, 0, 4));
    scene_close(scene);
}

TEST(learning_ends_when_the_engine_has_stored_as_much_as_it_holds)
{
    struct scene *scene = scene_open(false);
    kv_follower_set_capacity(scene->follower, 3ULL * batch_block_tokens);
    live(scene, 7);
    live(scene, 8);
    CHECK_EQ(state(scene), KV_LEARNING);
    live(scene, 9);
    CHECK_EQ(state(scene), KV_LIVE);
    live(scene, 11);
    CHECK_EQ(state(scene), KV_LEARNING); // the count began again
    kv_follower_set_capacity(scene->follower, batch_block_tokens);
    CHECK_EQ(state(scene), KV_LIVE);
    scene_close(scene);
}

static void live_behind(struct scene *scene, uint64_t number, uint64_t parent)
{
    struct batch batch;
    struct slice payload = batch_write(&batch, KV_EVENT_STORED, number + 1, parent);
    kv_follower_live(scene->follower, &(struct kv_numbered){number, payload}, scene->now_ms);
}

TEST(learning_goes_on_while_something_older_is_in_use)
{
    struct scene *scene = scene_open(false);
    kv_follower_set_capacity(scene->follower, 3ULL * batch_block_tokens);
    live(scene, 7);
    live(scene, 8);
    live_behind(scene, 9, 999); // behind what was there before us
    CHECK_EQ(state(scene), KV_LEARNING);
    live(scene, 10);
    live(scene, 11);
    CHECK_EQ(state(scene), KV_LEARNING);
    live(scene, 12);
    CHECK_EQ(state(scene), KV_LIVE); // three since
    live_behind(scene, 13, 999);
    CHECK_EQ(state(scene), KV_LEARNING);
    scene_close(scene);
}

TEST(a_complete_follower_is_live_until_an_orphan_has_waited_in_vain)
{
    struct scene *scene = scene_at(false, 3);
    CHECK_EQ(state(scene), KV_LIVE);
    live_behind(scene, 4, 999);
    CHECK_EQ(state(scene), KV_LIVE);
    scene->now_ms += kv_orphan_age_ms + 1;
    live(scene, 5);
    CHECK_EQ(state(scene), KV_LEARNING);
    // As much as the engine holds has come since, each with a known parent.
    kv_follower_set_capacity(scene->follower, 2ULL * batch_block_tokens);
    live(scene, 6);
    live(scene, 7);
    CHECK_EQ(state(scene), KV_LIVE);
    scene_close(scene);
}

TEST(another_process_that_has_nothing_to_repeat_is_known_to_hold_nothing)
{
    struct scene *scene = scene_open(true);
    kv_follower_connected(scene->follower, scene->now_ms);
    live(scene, 0);
    CHECK_EQ(state(scene), KV_LIVE);
    kv_follower_disconnected(scene->follower);
    kv_follower_connected(scene->follower, scene->now_ms);
    CHECK_EQ(state(scene), KV_LEARNING);
    pass(scene, kv_replay_pause_ms);
    CHECK(wants(scene));
    replay_ends(scene);
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK(holds_only(scene, 1, 0));
    live(scene, 3); // it had said something after all
    CHECK_EQ(kv_follower_next(scene->follower), 0);
    pass(scene, kv_replay_pause_ms);
    CHECK(wants(scene));
    CHECK_EQ(state(scene), KV_LEARNING);
    scene_close(scene);
}

TEST(notices_without_messages_are_applied_and_never_all)
{
    struct scene *scene = scene_open(false);
    take_notice(scene, 1);
    CHECK(holds_only(scene, 0, 0));
    CHECK_EQ(state(scene), KV_LEARNING);
    // As engines that are polled say: these are the first, and nothing is missing behind them.
    kv_follower_begin_polled(scene->follower, 0, 4);
    CHECK_EQ(state(scene), KV_LIVE);
    kv_follower_begin_polled(scene->follower, 5, 5);
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK(holds_only(scene, 0, 0));
    kv_follower_begin_polled(scene->follower, 8, 9);
    CHECK_EQ(state(scene), KV_LEARNING);
    CHECK(holds_only(scene, 1, 0));
    CHECK_EQ(counts(scene)->lost, 2);
    scene_close(scene);
}

TEST(a_numbered_document_amid_a_replay_does_not_disturb_it)
{
    struct scene *scene = scene_at(true, 9);
    live(scene, 15);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 10);
    replayed(scene, 10, 11);
    kv_follower_begin_polled(scene->follower, 3, 3);
    replayed(scene, 12, 15);
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 15));
    CHECK_EQ(kv_follower_next(scene->follower), 16);
    CHECK_EQ(state(scene), KV_LIVE);
    scene_close(scene);
}

TEST(a_publisher_that_comes_after_numbered_documents_is_followed_from_its_start)
{
    struct scene *scene = scene_open(true);
    kv_follower_begin_polled(scene->follower, 40, 49);
    kv_follower_connected(scene->follower, scene->now_ms);
    pass(scene, kv_settle_ms);
    CHECK(wants(scene));
    CHECK_EQ(scene->action.from, 0);
    replayed(scene, 0, 3);
    replay_ends(scene);
    CHECK(holds_only(scene, 0, 3));
    CHECK_EQ(state(scene), KV_LIVE);
    scene_close(scene);
    scene = scene_open(false);
    kv_follower_begin_polled(scene->follower, 0, 0);
    live(scene, 1); // not the second event of that count
    CHECK_EQ(counts(scene)->restarts, 1);
    scene_close(scene);
}

TEST(without_a_replay_a_publisher_that_counts_from_1_is_live)
{
    struct scene *scene = scene_open(false);
    live(scene, 1);
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK_EQ(kv_follower_since(scene->follower), 0);
    live(scene, 2);
    live(scene, 1); // another process
    CHECK_EQ(counts(scene)->restarts, 1);
    CHECK_EQ(state(scene), KV_LIVE);
    CHECK(holds_only(scene, 1, 1));
    live(scene, 3);
    CHECK_EQ(state(scene), KV_LEARNING);
    scene_close(scene);
}

TEST(documents_that_count_from_1_are_live)
{
    struct scene *scene = scene_open(false);
    kv_follower_begin_polled(scene->follower, 1, 3);
    take_notice(scene, 1);
    CHECK_EQ(state(scene), KV_LIVE);
    kv_follower_begin_polled(scene->follower, 5, 5);
    CHECK_EQ(state(scene), KV_LEARNING);
    scene_close(scene);
}
