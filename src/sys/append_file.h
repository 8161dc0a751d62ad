// SPDX-License-Identifier: Apache-2.0
//
// append_file.h -- a file that grows by whole portions: a portion that does not fit leaves nothing
// behind.
//
// If the disk fills up within a portion, the half that was written is cut off again: at once or, if
// that fails, before the next write.
//
// Streams (a pipe, a terminal, a socket) keep the bytes that they took: a portion is written piece
// by piece, and the caller keeps the rest.
//
// A new file is readable by its owner only; the mode of an existing file stays.  Writing may wait
// for the disk; a pipe without a reader is an error.
//
// Threads: one owner.
#pragma once

#include "base/slice.h"
#include "base/status.h"

struct append_file {
    int fd;         // -1: closed
    bool is_stream; // not a regular file
    bool is_shared; // a stream that may block and that others write to: polled before each write
    bool is_torn;
    uint64_t whole_size; // when torn: the size to cut it back to
};

// IO: errno says why.
enum status append_file_open(const char *path, struct append_file *out);

// Standard output.  Closing leaves it open; if it is a file, it stays in append mode.
enum status append_file_open_output(struct append_file *out);

bool append_file_is_terminal(const struct append_file *file);

// Whether it is a file that was deleted.
bool append_file_is_gone(const struct append_file *file);

// May be closed already.
void append_file_close(struct append_file *file);

// TOO_LARGE: the file would become larger than `size_max`, and is as it was.  IO: errno says why.
enum status append_file_add(struct append_file *file, struct slice portion, uint64_t size_max);

// Streams only: writes without blocking.  AGAIN: not all was taken.  IO: errno says why.  *taken is
// set in any case.
enum status append_file_feed(struct append_file *file, struct slice bytes, size_t *taken);

// Streams only: waits until there is room, or for this time.
void append_file_wait(const struct append_file *file, uint32_t wait_ms);
