// SPDX-License-Identifier: Apache-2.0
//
// report_json.h -- all of a sweep as one JSON object: options, figures, curves, score.
//
// Equal runs give equal bytes, unless wall times are asked for.
#pragma once

#include "sweep/report.h"

void report_json_write(FILE *out, const struct sweep *sweep, const struct report_options *options);
