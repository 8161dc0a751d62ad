// SPDX-License-Identifier: Apache-2.0
//
// clock.h -- the two clocks.  Decisions use the loop's `now`; this is where it comes from.
#pragma once

#include <stdint.h>

// Never jumps.
uint64_t clock_monotonic_ns(void);

// CPU time of the process, all threads together.
uint64_t clock_cpu_ns(void);

// Since 1970, for humans to read; may jump.
uint64_t clock_wall_ms(void);
uint64_t clock_wall_us(void);

// Unpredictable bytes: seeds for generators and hashes.
uint64_t clock_entropy(void);
