// SPDX-License-Identifier: Apache-2.0
//
// The index beside the state that it is a projection of.

#include "replica/projection.h"

#include "base/rng.h"
#include "replica/replica.h"
#include "test.h"

enum { slots = 4, us = 1, other = 2, third = 3, length = 40 };

static struct prefix_index *warm;
static struct projection projection;
static uint32_t applied;
static uint64_t chain[length];

static void apply(void *owner, const struct prefix_update *update)
{
    struct prefix_span span = {.keys = update->keys,
                               .key_count = update->key_count,
                               .block_tokens = update->block_tokens,
                               .backend = update->backend,
                               .now_s = update->now_s,
                               .residency = update->residency};
    ASSERT(owner == &warm && update->backend < slots);
    applied++;
    switch (update->verb) {
    case PREFIX_STORE:
        prefix_index_store(warm, &span);
        break;
    case PREFIX_DROP:
        prefix_index_drop(warm, update->backend, update->residency, update->keys, update->key_count,
                          update->from);
        break;
    case PREFIX_FORGET:
        prefix_index_forget(warm, update->backend);
        break;
    case PREFIX_FORGET_OLDER:
        prefix_index_forget_older(warm, update->backend, update->age);
        break;
    case PREFIX_MERGE:
        prefix_index_merge(warm, &span, update->age, update->age_s);
        break;
    }
}

static const struct replica_sink sink = {.apply = apply};

static struct shared_backend *backend_of(uint64_t identity)
{
    return projection_find(&projection, identity);
}

static void set_up_with(uint32_t open_max)
{
    warm =
        prefix_index_create(&(struct prefix_limits){.memory = 2 << 20, .backend_count_max = slots});
    ASSERT(warm != NULL &&
           projection_open(&projection, &(struct projection_limits){.index = warm,
                                                                    .slot_max = slots,
                                                                    .backend_max = 8,
                                                                    .open_max = open_max,
                                                                    .session_max = 64}));
    projection.sink = &sink;
    projection.owner = &warm;
    projection.now_ms = 100000;
    projection.wall_ms = 5;
    applied = 0;
    for (uint32_t i = 0; i < length; i++) {
        chain[i] = rng_mix(i + 1);
    }
    for (uint32_t slot = 0; slot < slots; slot++) {
        projection_add(&projection, 100 + slot)->slot = slot;
    }
}

static void set_up(void)
{
    set_up_with(256);
}

static void tear_down(void)
{
    projection_close(&projection);
    prefix_index_destroy(&warm);
}

static struct prefix_hit hit_of(uint32_t slot, const uint64_t *keys, uint32_t key_count)
{
    struct prefix_hit hits[slots];
    uint32_t count = prefix_index_match(warm, keys, key_count, (uint32_t)(projection.now_ms / 1000),
                                        hits, slots);
    for (uint32_t i = 0; i < count; i++) {
        if (hits[i].backend == slot) {
            return hits[i];
        }
    }
    return (struct prefix_hit){0};
}

static uint32_t held(uint32_t slot)
{
    return hit_of(slot, chain, length).blocks;
}

static uint32_t confirmed(uint32_t slot)
{
    return hit_of(slot, chain, length).confirmed;
}

static struct frame_record record_of(enum record_kind kind, uint64_t number, uint32_t key_count)
{
    return (struct frame_record){
        .kind = kind, .number = number, .block_tokens = 16, .keys = chain, .key_count = key_count};
}

static void predict(uint64_t router, uint32_t slot, uint64_t number, uint32_t key_count)
{
    struct frame_record record = record_of(RECORD_PREDICT, number, key_count);
    projection_predict(&projection, router, backend_of(100 + slot), &record, router == us);
}

static void confirm(uint64_t router, uint32_t slot, uint64_t number, uint32_t key_count)
{
    struct frame_record record = record_of(RECORD_CONFIRM, number, key_count);
    projection_confirm(&projection, router, backend_of(100 + slot), &record, router == us);
}

TEST(a_prediction_of_another_router_is_in_the_index_until_it_is_withdrawn)
{
    set_up();
    predict(other, 1, 7, 20);
    CHECK_EQ(held(1), 20);
    CHECK_EQ(confirmed(1), 0);
    CHECK_EQ(held(2), 0);
    projection_withdraw(&projection, other, 8);
    projection_withdraw(&projection, third, 7);
    CHECK_EQ(held(1), 20);
    projection_withdraw(&projection, other, 7);
    CHECK_EQ(held(1), 0);
    projection_withdraw(&projection, other, 7);
    CHECK_EQ(projection.open.count, 0);
    tear_down();
}

TEST(our_own_prediction_changes_nothing_in_the_index)
{
    set_up();
    predict(us, 1, 7, 20);
    confirm(us, 1, 0, 20);
    CHECK_EQ(applied, 0);
    CHECK_EQ(projection.open.count, 1);
    tear_down();
}

// The worker stored it before, and the index has forgotten it since.
TEST(our_own_prediction_is_put_back_when_a_life_has_just_ended)
{
    set_up();
    struct shared_backend *backend = backend_of(101);
    projection_follow(&projection, backend, life_hear(&backend->life, 5, projection.now_ms));
    predict(us, 1, 7, 20);
    CHECK_EQ(held(1), 20);
    projection.now_ms += 1000;
    uint32_t before = applied;
    predict(us, 1, 8, 20);
    CHECK_EQ(applied, before);
    tear_down();
}

TEST(a_prediction_without_number_or_keys_is_ignored)
{
    set_up();
    predict(other, 1, 0, 20);
    predict(other, 1, 7, 0);
    CHECK_EQ(applied, 0);
    CHECK_EQ(projection.open.count, 0);
    tear_down();
}

TEST(a_withdrawal_puts_back_what_others_predict)
{
    set_up();
    predict(other, 1, 1, 30);
    predict(third, 1, 1, 12);
    predict(third, 2, 2, 35);
    projection_withdraw(&projection, other, 1);
    CHECK_EQ(held(1), 12);
    CHECK_EQ(held(2), 35);
    projection_withdraw(&projection, third, 1);
    CHECK_EQ(held(1), 0);
    tear_down();
}

TEST(a_withdrawal_keeps_confirmed_blocks_and_their_bits)
{
    set_up();
    confirm(other, 1, 0, 10);
    predict(other, 1, 1, 30);
    predict(third, 1, 1, 20);
    projection_withdraw(&projection, other, 1);
    CHECK_EQ(held(1), 20);
    CHECK_EQ(confirmed(1), 10);
    tear_down();
}

TEST(a_confirmation_ends_the_prediction_of_its_number_alone)
{
    set_up();
    predict(other, 1, 1, 30);
    predict(other, 1, 2, 20);
    confirm(other, 1, 1, 30);
    CHECK_EQ(confirmed(1), 30);
    CHECK_EQ(projection.open.count, 1);
    tear_down();
}

TEST(a_confirmation_that_is_shorter_takes_the_rest_of_the_prediction_back)
{
    set_up();
    predict(other, 1, 1, 30);
    confirm(other, 1, 1, 10);
    CHECK_EQ(held(1), 10);
    tear_down();
}

TEST(a_confirmation_at_another_backend_takes_the_prediction_back)
{
    set_up();
    predict(other, 1, 1, 30);
    confirm(other, 2, 1, 30);
    CHECK_EQ(held(1), 0);
    CHECK_EQ(confirmed(2), 30);
    tear_down();
}

TEST(a_backend_that_refuses_us_is_not_believed)
{
    set_up();
    struct shared_backend *backend = backend_of(101);
    (void)life_count(&backend->life, 1, projection.now_ms);
    predict(other, 1, 1, 30);
    confirm(other, 1, 0, 30);
    struct frame_record hold = record_of(RECORD_HOLD, 0, 30);
    projection_hold(&projection, backend, &hold);
    CHECK_EQ(held(1), 0);
    CHECK_EQ(projection.open.count, 0);
    tear_down();
}

TEST(an_ended_life_is_forgotten_with_its_predictions)
{
    set_up();
    struct shared_backend *backend = backend_of(101);
    predict(other, 1, 1, 30);
    predict(other, 2, 2, 30);
    confirm(third, 1, 0, 10);
    projection_follow(&projection, backend, life_empty(&backend->life, projection.now_ms));
    CHECK_EQ(held(1), 0);
    CHECK_EQ(held(2), 30);
    CHECK_EQ(projection.open.count, 1);
    CHECK_EQ(projection.eras, 1);
    // The late withdrawal of an earlier life takes nothing from the present one.
    predict(third, 1, 5, 30);
    projection_withdraw(&projection, other, 1);
    CHECK_EQ(held(1), 30);
    tear_down();
}

TEST(a_rejoined_life_makes_the_router_behind)
{
    set_up();
    struct shared_backend *backend = backend_of(101);
    projection_follow(&projection, backend, LIFE_GOES_ON);
    CHECK(!projection.is_behind);
    projection_follow(&projection, backend, LIFE_REJOINED);
    CHECK(projection.is_behind);
    CHECK(backend->is_stale);
    CHECK_EQ(applied, 0);
    tear_down();
}

TEST(a_backend_without_a_slot_changes_no_index)
{
    set_up();
    struct shared_backend *backend = projection_add(&projection, 500);
    struct frame_record record = record_of(RECORD_PREDICT, 1, 20);
    CHECK_EQ(backend->slot, no_slot);
    projection_predict(&projection, other, backend, &record, false);
    projection_evict(&projection, backend, 5);
    projection_withdraw(&projection, other, 1);
    CHECK_EQ(applied, 0);
    tear_down();
}

TEST(the_table_of_backends_has_a_limit)
{
    set_up();
    for (uint64_t i = 0; i < 4; i++) {
        CHECK(projection_add(&projection, 1000 + i) != NULL);
    }
    CHECK(projection_add(&projection, 2000) == NULL);
    CHECK(projection_find(&projection, 2000) == NULL);
    CHECK(projection_add(&projection, 1003) == projection_find(&projection, 1003));
    CHECK(projection_find(&projection, 0) == NULL);
    CHECK(projection_add(&projection, 0) == NULL);
    tear_down();
}

TEST(all_predictions_of_a_router_end_with_it)
{
    set_up();
    for (uint64_t i = 1; i <= 20; i++) {
        predict(i % 2 == 0 ? other : third, 1, i, 1 + (uint32_t)i);
    }
    projection_withdraw_all(&projection, other);
    CHECK_EQ(held(1), 20); // of prediction 19
    CHECK_EQ(projection.open.count, 10);
    projection_withdraw_all(&projection, third);
    CHECK_EQ(held(1), 0);
    tear_down();
}

TEST(a_prediction_that_its_router_no_longer_names_is_withdrawn_after_two_seconds)
{
    static const uint64_t named[] = {2};
    set_up();
    predict(other, 1, 1, 30);
    predict(other, 2, 2, 30);
    predict(third, 3, 1, 30);
    projection.now_ms += 2 * frame_open_ms;
    projection_keep_open(&projection, other, named, 1);
    CHECK_EQ(held(1), 30); // it may be younger than a second at its router
    projection.now_ms += 1;
    projection_keep_open(&projection, other, named, 1);
    CHECK_EQ(held(1), 0);
    CHECK_EQ(held(2), 30);
    CHECK_EQ(held(3), 30);
    tear_down();
}

TEST(a_young_prediction_is_not_named_in_the_first_seconds_of_the_clock_either)
{
    set_up();
    projection.now_ms = 300;
    predict(other, 1, 1, 30);
    projection.now_ms = 500;
    projection_keep_open(&projection, other, NULL, 0);
    CHECK_EQ(held(1), 30);
    tear_down();
}

TEST(the_oldest_prediction_is_taken_back_when_there_are_too_many)
{
    set_up_with(128);
    predict(other, 3, 1000, 30);
    for (uint64_t i = 1; i <= 127; i++) {
        predict(other, 1, i, 1);
    }
    CHECK_EQ(held(3), 30);
    predict(other, 1, 128, 1);
    CHECK_EQ(held(3), 0);
    CHECK_EQ(held(1), 1);
    tear_down();
}

TEST(a_session_is_at_one_backend)
{
    uint64_t key = 42;
    set_up();
    CHECK_EQ(projection_move_session(&projection, backend_of(101), key, 10), 10);
    CHECK_EQ(hit_of(1, &key, 1).blocks, 1);
    CHECK_EQ(projection_move_session(&projection, backend_of(102), key, 12), 12);
    CHECK_EQ(hit_of(1, &key, 1).blocks, 0);
    CHECK_EQ(hit_of(2, &key, 1).blocks, 1);
    CHECK_EQ(projection_move_session(&projection, backend_of(103), key, 11), 0);
    CHECK_EQ(hit_of(3, &key, 1).blocks, 0);
    tear_down();
}

TEST(our_move_is_later_than_all_that_we_heard_of)
{
    uint64_t key = 42;
    set_up();
    projection.wall_ms = 1; // far behind
    CHECK_EQ(projection_move_session(&projection, backend_of(101), key, 1ULL << 40), 1LL << 40);
    uint64_t stamp = projection_move_session(&projection, backend_of(102), key, 0);
    CHECK(stamp > 1ULL << 40);
    CHECK(projection_move_session(&projection, backend_of(103), key, 0) > stamp);
    tear_down();
}

// Or other routers would refuse every later word.
TEST(our_stamp_is_taken_elsewhere_whatever_stamps_were_heard)
{
    uint64_t wall_ms = 1795000000000;
    for (uint32_t bits = 40; bits < 64; bits++) {
        uint64_t key = 42;
        set_up();
        projection.wall_ms = wall_ms;
        (void)projection_move_session(&projection, backend_of(101), key, (UINT64_C(2) << bits) - 2);
        uint64_t stamp = projection_move_session(&projection, backend_of(102), key, 0);
        struct hybrid_clock elsewhere = {0};
        CHECK(hybrid_clock_hear(&elsewhere, stamp, wall_ms));
        tear_down();
    }
}

TEST(a_stamp_beyond_all_time_is_ignored)
{
    uint64_t key = 42;
    set_up();
    CHECK_EQ(projection_move_session(&projection, backend_of(101), key, UINT64_MAX), 0);
    CHECK_EQ(projection_move_session(&projection, backend_of(101), key, UINT64_MAX / 2), 0);
    CHECK_EQ(projection_move_session(&projection, backend_of(101), key, UINT64_MAX / 2 - 1), 0);
    CHECK_EQ(applied, 0);
    CHECK(projection_move_session(&projection, backend_of(102), key, 0) != 0);
    tear_down();
}

// The blocks of a snapshot keep the age that they have at its giver.
TEST(a_block_of_a_snapshot_comes_with_its_age)
{
    uint64_t young[2] = {7, 8};
    set_up();
    confirm(other, 1, 0, 30);
    struct frame_record hold = {
        .kind = RECORD_HOLD, .age = 200, .age_s = 9, .keys = young, .key_count = 2};
    projection_hold(&projection, backend_of(101), &hold);
    CHECK_EQ(hit_of(1, young, 2).confirmed, 2);
    CHECK_EQ(hit_of(1, young, 2).age, 200);
    projection_evict(&projection, backend_of(101), 200);
    CHECK_EQ(hit_of(1, young, 2).blocks, 0);
    tear_down();
}

// The index equals what is confirmed and what is open, whatever comes.
TEST(the_index_is_a_projection_whatever_happens)
{
    enum { numbers = 20 };
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct rng rng = {.state = seed};
        uint32_t shown[slots] = {0};
        uint32_t open[2][numbers] = {0};
        uint32_t at[2][numbers] = {0};
        set_up();
        for (uint32_t round = 0; round < 150; round++) {
            uint32_t router = rng_below(&rng, 2);
            uint32_t number = rng_below(&rng, numbers);
            uint32_t slot = rng_below(&rng, slots);
            uint32_t keys = 1 + rng_below(&rng, length);
            switch (rng_below(&rng, 4)) {
            case 0:
                projection_withdraw(&projection, other + router, 1 + number);
                open[router][number] = 0;
                break;
            case 1:
                slot = open[router][number] > 0 ? at[router][number] : slot;
                confirm(other + router, slot, 1 + number, keys);
                open[router][number] = 0;
                shown[slot] = keys > shown[slot] ? keys : shown[slot];
                break;
            default:
                if (open[router][number] == 0) {
                    predict(other + router, slot, 1 + number, keys);
                    open[router][number] = keys;
                    at[router][number] = slot;
                }
            }
            for (slot = 0; slot < slots; slot++) {
                uint32_t expected = shown[slot];
                for (uint32_t i = 0; i < 2 * numbers; i++) {
                    uint32_t count = open[i / numbers][i % numbers];
                    if (at[i / numbers][i % numbers] == slot && count > expected) {
                        expected = count;
                    }
                }
                CHECK_EQ(held(slot), expected);
                CHECK_EQ(confirmed(slot), shown[slot]);
            }
        }
        tear_down();
    }
}
