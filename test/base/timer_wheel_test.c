// SPDX-License-Identifier: Apache-2.0
//
// The claims one by one, then a random life of many timers against a plain list of due times.

#include "base/timer_wheel.h"

#include "base/rng.h"
#include "test.h"

#include <stdlib.h>

struct probe {
    struct timer timer;
    struct timer_wheel *wheel;
    uint64_t fired_at;
    int fired_count;
};

static void note(struct timer *timer)
{
    struct probe *probe = (struct probe *)timer;
    probe->fired_at = probe->wheel->now_ms;
    probe->fired_count++;
}

TEST(fires_in_the_millisecond_it_is_due_at_any_distance)
{
    static const uint64_t distances[] = {1,      2,        63,       64,       65,
                                         4095,   4096,     4097,     262143,   262144,
                                         262145, 16777215, 16777216, 16777217, 100000000};
    for (size_t i = 0; i < ARRAY_COUNT(distances); i++) {
        struct timer_wheel wheel;
        timer_wheel_init(&wheel, 12345);
        struct probe probe = {.timer = {.fire = note}, .wheel = &wheel};
        timer_wheel_arm(&wheel, &probe.timer, 12345 + distances[i]);

        timer_wheel_advance(&wheel, 12345 + distances[i] - 1);
        CHECK_EQ(probe.fired_count, 0);
        timer_wheel_advance(&wheel, 12345 + distances[i]);
        CHECK_EQ(probe.fired_count, 1);
        CHECK(!timer_is_armed(&probe.timer));
    }
}

TEST(a_time_that_has_passed_means_the_next_millisecond)
{
    struct timer_wheel wheel;
    timer_wheel_init(&wheel, 1000);
    struct probe probe = {.timer = {.fire = note}, .wheel = &wheel};
    timer_wheel_arm(&wheel, &probe.timer, 7);
    timer_wheel_advance(&wheel, 1000);
    CHECK_EQ(probe.fired_count, 0);
    timer_wheel_advance(&wheel, 1001);
    CHECK_EQ(probe.fired_count, 1);
}

TEST(waits_no_longer_than_the_first_timer_needs)
{
    struct timer_wheel wheel;
    timer_wheel_init(&wheel, 0);
    struct probe probe = {.timer = {.fire = note}, .wheel = &wheel};
    CHECK_EQ(timer_wheel_wait_ms(&wheel, 500), 500);
    timer_wheel_arm(&wheel, &probe.timer, 20);
    CHECK_EQ(timer_wheel_wait_ms(&wheel, 500), 20);
    timer_wheel_disarm(&wheel, &probe.timer);
    timer_wheel_advance(&wheel, 21);
    CHECK_EQ(probe.fired_count, 0);
}

static struct timer *victim;
static void disarm_victim(struct timer *timer)
{
    struct probe *probe = (struct probe *)timer;
    probe->fired_count++;
    timer_wheel_disarm(probe->wheel, victim);
}

TEST(a_callback_may_disarm_another_that_is_due_in_the_same_turn)
{
    struct timer_wheel wheel;
    timer_wheel_init(&wheel, 0);
    struct probe a = {.timer = {.fire = disarm_victim}, .wheel = &wheel};
    struct probe b = {.timer = {.fire = note}, .wheel = &wheel};
    victim = &b.timer;
    timer_wheel_arm(&wheel, &b.timer, 5);
    timer_wheel_arm(&wheel, &a.timer, 6);
    timer_wheel_advance(&wheel, 10);
    CHECK_EQ(a.fired_count + b.fired_count, 1 + (b.fired_count != 0));
    CHECK(!timer_is_armed(&b.timer));
}

static void rearm(struct timer *timer)
{
    struct probe *probe = (struct probe *)timer;
    probe->fired_count++;
    timer_wheel_arm(probe->wheel, timer, probe->wheel->now_ms);
}

TEST(a_callback_that_re_arms_cannot_starve_the_loop)
{
    struct timer_wheel wheel;
    timer_wheel_init(&wheel, 0);
    struct probe probe = {.timer = {.fire = rearm}, .wheel = &wheel};
    timer_wheel_arm(&wheel, &probe.timer, 1);
    timer_wheel_advance(&wheel, 100);
    CHECK_EQ(probe.fired_count, 1);
    CHECK(timer_is_armed(&probe.timer));
}

enum { count = 300, rounds = 20000 };

// The first timer that fired and should not have, or the other way round; `count` when none.
static int first_difference(struct probe *probes, uint64_t *due, uint64_t now_ms)
{
    int different = count;
    for (int k = count; k-- > 0;) {
        bool expected = due[k] != 0 && due[k] <= now_ms;
        different = probes[k].fired_count == expected ? different : k;
        probes[k].fired_count = 0;
        due[k] = expected ? 0 : due[k];
    }
    return different;
}

TEST(agrees_with_a_plain_list_over_a_random_life)
{
    struct rng rng = {.state = 3};
    struct timer_wheel wheel;
    timer_wheel_init(&wheel, 99);
    static struct probe probes[count];
    uint64_t due[count] = {0}; // 0: not armed
    for (int i = 0; i < count; i++) {
        probes[i] = (struct probe){.timer = {.fire = note}, .wheel = &wheel};
    }

    for (int round = 0; round < rounds; round++) {
        uint32_t i = rng_below(&rng, count);
        if (rng_below(&rng, 4) == 0) {
            timer_wheel_disarm(&wheel, &probes[i].timer);
            due[i] = 0;
        } else {
            due[i] = wheel.now_ms + 1 + (rng_next(&rng) >> (40 + rng_below(&rng, 24)));
            timer_wheel_arm(&wheel, &probes[i].timer, due[i]);
        }
        uint64_t now = wheel.now_ms + (rng_next(&rng) >> (50 + rng_below(&rng, 14)));
        timer_wheel_advance(&wheel, now);
        CHECK_EQ(first_difference(probes, due, now), count);
    }
}
