// SPDX-License-Identifier: Apache-2.0
//
// access_log.h -- the log of requests, and the one of slow requests.
//
// Of all requests one in `every` is written, by the hash of its id, so that routers that see the same request
// agree; those that failed and those that were slow always are.  Either file may be missing.
//
// Threads: one owner.  Memory: taken by _open.
#pragma once

#include "base/status.h"
#include "metrics/receipt.h"

struct access_log;
struct config;

enum { access_log_error_size = 512 };

// What can change while it runs.
struct access_log_rules {
    enum { ACCESS_LOG_AUTO, ACCESS_LOG_JSON, ACCESS_LOG_TEXT } form; // AUTO: text on a terminal
    uint32_t every;
    uint32_t slow_first_ms; // 0: none is slow for that
    uint32_t slow_total_ms; // likewise
};

struct access_log_options {
    const char *path;      // NULL: no log; "-": standard output
    const char *slow_path; // likewise
    struct access_log_rules rules;
};

struct access_log_totals {
    uint64_t written;
    uint64_t dropped;
};

// IO: `error` says which file cannot be opened, and why.
enum status access_log_open(const struct access_log_options *options, struct access_log **out,
                            char error[access_log_error_size]);

// Writes what is left; a reader that is slow gets `patience_ms`.  Clears the caller's pointer, which may be
// NULL.
void access_log_close(struct access_log **log, uint64_t now_ms, uint32_t patience_ms);

void access_log_set_rules(struct access_log *log, const struct access_log_rules *rules);

// Does not write yet.
void access_log_note(struct access_log *log, const struct receipt *receipt, uint64_t now_ms);

// It has to be written before the next note.
bool access_log_is_full(const struct access_log *log);
void access_log_write(struct access_log *log, uint64_t now_ms);

void access_log_reopen(struct access_log *log, uint64_t now_ms);

struct access_log_totals access_log_totals(const struct access_log *log);
