// SPDX-License-Identifier: Apache-2.0
//
// log.h -- one line per event, to standard error, with time and level.
//
// Written where a failure is handled, once; never on the path of a healthy request.  A line is one
// write, so lines of several threads do not mix.  What cannot be written is dropped, and counted
// where writing goes on: a full disk or a reader that does not read is no reason to stop serving.
//
// Threads: any.
#pragma once

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

// Lines above this level are dropped; INFO at first.
void log_set_level(enum log_level level);

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)
