// SPDX-License-Identifier: Apache-2.0
//
// report_markdown.h -- a sweep as Markdown: the score of the judged policy, then a table for each
// point.
#pragma once

#include "sweep/report.h"

// Needs a judge and at least one other policy.
void report_score_write(FILE *out, const struct sweep *sweep, uint32_t judge);

void report_markdown_write(FILE *out, const struct sweep *sweep,
                           const struct report_options *options);
