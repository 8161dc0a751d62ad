// SPDX-License-Identifier: Apache-2.0
//
// access_log.h -- the request log, and the log of slow requests.
//
// Logs 1 in `every` requests, chosen by the hash of the request id, so that routers that see the
// same request agree; failed and slow requests are always logged.  Either file may be missing.
//
// Threads: one owner.  Memory: taken by _open.
#pragma once

#include "base/status.h"
#include "metrics/receipt.h"

struct access_log;

enum { access_log_error_size = 512 };

// Settings that a reload changes.
struct access_log_rules {
    enum { ACCESS_LOG_AUTO, ACCESS_LOG_JSON, ACCESS_LOG_TEXT } form; // AUTO: text on a terminal
    uint32_t every;
    uint32_t slow_first_ms; // 0 disables this check
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

// Writes the remaining lines; a slow reader gets `patience_ms`.  Clears the caller's pointer, which
// may be NULL.
void access_log_close(struct access_log **log, uint64_t now_ms, uint32_t patience_ms);

void access_log_set_rules(struct access_log *log, const struct access_log_rules *rules);

// Adds a line to the batch, without writing it to the file.
void access_log_note(struct access_log *log, const struct receipt *receipt, uint64_t now_ms);

// The batch must be written before the next note.
bool access_log_is_full(const struct access_log *log);
void access_log_write(struct access_log *log, uint64_t now_ms);

void access_log_reopen(struct access_log *log, uint64_t now_ms);

struct access_log_totals access_log_totals(const struct access_log *log);
