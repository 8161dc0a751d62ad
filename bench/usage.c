// SPDX-License-Identifier: Apache-2.0

#include "usage.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool usage_watch_open(struct usage_watch *watch, const char *threads)
{
    watch->count = 0;
    while (*threads && watch->count < usage_threads_max) {
        char *end;
        unsigned long thread = strtoul(threads, &end, 10);
        char path[64];
        snprintf(path, sizeof(path), "/proc/%lu/schedstat", thread);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (end == threads || file == -1) {
            return false;
        }
        watch->files[watch->count++] = file;
        threads = *end == ',' ? end + 1 : end;
    }
    return true;
}

struct usage usage_read(const struct usage_watch *watch)
{
    struct usage sum = {0};
    for (uint32_t i = 0; i < watch->count; i++) {
        char text[128];
        ssize_t size = pread(watch->files[i], text, sizeof(text) - 1, 0);
        if (size <= 0) {
            continue; // the thread has ended
        }
        text[size] = '\0';
        char *end;
        sum.ran_ns += strtoull(text, &end, 10);
        sum.waited_ns += strtoull(end, NULL, 10);
    }
    return sum;
}

void usage_watch_close(struct usage_watch *watch)
{
    for (uint32_t i = 0; i < watch->count; i++) {
        close(watch->files[i]);
    }
    watch->count = 0;
}
