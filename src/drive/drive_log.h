// SPDX-License-Identifier: Apache-2.0
//
// drive_log.h -- writes a line of JSON for each request of a run when it ends.
//
//     {"number":7,"session":3,"due_ms":812.4,"sent_ms":812.5,"first_ms":40.1,"last_ms":310.0,
//      "error":null,"status":200,"prompt_tokens":412,"cached_tokens":384,"output_tokens":64,
//      "counts":true,"backend":"http://127.0.0.1:9001","predicted_tokens":384,"decision":"..."}
//
// due_ms and sent_ms count from the start of the run, first_ms and last_ms from when the request
// was due.  Values that the server did not send are null.  predicted_tokens is the router's
// prediction, matched_tokens of x-warmpath-decision; cached_tokens is the engine's count.
//
// Threads: one owner.  Memory: the stream's.
#pragma once

#include <stdbool.h>

struct drive_ending;
struct drive_log;

// NULL, and errno says why: the file cannot be written.
struct drive_log *drive_log_open(const char *path);

void drive_log_add(struct drive_log *log, const struct drive_ending *ending);

// False: not all of it was written.  Clears the caller's pointer, which may be NULL.
bool drive_log_close(struct drive_log **log);
