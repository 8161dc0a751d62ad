// SPDX-License-Identifier: Apache-2.0
//
// workload.h -- the requests of a workload, and when they are due.
//
// A workload is a source of requests.  Some come by a clock, whatever happens; others come from
// users that wait for the response, think, and ask again:
//
//     while (workload_peek(w, &at_us)) {          the next one that is due, if any is
//         workload_take(w, &item);                ... becomes the caller's to send
//         ...
//         workload_done(w, &item, now_us);        its answer is complete: its user may go on
//     }
//
// When peek says no, more may come after a workload_done; workload_is_over says when none will.
//
// At a rate, single requests and sessions come as a Poisson process; some sessions are under way at
// the start, without their history, so that the rate is reached at once.  A trace comes as it was
// recorded; a rate makes as many copies of it as it takes, with other content and begun at other
// places, and stretches the time by what remains: so the pauses in it stay about as they were.
// Users take the requests of a trace in turn.
//
// Pure: the same options and seed, and the same times of completion, give the same requests, bit
// for bit; other times of completion give the same sessions at other times.  Threads: one owner.
// Memory: taken by _create, and by _take for the pieces of an item, which workload_done gives back,
// or workload_destroy for those that were not done.
#pragma once

#include "sim/workload/content.h"

#include <stdbool.h>

struct mooncake_trace;
struct workload;

// The parts of a request.
struct work_item {
    uint64_t number;  // from 0, in the order of taking
    uint64_t due_us;  // when it should be sent
    uint64_t client;  // the user of a closed loop; otherwise its session is a client of its own
    uint64_t session; // 0: it belongs to none
    uint32_t turn;    // of its session, from 0
    uint32_t prompt_tokens;
    uint32_t history_tokens; // of them: up to the assistant's last response, included
    uint32_t output_tokens;
    uint32_t piece_count;       // of the prompt
    const struct piece *pieces; // of the prompt, and behind them that of the response
    void *user;                 // the workload's own
};

struct workload_options {
    const char *kind;                   // one of workloads.def, or NULL: the trace
    const struct mooncake_trace *trace; // the caller's, while the workload lives
    double rate;    // requests/s; for sessions with several turns, approximate, as on an idle
                    // fleet.  0: the rate of the trace or of the users
    uint32_t users; // closed loop: so many at once, each with the workload's think time.  0: open
    uint32_t requests; // how many in all, of a trace at most what its copies have; 0: all of
                       // them, or workload_requests_default
    double share; // of each prompt that is common to others, for kinds that vary it; 0: the kind's
    uint64_t seed;
};

enum { workload_requests_default = 12000, workload_error_size = 160 };

// NULL, and the reason in `error`, when the kind is unknown or the options contradict each other.
struct workload *workload_create(const struct workload_options *options,
                                 char error[workload_error_size]);
void workload_destroy(struct workload **workload);

bool workload_peek(struct workload *workload, uint64_t *at_us);
void workload_take(struct workload *workload, struct work_item *out);
void workload_done(struct workload *workload, struct work_item *item, uint64_t now_us);

// How many requests there will be in all, at most.
uint64_t workload_limit(const struct workload *workload);

// All were taken and done.
bool workload_is_over(const struct workload *workload);

// For help and reports: name and one line; NULL past the last.
const char *workload_kind_name(uint32_t index);
const char *workload_kind_summary(uint32_t index);
