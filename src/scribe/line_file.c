// SPDX-License-Identifier: Apache-2.0

#include "scribe/line_file.h"

#include "base/base.h"
#include "sys/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { again_ms = 1000 };

static bool line_file_is_output(const struct line_file *file)
{
    return strcmp(file->path, "-") == 0;
}

static enum status line_file_open_path(struct line_file *file)
{
    enum status status = line_file_is_output(file) ? append_file_open_output(&file->file)
                                                   : append_file_open(file->path, &file->file);
    file->is_terminal = status == STATUS_OK && append_file_is_terminal(&file->file);
    return status;
}

enum status line_file_open(struct line_file *file, const char *path, const char *name)
{
    file->path = strdup(path);
    ASSERT(file->path != NULL);
    file->name = name;
    file->file = (struct append_file){.fd = -1};
    file->batch = text_over(file->space, sizeof(file->space));
    return line_file_open_path(file);
}

void line_file_close(struct line_file *file)
{
    if (!line_file_is_open(file)) {
        return;
    }
    file->dropped += file->line_count;
    file->line_count = 0;
    file->batch.size = 0;
    append_file_close(&file->file);
    free(file->path);
    file->path = NULL;
}

static void line_file_miss(struct line_file *file, uint64_t count)
{
    file->dropped += count;
    file->missed += count;
}

static void line_file_fail(struct line_file *file, const char *why, uint64_t now_ms)
{
    if (!file->is_failing) {
        file->missed = 0;
        log_warn_seldom((uintptr_t)file, "%s %s: %s; lines are dropped until it takes them again",
                        file->name, file->path, why);
    }
    file->is_failing = true;
    file->again_at_ms = now_ms + again_ms;
}

static void line_file_succeed(struct line_file *file)
{
    if (file->is_failing) {
        log_info_seldom((uintptr_t)file, "%s %s takes lines again; %" PRIu64 " were dropped",
                        file->name, file->path, file->missed);
    }
    file->is_failing = false;
}

static void line_file_forget_batch(struct line_file *file)
{
    file->batch.size = 0;
    file->line_count = 0;
    file->is_begun = false;
}

struct text *line_file_begin(struct line_file *file, uint64_t now_ms)
{
    if ((file->is_failing && now_ms < file->again_at_ms) || line_file_is_full(file)) {
        line_file_miss(file, 1);
        return NULL;
    }
    return &file->batch;
}

void line_file_end(struct line_file *file)
{
    ASSERT(!file->batch.overflow);
    file->line_count++;
}

static uint64_t line_file_count_ends(const uint8_t *bytes, size_t size)
{
    uint64_t count = 0;
    for (size_t i = 0; i < size; i++) {
        count += bytes[i] == '\n';
    }
    return count;
}

// Removes the bytes that the stream has taken.
static void line_file_shorten(struct line_file *file, size_t taken)
{
    uint64_t lines = line_file_count_ends(file->space, taken);
    if (taken == 0) {
        return;
    }
    file->is_begun = file->space[taken - 1] != '\n';
    memmove(file->space, file->space + taken, file->batch.size - taken);
    file->batch.size -= taken;
    file->line_count -= lines;
    file->written += lines;
}

static enum status line_file_feed_stream(struct line_file *file, uint64_t now_ms)
{
    size_t taken;
    enum status status = append_file_feed(&file->file, text_slice(&file->batch), &taken);

    line_file_shorten(file, taken);
    if (status != STATUS_AGAIN) {
        return status;
    }
    // AGAIN means slow, not closed: keep the batch.
    if (line_file_is_full(file)) {
        line_file_fail(file, "its reader is too slow", now_ms);
    } else if (file->batch.size < line_file_batch / 2) {
        line_file_succeed(file);
    }
    return STATUS_AGAIN;
}

static enum status line_file_append(struct line_file *file)
{
    enum status status = append_file_add(&file->file, text_slice(&file->batch), UINT64_MAX);
    if (status == STATUS_OK) {
        file->written += file->line_count;
        line_file_forget_batch(file);
    }
    return status;
}

static enum status line_file_ensure_open(struct line_file *file)
{
    if (file->file.fd != -1 && !line_file_is_output(file) && append_file_is_gone(&file->file)) {
        append_file_close(&file->file);
    }
    return file->file.fd != -1 ? STATUS_OK : line_file_open_path(file);
}

void line_file_write(struct line_file *file, uint64_t now_ms)
{
    if (file->line_count == 0) {
        return;
    }
    enum status status = line_file_ensure_open(file);
    if (status == STATUS_OK) {
        status =
            file->file.is_stream ? line_file_feed_stream(file, now_ms) : line_file_append(file);
    }
    switch (status) {
    case STATUS_OK:
        line_file_succeed(file);
        break;
    case STATUS_AGAIN:
        break;
    default:
        line_file_fail(file, strerrordesc_np(errno), now_ms);
        line_file_miss(file, file->line_count);
        line_file_forget_batch(file);
        if (file->file.is_stream) {
            append_file_close(&file->file); // the next reader begins with a whole line
        }
        break;
    }
}

void line_file_reopen(struct line_file *file, uint64_t now_ms)
{
    line_file_write(file, now_ms);
    if (!line_file_is_open(file) || line_file_is_output(file) || file->is_begun) {
        return; // standard output has no path; a stream that has half a line gets the rest
    }
    append_file_close(&file->file);
    file->again_at_ms = 0;
    if (line_file_open_path(file) != STATUS_OK) {
        line_file_fail(file, strerrordesc_np(errno), now_ms);
    }
}
