// SPDX-License-Identifier: Apache-2.0
//
// line_file.h -- lines for a file or a stream: gathered in a batch, then written at once.
//
// A file never contains half a line.  When it cannot be written (the disk is full or read-only, the
// directory is missing) the batch is dropped and the file tried again once a second; the log says
// when that begins and when it is over.  A deleted file is created again.
//
// A stream takes as much as it can.  The rest waits in the batch; when that is full, new lines are
// dropped.
//
// {0} is a file that is not open: it can be written, reopened and closed, which does nothing.
//
// Threads: one owner.  Memory: the caller's, 520 KB, of which unused pages are not touched; and the
// path.
#pragma once

#include "base/text.h"
#include "sys/append_file.h"

enum {
    // About 900 requests.  Long writes are cheaper, since the kernel uses larger pages for them;
    // beyond this size nothing is gained.
    line_file_batch = 512 << 10,
    // Space behind the batch for one more line.
    line_file_line_max = 8192,
};

struct line_file {
    char *path;       // NULL: not open; "-": standard output
    const char *name; // kept; for the log: "access log"
    struct append_file file;
    struct text batch;
    uint64_t line_count; // in the batch
    bool is_terminal;
    bool is_begun; // the stream has taken a part of the first line
    bool is_failing;
    uint64_t again_at_ms;
    uint64_t missed; // lines dropped since it fails
    uint64_t written;
    uint64_t dropped;
    uint8_t space[line_file_batch + line_file_line_max];
};

// IO: errno says why.  To be closed in any case.  `file` is {0}.
enum status line_file_open(struct line_file *file, const char *path, const char *name);

// Drops the lines of the batch.
void line_file_close(struct line_file *file);

static inline bool line_file_is_open(const struct line_file *file)
{
    return file->path != NULL;
}

// Space for the next line, of at most line_file_line_max bytes; then call line_file_end.  NULL: the
// line is dropped, and counted.  Only for an open file.
struct text *line_file_begin(struct line_file *file, uint64_t now_ms);
void line_file_end(struct line_file *file);

// The batch should be written before the next line.
static inline bool line_file_is_full(const struct line_file *file)
{
    return file->batch.size >= line_file_batch;
}

void line_file_write(struct line_file *file, uint64_t now_ms);

// A stream has not taken all lines.
static inline bool line_file_waits(const struct line_file *file)
{
    return file->line_count > 0;
}

// Opens the path again, after a rotation.  The batch goes to the old file.
void line_file_reopen(struct line_file *file, uint64_t now_ms);
