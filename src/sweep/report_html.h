// SPDX-License-Identifier: Apache-2.0
//
// report_html.h -- a sweep as one page that stands alone: charts and tables, no script, nothing to
// fetch.
//
//     fleet   TTFT and goodput against the load, where several loads were run
//     point   TTFT by percentile, hits against the cache without end, balance, the table
#pragma once

#include "sweep/report.h"

void report_html_write(FILE *out, const struct sweep *sweep, const struct report_options *options);
