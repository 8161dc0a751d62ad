// SPDX-License-Identifier: Apache-2.0
//
// append_file.h -- a file that grows by whole portions: one that does not fit leaves nothing behind.
//
// A disk that fills up in the middle of a portion would leave half of it; that half is cut off again, at
// once or, where the disk does not even take that, before anything else is written.
//
// What is no file (a pipe, a terminal, a socket) keeps what it took: there a portion is fed piece by piece,
// and the caller keeps the rest.
//
// Only the owner may read what it creates; the mode of a file that was there stays.  Writing may wait for
// the disk, as writing does; a pipe that nobody reads is an error and not a wait.
//
// Threads: one owner.
#pragma once

#include "base/slice.h"
#include "base/status.h"

struct append_file {
    int fd;         // -1: closed
    bool is_stream; // no file
    bool is_shared; // a stream that others write to and may have to wait for: it is asked before
    bool is_torn;
    uint64_t whole_size; // when torn: what is to stay
};

// IO: errno says why.
enum status append_file_open(const char *path, struct append_file *out);

// Standard output, whatever that is.  Closing leaves it as it was, but that a file is appended to from now on.
enum status append_file_open_output(struct append_file *out);

bool append_file_is_terminal(const struct append_file *file);

// It is a file that has no name any more: nobody will ever read what is added.
bool append_file_is_gone(const struct append_file *file);

// May be closed already.
void append_file_close(struct append_file *file);

// TOO_LARGE: the file would become larger than `size_max`, and is as it was.  IO: errno says why.
enum status append_file_add(struct append_file *file, struct slice portion, uint64_t size_max);

// Streams only: hands over what is taken at once.  AGAIN: not all was.  IO: errno says why.  *taken is set in
// any case.
enum status append_file_feed(struct append_file *file, struct slice bytes, size_t *taken);

// Streams only: until there is room, or so long.
void append_file_wait(const struct append_file *file, uint32_t wait_ms);
