// SPDX-License-Identifier: Apache-2.0
//
// drive_run.h -- runs a workload against an endpoint, in real time.
//
//     workload --due--> client --response--> tally ... workload_done, and its user may go on
//
// A request is sent when it is due, even if the server lags; it waits only while all connections
// are in use.  A user of a closed loop sends the next request some time after its last response.
//
// A user whose request failed waits a second before the next one: otherwise a server that refuses
// requests would get them as fast as it refuses.
//
// A run ends when the workload is over; when `duration_s` is over and the last response has ended;
// at once when the caller stops it; or after drive_requests_max requests.
//
// Threads: one owner, whose loop turns inside drive_run.
#pragma once

#include "drive/drive_client.h"
#include "drive/drive_tally.h"

struct drive_log;
struct drive_run;

struct drive_run_options {
    struct drive_client_options client; // loop, where, what; `done` and `owner` are ours
    struct workload *workload;
    struct drive_memory *memory; // NULL: responses are not repeated
    struct drive_log *log;       // NULL: none
    double duration_s;           // 0: until the workload is over
    bool is_closed;              // a closed loop
    // These do not count: those numbered below `warm_up_requests`, and those due before
    // `warm_up_s`.
    uint64_t warm_up_requests;
    double warm_up_s;
    // Now and then, for showing how it goes; 0 ms: never.
    uint32_t watch_ms;
    void (*watch)(void *owner, const struct drive_run *run);
    void *watch_owner;
};

// NULL when memory is short.
struct drive_run *drive_run_create(const struct drive_run_options *options);
void drive_run_destroy(struct drive_run **run);

// Returns when it is over.
void drive_run(struct drive_run *run);

// From inside the loop.  Requests in flight are cut off.
void drive_run_stop(struct drive_run *run);

const struct drive_tally *drive_run_tally(const struct drive_run *run);
void drive_run_sum(const struct drive_run *run, struct figures *out);
struct drive_client_counts drive_run_counts(const struct drive_run *run);

uint64_t drive_run_now_us(const struct drive_run *run);

// Since it began, until now or its end.
double drive_run_elapsed_s(const struct drive_run *run);
