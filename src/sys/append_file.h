// SPDX-License-Identifier: Apache-2.0
//
// append_file.h -- a file that grows by whole portions: one that does not fit leaves nothing behind.
//
// A disk that fills up in the middle of a portion would leave half of it; that half is cut off again, at
// once or, where the disk does not even take that, before anything else is written.
//
// Only the owner may read what it creates; the mode of a file that was there stays.  Writing may wait for
// the disk, as writing does; a pipe that nobody reads is an error and not a wait.
//
// Threads: one owner.
#pragma once

#include "base/slice.h"
#include "base/status.h"

struct append_file {
    int fd; // -1: closed
    bool is_torn;
    uint64_t whole_size; // when torn: what is to stay
};

// IO: errno says why.
enum status append_file_open(const char *path, struct append_file *out);

// May be closed already.
void append_file_close(struct append_file *file);

// TOO_LARGE: the file would become larger than `size_max`, and is as it was.  IO: errno says why.
enum status append_file_add(struct append_file *file, struct slice portion, uint64_t size_max);
