// SPDX-License-Identifier: Apache-2.0

#include "scribe/line_file.h"

#include "base/base.h"
#include "sys/log.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { again_ms = 1000 };

static bool is_output(const struct line_file *file)
{
    return strcmp(file->path, "-") == 0;
}

static enum status open_it(struct line_file *file)
{
    enum status status = is_output(file) ? append_file_open_output(&file->file)
                                         : append_file_open(file->path, &file->file);
    file->is_terminal = status == STATUS_OK && append_file_is_terminal(&file->file);
    return status;
}

enum status line_file_open(struct line_file *file, const char *path, const char *name)
{
    file->path = path;
    file->name = name;
    file->file = (struct append_file){.fd = -1};
    file->batch = text_over(file->space, sizeof(file->space));
    return open_it(file);
}

void line_file_close(struct line_file *file)
{
    file->dropped += file->line_count;
    file->line_count = 0;
    file->batch.size = 0;
    append_file_close(&file->file);
}

static void miss(struct line_file *file, uint64_t count)
{
    file->dropped += count;
    file->missed += count;
}

static void fail(struct line_file *file, const char *why, uint64_t now_ms)
{
    if (!file->is_failing) {
        file->missed = 0;
        log_warn_seldom((uintptr_t)file, "%s %s: %s; lines are dropped until it takes them again",
                        file->name, file->path, why);
    }
    file->is_failing = true;
    file->again_at_ms = now_ms + again_ms;
}

static void succeed(struct line_file *file)
{
    if (file->is_failing) {
        log_info_seldom((uintptr_t)file, "%s %s takes lines again; %" PRIu64 " were dropped",
                        file->name, file->path, file->missed);
    }
    file->is_failing = false;
}

static void forget_batch(struct line_file *file)
{
    file->batch.size = 0;
    file->line_count = 0;
    file->is_begun = false;
}

struct text *line_file_begin(struct line_file *file, uint64_t now_ms)
{
    if ((file->is_failing && now_ms < file->again_at_ms) || line_file_is_full(file)) {
        miss(file, 1);
        return NULL;
    }
    return &file->batch;
}

void line_file_end(struct line_file *file)
{
    ASSERT(!file->batch.overflow);
    file->line_count++;
}

static uint64_t count_ends(const uint8_t *bytes, size_t size)
{
    uint64_t count = 0;
    for (size_t i = 0; i < size; i++) {
        count += bytes[i] == '\n';
    }
    return count;
}

// What a stream has is gone from the batch; the rest moves up.
static void shorten(struct line_file *file, size_t taken)
{
    uint64_t lines = count_ends(file->space, taken);
    if (taken == 0) {
        return;
    }
    file->is_begun = file->space[taken - 1] != '\n';
    memmove(file->space, file->space + taken, file->batch.size - taken);
    file->batch.size -= taken;
    file->line_count -= lines;
    file->written += lines;
}

static enum status feed_stream(struct line_file *file, uint64_t now_ms)
{
    size_t taken;
    enum status status = append_file_feed(&file->file, text_slice(&file->batch), &taken);

    shorten(file, taken);
    if (status != STATUS_AGAIN) {
        return status;
    }
    // A reader that is slow is none that has gone: what is here waits.
    if (line_file_is_full(file)) {
        fail(file, "nobody reads it", now_ms);
    } else if (file->batch.size < line_file_batch / 2) {
        succeed(file);
    }
    return STATUS_AGAIN;
}

static enum status add_to_file(struct line_file *file)
{
    enum status status = append_file_add(&file->file, text_slice(&file->batch), UINT64_MAX);
    if (status == STATUS_OK) {
        file->written += file->line_count;
        forget_batch(file);
    }
    return status;
}

static enum status make_sure_of_file(struct line_file *file)
{
    if (file->file.fd != -1 && !is_output(file) && append_file_is_gone(&file->file)) {
        append_file_close(&file->file);
    }
    return file->file.fd != -1 ? STATUS_OK : open_it(file);
}

void line_file_write(struct line_file *file, uint64_t now_ms)
{
    if (file->line_count == 0) {
        return;
    }
    enum status status = make_sure_of_file(file);
    if (status == STATUS_OK) {
        status = file->file.is_stream ? feed_stream(file, now_ms) : add_to_file(file);
    }
    switch (status) {
    case STATUS_OK:
        succeed(file);
        break;
    case STATUS_AGAIN:
        break;
    default:
        fail(file, strerrordesc_np(errno), now_ms);
        miss(file, file->line_count);
        forget_batch(file);
        if (file->file.is_stream) {
            append_file_close(&file->file); // whoever reads it next begins anew
        }
        break;
    }
}

void line_file_reopen(struct line_file *file, uint64_t now_ms)
{
    line_file_write(file, now_ms);
    if (is_output(file) || file->is_begun) {
        return; // it has no name; or half a line is out, and whoever has it gets the rest
    }
    append_file_close(&file->file);
    file->again_at_ms = 0;
    if (open_it(file) != STATUS_OK) {
        fail(file, strerrordesc_np(errno), now_ms);
    }
}
