// SPDX-License-Identifier: Apache-2.0
//
// log.h -- one line per event, to standard error, with time and level.
//
// Written where a failure is handled, once; never on the path of a healthy request.  A line is one
// write, so lines of several threads do not mix.  What cannot be written is dropped, and counted
// where writing goes on: a full disk or a reader that does not read is no reason to stop serving.
//
// What a peer can cause as often as it likes is said with the `_seldom` forms: the first about something at once,
// then one a minute, which tells how many there were.  A change of state must not be: the last word
// about a backend would be a wrong one.
//
// Threads: any.
#pragma once

#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

enum { log_pause_ms = 60000 };

// Lines above this level are dropped; INFO at first.
void log_set_level(enum log_level level);

// JSON: an object a line, of time, level and message.  Text at first.
void log_set_format(enum log_format format);

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// `about`: the id of what is talked of, 0 where there is only one.  Together with `format`, which is a
// constant, it says which lines are alike.
void log_line_seldom(enum log_level level, uint64_t about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#define log_error_seldom(about, ...) log_line_seldom(LOG_LEVEL_ERROR, about, __VA_ARGS__)
#define log_warn_seldom(about, ...) log_line_seldom(LOG_LEVEL_WARN, about, __VA_ARGS__)
#define log_info_seldom(about, ...) log_line_seldom(LOG_LEVEL_INFO, about, __VA_ARGS__)
