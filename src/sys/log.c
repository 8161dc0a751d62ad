// SPDX-License-Identifier: Apache-2.0

#include "sys/log.h"

#include "base/base.h"
#include "sys/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { line_size_max = 1024 };

// The one global of the program: where to stop talking is a property of the process.
static atomic_int level_max = LOG_LEVEL_INFO;

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
    (void)!write(STDERR_FILENO, line, size);
    errno = saved_errno;
}
