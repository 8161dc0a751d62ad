// SPDX-License-Identifier: Apache-2.0

#include "sys/process.h"

#include "base/slice.h"
#include "sys/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// The numbers of /proc/self/stat behind the name, which may have anything in it: the third field of
// the manual page is the first here.
enum { stat_start_ticks = 19, stat_virtual_bytes = 20, stat_resident_pages = 21, stat_count };

static bool read_stat(uint64_t fields[stat_count])
{
    char line[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd == -1 ? -1 : read(fd, line, sizeof(line) - 1);

    if (fd != -1) {
        close(fd);
    }
    if (size <= 0) {
        return false;
    }
    line[size] = '\0';
    const char *at = strrchr(line, ')');
    if (at == NULL) {
        return false;
    }
    at += 2;
    for (uint32_t i = 0; i < stat_count; i++) {
        char *end;
        fields[i] = strtoull(at, &end, 10); // the state is a letter, and 0 here
        at = strchr(end, ' ');
        if (at == NULL) {
            return false;
        }
        at++;
    }
    return true;
}

// Entries of /proc/self/fd, less those of the directory itself: `.`, `..` and its descriptor.
uint64_t process_listed_fds(void)
{
    _Alignas(8) char space[16384];
    uint64_t count = 0;
    ssize_t size = 0;
    int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd == -1) {
        return 0;
    }
    while ((size = getdents64(fd, space, sizeof(space))) > 0) {
        for (ssize_t at = 0; at < size; at += ((const struct dirent64 *)(space + at))->d_reclen) {
            count++;
        }
    }
    close(fd);
    return count > 3 ? count - 3 : 0;
}

static uint64_t open_fd_count(void)
{
    struct stat status;

    // Kernels since 6.2 tell the number as a size.
    if (stat("/proc/self/fd", &status) == 0 && status.st_size > 0) {
        return (uint64_t)status.st_size;
    }
    return process_listed_fds();
}

void process_figures(struct process_figures *out)
{
    uint64_t fields[stat_count] = {0};
    struct rlimit limit = {0};

    out->cpu_us = clock_cpu_ns() / 1000;
    if (read_stat(fields)) {
        out->virtual_bytes = fields[stat_virtual_bytes];
        out->resident_bytes = fields[stat_resident_pages] * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    out->open_fds = open_fd_count();
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        out->max_fds = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
    }
}

uint64_t process_start_ms(void)
{
    uint64_t fields[stat_count] = {0};
    struct timespec since_boot;

    if (!read_stat(fields) || clock_gettime(CLOCK_BOOTTIME, &since_boot) == -1) {
        return 0;
    }
    uint64_t up_ms = (uint64_t)since_boot.tv_sec * 1000 + (uint64_t)since_boot.tv_nsec / 1000000;
    uint64_t start_ms = fields[stat_start_ticks] * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
    return clock_wall_ms() - (up_ms - start_ms);
}

void process_name(char *name, size_t size)
{
    char host[64] = "";
    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0') {
        memcpy(host, "router", sizeof("router"));
    }
    snprintf(name, size, "%s/%ld", host, (long)getpid());
}
