// SPDX-License-Identifier: Apache-2.0

#include "sys/loop.h"

#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

struct tap {
    struct loop_source source;
    struct loop *loop;
    struct tap *other;
    int ready_count;
    uint32_t events;
};

static void count_ready(struct loop_source *source, uint32_t events)
{
    struct tap *tap = (struct tap *)source;
    tap->ready_count++;
    tap->events |= events;
}

static void make_pipe(int ends[2])
{
    ASSERT(pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0);
}

TEST(tells_a_source_of_each_change_once)
{
    struct loop *loop = NULL;
    CHECK_EQ(loop_create(&loop), STATUS_OK);
    int ends[2];
    make_pipe(ends);
    struct tap tap = {.source = {.fd = ends[0], .ready = count_ready}};
    CHECK_EQ(loop_add(loop, &tap.source), STATUS_OK);

    CHECK_EQ(write(ends[1], "x", 1), 1);
    loop_turn(loop, 100);
    CHECK_EQ(tap.ready_count, 1);
    CHECK(tap.events & LOOP_READABLE);
    CHECK(!(tap.events & LOOP_HANGUP));
    loop_turn(loop, 0);
    CHECK_EQ(tap.ready_count, 1);

    close(ends[1]);
    loop_turn(loop, 100);
    CHECK(tap.events & LOOP_HANGUP);
    loop_remove(loop, &tap.source);
    close(ends[0]);
    loop_destroy(&loop);
    CHECK(loop == NULL);
}

static void remove_other(struct loop_source *source, uint32_t events)
{
    struct tap *tap = (struct tap *)source;
    (void)events;
    tap->ready_count++;
    loop_remove(tap->loop, &tap->other->source);
}

TEST(a_removed_source_hears_nothing_even_of_the_same_turn)
{
    struct loop *loop = NULL;
    CHECK_EQ(loop_create(&loop), STATUS_OK);
    int a[2];
    int b[2];
    make_pipe(a);
    make_pipe(b);
    struct tap first = {.source = {.fd = a[0], .ready = remove_other}, .loop = loop};
    struct tap second = {.source = {.fd = b[0], .ready = remove_other}, .loop = loop};
    first.other = &second;
    second.other = &first;
    CHECK_EQ(loop_add(loop, &first.source), STATUS_OK);
    CHECK_EQ(loop_add(loop, &second.source), STATUS_OK);
    CHECK_EQ(write(a[1], "x", 1), 1);
    CHECK_EQ(write(b[1], "x", 1), 1);
    loop_turn(loop, 100);
    CHECK_EQ(first.ready_count + second.ready_count, 1);

    loop_remove(loop, &first.source);
    loop_remove(loop, &second.source);
    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
    loop_destroy(&loop);
}

struct turns {
    struct loop *loop;
    atomic_int count;
};

static void count_turn(void *owner)
{
    struct turns *turns = owner;
    atomic_fetch_add(&turns->count, 1);
}

// An idle loop turns once a second by itself: a hundred turns without wake-ups take longer than the
// test may.
static void *wake_from_outside(void *owner)
{
    struct turns *turns = owner;
    for (int i = 1; i <= 100; i++) {
        loop_wake(turns->loop);
        while (atomic_load(&turns->count) < i) {
            sched_yield();
        }
    }
    loop_stop(turns->loop);
    return NULL;
}

TEST(another_thread_can_wake_and_stop_it)
{
    struct turns turns = {0};
    pthread_t thread;
    CHECK_EQ(loop_create(&turns.loop), STATUS_OK);
    CHECK_EQ(pthread_create(&thread, NULL, wake_from_outside, &turns), 0);
    loop_run(turns.loop, count_turn, &turns);
    pthread_join(thread, NULL);
    CHECK(atomic_load(&turns.count) >= 100);
    loop_destroy(&turns.loop);
}

TEST(stopped_before_it_runs_it_takes_no_turn)
{
    struct turns turns = {0};
    CHECK_EQ(loop_create(&turns.loop), STATUS_OK);
    loop_stop(turns.loop);
    loop_run(turns.loop, count_turn, &turns);
    CHECK_EQ(atomic_load(&turns.count), 0);
    loop_destroy(&turns.loop);
}

static int timer_fired;
static void count_fire(struct timer *timer)
{
    (void)timer;
    timer_fired++;
}

TEST(a_timer_fires_after_its_delay_and_not_before)
{
    struct loop *loop = NULL;
    CHECK_EQ(loop_create(&loop), STATUS_OK);
    struct timer timer = {.fire = count_fire};
    uint64_t start_ms = loop_now_ms(loop);
    loop_arm(loop, &timer, 20);
    while (timer_fired == 0) {
        loop_turn(loop, 1000);
    }
    CHECK(loop_now_ms(loop) >= start_ms + 20);
    loop_destroy(&loop);
}
