// SPDX-License-Identifier: Apache-2.0

#include "replica/replica.h"

#include "replica_scene.h"

#include <math.h>

enum { a, b, c };

TEST(a_prediction_of_one_router_is_one_of_all)
{
    scene_open(3, 4);
    worker_predict(a, 2, 1, 5, 30);
    scene_turn();
    CHECK_EQ(held_by(b, 2, 5), 30);
    CHECK_EQ(held_by(c, 2, 5), 30);
    CHECK_EQ(confirmed_by(b, 2, 5), 0);
    CHECK_EQ(held_by(b, 1, 5), 0);
    CHECK_EQ(status_of(b).open_predictions, 1);
    scene_close();
}

TEST(a_confirmation_of_one_router_counts_for_all)
{
    scene_open(2, 4);
    worker_predict(a, 2, 1, 5, 30);
    scene_turn();
    worker_confirm(a, 2, 1, 5, 40);
    scene_turn();
    CHECK_EQ(confirmed_by(b, 2, 5), 40);
    CHECK_EQ(status_of(a).open_predictions, 0);
    CHECK_EQ(status_of(b).open_predictions, 0);
    scene_close();
}

TEST(a_confirmation_needs_no_prediction)
{
    scene_open(2, 4);
    worker_confirm(a, 2, 0, 5, 40);
    scene_turn();
    CHECK_EQ(confirmed_by(b, 2, 5), 40);
    scene_close();
}

TEST(a_withdrawn_prediction_leaves_what_was_confirmed_before)
{
    scene_open(2, 4);
    worker_confirm(b, 2, 0, 5, 10);
    scene_turn();
    worker_predict(a, 2, 1, 5, 30);
    scene_turn();
    CHECK_EQ(held_by(b, 2, 5), 30);
    worker_withdraw(a, 2, 1, 5, 30);
    scene_turn();
    CHECK_EQ(held_by(b, 2, 5), 10);
    CHECK_EQ(held_by(a, 2, 5), 10);
    CHECK_EQ(status_of(b).open_predictions, 0);
    scene_close();
}

TEST(a_withdrawal_leaves_what_the_prediction_of_another_router_needs)
{
    scene_open(3, 4);
    worker_predict(a, 2, 1, 5, 30);
    worker_predict(b, 2, 1, 5, 20);
    scene_turn();
    worker_withdraw(a, 2, 1, 5, 30);
    scene_turn();
    for (uint32_t i = a; i <= c; i++) {
        CHECK_EQ(held_by(i, 2, 5), 20);
    }
    worker_withdraw(b, 2, 1, 5, 20);
    scene_turn();
    for (uint32_t i = a; i <= c; i++) {
        CHECK_EQ(held_by(i, 2, 5), 0);
    }
    scene_close();
}

TEST(expected_blocks_are_confirmed_no_longer)
{
    scene_open(2, 4);
    worker_confirm(a, 2, 0, 5, 30);
    scene_turn();
    worker_store(a, 2, 1, PREFIX_EXPECTED, 5, 30);
    scene_turn();
    CHECK_EQ(held_by(b, 2, 5), 30);
    CHECK_EQ(confirmed_by(b, 2, 5), 0);
    scene_close();
}

TEST(a_withdrawal_that_was_lost_is_noticed_within_seconds)
{
    scene_open(2, 4);
    worker_predict(a, 2, 1, 5, 30);
    worker_predict(a, 3, 2, 6, 30);
    scene_turn();
    scene_pass(3000);
    CHECK_EQ(held_by(b, 2, 5), 30); // a prediction that is still open stays
    worker_withdraw(a, 2, 1, 5, 30);
    router_pump(a);
    scene_drop_frames();
    CHECK_EQ(held_by(b, 2, 5), 30);
    scene_pass(3000);
    CHECK_EQ(held_by(b, 2, 5), 0);
    CHECK_EQ(held_by(b, 3, 6), 30);
    scene_close();
}

TEST(a_session_follows_its_last_move_at_every_router)
{
    scene_open(3, 4);
    worker_session(a, 1, 99, UINT32_MAX);
    scene_turn();
    for (uint32_t i = a; i <= c; i++) {
        CHECK_EQ(session_engine(i, 99), 1);
    }
    // The wall clock of b is far behind that of c, which moves it in between.
    worker_session(c, 3, 99, 1);
    scene_turn();
    worker_session(b, 2, 99, 3);
    scene_turn();
    for (uint32_t i = a; i <= c; i++) {
        CHECK_EQ(session_engine(i, 99), 2);
    }
    scene_close();
}

TEST(two_routers_that_move_a_session_at_once_agree)
{
    scene_open(3, 4);
    worker_session(a, 1, 99, UINT32_MAX);
    worker_session(b, 2, 99, UINT32_MAX);
    scene_turn();
    scene_turn();
    CHECK(session_engine(a, 99) != UINT32_MAX);
    CHECK_EQ(session_engine(a, 99), session_engine(b, 99));
    CHECK_EQ(session_engine(a, 99), session_engine(c, 99));
    scene_close();
}

TEST(the_loads_of_the_others_are_added_up)
{
    scene_open(3, 4);
    router_at(a)->own[1] = (struct record_load){
        .requests = 3, .sequences = 2, .queued_tokens = 1000, .context_tokens = 50};
    router_at(b)->own[1] = (struct record_load){
        .requests = 4, .sequences = 4, .queued_tokens = 1ULL << 40, .context_tokens = 7};
    scene_turn();
    CHECK_EQ(router_at(c)->others[1].requests, 7);
    CHECK_EQ(router_at(c)->others[1].sequences, 6);
    CHECK_EQ(router_at(c)->others[1].queued_tokens, (1LL << 40) + 1000);
    CHECK_EQ(router_at(c)->others[1].context_tokens, 57);
    CHECK_EQ(router_at(a)->others[1].requests, 4);
    CHECK_EQ(router_at(c)->others[2].requests, 0);
    router_at(a)->own[1].requests = 1;
    scene_turn();
    CHECK_EQ(router_at(c)->others[1].requests, 5);
    scene_close();
}

TEST(requests_that_others_begin_are_told_but_not_those_before_they_were_met)
{
    scene_open(2, 4);
    router_at(a)->own[1] = (struct record_load){.begun_requests = 100, .begun_tokens = 5000};
    scene_turn();
    CHECK_EQ(router_at(b)->begun_requests[1], 0);
    router_at(a)->own[1] = (struct record_load){.begun_requests = 103, .begun_tokens = 5600};
    scene_turn();
    CHECK_EQ(router_at(b)->begun_requests[1], 3);
    CHECK_EQ(router_at(b)->begun_tokens[1], 600);
    // A count that runs backward is nothing to tell of.
    router_at(a)->own[1] = (struct record_load){.begun_requests = 5, .begun_tokens = 7};
    scene_turn();
    CHECK_EQ(router_at(b)->begun_requests[1], 3);
    scene_close();
}

TEST(arrivals_of_the_others_are_added_up_once_a_second)
{
    scene_open(3, 4);
    router_at(a)->own_arrivals = 0.5F;
    router_at(b)->own_arrivals = 0.25F;
    scene_pass(1200);
    CHECK(router_at(c)->arrivals > 0.749F && router_at(c)->arrivals < 0.751F);
    CHECK(router_at(a)->arrivals > 0.249F && router_at(a)->arrivals < 0.251F);
    router_part(c, b);
    CHECK(router_at(c)->arrivals > 0.499F && router_at(c)->arrivals < 0.501F);
    scene_close();
}

TEST(arrivals_of_a_pool_that_a_router_no_longer_has_are_none)
{
    scene_open(2, 1);
    router_at(a)->own_arrivals = 0.5F;
    scene_pass(1200);
    CHECK(router_at(b)->arrivals > 0.499F);
    router_at(a)->own_arrivals = -1; // not told
    scene_pass(10000);
    CHECK(router_at(b)->arrivals == 0);
    router_at(a)->own_arrivals = 0.25F;
    scene_pass(1200);
    CHECK(router_at(b)->arrivals > 0.249F && router_at(b)->arrivals < 0.251F);
    scene_close();
}

TEST(a_router_that_left_takes_its_load_and_predictions_along_and_leaves_its_holds)
{
    scene_open(3, 4);
    router_at(a)->own[1] = (struct record_load){.requests = 3, .queued_tokens = 9};
    router_at(b)->own[1] = (struct record_load){.requests = 1};
    worker_predict(a, 1, 1, 5, 30);
    worker_confirm(a, 1, 0, 6, 30);
    scene_turn();
    CHECK_EQ(router_at(c)->others[1].requests, 4);
    router_part(c, a);
    CHECK_EQ(router_at(c)->others[1].requests, 1);
    CHECK_EQ(router_at(c)->others[1].queued_tokens, 0);
    CHECK_EQ(held_by(c, 1, 5), 0);
    CHECK_EQ(held_by(c, 1, 6), 30);
    CHECK_EQ(held_by(b, 1, 5), 30);
    CHECK_EQ(status_of(c).open_predictions, 0);
    scene_close();
}

TEST(a_router_that_comes_back_tells_its_load_again)
{
    scene_open(2, 4);
    router_at(a)->own[1] = (struct record_load){.requests = 3};
    scene_turn();
    router_part(a, b);
    CHECK_EQ(router_at(b)->others[1].requests, 0);
    scene_pass(200);
    router_meet(a, b);
    scene_pass(200);
    CHECK_EQ(router_at(b)->others[1].requests, 3);
    scene_close();
}

TEST(an_eviction_that_one_router_learned_of_counts_for_all)
{
    scene_open(2, 4);
    worker_confirm(a, 1, 0, 5, 10);
    worker_confirm(a, 1, 0, 6, 100);
    scene_turn();
    CHECK_EQ(held_by(b, 1, 5), 10);
    uint32_t age = hit_of(b, 1, chain_keys(5, 10), 10).age;
    router_note(a, 1, (struct prefix_note){.kind = PREFIX_NOTE_EVICTED, .age = age});
    scene_turn();
    CHECK_EQ(held_by(b, 1, 5), 0);
    CHECK_EQ(held_by(b, 1, 6), 100);
    scene_close();
}

TEST(a_router_that_is_cut_off_cannot_void_what_others_know)
{
    scene_open(2, 4);
    worker_confirm(b, 1, 0, 5, 30);
    scene_turn();
    CHECK_EQ(held_by(a, 1, 5), 30);
    worker_refused(a, 1);
    scene_pass(1000);
    CHECK_EQ(held_by(a, 1, 5), 0);
    CHECK_EQ(held_by(b, 1, 5), 30);
    // b still has output: a hears that the life goes on, and takes a snapshot of it.
    worker_confirm(b, 1, 0, 6, 10);
    scene_pass(3000);
    CHECK_EQ(held_by(b, 1, 5), 30);
    CHECK_EQ(held_by(a, 1, 5), 30);
    CHECK_EQ(held_by(a, 1, 6), 10);
    CHECK_EQ(status_of(b).eras, 0);
    scene_close();
}

TEST(an_engine_that_responds_again_after_an_outage_has_a_new_life_for_all)
{
    scene_open(2, 4);
    worker_confirm(b, 1, 0, 5, 30);
    worker_predict(b, 1, 1, 7, 30);
    worker_confirm(b, 2, 0, 5, 30);
    scene_turn();
    worker_refused(a, 1);
    scene_pass(1000);
    worker_confirm(a, 1, 0, 6, 10);
    scene_turn();
    CHECK_EQ(held_by(b, 1, 5), 0);
    CHECK_EQ(held_by(b, 1, 7), 0);
    CHECK_EQ(status_of(b).open_predictions, 0);
    CHECK_EQ(held_by(b, 1, 6), 10);
    CHECK_EQ(held_by(a, 1, 6), 10);
    CHECK_EQ(held_by(b, 2, 5), 30); // another engine
    CHECK_EQ(status_of(a).eras, 1);
    CHECK_EQ(status_of(b).eras, 1);
    scene_close();
}

TEST(an_outage_that_all_routers_see_is_one_new_life)
{
    scene_open(3, 4);
    worker_confirm(b, 1, 0, 5, 30);
    scene_turn();
    worker_refused(a, 1);
    scene_pass(100);
    worker_refused(b, 1);
    scene_pass(1000);
    worker_confirm(a, 1, 0, 6, 10);
    scene_turn();
    worker_refused(c, 1); // its connection was idle
    scene_pass(500);
    worker_confirm(b, 1, 0, 8, 10);
    worker_confirm(c, 1, 0, 9, 10);
    scene_pass(3000);
    for (uint32_t i = a; i <= c; i++) {
        CHECK_EQ(status_of(i).eras, 1);
        CHECK_EQ(held_by(i, 1, 5), 0);
        CHECK_EQ(held_by(i, 1, 6), 10);
        CHECK_EQ(held_by(i, 1, 8), 10);
        CHECK_EQ(held_by(i, 1, 9), 10);
    }
    scene_close();
}

TEST(a_router_believes_nothing_of_an_engine_that_refuses_it)
{
    scene_open(2, 4);
    worker_refused(a, 1);
    scene_turn();
    worker_predict(b, 1, 1, 5, 30);
    scene_turn();
    CHECK_EQ(held_by(a, 1, 5), 0);
    CHECK_EQ(held_by(b, 1, 5), 30);
    scene_close();
}

TEST(an_emptied_cache_is_told_at_most_once_in_ten_seconds)
{
    scene_open(2, 4);
    worker_confirm(b, 1, 0, 5, 30);
    scene_turn();
    worker_emptied(a, 1);
    scene_turn();
    CHECK_EQ(held_by(b, 1, 5), 0);
    CHECK_EQ(status_of(b).eras, 1);
    worker_confirm(b, 1, 0, 5, 30);
    scene_turn();
    worker_emptied(a, 1);
    scene_turn();
    CHECK_EQ(held_by(b, 1, 5), 30);
    CHECK_EQ(status_of(b).eras, 1);
    scene_pass(10000);
    worker_emptied(a, 1);
    scene_turn();
    CHECK_EQ(held_by(b, 1, 5), 0);
    CHECK_EQ(status_of(b).eras, 2);
    scene_close();
}

TEST(an_end_of_a_life_that_is_heard_of_ends_our_own_predictions)
{
    scene_open(2, 4);
    worker_predict(a, 1, 1, 5, 30);
    scene_turn();
    worker_emptied(b, 1);
    scene_turn();
    CHECK_EQ(held_by(a, 1, 5), 0);
    CHECK_EQ(status_of(a).open_predictions, 0);
    // Its confirmation counts all the same: the new life has computed it.
    worker_confirm(a, 1, 1, 5, 30);
    scene_turn();
    CHECK_EQ(held_by(b, 1, 5), 30);
    scene_close();
}

TEST(a_note_of_a_former_life_is_ignored)
{
    scene_open(2, 4);
    router_at(a)->lives[1] = 4;
    scene_turn();
    router_at(a)->lives[1] = 3;
    router_note(a, 1,
                (struct prefix_note){
                    .kind = PREFIX_NOTE_CONFIRM, .keys = chain_keys(5, 30), .key_count = 30});
    router_at(a)->lives[1] = 4;
    scene_pass(500);
    CHECK_EQ(held_by(b, 1, 5), 0);
    scene_close();
}

TEST(a_note_of_a_backend_that_left_the_fleet_is_ignored)
{
    scene_open(2, 4);
    scene.engine_count = 3;
    scene_turn();
    router_note(a, 3,
                (struct prefix_note){
                    .kind = PREFIX_NOTE_CONFIRM, .keys = chain_keys(5, 30), .key_count = 30});
    router_note(a, 9, (struct prefix_note){.kind = PREFIX_NOTE_EMPTIED});
    scene_turn();
    CHECK_EQ(held_by(b, 3, 5), 0);
    CHECK_EQ(status_of(a).notes, 2);
    scene_close();
}

TEST(a_backend_that_only_one_router_has_changes_nothing_at_the_other)
{
    scene_open(2, 2);
    replica_set_backend(router_at(a)->replica, scene_identity(9), 9, 0);
    worker_confirm(a, 9, 0, 5, 30);
    worker_session(a, 9, 99, UINT32_MAX);
    replica_pump(router_at(a)->replica);
    scene_deliver();
    CHECK_EQ(held_by(b, 9, 5), 0);
    CHECK_EQ(session_engine(b, 99), UINT32_MAX);
    CHECK_EQ(status_of(b).malformed, 0);
    scene_close();
}

// Pods come and go under new addresses: the fleet of one day is not that of the next.
static void router_have_fleet(uint32_t i, uint32_t first, uint32_t count)
{
    struct replica *replica = router_at(i)->replica;
    replica_set_backend(replica, scene_identity(0), 0, 0);
    for (uint32_t k = 0; k < count; k++) {
        replica_set_backend(replica, scene_identity(first + k), 1 + (first + k) % 100, 0);
    }
    replica_end_backends(replica);
}

TEST(new_backends_take_the_places_of_those_that_left_long_ago)
{
    enum { fleet = 7, changes = 400 }; // 2,800 backends, and 400 places
    scene_open(2, 1);
    replica_set_load(router_at(a)->replica, scene_identity(0),
                     &(struct record_load){.requests = 5});
    for (uint32_t change = 0; change < changes; change++) {
        uint32_t first = 1 + change * fleet;
        uint32_t slot = 1 + first % 100;
        router_have_fleet(a, first, fleet);
        router_have_fleet(b, first, fleet);
        replica_set_load(router_at(a)->replica, scene_identity(first),
                         &(struct record_load){.requests = 1 + change});
        replica_pump(router_at(a)->replica);
        scene_deliver();
        CHECK_EQ(router_at(b)->others[slot].requests, 1 + change);
        CHECK_EQ(router_at(b)->others[0].requests, 5);
        replica_set_load(router_at(a)->replica, scene_identity(first),
                         &(struct record_load){.requests = change % 3});
        replica_pump(router_at(a)->replica);
        scene_deliver();
        CHECK_EQ(router_at(b)->others[slot].requests, change % 3);
    }
    router_part(a, b);
    CHECK_EQ(router_at(b)->others[0].requests, 0);
    CHECK_EQ(status_of(b).peers[0].requests, 0);
    scene_close();
}

TEST(routers_that_hash_prompts_differently_share_nothing)
{
    scene = (struct scene){.engine_count = 2, .now_ms = 50000};
    router_open_in(a, 7);
    router_open_in(b, 8);
    router_meet(a, b);
    router_at(a)->own[1] = (struct record_load){.requests = 3};
    worker_confirm(a, 1, 0, 5, 30);
    scene_pass(3000);
    CHECK_EQ(held_by(b, 1, 5), 0);
    CHECK_EQ(router_at(b)->others[1].requests, 0);
    CHECK(status_of(b).foreign > 0);
    CHECK_EQ(status_of(b).batches_taken, 0);
    CHECK_EQ(status_of(b).malformed, 0);
    scene_close();
}

TEST(more_than_a_frame_holds_goes_into_several)
{
    scene_open(2, 4);
    uint64_t before = status_of(a).batches_sent;
    for (uint32_t chain = 0; chain < 200; chain++) {
        worker_confirm(a, chain % 4, 0, 1000 + chain, 100);
    }
    scene_turn();
    CHECK(status_of(a).batches_sent > before + 4);
    for (uint32_t chain = 0; chain < 200; chain++) {
        CHECK_EQ(confirmed_by(b, chain % 4, 1000 + chain), 100);
    }
    CHECK_EQ(status_of(b).gaps, 0);
    CHECK_EQ(status_of(b).malformed, 0);
    scene_close();
}

TEST(more_backends_than_a_frame_names_go_into_several)
{
    scene_open(2, scene_engine_max);
    for (uint32_t engine = 0; engine < scene_engine_max; engine++) {
        router_at(a)->own[engine] = (struct record_load){.requests = engine + 1};
        worker_confirm(a, engine, 0, engine, 3);
    }
    scene_turn();
    for (uint32_t engine = 0; engine < scene_engine_max; engine++) {
        CHECK_EQ(router_at(b)->others[engine].requests, engine + 1);
        CHECK_EQ(held_by(b, engine, engine), 3);
    }
    CHECK_EQ(status_of(b).malformed, 0);
    scene_close();
}

TEST(a_chain_longer_than_a_record_loses_its_end_alone)
{
    scene_open(2, 2);
    static uint64_t keys[prefix_tap_keys_max];
    memcpy(keys, chain_keys(3, prefix_tap_keys_max), sizeof(keys));
    router_note(a, 1,
                (struct prefix_note){
                    .kind = PREFIX_NOTE_CONFIRM, .keys = keys, .key_count = prefix_tap_keys_max});
    scene_turn();
    CHECK_EQ(hit_of(b, 1, keys, prefix_tap_keys_max).confirmed, key_chain_new_max);
    CHECK_EQ(status_of(b).malformed, 0);
    scene_close();
}

TEST(more_predictions_than_a_record_names_stay_open)
{
    scene_open(2, 2);
    for (uint64_t number = 1; number <= frame_open_max + 1; number++) {
        worker_predict(a, 1, number, (uint32_t)(number % 50), 2);
    }
    scene_pass(5000);
    CHECK_EQ(status_of(b).open_predictions, frame_open_max + 1);
    scene_close();
}

TEST(a_router_without_a_place_is_ignored_until_another_has_left)
{
    scene_open(1, 2);
    struct replica *replica = router_at(a)->replica;
    for (uint64_t id = 100; id < 100 + replica_peer_max; id++) {
        replica_peer_came(replica, id);
    }
    CHECK_EQ(status_of(a).peer_count, replica_peer_max);
    replica_peer_came(replica, 500);
    CHECK_EQ(status_of(a).peer_count, replica_peer_max);
    replica_take(replica, 500, slice_of((const uint8_t *)"x", 1));
    CHECK_EQ(status_of(a).malformed, 0);
    scene_set_now(scene.now_ms + 10);
    replica_peer_left(replica, 105);
    scene_set_now(scene.now_ms + 10);
    replica_peer_left(replica, 103);
    replica_peer_came(replica, 500);
    struct replica_status status = status_of(a);
    CHECK_EQ(status.peer_count, replica_peer_max);
    // It has the place of the router that left first.
    bool has_103 = false;
    bool has_105 = false;
    bool has_500 = false;
    for (uint32_t i = 0; i < status.peer_count; i++) {
        has_103 |= status.peers[i].router == 103;
        has_105 |= status.peers[i].router == 105;
        has_500 |= status.peers[i].router == 500 && status.peers[i].is_there;
    }
    CHECK(has_103 && !has_105 && has_500);
    scene_close();
}

TEST(no_router_is_its_own_peer)
{
    scene_open(1, 2);
    replica_peer_came(router_at(a)->replica, router_at(a)->id);
    replica_peer_came(router_at(a)->replica, 0);
    replica_peer_left(router_at(a)->replica, 44);
    CHECK_EQ(status_of(a).peer_count, 0);
    scene_close();
}

TEST(a_router_alone_sends_nothing_and_numbers_its_batches_all_the_same)
{
    scene_open(1, 2);
    worker_confirm(a, 1, 0, 5, 30);
    scene_turn();
    CHECK_EQ(router_at(a)->sends, 0);
    CHECK_EQ(status_of(a).batches_sent, 0);
    router_open_in(b, 7);
    router_meet(a, b);
    scene_pass(200);
    CHECK_EQ(status_of(b).gaps, 1); // its first batch was not number 1
    scene_pass(2000);
    CHECK_EQ(held_by(b, 1, 5), 30);
    CHECK(!status_of(b).peers[0].has_gap);
    scene_close();
}

TEST(a_batch_that_comes_twice_counts_once)
{
    scene_open(2, 2);
    router_at(a)->own[1] = (struct record_load){.begun_requests = 1};
    scene_turn();
    router_at(a)->own[1] = (struct record_load){.requests = 2, .begun_requests = 3};
    router_pump(a);
    CHECK_EQ(scene.frame_count, 1);
    uint8_t copy[frame_size_max];
    size_t size = scene.frames[0].size;
    memcpy(copy, scene.frames[0].bytes, size);
    scene_deliver();
    uint64_t taken = status_of(b).batches_taken;
    replica_take(router_at(b)->replica, router_at(a)->id, slice_of(copy, size));
    CHECK_EQ(status_of(b).repeated, 1);
    CHECK_EQ(status_of(b).batches_taken, taken);
    CHECK_EQ(router_at(b)->others[1].requests, 2);
    CHECK_EQ(router_at(b)->begun_requests[1], 2);
    scene_close();
}

TEST(frames_of_routers_that_are_not_there_are_ignored)
{
    scene_open(2, 2);
    worker_confirm(a, 1, 0, 5, 30);
    router_pump(a);
    router_part(a, b);
    scene_deliver();
    CHECK_EQ(held_by(b, 1, 5), 0);
    scene_close();
}

TEST(bytes_that_are_no_frame_are_counted_and_change_nothing)
{
    struct rng rng = {.state = 1};
    scene_open(2, 4);
    worker_confirm(a, 1, 0, 5, 30);
    router_at(a)->own[1] = (struct record_load){.requests = 2};
    scene_turn();
    uint64_t before = status_of(b).malformed;
    for (uint32_t round = 0; round < 1000; round++) {
        uint8_t bytes[64];
        for (uint32_t i = 0; i < sizeof(bytes); i++) {
            bytes[i] = (uint8_t)rng_next(&rng);
        }
        bytes[0] = frame_version + 1;
        replica_take(router_at(b)->replica, router_at(a)->id, slice_of(bytes, rng_below(&rng, 64)));
    }
    CHECK_EQ(status_of(b).malformed, before + 1000);
    CHECK_EQ(held_by(b, 1, 5), 30);
    CHECK_EQ(router_at(b)->others[1].requests, 2);
    scene_close();
}

TEST(a_frame_that_breaks_off_is_taken_up_to_there_and_the_rest_is_missing)
{
    scene_open(2, 4);
    worker_confirm(a, 1, 0, 5, 30);
    worker_confirm(a, 1, 0, 6, 30);
    router_pump(a);
    CHECK_EQ(scene.frame_count, 1);
    scene.frames[0].size -= 4;
    scene_deliver();
    CHECK_EQ(held_by(b, 1, 5), 30);
    CHECK_EQ(held_by(b, 1, 6), 0);
    CHECK_EQ(status_of(b).malformed, 1);
    CHECK(status_of(b).peers[0].has_gap);
    scene_pass(3000);
    CHECK_EQ(held_by(b, 1, 6), 30);
    CHECK(!status_of(b).peers[0].has_gap);
    scene_close();
}

TEST(a_batch_that_finds_no_room_is_counted)
{
    scene_open(2, 2);
    router_at(a)->fails_to_send = true;
    worker_confirm(a, 1, 0, 5, 30);
    scene_turn();
    CHECK_EQ(status_of(a).batches_dropped, 1);
    router_at(a)->fails_to_send = false;
    scene_pass(4000);
    CHECK_EQ(held_by(b, 1, 5), 30);
    scene_close();
}

TEST(the_status_says_what_each_peer_has_told)
{
    scene_open(2, 2);
    router_at(a)->own[0] = (struct record_load){.requests = 2};
    router_at(a)->own[1] = (struct record_load){.requests = 5};
    scene_pass(100);
    struct replica_status status = status_of(b);
    CHECK_EQ(status.peer_count, 1);
    CHECK_EQ(status.peers[0].router, router_at(a)->id);
    CHECK(status.peers[0].is_there);
    CHECK_EQ(status.peers[0].requests, 7);
    CHECK(status.peers[0].batches > 0);
    CHECK(status.peers[0].records >= status.peers[0].batches);
    CHECK(!status.is_joining);
    CHECK(status.memory > 0);
    scene_close();
}

// A batch of router `from` that its thread never sent.
static void take_forged(uint32_t i, uint32_t from, uint64_t sequence, uint64_t position)
{
    static struct frame_writer writer;
    static uint8_t bytes[frame_size_max];
    struct key_window window = {.bits = 12, .end = position};
    frame_writer_begin(&writer, &window);
    size_t size = frame_writer_end(
        &writer, &(struct frame_head){.kind = FRAME_BATCH, .space = 7, .sequence = sequence},
        bytes);
    replica_take(router_at(i)->replica, router_at(from)->id, slice_of(bytes, size));
}

TEST(a_forged_number_of_a_batch_is_outlived_by_the_true_ones)
{
    scene_open(2, 4);
    take_forged(b, a, UINT64_MAX, 0);
    worker_confirm(a, 1, 0, 5, 30);
    for (uint32_t i = 0; i < 100; i++) {
        router_at(a)->own[1].requests = 1 + i;
        scene_pass(50);
    }
    CHECK_EQ(router_at(b)->others[1].requests, 100);
    CHECK_EQ(held_by(b, 1, 5), 30); // by a snapshot
    uint64_t asked = status_of(b).snapshots_asked;
    scene_pass(20000);
    CHECK_EQ(status_of(b).snapshots_asked, asked);
    CHECK(!status_of(b).peers[0].has_gap);
    scene_close();
}

TEST(a_forged_position_of_a_window_is_outlived_by_the_true_one)
{
    scene_open(2, 4);
    take_forged(b, a, status_of(b).peers[0].batches + 1, UINT64_MAX / 2 - 1);
    router_at(a)->own[1].requests = 3;
    scene_pass(5000);
    CHECK_EQ(router_at(b)->others[1].requests, 3);
    worker_confirm(a, 1, 0, 5, 30);
    scene_pass(5000);
    CHECK_EQ(held_by(b, 1, 5), 30);
    CHECK_EQ(status_of(b).malformed, 0);
    scene_close();
}

TEST(a_forged_number_of_a_question_stops_no_snapshot)
{
    uint8_t bytes[frame_size_max];
    scene_open(2, 4);
    size_t size = frame_write_ask(7, UINT64_MAX, 0, bytes);
    replica_take(router_at(a)->replica, router_at(b)->id, slice_of(bytes, size));
    scene_pass(1000);
    uint64_t taken = status_of(b).snapshots_taken;
    router_at(a)->is_mute = true;
    worker_confirm(a, 1, 0, 5, 30);
    scene_turn();
    router_at(a)->is_mute = false;
    scene_pass(5000);
    CHECK_EQ(status_of(b).snapshots_taken, taken + 1);
    CHECK_EQ(held_by(b, 1, 5), 30);
    scene_close();
}

static void take_flipped_frames(uint64_t seed)
{
    struct rng rng = {.state = seed};
    scene_open(2, 4);
    for (uint32_t round = 0; round < 100; round++) {
        uint64_t number = 1 + rng_below(&rng, 30);
        uint32_t engine = rng_below(&rng, 4);
        uint32_t chain = rng_below(&rng, 10);
        router_at(a)->own[engine].requests = rng_below(&rng, 9);
        worker_predict(a, engine, number, chain, 1 + rng_below(&rng, 60));
        worker_confirm(a, engine, number, chain, 1 + rng_below(&rng, 60));
        router_pump(a);
        for (uint32_t i = 0; i < scene.frame_count; i++) {
            struct scene_frame *frame = &scene.frames[i];
            frame->bytes[rng_below(&rng, (uint32_t)frame->size)] ^=
                (uint8_t)(1U << rng_below(&rng, 8));
        }
        scene_deliver();
        scene_pass(50);
    }
    router_part(a, b);
    for (uint32_t engine = 0; engine < 4; engine++) {
        CHECK_EQ(router_at(b)->others[engine].requests, 0);
    }
    CHECK_EQ(status_of(b).open_predictions, 0);
    scene_close();
}

// Whatever is flipped in real frames: nothing asserts, and the loads can be taken back to zero.
TEST(flipped_frames_leave_a_router_that_goes_on)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        take_flipped_frames(seed);
    }
}

TEST(the_latest_setting_counts_whoever_heard_of_it_first)
{
    scene_open(3, 4);
    replica_set(router_at(0)->replica, scene_identity(0), SETTING_WEIGHT, 5);
    replica_set(router_at(1)->replica, scene_identity(0), SETTING_DRAINING, 1);
    scene_pass(200);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(i == 0 || router_at(i)->settings[0][SETTING_WEIGHT] == 5);
        CHECK(i == 1 || router_at(i)->settings[0][SETTING_DRAINING] == 1);
    }
    replica_set(router_at(2)->replica, scene_identity(0), SETTING_WEIGHT, 9);
    scene_pass(200);
    CHECK_EQ(router_at(0)->settings[0][SETTING_WEIGHT], 9);
    CHECK_EQ(router_at(1)->settings[0][SETTING_WEIGHT], 9);
    scene_close();
}

TEST(speeds_that_one_router_measured_reach_the_others_as_they_are)
{
    scene_open(2, 4);
    replica_tell_speed(router_at(0)->replica, scene_identity(1), 0.05F, 0);
    scene_pass(200);
    CHECK(fabsf(router_at(1)->prefill_ms[1] - 0.05F) < 1e-6F);
    CHECK(!(router_at(1)->step_ms[1] > 0));
    replica_tell_speed(router_at(0)->replica, scene_identity(1), -1, 1e9F);
    scene_pass(200);
    CHECK(fabsf(router_at(1)->prefill_ms[1] - 0.05F) < 1e-6F);
    scene_close();
}

TEST(loads_survive_that_many_backends_come_and_go)
{
    scene_open(2, 2);
    router_at(a)->own[0] = (struct record_load){.requests = 3, .queued_tokens = 4000};
    scene_turn();
    CHECK_EQ(router_at(b)->others[0].requests, 3);
    for (uint64_t identity = 10000; identity < 10200; identity++) {
        for (uint32_t i = 0; i < 2; i++) {
            struct replica *replica = router_at(i)->replica;
            replica_set_backend(replica, scene_identity(0), 0, 0);
            replica_set_backend(replica, identity, 1, 0);
            replica_end_backends(replica);
        }
    }
    CHECK_EQ(router_at(b)->others[0].requests, 3);
    router_at(a)->own[0].requests = 5;
    scene_pass(100);
    CHECK_EQ(router_at(b)->others[0].requests, 5);
    router_part(a, b);
    CHECK_EQ(router_at(b)->others[0].requests, 0);
    scene_close();
}
