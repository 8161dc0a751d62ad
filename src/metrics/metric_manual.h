// SPDX-License-Identifier: Apache-2.0
//
// metric_manual.h -- docs/metrics.md: queries worth having, and every row of the table.
#pragma once

struct text;

void metric_manual_write(struct text *out);
