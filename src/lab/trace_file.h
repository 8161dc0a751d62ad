// SPDX-License-Identifier: Apache-2.0
//
// trace_file.h -- a trace of requests from a file.
#pragma once

#include "sim/workload/mooncake.h"

enum { trace_file_error_size = 512 };

// False: `error` names the file, and the line if one is wrong.  A trace that was read needs
// mooncake_destroy.
bool trace_file_read(const char *path, struct mooncake_trace *out,
                     char error[trace_file_error_size]);

// The name in reports: that of the file, without folder and extension.
enum { trace_file_name_size = 64 };
void trace_file_name(const char *path, char out[trace_file_name_size]);
