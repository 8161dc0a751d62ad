// SPDX-License-Identifier: Apache-2.0

#include "sys/log.h"

#include "base/base.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/utf8.h"
#include "sys/clock.h"
#include "sys/log_limit.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum {
    message_size_max = 1000,
    time_size_max = 40,
    held_size_max = 48,
    // A message in JSON grows where it has quotes; other bytes that would are gone by then.
    line_size_max = 2 * message_size_max + 128,
};

// The globals of the program: where it talks to is a property of the process.
static atomic_int level_max = LOG_LEVEL_INFO;
static atomic_int format_now = LOG_FORMAT_TEXT;
static atomic_uint dropped_count;
static struct log_limit limit;

static const char *const names[] = {"error", "warn", "info", "debug"};

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&level_max, (int)level, memory_order_relaxed);
}

void log_set_format(enum log_format format)
{
    atomic_store_explicit(&format_now, (int)format, memory_order_relaxed);
}

// Anything a peer could have put into a message must not look like another line.
static void log_flatten(char *text, size_t size)
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
static bool log_has_room(void)
{
    struct pollfd standard_error = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&standard_error, 1, 0) == 1 && (standard_error.revents & POLLOUT) != 0;
}

static size_t write_time(char *to, size_t capacity)
{
    uint64_t now_ms = clock_wall_ms();
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    size_t size = strftime(to, capacity, "%Y-%m-%dT%H:%M:%S", &parts);
    return size + (size_t)snprintf(to + size, capacity - size, ".%03uZ", (unsigned)(now_ms % 1000));
}

// JSON needs UTF-8: other bytes become question marks.
static void add_message(struct text *line, char *message, size_t size)
{
    if (!utf8_is_valid(slice_of(message, size))) {
        for (size_t i = 0; i < size; i++) {
            if ((unsigned char)message[i] >= 0x80) {
                message[i] = '?';
            }
        }
    }
    text_add_json(line, slice_of(message, size));
}

static void log_compose(struct text *line, enum log_level level, char *message, size_t size)
{
    char now[time_size_max];

    write_time(now, sizeof(now));
    log_flatten(message, size);
    if (atomic_load_explicit(&format_now, memory_order_relaxed) == LOG_FORMAT_JSON) {
        text_add_format(line, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":", now, names[level]);
        add_message(line, message, size);
        text_add_str(line, "}\n");
    } else {
        text_add_format(line, "%s %s ", now, names[level]);
        text_add(line, slice_of(message, size));
        text_add_str(line, "\n");
    }
    ASSERT(!line->overflow);
}

static void log_put(enum log_level level, char *message, size_t size)
{
    char line[line_size_max];
    struct text text = text_over(line, sizeof(line));

    log_compose(&text, level, message, size);
    (void)!write(STDERR_FILENO, line, text.size);
}

static void log_write_line(enum log_level level, char *message, size_t size)
{
    if (!log_has_room()) {
        atomic_fetch_add_explicit(&dropped_count, 1, memory_order_relaxed);
        return;
    }
    unsigned dropped = atomic_exchange_explicit(&dropped_count, 0, memory_order_relaxed);
    if (dropped > 0) {
        char note[64];
        int length = snprintf(note, sizeof(note), "%u lines were dropped here", dropped);
        log_put(LOG_LEVEL_WARN, note, (size_t)length);
    }
    log_put(level, message, size);
}

static bool is_wanted(enum log_level level)
{
    ASSERT((size_t)level < ARRAY_COUNT(names));
    return (int)level <= atomic_load_explicit(&level_max, memory_order_relaxed);
}

__attribute__((format(printf, 3, 0))) static void log_write(enum log_level level, uint32_t held,
                                                            const char *format, va_list args)
{
    int saved_errno = errno;
    char message[message_size_max];
    size_t room = held > 0 ? message_size_max - held_size_max : message_size_max - 1;
    int written = vsnprintf(message, sizeof(message), format, args);
    size_t size = written < 0 ? 0 : (size_t)written;

    size = size < room ? size : room;
    if (held > 0) {
        size += (size_t)snprintf(message + size, held_size_max, " (%u more like this)", held);
    }
    log_write_line(level, message, size);
    errno = saved_errno;
}

void log_line(enum log_level level, const char *format, ...)
{
    if (is_wanted(level)) {
        va_list args;
        va_start(args, format);
        log_write(level, 0, format, args);
        va_end(args);
    }
}

void log_line_seldom(enum log_level level, uint64_t about, const char *format, ...)
{
    uint32_t held = 0;
    uint64_t hash = hash_pair((uintptr_t)format, about);
    uint64_t key = hash != 0 ? hash : 1;

    if (is_wanted(level) &&
        log_limit_pass(&limit, key, clock_monotonic_ns() / 1000000, log_pause_ms, &held)) {
        va_list args;
        va_start(args, format);
        log_write(level, held, format, args);
        va_end(args);
    }
}
