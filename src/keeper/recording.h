// SPDX-License-Identifier: Apache-2.0
//
// recording.h -- live traffic as a trace: entries of the recorder become lines of a file.
//
//     {"timestamp": 1763204044123.456, "input_length": 6758, "output_length": 500,
//      "hash_ids": [5128407710562177, 88120375540212], "session_id": 7120045731, "turn": 2}
//
// The format is that of sim/workload/mooncake.h.  A line is a request with a complete response,
// roughly in the order of the ends.  The time is that of its arrival, since 1970.
//
// Ids.  Each id stands for about span_tokens tokens of the prompt, and all before them: it is a
// keyed hash of the key of its last block.  The secret is made at the start and stored nowhere, so
// ids can be compared within one recording only, and a guessed prompt cannot be found in the file.
// Ids are below 2^53, since many readers take numbers for doubles.  The tokens behind the last
// whole id get an id that is used once.
//
// Tokens.  Ids stand for equal sizes of text, while engines count tokens.  A reader takes all ids
// of a line for equally long, and compares only lines with the same length of ids.  So the tokens
// of an id are settled for a pool, from the counts of its engines, and changed only when they are
// off by an eighth; the length of a prompt is its size by that rate, so that its ids cover it
// exactly.  But if the engine counted more than twice as much, the prompt had an image or the like,
// and the engine's count is used.
//
// Failures.  When the disk is full or the file has reached its limit, this is logged once, requests
// are dropped and counted, and the file is tried again every ten seconds.  The file never has half
// a line.
//
// Threads: the keeper's, but for the recorder.  Memory: taken by _open.
#pragma once

#include "base/status.h"
#include "worker/recorder.h"

struct recording;

struct recording_options {
    const char *path; // appended to; created with access for its owner only
    uint64_t size_max;
    uint32_t worker_count;
    uint32_t span_tokens; // of one id, roughly
};

// IO: errno says why.
enum status recording_open(const struct recording_options *options, struct recording **out);

// Writes the remaining entries and closes; the workers have ended.  `*recording` may be NULL.
void recording_close(struct recording **recording, uint64_t now_ms);

// For the workers.
struct recorder *recording_recorder(struct recording *recording);

// As of the last drain; valid as long as the recording.
const struct recorder_totals *recording_totals(const struct recording *recording);

// Writes the entries since the last drain.
void recording_drain(struct recording *recording, uint64_t now_ms);

// Opens the path again, which may be another file now, with a new limit.
void recording_reopen(struct recording *recording, uint64_t size_max);
