// SPDX-License-Identifier: Apache-2.0

#include "sys/thread.h"

#include "base/base.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

struct thread {
    pthread_t id;
    const char *name;
    void (*run)(void *owner);
    void *owner;
};

static void *thread_begin(void *argument)
{
    struct thread *thread = argument;
    (void)pthread_setname_np(pthread_self(), thread->name);
    thread->run(thread->owner);
    return NULL;
}

enum status thread_start(const char *name, void (*run)(void *owner), void *owner,
                         struct thread **out)
{
    struct thread *thread = malloc(sizeof(*thread));
    if (thread == NULL) {
        return STATUS_IO;
    }
    *thread = (struct thread){.name = name, .run = run, .owner = owner};
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    // A new thread inherits the mask.
    ASSERT(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    int error = pthread_create(&thread->id, NULL, thread_begin, thread);
    ASSERT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    if (error != 0) {
        free(thread);
        errno = error;
        return STATUS_IO;
    }
    *out = thread;
    return STATUS_OK;
}

void thread_join(struct thread **thread_ptr)
{
    struct thread *thread = *thread_ptr;
    *thread_ptr = NULL;

    if (thread != NULL) {
        ASSERT(pthread_join(thread->id, NULL) == 0);
        free(thread);
    }
}

void thread_yield(void)
{
    sched_yield();
}

uint32_t thread_core_count(void)
{
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof(cores), &cores) == -1) {
        return 1;
    }
    return (uint32_t)CPU_COUNT(&cores);
}
