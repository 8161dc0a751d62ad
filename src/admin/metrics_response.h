// SPDX-License-Identifier: Apache-2.0
//
// metrics_response.h -- GET /metrics: collects the sources and writes the response.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct admin_options;
struct text;

// Room for the response, which grows with the fleet.
size_t metrics_response_size_max(const struct admin_options *options);

// The whole response, head included.
void metrics_response(const struct admin_options *options, uint64_t now_ms, struct text *out);
