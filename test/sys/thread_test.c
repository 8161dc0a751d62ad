// SPDX-License-Identifier: Apache-2.0

#include "sys/thread.h"

#include "test.h"

#include <signal.h>
#include <stdatomic.h>

static int ran;
static int term_is_blocked;

static void note(void *owner)
{
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    term_is_blocked = sigismember(&mask, SIGTERM);
    ran = *(int *)owner;
}

TEST(runs_the_given_function_with_signals_blocked)
{
    struct thread *thread = NULL;
    int token = 7;
    CHECK_EQ(thread_start("test", note, &token, &thread), STATUS_OK);
    thread_join(&thread);
    CHECK(thread == NULL);
    CHECK_EQ(ran, 7);
    CHECK_EQ(term_is_blocked, 1);
    thread_join(&thread);
}

TEST(there_is_at_least_one_core)
{
    CHECK(thread_core_count() >= 1);
}

static void set_flag(void *owner)
{
    atomic_store((atomic_int *)owner, 1);
}

TEST(a_thread_that_yields_lets_another_run)
{
    atomic_int flag = 0;
    struct thread *thread = NULL;
    CHECK_EQ(thread_start("test", set_flag, &flag, &thread), STATUS_OK);
    while (atomic_load(&flag) == 0) {
        thread_yield();
    }
    thread_join(&thread);
}
