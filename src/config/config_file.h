// SPDX-License-Identifier: Apache-2.0
//
// config_file.h -- the one place where a configuration touches the disk.
#pragma once

#include "base/status.h"

#include <stddef.h>

// Reads the whole file at `path` into `bytes`.  STATUS_TOO_LARGE: it has more than `capacity`.
// STATUS_IO: errno says why.  `*size` is untouched on failure.
enum status config_file_read(const char *path, void *bytes, size_t capacity, size_t *size);
