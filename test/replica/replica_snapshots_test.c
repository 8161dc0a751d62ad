// SPDX-License-Identifier: Apache-2.0

#include "replica/replica.h"
#include "replica_scene.h"

enum { a, b, c };

static const struct replica_peer_status *peer_status(const struct replica_status *status,
                                                     uint64_t router)
{
    for (uint32_t i = 0; i < status->peer_count; i++) {
        if (status->peers[i].router == router) {
            return &status->peers[i];
        }
    }
    return NULL;
}

static bool has_gap(uint32_t i, uint32_t of)
{
    struct replica_status status = status_of(i);
    const struct replica_peer_status *peer = peer_status(&status, router_at(of)->id);
    return peer != NULL && peer->has_gap;
}

static void lose_a_batch(uint32_t i, uint32_t engine, uint32_t chain, uint32_t key_count)
{
    worker_confirm(i, engine, 0, chain, key_count);
    router_pump(i);
    scene_drop_frames();
}

TEST(a_router_that_joins_gets_what_the_others_hold)
{
    scene_open(2, 4);
    worker_confirm(a, 1, 0, 5, 60);
    worker_confirm(b, 2, 0, 6, 40);
    worker_predict(b, 3, 1, 7, 40);
    worker_session(a, 1, 99, UINT32_MAX);
    scene_turn();
    router_open_in(c, 7);
    router_meet(a, c);
    router_meet(b, c);
    scene_pass(4000);
    CHECK_EQ(confirmed_by(c, 1, 5), 60);
    CHECK_EQ(confirmed_by(c, 2, 6), 40);
    CHECK_EQ(held_by(c, 3, 7), 0); // predictions come with their confirmation
    CHECK_EQ(session_engine(c, 99), 1);
    struct replica_status status = status_of(c);
    CHECK(status.snapshots_taken > 0);
    CHECK(status.snapshot_records > 0);
    CHECK(status.snapshot_at_ms > 0);
    CHECK(!status.is_joining);
    scene_close();
}

TEST(a_snapshot_carries_the_ages_of_its_blocks)
{
    scene_open(1, 2);
    worker_confirm(a, 1, 0, 5, 10);
    worker_confirm(a, 1, 0, 6, 100);
    scene_set_now(scene.now_ms + 60000);
    worker_confirm(a, 1, 0, 7, 20);
    router_open_in(b, 7);
    router_meet(a, b);
    scene_pass(3000);
    for (uint32_t chain = 5; chain <= 7; chain++) {
        struct prefix_hit there = hit_of(a, 1, chain_keys(chain, 100), 100);
        struct prefix_hit here = hit_of(b, 1, chain_keys(chain, 100), 100);
        CHECK_EQ(here.confirmed, there.confirmed);
        CHECK_EQ(here.age, there.age);
    }
    scene_close();
}

TEST(a_lost_batch_is_noticed_with_the_next_and_mended_by_a_snapshot)
{
    scene_open(2, 4);
    lose_a_batch(a, 1, 5, 30);
    CHECK(!has_gap(b, a));
    worker_confirm(a, 1, 0, 6, 30);
    router_pump(a);
    scene_deliver();
    CHECK(has_gap(b, a));
    CHECK_EQ(status_of(b).gaps, status_of(b).peers[0].gaps);
    CHECK_EQ(held_by(b, 1, 5), 0);
    CHECK_EQ(held_by(b, 1, 6), 30); // what came is not held back
    scene_pass(3000);
    CHECK_EQ(held_by(b, 1, 5), 30);
    CHECK(!has_gap(b, a));
    scene_close();
}

TEST(the_last_batch_that_is_lost_is_noticed_within_a_second)
{
    scene_open(2, 4);
    lose_a_batch(a, 1, 5, 30);
    scene_pass(replica_refresh_ms + 200);
    CHECK(status_of(b).gaps > 0);
    scene_pass(2000);
    CHECK_EQ(held_by(b, 1, 5), 30);
    scene_close();
}

TEST(a_chain_that_refers_to_a_lost_one_is_mended_by_a_snapshot)
{
    scene_open(2, 4);
    lose_a_batch(a, 1, 5, 30);
    worker_confirm(a, 2, 0, 5, 40); // thirty keys are copied from the batch that was lost
    router_pump(a);
    scene_deliver();
    CHECK_EQ(status_of(b).orphans, 1);
    CHECK_EQ(held_by(b, 2, 5), 0);
    scene_pass(3000);
    CHECK_EQ(held_by(b, 2, 5), 40);
    CHECK_EQ(held_by(b, 1, 5), 30);
    // The router that was asked sends its keys anew.
    uint64_t orphans = status_of(b).orphans;
    worker_confirm(a, 3, 0, 5, 40);
    scene_turn();
    CHECK_EQ(status_of(b).orphans, orphans);
    CHECK_EQ(held_by(b, 3, 5), 40);
    scene_close();
}

TEST(a_gap_is_mended_by_the_snapshot_of_a_router_that_heard_it_all)
{
    scene_open(3, 4);
    worker_confirm(a, 1, 0, 5, 30);
    router_pump(a);
    // c alone gets it.
    replica_take(router_at(c)->replica, router_at(a)->id,
                 slice_of(scene.frames[0].bytes, scene.frames[0].size));
    scene_drop_frames();
    worker_confirm(a, 1, 0, 6, 30);
    router_pump(a);
    scene_deliver();
    CHECK(has_gap(b, a));
    CHECK(!has_gap(c, a));
    router_part(a, b); // a can no longer be asked
    router_part(a, c);
    scene_pass(5000);
    CHECK_EQ(held_by(b, 1, 5), 30);
    CHECK(!has_gap(b, a));
    scene_close();
}

TEST(a_question_without_a_response_is_asked_again)
{
    scene_open(2, 4);
    lose_a_batch(a, 1, 5, 30);
    router_at(a)->room = 0; // so it cannot give
    scene_pass(3000);
    uint64_t asked = status_of(b).snapshots_asked;
    CHECK(has_gap(b, a));
    scene_pass(10000);
    CHECK_EQ(status_of(b).snapshots_asked, asked); // it waits for 15 s
    CHECK(replica_has_more(router_at(a)->replica));
    scene_pass(8000);
    CHECK_EQ(status_of(b).snapshots_asked, asked + 1);
    router_at(a)->room = 1 << 20;
    scene_pass(20000);
    CHECK(!replica_has_more(router_at(a)->replica));
    CHECK_EQ(held_by(b, 1, 5), 30);
    CHECK(!has_gap(b, a));
    scene_close();
}

TEST(a_question_that_cannot_be_sent_is_asked_again_a_second_later)
{
    scene_open(2, 4);
    lose_a_batch(a, 1, 5, 30);
    router_at(b)->fails_to_send = true;
    scene_pass(3000);
    CHECK(status_of(b).snapshots_asked > 1);
    CHECK_EQ(held_by(b, 1, 5), 0);
    router_at(b)->fails_to_send = false;
    scene_pass(3000);
    CHECK_EQ(held_by(b, 1, 5), 30);
    scene_close();
}

TEST(when_the_giver_leaves_another_router_is_asked)
{
    scene_open(2, 4);
    worker_confirm(a, 1, 0, 5, 30);
    scene_turn();
    router_at(a)->room = 0;
    router_open_in(c, 7);
    router_meet(a, c);
    scene_pass(2000); // c knows a alone, and asks it
    CHECK(status_of(c).is_joining);
    router_meet(b, c);
    scene_pass(2000);
    CHECK_EQ(held_by(c, 1, 5), 0);
    router_part(c, a);
    scene_pass(3000);
    CHECK_EQ(held_by(c, 1, 5), 30);
    CHECK(!status_of(c).is_joining);
    scene_close();
}

TEST(when_the_asker_leaves_nothing_more_is_given)
{
    scene_open(2, 4);
    lose_a_batch(a, 1, 5, 30);
    router_at(a)->room = 0;
    scene_pass(3000);
    CHECK(replica_has_more(router_at(a)->replica));
    router_part(a, b);
    CHECK(!replica_has_more(router_at(a)->replica));
    CHECK_EQ(status_of(a).snapshots_given, status_of(b).snapshots_taken);
    scene_close();
}

TEST(two_routers_that_ask_at_once_are_given_one_after_the_other)
{
    scene_open(3, 4);
    uint64_t given = status_of(a).snapshots_given;
    lose_a_batch(a, 1, 5, 30);
    scene_pass(5000);
    CHECK_EQ(held_by(b, 1, 5), 30);
    CHECK_EQ(held_by(c, 1, 5), 30);
    CHECK_EQ(status_of(a).snapshots_given, given + 2);
    scene_close();
}

// Confirms so many chains of 60 blocks at the router alone, from chain `first` on.
static void fill_index(uint32_t i, uint32_t engine, uint32_t first, uint32_t count)
{
    for (uint32_t chain = first; chain < first + count; chain++) {
        worker_confirm(i, engine, 0, chain, 60);
    }
}

TEST(a_snapshot_of_many_frames_comes_as_fast_as_its_queue_has_room)
{
    scene_open(1, 2);
    fill_index(a, 1, 0, 1000);
    router_pump(a);
    router_open_in(b, 7);
    router_meet(a, b);
    router_at(a)->room = 0;
    scene_pass(2000);
    CHECK_EQ(held_by(b, 1, 0), 0);
    router_at(a)->room = 1 << 20;
    scene_turn();
    CHECK(replica_has_more(router_at(a)->replica)); // eight frames a turn
    scene_pass(2000);
    CHECK(!replica_has_more(router_at(a)->replica));
    for (uint32_t chain = 0; chain < 1000; chain++) {
        CHECK_EQ(confirmed_by(b, 1, chain), 60);
    }
    CHECK(status_of(b).snapshot_records >= 1000);
    scene_close();
}

TEST(a_snapshot_of_more_backends_than_a_frame_names_has_all)
{
    scene_open(1, scene_engine_max);
    for (uint32_t engine = 0; engine < scene_engine_max; engine++) {
        worker_confirm(a, engine, 0, engine, 3);
    }
    router_pump(a);
    router_open_in(b, 7);
    router_meet(a, b);
    scene_pass(3000);
    for (uint32_t engine = 0; engine < scene_engine_max; engine++) {
        CHECK_EQ(held_by(b, engine, engine), 3);
    }
    scene_close();
}

// Frames on their way to that router, without the one of that number.
static void lose_frame(uint32_t number)
{
    ASSERT(number < scene.frame_count);
    free(scene.frames[number].bytes);
    memmove(&scene.frames[number], &scene.frames[number + 1],
            (scene.frame_count - number - 1) * sizeof(scene.frames[0]));
    scene.frame_count--;
}

TEST(a_snapshot_that_lost_a_part_is_asked_for_again)
{
    scene_open(1, 2);
    fill_index(a, 1, 0, 200);
    router_pump(a);
    router_open_in(b, 7);
    router_meet(a, b);
    bool has_lost = false;
    for (uint32_t i = 0; i < 100; i++) {
        scene_set_now(scene.now_ms + 50);
        router_pump(a);
        if (!has_lost && scene.frame_count > 3) {
            lose_frame(2);
            has_lost = true;
        }
        scene_deliver();
        router_pump(b);
        scene_deliver();
    }
    CHECK(has_lost);
    CHECK(status_of(b).snapshots_asked >= 2);
    for (uint32_t chain = 0; chain < 200; chain++) {
        CHECK_EQ(confirmed_by(b, 1, chain), 60);
    }
    scene_close();
}

TEST(a_part_that_comes_twice_counts_once)
{
    scene_open(1, 2);
    fill_index(a, 1, 0, 200);
    router_pump(a);
    router_open_in(b, 7);
    router_meet(a, b);
    for (uint32_t i = 0; i < 100; i++) {
        scene_set_now(scene.now_ms + 50);
        router_pump(a);
        uint32_t count = scene.frame_count;
        for (uint32_t k = 0; k < count; k++) {
            const struct scene_frame *frame = &scene.frames[k];
            replica_take(router_at(b)->replica, frame->from, slice_of(frame->bytes, frame->size));
        }
        scene_deliver();
        router_pump(b);
        scene_deliver();
    }
    CHECK_EQ(status_of(b).snapshots_taken, status_of(a).snapshots_given);
    CHECK_EQ(status_of(b).malformed, 0);
    CHECK_EQ(confirmed_by(b, 1, 199), 60);
    scene_close();
}

// The life ends while a chain of the former one waits for room in the queue.
TEST(a_chain_of_an_ended_life_is_not_given_as_one_of_the_next)
{
    scene_open(1, 2);
    fill_index(a, 1, 0, 1000);
    router_pump(a);
    router_open_in(b, 7);
    router_meet(a, b);
    while (!replica_has_more(router_at(a)->replica)) {
        scene_pass(50);
    }
    worker_emptied(a, 1);
    scene_pass(3000);
    CHECK_EQ(status_of(b).eras, status_of(a).eras);
    for (uint32_t chain = 0; chain < 1000; chain++) {
        CHECK_EQ(held_by(b, 1, chain), 0);
    }
    scene_close();
}

TEST(a_setting_is_given_in_the_life_of_its_own_backend)
{
    scene_open(1, 3);
    worker_emptied(a, 1); // another backend is in its second life
    scene_turn();
    worker_confirm(a, 1, 0, 5, 30);
    worker_confirm(a, 2, 0, 6, 30);
    replica_set(router_at(a)->replica, scene_identity(2), SETTING_WEIGHT, 5);
    scene_turn();
    router_open_in(b, 7);
    router_meet(a, b);
    scene_pass(3000);
    CHECK_EQ(router_at(b)->settings[2][SETTING_WEIGHT], 5);
    CHECK_EQ(status_of(a).eras, 1);
    CHECK_EQ(status_of(b).eras, 1);
    CHECK_EQ(held_by(a, 2, 6), 30);
    CHECK_EQ(held_by(b, 2, 6), 30);
    scene_close();
}

TEST(a_backend_that_left_while_a_snapshot_was_given_is_left_out)
{
    scene_open(1, 2);
    fill_index(a, 1, 0, 1000);
    router_pump(a);
    router_open_in(b, 7);
    router_meet(a, b);
    while (!replica_has_more(router_at(a)->replica)) {
        scene_pass(50);
    }
    scene.engine_count = 1;
    scene_pass(3000);
    CHECK(!replica_has_more(router_at(a)->replica));
    CHECK_EQ(status_of(b).malformed, 0);
    scene_close();
}

// b and c forgot the engine; b, which is asked first, cannot tell that its snapshot lacks blocks
// unless it says so.
TEST(a_snapshot_of_a_router_that_forgot_an_engine_is_not_believed_to_be_whole)
{
    scene_open(3, 2);
    worker_confirm(a, 1, 0, 5, 30);
    scene_turn();
    worker_refused(b, 1);
    worker_refused(c, 1);
    scene_pass(1000);
    router_at(a)->room = 0; // its snapshots are late
    worker_confirm(a, 1, 0, 6, 10);
    scene_pass(40000);
    router_at(a)->room = 1 << 20;
    scene_pass(60000);
    CHECK_EQ(held_by(b, 1, 5), 30);
    CHECK_EQ(held_by(c, 1, 5), 30);
    scene_close();
}

// A giver with little time lists its index for longer than an asker waits without a part.
TEST(an_asker_hears_of_a_snapshot_while_it_is_made)
{
    scene_open(1, 4);
    for (uint32_t i = 0; i < 40000; i++) {
        worker_confirm(a, 2, 0, 1000 + i, 1);
    }
    router_open_in(b, 7);
    router_meet(a, b);
    scene_turn();
    uint32_t turns = 0;
    for (; status_of(b).snapshots_taken == 0 && turns < 500; turns++) {
        scene_set_now(scene.now_ms + 1000);
        scene_turn();
    }
    CHECK(turns > 15); // seconds
    CHECK_EQ(status_of(b).snapshots_taken, 1);
    CHECK_EQ(status_of(b).snapshots_asked, 1);
    CHECK_EQ(held_by(b, 2, 1000 + 39999), 1);
    scene_close();
}

TEST(snapshots_are_at_most_one_a_second)
{
    scene_open(2, 4);
    uint64_t before = status_of(b).snapshots_taken;
    for (uint32_t i = 0; i < 50; i++) {
        lose_a_batch(a, 1, i, 10);
        scene_pass(100);
    }
    CHECK(status_of(b).snapshots_taken - before <= 6);
    CHECK(status_of(b).snapshots_taken > before);
    scene_pass(20000); // its last question may have been lost, too
    CHECK_EQ(held_by(b, 1, 49), 10);
    scene_close();
}

static void compare_after_losses(uint64_t seed)
{
    struct rng rng = {.state = seed};
    scene_open(2, 3);
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t i = rng_below(&rng, 2);
        worker_confirm(i, rng_below(&rng, 3), 0, rng_below(&rng, 20), 1 + rng_below(&rng, 90));
        scene_set_now(scene.now_ms + 20);
        router_pump(a);
        router_pump(b);
        while (scene.frame_count > 0 && rng_below(&rng, 3) == 0) {
            lose_frame(rng_below(&rng, scene.frame_count));
        }
        scene_deliver();
    }
    scene_pass(30000);
    for (uint32_t engine = 0; engine < 3; engine++) {
        for (uint32_t chain = 0; chain < 20; chain++) {
            CHECK_EQ(confirmed_by(a, engine, chain), confirmed_by(b, engine, chain));
        }
    }
    scene_close();
}

// A wire that loses a third of all frames: both routers end with the same blocks.
TEST(after_any_losses_both_routers_hold_the_same)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        compare_after_losses(seed);
    }
}

// An engine that is down is believed by no router, so no snapshot is whole; and b has forgotten
// another engine that goes on.
TEST(an_engine_that_is_down_makes_no_router_ask_forever)
{
    scene_open(2, 3);
    worker_confirm(a, 1, 0, 5, 30);
    scene_turn();
    worker_refused(a, 2);
    worker_refused(b, 2);
    scene_pass(1000);
    worker_refused(b, 1); // once
    scene_pass(1000);
    worker_confirm(a, 1, 0, 6, 10);
    scene_pass(5000);
    CHECK_EQ(held_by(b, 1, 5), 30);
    uint64_t asked = status_of(b).snapshots_asked;
    scene_pass(60000);
    CHECK(status_of(b).snapshots_asked <= asked + 5);
    scene_close();
}
