// SPDX-License-Identifier: Apache-2.0

#include "sys/log.h"

#include "base/base.h"
#include "sys/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { line_size_max = 1024 };

// The globals of the program: where it talks to is a property of the process.
static atomic_int level_max = LOG_LEVEL_INFO;
static atomic_uint dropped_count;

static const char *const names[] = {"error", "warn", "info", "debug"};

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&level_max, (int)level, memory_order_relaxed);
}

// Anything a peer could have put into a message must not look like another line.
static void flatten(char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte < ' ' || byte == 0x7f) {
            text[i] = '?';
        }
    }
}

// A reader that does not read must not stop us: a pipe that has room for a line has room for all of
// it, and one that has none is not written to.
static bool has_room(void)
{
    struct pollfd standard_error = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&standard_error, 1, 0) == 1 && (standard_error.revents & POLLOUT) != 0;
}

static void put(const char *line, size_t size)
{
    if (!has_room()) {
        atomic_fetch_add_explicit(&dropped_count, 1, memory_order_relaxed);
        return;
    }
    unsigned dropped = atomic_exchange_explicit(&dropped_count, 0, memory_order_relaxed);
    if (dropped > 0) {
        char note[64];
        int length = snprintf(note, sizeof(note), "(%u lines were dropped here)\n", dropped);
        (void)!write(STDERR_FILENO, note, (size_t)length);
    }
    (void)!write(STDERR_FILENO, line, size);
}

void log_line(enum log_level level, const char *format, ...)
{
    ASSERT((size_t)level < ARRAY_COUNT(names));
    if ((int)level > atomic_load_explicit(&level_max, memory_order_relaxed)) {
        return;
    }
    int saved_errno = errno;
    char line[line_size_max];
    uint64_t now_ms = clock_wall_ms();
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    size_t size = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &parts);
    size += (size_t)snprintf(line + size, sizeof(line) - size, ".%03uZ %s ",
                             (unsigned)(now_ms % 1000), names[level]);
    size_t head = size;
    va_list args;
    va_start(args, format);
    int added = vsnprintf(line + size, sizeof(line) - size - 1, format, args);
    va_end(args);
    size += added < 0 ? 0 : (size_t)added;
    size = size < sizeof(line) - 2 ? size : sizeof(line) - 2;
    flatten(line + head, size - head);
    line[size++] = '\n';
    put(line, size);
    errno = saved_errno;
}
