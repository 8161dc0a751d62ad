// SPDX-License-Identifier: Apache-2.0
//
// First the limits and the times one by one; then random histories against a twin that keeps plain
// lists and adds everything up afresh.

#include "policy/baseline/preble_window.h"

#include "base/rng.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

static struct preble_window *window_create(void)
{
    struct preble_window *window = calloc(1, sizeof(*window));
    ASSERT(window != NULL);
    return window;
}

static void add(struct preble_window *window, uint64_t key, uint64_t identity, uint64_t now_ms)
{
    struct preble_note note = {
        .key = key, .tokens = 100, .identity = identity, .is_miss = true, .now_ms = now_ms};
    preble_window_add(window, &note);
}

TEST(fits_a_megabyte)
{
    CHECK(sizeof(struct preble_window) <= 1U << 20);
}

TEST(work_is_misses_times_tokens_shared_by_the_places)
{
    struct preble_window *window = window_create();
    add(window, 7, 1, 0);
    add(window, 7, 1, 0);
    CHECK_EQ(preble_window_work(window, 1), 200);
    add(window, 7, 2, 0);
    CHECK_EQ(preble_window_work(window, 1), 150);
    CHECK_EQ(preble_window_work(window, 2), 150);
    add(window, 8, 2, 0);
    CHECK_EQ(preble_window_work(window, 2), 250);
    CHECK_EQ(preble_window_work(window, 3), 0);

    struct preble_note hit = {.key = 7, .tokens = 5, .identity = 1};
    preble_window_add(window, &hit);
    CHECK_EQ(preble_window_work(window, 1), 150);
    CHECK_EQ(preble_window_find(window, 7)->tokens, 100);
    CHECK_EQ(preble_window_find(window, 7)->request_count, 4);
    CHECK_EQ(preble_window_find(window, 7)->miss_count, 3);
    free(window);
}

TEST(a_request_counts_for_three_minutes_and_a_prefix_as_long_as_its_last)
{
    struct preble_window *window = window_create();
    add(window, 7, 1, 1000);
    add(window, 7, 1, 2000);
    preble_window_expire(window, 1000 + 180000);
    CHECK_EQ(preble_window_work(window, 1), 200);
    preble_window_expire(window, 1000 + 180001);
    CHECK_EQ(preble_window_work(window, 1), 100);
    preble_window_expire(window, 2000 + 180000);
    CHECK(preble_window_find(window, 7) != NULL);
    preble_window_expire(window, 2000 + 180001);
    CHECK(preble_window_find(window, 7) == NULL);
    CHECK_EQ(preble_window_work(window, 1), 0);
    CHECK_EQ(window->request_count, 0);
    free(window);
}

TEST(the_oldest_request_leaves_a_full_window)
{
    struct preble_window *window = window_create();
    for (uint32_t i = 0; i < preble_requests_max + 3; i++) {
        add(window, 1000 + i, 1 + i % 2, 0);
    }
    CHECK_EQ(window->request_count, preble_requests_max);
    CHECK(preble_window_find(window, 1002) == NULL);
    CHECK(preble_window_find(window, 1003) != NULL);
    CHECK_EQ(preble_window_work(window, 1) + preble_window_work(window, 2),
             100.0 * preble_requests_max);
    free(window);
}

TEST(a_prefix_keeps_its_last_eight_places)
{
    struct preble_window *window = window_create();
    for (uint64_t target = 1; target <= 9; target++) {
        add(window, 7, target, 0);
    }
    CHECK_EQ(preble_window_find(window, 7)->place_count, 8);
    CHECK_EQ(preble_window_work(window, 1), 0);
    for (uint64_t target = 2; target <= 9; target++) {
        CHECK(fabs(preble_window_work(window, target) - 900.0 / 8) < 1e-9);
    }
    free(window);
}

TEST(a_prefix_is_not_placed_when_there_are_too_many_targets)
{
    struct preble_window *window = window_create();
    for (uint64_t i = 0; i < preble_targets_max / 2; i++) {
        add(window, i, 10000 + 2 * i, 0);
        add(window, i, 10001 + 2 * i, 0);
    }
    // The window is full: one request leaves, and its prefix stays.
    add(window, 1, 5, 0);
    CHECK_EQ(preble_window_work(window, 5), 0);
    CHECK_EQ(preble_window_find(window, 1)->place_count, 2);
    CHECK_EQ(preble_window_find(window, 1)->request_count, 3);
    free(window);
}

TEST(moving_takes_the_work_along_and_copying_shares_it)
{
    struct preble_window *window = window_create();
    add(window, 7, 1, 0);
    add(window, 7, 2, 0);
    struct preble_prefix *prefix = preble_window_find(window, 7);
    preble_window_move(window, prefix, 1, 3);
    CHECK_EQ(preble_window_work(window, 1), 0);
    CHECK_EQ(preble_window_work(window, 2), 100);
    CHECK_EQ(preble_window_work(window, 3), 100);
    CHECK_EQ(prefix->moved_from, 1);
    CHECK_EQ(prefix->moved_to, 3);

    preble_window_move(window, prefix, 0, 4);
    CHECK_EQ(preble_prefix_work(prefix) * 3, 200);
    CHECK_EQ(prefix->moved_from, 0);
    CHECK_EQ(prefix->moved_to, 4);
    free(window);
}

TEST(the_cheapest_to_move_has_requests_work_and_only_the_one_place)
{
    struct preble_window *window = window_create();
    uint32_t count;
    CHECK(preble_window_cheapest(window, 1, 2, &count) == NULL);
    CHECK_EQ(count, 0);

    add(window, 10, 1, 0); // one request only
    add(window, 11, 1, 0); // on both
    add(window, 11, 2, 0);
    add(window, 12, 2, 0); // elsewhere
    add(window, 12, 2, 0);
    struct preble_note hit = {.key = 13, .tokens = 5, .identity = 1};
    preble_window_add(window, &hit); // adds no work
    preble_window_add(window, &hit);
    CHECK(preble_window_cheapest(window, 1, 2, &count) == NULL);

    for (int i = 0; i < 3; i++) {
        add(window, 14, 1, 0);
    }
    add(window, 15, 1, 0);
    add(window, 15, 1, 0);
    CHECK_EQ(preble_window_cheapest(window, 1, 2, &count)->key, 15);
    CHECK_EQ(count, 2);
    free(window);
}

// The twin: a list of all requests, and the places of every prefix.
enum { twin_keys = 24, twin_targets = 12, twin_requests_max = 4000 };

struct twin {
    struct preble_note requests[twin_requests_max];
    uint32_t request_count;
    uint32_t oldest;
    uint32_t tokens[twin_keys];
    uint64_t places[twin_keys][preble_places_max];
    uint32_t place_count[twin_keys];
};

static uint32_t twin_requests_of(const struct twin *twin, uint64_t key, bool misses_only)
{
    uint32_t count = 0;
    for (uint32_t i = twin->oldest; i < twin->request_count; i++) {
        const struct preble_note *request = &twin->requests[i];
        count += request->key == key && (!misses_only || request->is_miss);
    }
    return count;
}

static void twin_expire(struct twin *twin, uint64_t now_ms)
{
    while (twin->oldest < twin->request_count &&
           twin->requests[twin->oldest].now_ms + preble_window_ms < now_ms) {
        twin->oldest++;
    }
    for (uint64_t key = 0; key < twin_keys; key++) {
        if (twin_requests_of(twin, key, false) == 0) {
            twin->place_count[key] = 0;
        }
    }
}

static void twin_unplace(struct twin *twin, uint64_t key, uint64_t identity)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < twin->place_count[key]; i++) {
        if (twin->places[key][i] != identity) {
            twin->places[key][kept++] = twin->places[key][i];
        }
    }
    twin->place_count[key] = kept;
}

static void twin_place(struct twin *twin, uint64_t key, uint64_t identity)
{
    for (uint32_t i = 0; i < twin->place_count[key]; i++) {
        if (twin->places[key][i] == identity) {
            return;
        }
    }
    if (twin->place_count[key] == preble_places_max) {
        twin_unplace(twin, key, twin->places[key][0]);
    }
    twin->places[key][twin->place_count[key]++] = identity;
}

static void twin_add(struct twin *twin, const struct preble_note *note)
{
    if (twin_requests_of(twin, note->key, false) == 0) {
        twin->tokens[note->key] = note->tokens;
    }
    twin->requests[twin->request_count++] = *note;
    twin_place(twin, note->key, note->identity);
}

static double twin_work(const struct twin *twin, uint64_t identity)
{
    double work = 0;
    for (uint64_t key = 0; key < twin_keys; key++) {
        for (uint32_t i = 0; i < twin->place_count[key]; i++) {
            if (twin->places[key][i] == identity) {
                work += (double)twin->tokens[key] * twin_requests_of(twin, key, true) /
                        twin->place_count[key];
            }
        }
    }
    return work;
}

static bool twin_agrees(const struct twin *twin, struct preble_window *window)
{
    for (uint64_t identity = 1; identity <= twin_targets; identity++) {
        if (fabs(twin_work(twin, identity) - preble_window_work(window, identity)) > 1e-6) {
            return false;
        }
    }
    for (uint64_t key = 0; key < twin_keys; key++) {
        const struct preble_prefix *prefix = preble_window_find(window, key);
        uint32_t count = twin_requests_of(twin, key, false);
        if ((prefix != NULL ? prefix->request_count : 0) != count) {
            return false;
        }
    }
    return true;
}

TEST(agrees_with_a_twin_that_adds_up_afresh)
{
    static struct twin twin;
    struct preble_window *window = window_create();
    struct rng rng = {.state = 9};
    uint64_t now_ms = 0;

    while (twin.request_count < twin_requests_max) {
        // Now and then a pause after which the window is empty.
        now_ms += rng_below(&rng, 200) == 0 ? 400000 : rng_below(&rng, 4000);
        preble_window_expire(window, now_ms);
        twin_expire(&twin, now_ms);

        struct preble_note note = {
            .key = rng_below(&rng, twin_keys),
            .tokens = rng_below(&rng, 10000),
            .identity = 1 + rng_below(&rng, twin_targets),
            .is_miss = rng_below(&rng, 2) == 0,
            .now_ms = now_ms,
        };
        struct preble_prefix *prefix = preble_window_find(window, note.key);
        if (prefix != NULL && rng_below(&rng, 8) == 0) {
            uint64_t from = rng_below(&rng, twin_targets + 1);
            preble_window_move(window, prefix, from, note.identity);
            twin_unplace(&twin, note.key, from);
            twin_place(&twin, note.key, note.identity);
        } else {
            preble_window_add(window, &note);
            twin_add(&twin, &note);
        }
        CHECK(twin_agrees(&twin, window));
    }
    free(window);
}
