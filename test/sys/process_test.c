// SPDX-License-Identifier: Apache-2.0

#include "sys/process.h"

#include "sys/clock.h"
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

TEST(descriptors_are_counted)
{
    struct process_figures before = {0};
    struct process_figures after = {0};
    process_figures(&before);
    int fds[3];
    for (size_t i = 0; i < ARRAY_COUNT(fds); i++) {
        fds[i] = open("/dev/null", O_RDONLY);
    }
    process_figures(&after);
    uint64_t listed = process_listed_fds();
    for (size_t i = 0; i < ARRAY_COUNT(fds); i++) {
        close(fds[i]);
    }
    CHECK_EQ(listed, after.open_fds);
    CHECK_EQ(after.open_fds, before.open_fds + 3);
    CHECK(before.open_fds >= 3);
    CHECK(before.max_fds >= before.open_fds);
}

TEST(memory_that_is_touched_is_resident)
{
    const size_t size = 32 << 20;
    struct process_figures before = {0};
    struct process_figures after = {0};
    process_figures(&before);
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(bytes != MAP_FAILED);
    memset(bytes, 1, size);
    process_figures(&after);
    munmap(bytes, size);
    CHECK(after.virtual_bytes >= before.virtual_bytes + size);
    CHECK(after.resident_bytes > before.resident_bytes + size / 2);
}

TEST(time_of_the_processor_grows_with_work)
{
    struct process_figures before = {0};
    struct process_figures after = {0};
    process_figures(&before);
    do {
        process_figures(&after);
    } while (after.cpu_us == before.cpu_us);
    CHECK(after.cpu_us > before.cpu_us);
}

TEST(the_start_time_is_right_whatever_the_name_of_the_process)
{
    prctl(PR_SET_NAME, "a) S 1 (b");
    uint64_t start_ms = process_start_ms();
    uint64_t now_ms = clock_wall_ms();
    CHECK(start_ms <= now_ms + 20);
    CHECK(now_ms < start_ms + 60000);
}

TEST(a_name_has_the_host_and_the_number_of_the_process)
{
    char name[128];
    char host[64];
    char expected[128];
    CHECK_EQ(gethostname(host, sizeof(host)), 0);
    snprintf(expected, sizeof(expected), "%s/%ld", host, (long)getpid());
    process_name(name, sizeof(name));
    CHECK_STR(name, expected);
    process_name(name, 4);
    CHECK_EQ(strlen(name), 3);
    CHECK(strncmp(name, expected, 3) == 0);
}
