// SPDX-License-Identifier: Apache-2.0

#include "lab/jobs.h"

#include "sys/thread.h"

#include <stdatomic.h>
#include <stddef.h>

enum { thread_max = 256 };

struct job_crew {
    const struct jobs *jobs;

    // Written and read by all threads.
    struct {
        _Alignas(64) atomic_uint next;
        atomic_uint done_count;
        atomic_bool failed;
        atomic_flag telling; // held by the thread that is in `progress`
    } shared;
};

static void crew_tell(struct job_crew *crew)
{
    if (crew->jobs->progress == NULL ||
        atomic_flag_test_and_set_explicit(&crew->shared.telling, memory_order_acquire)) {
        return; // another thread reports
    }
    crew->jobs->progress(crew->jobs->owner,
                         atomic_load_explicit(&crew->shared.done_count, memory_order_relaxed));
    atomic_flag_clear_explicit(&crew->shared.telling, memory_order_release);
}

static void crew_work(void *owner)
{
    struct job_crew *crew = owner;
    const struct jobs *jobs = crew->jobs;

    while (!atomic_load_explicit(&crew->shared.failed, memory_order_relaxed)) {
        uint32_t job = atomic_fetch_add_explicit(&crew->shared.next, 1, memory_order_relaxed);
        if (job >= jobs->count) {
            return;
        }
        if (!jobs->run(jobs->owner, job)) {
            atomic_store_explicit(&crew->shared.failed, true, memory_order_relaxed);
        }
        atomic_fetch_add_explicit(&crew->shared.done_count, 1, memory_order_relaxed);
        crew_tell(crew);
    }
}

bool jobs_run(const struct jobs *jobs)
{
    struct job_crew crew = {.jobs = jobs, .shared = {.telling = ATOMIC_FLAG_INIT}};
    struct thread *threads[thread_max] = {NULL};
    uint32_t wanted = jobs->thread_count > 0 ? jobs->thread_count : thread_core_count();
    wanted = wanted < jobs->count ? wanted : jobs->count;
    wanted = wanted < thread_max ? wanted : thread_max;

    // The caller works too.  If a thread cannot be started, the others do its jobs.
    for (uint32_t i = 1; i < wanted; i++) {
        if (thread_start("warmpath-job", crew_work, &crew, &threads[i]) != STATUS_OK) {
            break;
        }
    }
    crew_work(&crew);
    for (uint32_t i = 1; i < wanted; i++) {
        thread_join(&threads[i]);
    }
    return !atomic_load_explicit(&crew.shared.failed, memory_order_relaxed);
}
