// SPDX-License-Identifier: Apache-2.0
//
// engine_faults.h -- faults that can be injected into a simulated engine.
//
//     {"error_rate": 0.1, "error_status": 503}   a tenth of the requests gets this status
//     {"stall_rate": 0.2, "stall_ms": 3000}      a fifth of the responses pauses at some token
//     {"slow": 2}                                every step takes twice as long
//     {"events_loss": 0.05}                      share of KV event batches lost; replays have them
//     {"freeze_ms": 500}                         once: no step ends for so long
//     {"crash_s": 5}                             once: gone, and back with an empty cache
//     {"flush": true}                            once: the cache is empty
//     {"reset": true}                            once: every connection is reset
//
// The first four last until they are changed or cleared; absent fields keep their value.
//
// Pure.
#pragma once

#include "base/slice.h"
#include "base/status.h"

struct text;

enum { engine_faults_error_size = 160 };

// Those that last.
struct engine_faults {
    double error_rate;
    double stall_rate;
    double slow;
    double events_loss;
    uint32_t error_status;
    uint32_t stall_ms;
};

// Those that happen once.
struct engine_mishap {
    double crash_s; // 0: none
    uint32_t freeze_ms;
    bool flush;
    bool reset;
};

// No faults.
extern const struct engine_faults engine_faults_none;

// Changes `faults` and fills `mishap` as the JSON object says.  MALFORMED: nothing was changed, and
// `error` says why.
enum status engine_faults_read(struct slice body, struct engine_faults *faults,
                               struct engine_mishap *mishap, char error[engine_faults_error_size]);

// As JSON, the lasting ones.
void engine_faults_write(const struct engine_faults *faults, struct text *out);
