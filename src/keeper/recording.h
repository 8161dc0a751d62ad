// SPDX-License-Identifier: Apache-2.0
//
// recording.h -- live traffic as a trace: what workers put into the recorder becomes lines of a file.
//
//     {"timestamp": 1763204044123.456, "input_length": 6758, "output_length": 500,
//      "hash_ids": [5128407710562177, 88120375540212], "session_id": 7120045731, "turn": 2}
//
// The format is sim/workload/mooncake.h's.  A line is a request whose answer came to its end, about in the order of
// the ends.  The time is that of its arrival, since 1970.
//
// Ids.  Each names some tokens of the prompt, about as many as wanted, and all before them: a keyed hash of the key of its last
// block.  The secret is made at the start and kept nowhere, so ids can be compared within a run and with
// nothing else: who guesses a prompt afterwards cannot find it in the file.  They are below 2^53, since many readers
// take numbers for doubles.  What is behind the last whole id has one that is nobody else's.
//
// Tokens.  Ids name equal sizes of text, and engines count tokens.  A reader takes all ids of a line for
// equally long, and two prompts for equal only where their ids are equally long too.  So the tokens of an id
// are settled for a pool, from what its engines counted, and settled anew only when they are an eighth
// off; and the length of a prompt is its size by that rate, so that its ids cover it exactly.  But an
// engine that counted more than twice as much has read something that is no text, an image, and its count
// is taken.
//
// Trouble.  When the disk is full or the file has reached its limit, that is said once, what comes is dropped
// and counted, and every ten seconds it is tried again.  A line is in the file as a whole or not at all.
//
// Threads: the keeper's, but for the recorder.  Memory: taken by _open.
#pragma once

#include "base/status.h"
#include "worker/recorder.h"

struct recording;

struct recording_options {
    const char *path; // appended to; created for its owner's eyes alone
    uint64_t size_max;
    uint32_t worker_count;
    uint32_t span_tokens; // of one id, about
};

// IO: errno says why.
enum status recording_open(const struct recording_options *options, struct recording **out);

// Writes what is there and closes; the workers have ended.  `*recording` may be NULL.
void recording_close(struct recording **recording, uint64_t now_ms);

// For the workers.
struct recorder *recording_recorder(struct recording *recording);

// As of the last drain; good as long as the recording is.
const struct recorder_totals *recording_totals(const struct recording *recording);

// Writes what has come since the last time.
void recording_drain(struct recording *recording, uint64_t now_ms);

// The file of that name is another one now, perhaps, or has another limit.
void recording_reopen(struct recording *recording, uint64_t size_max);
