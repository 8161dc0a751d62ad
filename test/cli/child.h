// SPDX-License-Identifier: Apache-2.0
//
// child.h -- a sub-command in a process of its own, so that it may read signals, exit and leave
// things behind; what it says is kept.  It does not outlive the test.
#pragma once

#include "base/base.h"
#include "sys/clock.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { child_text_size = 1 << 18, child_words_max = 16, child_wait_ms = 300000 };

struct child {
    pid_t pid; // 0: it has ended
    int out;
    int err;
    int status; // of its exit; the negative number of the signal that ended it
};

typedef int child_run_fn(int word_count, char **words);

// `words` ends with NULL.  `out` is where its standard output goes, -1: it is kept.
static inline void child_start_to(struct child *child, child_run_fn *run, const char *const *words,
                                  int out)
{
    fflush(NULL); // or both would write it
    child->out = out != -1 ? out : memfd_create("out", MFD_CLOEXEC);
    child->err = memfd_create("err", MFD_CLOEXEC);
    ASSERT(child->out != -1 && child->err != -1);
    child->pid = fork();
    ASSERT(child->pid != -1);
    if (child->pid != 0) {
        return;
    }
    // Copies: the command line may be changed by who reads it.
    char *copies[child_words_max + 1] = {0};
    int count = 0;
    while (words[count] != NULL) {
        ASSERT(count < child_words_max);
        copies[count] = strdup(words[count]);
        count++;
    }
    ASSERT(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    ASSERT(dup2(child->out, STDOUT_FILENO) != -1 && dup2(child->err, STDERR_FILENO) != -1);
    int status = run(count, copies);
    for (int i = 0; i < count; i++) {
        free(copies[i]);
    }
    exit(status); // NOLINT(concurrency-mt-unsafe): with all that is checked at the end
}

static inline void child_start(struct child *child, child_run_fn *run, const char *const *words)
{
    child_start_to(child, run, words, -1);
}

// The output of the child so far, in one of two buffers by turns.
static inline const char *child_text(int fd)
{
    static char spaces[2][child_text_size];
    static int next;
    char *space = spaces[next++ % 2];
    ssize_t size = pread(fd, space, child_text_size - 1, 0);
    ASSERT(size >= 0);
    space[size] = '\0';
    return space;
}

static inline void child_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

// Whether it has ended.
static inline bool child_is_over(struct child *child)
{
    int status;
    if (child->pid != 0 && waitpid(child->pid, &status, WNOHANG) == child->pid) {
        child->pid = 0;
        child->status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    return child->pid == 0;
}

// Waits for its end, and kills it when that does not come.
static inline int child_finish(struct child *child)
{
    uint64_t end_ns = clock_monotonic_ns() + child_wait_ms * (uint64_t)1000000;
    while (!child_is_over(child)) {
        if (clock_monotonic_ns() > end_ns) {
            kill(child->pid, SIGKILL);
        }
        child_pause();
    }
    return child->status;
}

static inline void child_close(struct child *child)
{
    if (child->pid != 0) {
        kill(child->pid, SIGKILL);
        child_finish(child);
    }
    close(child->out);
    close(child->err);
}

// Waits until it has said `text` to its standard error.  False: it has not, or has ended before.
static inline bool child_says(struct child *child, const char *text)
{
    uint64_t end_ns = clock_monotonic_ns() + child_wait_ms * (uint64_t)1000000;
    while (strstr(child_text(child->err), text) == NULL) {
        if (clock_monotonic_ns() > end_ns || child_is_over(child)) {
            return strstr(child_text(child->err), text) != NULL;
        }
        child_pause();
    }
    return true;
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
