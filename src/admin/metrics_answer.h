// SPDX-License-Identifier: Apache-2.0
//
// metrics_answer.h -- GET /metrics: gathers what there is to tell, and answers.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct admin_options;
struct text;

// Room that an answer needs, which grows with the fleet.
size_t metrics_answer_size_max(const struct admin_options *options);

// The whole answer, head included.
void metrics_answer(const struct admin_options *options, uint64_t now_ms, struct text *out);
