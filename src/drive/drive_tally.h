// SPDX-License-Identifier: Apache-2.0
//
// drive_tally.h -- counts and times of the requests of a run, noted as they end.
//
// Times run from when a request was due, not from when it was sent, so a delay counts for all
// requests that wait behind it.  How late requests were sent is counted too: late ones measure the
// generator rather than the server.
//
// Pure.  Threads: one owner.  Memory: samples are reserved for drive_requests_max requests.
#pragma once

#include "base/histogram.h"
#include "drive/drive_response.h"
#include "sim/figures.h"
#include "sim/workload/workload.h"

enum {
    drive_requests_max = 4000000, // of a run, which ends there
    drive_backends_max = 1024,    // further ones count as not known
    drive_status_max = 600,
    drive_recent_max = 1024,
    drive_recent_us = 5000000,
};

struct drive_backend {
    char name[drive_backend_size];
    uint64_t requests;
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
    uint64_t output_tokens;
};

struct drive_recent {
    uint64_t at_us;
    uint32_t first_us;
};

struct drive_tally {
    struct figure_sample *samples; // of those that count and went well
    uint32_t sample_count;
    uint64_t sent;      // all, warm-up included
    uint64_t done;      // of them
    uint64_t counted;   // ended, without warm-up
    uint64_t responded; // of all, with any status: the server is there
    uint64_t cut;       // ended by us, before their end
    uint64_t errors[drive_error_count];
    uint64_t error_count; // sum of them
    uint64_t all_errors;  // warm-up included
    uint64_t statuses[drive_status_max];
    bool knows_cached;     // at least one response said how many tokens were cached
    struct histogram gaps; // ns between tokens
    struct histogram late; // ns from due to sent
    struct drive_backend backends[drive_backends_max];
    uint32_t backend_count;
    struct drive_recent recent[drive_recent_max]; // a ring
    uint64_t recent_count;                        // ever
};

struct drive_ending {
    const struct work_item *item;
    const struct drive_response *response;
    bool counts;       // false: warm-up
    uint64_t begin_us; // of the run
    uint64_t sent_us;
    uint64_t now_us;
};

// False when memory is short.
bool drive_tally_init(struct drive_tally *tally);
void drive_tally_fini(struct drive_tally *tally);

void drive_tally_end(struct drive_tally *tally, const struct drive_ending *ending);

// One that never was sent.
void drive_tally_unsent(struct drive_tally *tally, bool counts);

void drive_tally_sum(const struct drive_tally *tally, struct figures *out);

// The median time to the first token of what ended in the last seconds, in ms; negative: nothing
// did.
double drive_tally_recent_ms(const struct drive_tally *tally, uint64_t now_us);
