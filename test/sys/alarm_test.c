// SPDX-License-Identifier: Apache-2.0

#include "sys/alarm.h"

#include "test.h"

struct watch {
    struct alarm alarm; // first: `fire` finds us from here
    struct loop *loop;
    uint64_t fired_us;
    uint32_t count;
};

static void fire(struct alarm *alarm)
{
    struct watch *watch = (struct watch *)alarm;
    watch->fired_us = loop_now_us(watch->loop);
    watch->count++;
}

static void open_watch(struct watch *watch)
{
    *watch = (struct watch){.alarm.fire = fire};
    ASSERT(loop_create(&watch->loop) == STATUS_OK);
    ASSERT(alarm_open(&watch->alarm, watch->loop) == STATUS_OK);
    loop_turn(watch->loop, 0);
}

static void close_watch(struct watch *watch)
{
    alarm_close(&watch->alarm, watch->loop);
    alarm_close(&watch->alarm, watch->loop);
    loop_destroy(&watch->loop);
}

TEST(fires_once_and_never_too_early)
{
    struct watch watch;
    open_watch(&watch);
    for (uint32_t i = 1; i <= 20; i++) {
        uint64_t due_us = loop_now_us(watch.loop) + 100 + 37 * (uint64_t)i;
        alarm_set(&watch.alarm, due_us);
        while (watch.count < i) {
            loop_turn(watch.loop, 1000);
        }
        CHECK(watch.fired_us >= due_us);
    }
    loop_turn(watch.loop, 2);
    CHECK_EQ(watch.count, 20);
    close_watch(&watch);
}

TEST(a_moment_in_the_past_fires_at_once)
{
    struct watch watch;
    open_watch(&watch);
    alarm_set(&watch.alarm, 0);
    loop_turn(watch.loop, 10000);
    CHECK_EQ(watch.count, 1);
    alarm_set(&watch.alarm, loop_now_us(watch.loop) - 5);
    loop_turn(watch.loop, 10000);
    CHECK_EQ(watch.count, 2);
    close_watch(&watch);
}

TEST(an_alarm_that_is_moved_to_later_does_not_fire_early)
{
    struct watch watch;
    open_watch(&watch);
    alarm_set(&watch.alarm, loop_now_us(watch.loop) + 3000);
    alarm_set(&watch.alarm, loop_now_us(watch.loop) + 3600000000);
    loop_turn(watch.loop, 10);
    CHECK_EQ(watch.count, 0);
    close_watch(&watch);
}
