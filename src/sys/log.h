// SPDX-License-Identifier: Apache-2.0
//
// log.h -- one line per event, to standard error, with time and level.
//
// A line is `subject: event: detail`, written once, where a failure is handled; never on the path
// of a healthy request.  A line is one write, so lines of several threads do not mix.  Lines that
// cannot be written are dropped, and their number is written when writing works again: a full disk
// does not stop the router.
//
// Events that a peer can repeat at will use the `_seldom` forms: the first line about a subject at
// once, then one a minute with the number of lines held back.  A change of state uses log_state.h
// instead: the last line about a backend must be true.
//
// Threads: any.
#pragma once

#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

enum { log_pause_ms = 60000 };

// Lines above this level are dropped; the default is INFO.
void log_set_level(enum log_level level);

// JSON: one object a line, with time, level and message.  The default is text.
void log_set_format(enum log_format format);

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// `about`: the id of the subject, or 0 if there is only one.  Lines with the same `about` and the
// same `format`, which is a constant, are limited together.
void log_line_seldom(enum log_level level, uint64_t about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#define log_error_seldom(about, ...) log_line_seldom(LOG_LEVEL_ERROR, about, __VA_ARGS__)
#define log_warn_seldom(about, ...) log_line_seldom(LOG_LEVEL_WARN, about, __VA_ARGS__)
#define log_info_seldom(about, ...) log_line_seldom(LOG_LEVEL_INFO, about, __VA_ARGS__)
