// SPDX-License-Identifier: Apache-2.0

#include "lab/jobs.h"

#include "test.h"

#include <stdatomic.h>

enum { job_count = 1000 };

static struct {
    atomic_uint runs[job_count];
    uint32_t told; // by one thread at a time
    uint32_t told_count;
    uint32_t failing;
} seen;

static bool run(void *owner, uint32_t job)
{
    (void)owner;
    atomic_fetch_add(&seen.runs[job], 1);
    return job != seen.failing;
}

static void progress(void *owner, uint32_t done_count)
{
    (void)owner;
    seen.told = done_count > seen.told ? done_count : seen.told;
    seen.told_count++;
}

static bool run_all(uint32_t threads, uint32_t failing)
{
    memset(&seen, 0, sizeof(seen));
    seen.failing = failing;
    struct jobs jobs = {
        .count = job_count, .thread_count = threads, .run = run, .progress = progress};
    return jobs_run(&jobs);
}

static bool is_each_run_once(void)
{
    bool is_once = true;
    for (int i = 0; i < job_count; i++) {
        is_once = is_once && atomic_load(&seen.runs[i]) == 1;
    }
    return is_once;
}

TEST(every_job_is_run_once_however_many_threads_there_are)
{
    static const uint32_t threads[] = {0, 1, 2, 7, 5000};
    for (size_t t = 0; t < ARRAY_COUNT(threads); t++) {
        CHECK(run_all(threads[t], UINT32_MAX));
        CHECK(is_each_run_once());
        CHECK(seen.told_count >= 1);
        CHECK(seen.told <= job_count);
    }
}

TEST(one_thread_reports_after_each_job)
{
    CHECK(run_all(1, UINT32_MAX));
    CHECK_EQ(seen.told_count, job_count);
    CHECK_EQ(seen.told, job_count);
}

TEST(a_failure_ends_it)
{
    CHECK(!run_all(1, 10));
    CHECK_EQ(atomic_load(&seen.runs[10]), 1);
    CHECK_EQ(atomic_load(&seen.runs[11]), 0);
    CHECK(!run_all(4, 10));
}

TEST(without_jobs_nothing_runs)
{
    CHECK(jobs_run(&(struct jobs){.run = run}));
}
