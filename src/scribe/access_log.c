// SPDX-License-Identifier: Apache-2.0

#include "scribe/access_log.h"

#include "base/base.h"
#include "metrics/access_line.h"
#include "scribe/line_file.h"
#include "sys/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)access_line_size_max <= (int)line_file_line_max, "a line fits");

// A log that may be missing.
struct channel {
    bool is_open;
    char *path;
    struct line_file file;
};

struct access_log {
    struct access_log_rules rules;
    struct access_second second;
    struct channel all;
    struct channel slow;
};

static enum status channel_open(struct channel *channel, const char *path, const char *name,
                                char error[access_log_error_size])
{
    if (path == NULL) {
        return STATUS_OK;
    }
    channel->path = strdup(path);
    ASSERT(channel->path != NULL);
    if (line_file_open(&channel->file, channel->path, name) != STATUS_OK) {
        snprintf(error, access_log_error_size, "%s %s cannot be opened: %s", name, path,
                 strerrordesc_np(errno));
        return STATUS_IO;
    }
    channel->is_open = true;
    return STATUS_OK;
}

static void channel_close(struct channel *channel)
{
    if (channel->is_open) {
        line_file_close(&channel->file);
    }
    free(channel->path);
}

static void destroy(struct access_log **log_ptr)
{
    struct access_log *log = *log_ptr;
    *log_ptr = NULL;
    channel_close(&log->all);
    channel_close(&log->slow);
    free(log);
}

enum status access_log_open(const struct access_log_options *options, struct access_log **out,
                            char error[access_log_error_size])
{
    struct access_log *log = calloc(1, sizeof(*log));

    ASSERT(log != NULL);
    log->rules = options->rules;
    if (channel_open(&log->all, options->path, "access log", error) != STATUS_OK ||
        channel_open(&log->slow, options->slow_path, "slow log", error) != STATUS_OK) {
        destroy(&log);
        return STATUS_IO;
    }
    *out = log;
    return STATUS_OK;
}

static void channel_write(struct channel *channel, uint64_t now_ms)
{
    if (channel->is_open) {
        line_file_write(&channel->file, now_ms);
    }
}

// For a reader that is slow.
static void channel_finish(struct channel *channel, uint64_t now_ms, uint32_t patience_ms)
{
    uint64_t until_ns = clock_monotonic_ns() + (uint64_t)patience_ms * 1000000;

    channel_write(channel, now_ms);
    while (channel->is_open && line_file_waits(&channel->file) && clock_monotonic_ns() < until_ns) {
        append_file_wait(&channel->file.file, patience_ms);
        channel_write(channel, now_ms);
    }
}

void access_log_close(struct access_log **log_ptr, uint64_t now_ms, uint32_t patience_ms)
{
    struct access_log *log = *log_ptr;

    if (log == NULL) {
        return;
    }
    channel_finish(&log->all, now_ms, patience_ms);
    channel_finish(&log->slow, now_ms, patience_ms);
    destroy(log_ptr);
}

void access_log_set_rules(struct access_log *log, const struct access_log_rules *rules)
{
    log->rules = *rules;
}

static enum access_slow slowness(const struct access_log_rules *rules,
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

static bool is_text(const struct access_log *log, const struct channel *channel)
{
    return log->rules.form == ACCESS_LOG_TEXT ||
           (log->rules.form == ACCESS_LOG_AUTO && channel->file.is_terminal);
}

static void channel_note(struct access_log *log, struct channel *channel,
                         const struct receipt *receipt, enum access_slow slow, uint64_t now_ms)
{
    struct text *out = line_file_begin(&channel->file, now_ms);
    if (out == NULL) {
        return;
    }
    if (is_text(log, channel)) {
        access_line_text(receipt, slow, &log->second, out);
    } else {
        access_line_json(receipt, slow, &log->second, out);
    }
    line_file_end(&channel->file);
}

void access_log_note(struct access_log *log, const struct receipt *receipt, uint64_t now_ms)
{
    enum access_slow slow = slowness(&log->rules, receipt);
    bool is_chosen = slow != ACCESS_NOT_SLOW || receipt->id_hash % log->rules.every == 0 ||
                     receipt_has_failed(receipt);

    if (log->all.is_open && is_chosen) {
        channel_note(log, &log->all, receipt, slow, now_ms);
    }
    if (log->slow.is_open && slow != ACCESS_NOT_SLOW) {
        channel_note(log, &log->slow, receipt, slow, now_ms);
    }
}

bool access_log_is_full(const struct access_log *log)
{
    return (log->all.is_open && line_file_is_full(&log->all.file)) ||
           (log->slow.is_open && line_file_is_full(&log->slow.file));
}

void access_log_write(struct access_log *log, uint64_t now_ms)
{
    channel_write(&log->all, now_ms);
    channel_write(&log->slow, now_ms);
}

void access_log_reopen(struct access_log *log, uint64_t now_ms)
{
    if (log->all.is_open) {
        line_file_reopen(&log->all.file, now_ms);
    }
    if (log->slow.is_open) {
        line_file_reopen(&log->slow.file, now_ms);
    }
}

struct access_log_totals access_log_totals(const struct access_log *log)
{
    return (struct access_log_totals){
        .written = log->all.file.written + log->slow.file.written,
        .dropped = log->all.file.dropped + log->slow.file.dropped,
    };
}
