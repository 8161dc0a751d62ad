// SPDX-License-Identifier: Apache-2.0
//
// line_file.h -- lines on their way to a file or to a stream: gathered, then written at once.
//
// Only whole lines are ever seen in a file.  One that takes nothing (a disk that is full or read-only, a
// directory that is gone) costs the lines that were to be written; it is tried again once a second, and said
// when that begins and when it is over.  A file that was deleted is made anew.
//
// A stream takes what it can.  The rest waits here, as far as there is room; then new lines are dropped.
//
// Threads: one owner.  Memory: the caller's, some 520 KB, of which only what is used is touched.
#pragma once

#include "base/text.h"
#include "sys/append_file.h"

enum {
    // Some 900 requests.  Long writes are cheap ones, as the kernel takes larger pages for them; beyond this it is
    // no gain.
    line_file_batch = 512 << 10,
    // Room behind it for one line more.
    line_file_line_max = 8192,
};

struct line_file {
    const char *path; // kept; "-": standard output
    const char *name; // kept; what it is to people
    struct append_file file;
    struct text batch;
    uint64_t line_count; // in the batch
    bool is_terminal;
    bool is_begun; // a part of the first line is with the stream already
    bool is_failing;
    uint64_t again_at_ms;
    uint64_t missed; // since it fails
    uint64_t written;
    uint64_t dropped;
    uint8_t space[line_file_batch + line_file_line_max];
};

// IO: errno says why.  To be closed in any case.
enum status line_file_open(struct line_file *file, const char *path, const char *name);

// Drops what is left.
void line_file_close(struct line_file *file);

// Where to put the next line, which has line_file_line_max bytes; NULL: it is to be dropped, and is counted as
// that.  line_file_end follows.
struct text *line_file_begin(struct line_file *file, uint64_t now_ms);
void line_file_end(struct line_file *file);

// It should be written before the next line comes.
static inline bool line_file_is_full(const struct line_file *file)
{
    return file->batch.size >= line_file_batch;
}

void line_file_write(struct line_file *file, uint64_t now_ms);

// A stream has not taken all.
static inline bool line_file_waits(const struct line_file *file)
{
    return file->line_count > 0;
}

// Under its name again: somebody has moved it.  What was gathered goes to the old one.
void line_file_reopen(struct line_file *file, uint64_t now_ms);
