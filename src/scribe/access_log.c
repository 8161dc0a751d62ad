// SPDX-License-Identifier: Apache-2.0

#include "scribe/access_log.h"

#include "base/base.h"
#include "metrics/access_line.h"
#include "scribe/line_file.h"
#include "sys/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert((int)access_line_size_max <= (int)line_file_line_max, "a line fits");

enum log_kind { LOG_ALL, LOG_SLOW, LOG_COUNT };

struct access_log {
    struct access_log_rules rules;
    struct access_second second;
    struct line_file files[LOG_COUNT]; // not open: that log is not wanted
};

static void access_log_destroy(struct access_log **log_ptr)
{
    struct access_log *log = *log_ptr;
    *log_ptr = NULL;
    for (int i = 0; i < LOG_COUNT; i++) {
        line_file_close(&log->files[i]);
    }
    free(log);
}

enum status access_log_open(const struct access_log_options *options, struct access_log **out,
                            char error[access_log_error_size])
{
    static const char *const names[LOG_COUNT] = {"access log", "slow log"};
    const char *const paths[LOG_COUNT] = {options->path, options->slow_path};
    struct access_log *log = calloc(1, sizeof(*log));

    ASSERT(log != NULL);
    log->rules = options->rules;
    for (int i = 0; i < LOG_COUNT; i++) {
        if (paths[i] != NULL && line_file_open(&log->files[i], paths[i], names[i]) != STATUS_OK) {
            snprintf(error, access_log_error_size, "%s %s cannot be opened: %s", names[i], paths[i],
                     strerrordesc_np(errno));
            access_log_destroy(&log);
            return STATUS_IO;
        }
    }
    *out = log;
    return STATUS_OK;
}

// Waits for a slow reader.
static void access_log_finish(struct line_file *file, uint64_t now_ms, uint32_t patience_ms)
{
    uint64_t until_ns = clock_monotonic_ns() + (uint64_t)patience_ms * 1000000;

    line_file_write(file, now_ms);
    while (line_file_waits(file) && clock_monotonic_ns() < until_ns) {
        append_file_wait(&file->file, patience_ms);
        line_file_write(file, now_ms);
    }
}

void access_log_close(struct access_log **log_ptr, uint64_t now_ms, uint32_t patience_ms)
{
    struct access_log *log = *log_ptr;

    if (log == NULL) {
        return;
    }
    for (int i = 0; i < LOG_COUNT; i++) {
        access_log_finish(&log->files[i], now_ms, patience_ms);
    }
    access_log_destroy(log_ptr);
}

void access_log_set_rules(struct access_log *log, const struct access_log_rules *rules)
{
    log->rules = *rules;
}

static enum access_slow access_log_slowness(const struct access_log_rules *rules,
                                            const struct receipt *receipt)
{
    if (rules->slow_first_ms > 0 && receipt->first_us > (uint64_t)rules->slow_first_ms * 1000) {
        return ACCESS_SLOW_FIRST;
    }
    if (rules->slow_total_ms > 0 && receipt->end_us > (uint64_t)rules->slow_total_ms * 1000) {
        return ACCESS_SLOW_TOTAL;
    }
    return ACCESS_NOT_SLOW;
}

static void access_log_add(struct access_log *log, struct line_file *file,
                           const struct receipt *receipt, enum access_slow slow, uint64_t now_ms)
{
    bool is_text = log->rules.form == ACCESS_LOG_TEXT ||
                   (log->rules.form == ACCESS_LOG_AUTO && file->is_terminal);
    struct text *out = line_file_is_open(file) ? line_file_begin(file, now_ms) : NULL;

    if (out == NULL) {
        return;
    }
    if (is_text) {
        access_line_text(receipt, slow, &log->second, out);
    } else {
        access_line_json(receipt, slow, &log->second, out);
    }
    line_file_end(file);
}

void access_log_note(struct access_log *log, const struct receipt *receipt, uint64_t now_ms)
{
    enum access_slow slow = access_log_slowness(&log->rules, receipt);

    if (slow != ACCESS_NOT_SLOW || receipt->id_hash % log->rules.every == 0 ||
        receipt_has_failed(receipt)) {
        access_log_add(log, &log->files[LOG_ALL], receipt, slow, now_ms);
    }
    if (slow != ACCESS_NOT_SLOW) {
        access_log_add(log, &log->files[LOG_SLOW], receipt, slow, now_ms);
    }
}

bool access_log_is_full(const struct access_log *log)
{
    return line_file_is_full(&log->files[LOG_ALL]) || line_file_is_full(&log->files[LOG_SLOW]);
}

void access_log_write(struct access_log *log, uint64_t now_ms)
{
    for (int i = 0; i < LOG_COUNT; i++) {
        line_file_write(&log->files[i], now_ms);
    }
}

void access_log_reopen(struct access_log *log, uint64_t now_ms)
{
    for (int i = 0; i < LOG_COUNT; i++) {
        line_file_reopen(&log->files[i], now_ms);
    }
}

struct access_log_totals access_log_totals(const struct access_log *log)
{
    return (struct access_log_totals){
        .written = log->files[LOG_ALL].written + log->files[LOG_SLOW].written,
        .dropped = log->files[LOG_ALL].dropped + log->files[LOG_SLOW].dropped,
    };
}
