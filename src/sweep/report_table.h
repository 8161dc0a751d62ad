// SPDX-License-Identifier: Apache-2.0
//
// report_table.h -- a sweep as text for a terminal: a table for each point, the best cells marked.
#pragma once

#include "sweep/report.h"

void report_table_write(FILE *out, const struct sweep *sweep, const struct report_options *options);
