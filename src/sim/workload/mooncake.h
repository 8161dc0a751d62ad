// SPDX-License-Identifier: Apache-2.0
//
// mooncake.h -- traces of requests, as published with Mooncake: one JSON object a line.
//
//     {"timestamp": 3000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, 14]}
//
// `timestamp` is in milliseconds; each of `hash_ids` names a block of 512 tokens of the prompt, and
// equal leading ids mean an equal prefix.  `session_id` and `turn`, which are ours, may follow, and
// `block_size` on a line says that its ids name blocks of another size; other fields are passed
// over.
//
// Time stamps that are quantised, as those of the published traces are (to 3 s), are spread: those
// that are equal lie evenly over the smallest step between any two stamps, which is the quantum.
//
// Threads: one owner.  Memory: taken while reading, given back by _destroy.
#pragma once

#include "base/slice.h"
#include "base/status.h"

#include <stdint.h>

enum {
    mooncake_block_tokens = 512,
    mooncake_tokens_max = 1 << 24, // of one prompt, response or block; no model reads so much
    mooncake_error_size = 160,
};

static const size_t mooncake_size_max = (size_t)4 << 30; // fewer than 2^32 ids

struct mooncake_request {
    uint64_t at_us;   // since the first one
    uint64_t session; // 0: not told
    uint32_t turn;    // of its session, from 0
    uint32_t input_tokens;
    uint32_t output_tokens;
    uint32_t block_tokens; // of one id
    uint32_t first;        // where its ids begin
    uint32_t id_count;
    uint32_t line; // that it was read from; requests of one time keep that order
};

struct mooncake_trace {
    struct mooncake_request *requests; // by time
    uint32_t request_count;
    uint64_t *ids;
    uint32_t id_count;
    uint64_t span_us; // from the first to the last
};

// The whole text of a trace, at most mooncake_size_max bytes; empty lines are passed over.
// MALFORMED: `error` names the line and what is wrong with it.  Sessions may be numbers or strings.
enum status mooncake_read(struct slice text, struct mooncake_trace *out,
                          char error[mooncake_error_size]);
void mooncake_destroy(struct mooncake_trace *trace);

struct text;

// One line, its newline included; `ids` are the trace's, of which the request says where its own
// begin.  Reading such lines gives what was written, if the first has time 0 and all times differ.
void mooncake_write(const struct mooncake_request *request, const uint64_t *ids, struct text *out);
