// SPDX-License-Identifier: Apache-2.0
//
// backend_minute.h -- figures of each backend in the last minute.
//
// A ring of five-second stretches for each backend, as in timeline.h, with coarse histograms: 2.6
// KB a backend.  Round-robin has no percentiles here: it would send other requests to the backend.
//
// Threads: one at a time.  Memory: taken by _create, touched for slots that are used.
#pragma once

#include "chronicle/chronicle.h"

struct receipt_share;
struct backend_minute;

// NULL when memory is short.
struct backend_minute *backend_minute_create(uint32_t member_max);
void backend_minute_destroy(struct backend_minute **minutes);

// A request of the backend in that slot of the fleet, in the open step.
void backend_minute_note(struct backend_minute *minutes, uint32_t slot, uint64_t step,
                         const struct receipt_share *account);

// The minute before the end of that step, without its span.
void backend_minute_sum(const struct backend_minute *minutes, uint32_t slot, uint64_t step,
                        struct chronicle_figures *out);

// The backend of that slot has left.
void backend_minute_forget(struct backend_minute *minutes, uint32_t slot);
