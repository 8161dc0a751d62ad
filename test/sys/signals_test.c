// SPDX-License-Identifier: Apache-2.0

#include "sys/signals.h"

#include "sys/loop.h"
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

struct ear {
    struct loop *loop;
    struct signals *signals;
    enum signal_kind kinds[8];
    int count;
};

static void hear(void *owner, enum signal_kind kind)
{
    struct ear *ear = owner;
    ASSERT(ear->count < 8);
    ear->kinds[ear->count++] = kind;
}

static void ear_open(struct ear *ear)
{
    *ear = (struct ear){0};
    ASSERT(loop_create(&ear->loop) == STATUS_OK);
    ASSERT(signals_open(ear->loop, hear, ear, &ear->signals) == STATUS_OK);
}

static void ear_close(struct ear *ear)
{
    signals_close(&ear->signals, ear->loop);
    loop_destroy(&ear->loop);
}

// The signal is pending when kill returns, and so is the loop's event.
static void send(struct ear *ear, int number)
{
    ASSERT(kill(getpid(), number) == 0);
    loop_turn(ear->loop, 1000);
}

TEST(each_signal_arrives_as_its_kind)
{
    struct ear ear;
    ear_open(&ear);
    send(&ear, SIGHUP);
    CHECK_EQ(ear.count, 1);
    CHECK_EQ(ear.kinds[0], SIGNAL_RELOAD);
    send(&ear, SIGTERM);
    CHECK_EQ(ear.count, 2);
    CHECK_EQ(ear.kinds[1], SIGNAL_STOP);
    send(&ear, SIGINT);
    CHECK_EQ(ear.count, 3);
    CHECK_EQ(ear.kinds[2], SIGNAL_STOP);
    send(&ear, SIGTERM);
    CHECK_EQ(ear.count, 4);
    CHECK_EQ(ear.kinds[3], SIGNAL_STOP);
    send(&ear, SIGUSR1);
    CHECK_EQ(ear.count, 5);
    CHECK_EQ(ear.kinds[4], SIGNAL_REOPEN);
    ear_close(&ear);
}

TEST(signals_that_come_together_are_all_heard)
{
    struct ear ear;
    ear_open(&ear);
    ASSERT(kill(getpid(), SIGHUP) == 0);
    ASSERT(kill(getpid(), SIGINT) == 0);
    ASSERT(kill(getpid(), SIGTERM) == 0);
    loop_turn(ear.loop, 1000);
    CHECK_EQ(ear.count, 3);
    int reloads = 0;
    for (int i = 0; i < ear.count; i++) {
        reloads += ear.kinds[i] == SIGNAL_RELOAD;
    }
    CHECK_EQ(reloads, 1);
    ear_close(&ear);
}

TEST(writing_to_a_closed_pipe_is_an_error_and_not_a_signal)
{
    struct ear ear;
    int ends[2];
    ASSERT(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    ear_open(&ear);
    CHECK_EQ(pipe(ends), 0);
    close(ends[0]);
    CHECK_EQ(write(ends[1], "x", 1), -1);
    CHECK_EQ(errno, EPIPE);
    close(ends[1]);
    CHECK_EQ(ear.count, 0);
    ear_close(&ear);
}

TEST(closing_takes_null_and_leaves_nothing_in_the_loop)
{
    struct ear ear;
    ear_open(&ear);
    signals_close(&ear.signals, ear.loop);
    CHECK(ear.signals == NULL);
    signals_close(&ear.signals, ear.loop);
    // Blocked from now on, so it has no effect; taken out of the queue for the next test.
    ASSERT(kill(getpid(), SIGHUP) == 0);
    loop_turn(ear.loop, 0);
    CHECK_EQ(ear.count, 0);
    ASSERT(signals_open(ear.loop, hear, &ear, &ear.signals) == STATUS_OK);
    loop_turn(ear.loop, 1000);
    CHECK_EQ(ear.count, 1);
    ear_close(&ear);
}
