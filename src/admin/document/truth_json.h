// SPDX-License-Identifier: Apache-2.0
//
// truth_json.h -- how well cache hits of one backend were predicted (fleet/truth.h), as JSON.
//
//     "truth": {"by_events": null,
//               "believed": {"all":    {"count": 240, "equal": 231, "equal_share": 0.9625,
//                                       "p1": -64, "p50": 0, "p99": 128, "wrong_percent": 1.4,
//                                       "predicted_tokens": 245120, "actual_tokens": 243008},
//                            "recent": {...},
//                            "last": {"predicted": 960, "actual": 960},
//                            "histogram": [[-64, 3], [0, 231], [16, 2], [128, 4]]}}
//
// A kind of prediction without a sample is null; so are recent figures without one.  The histogram
// lists the buckets that have a count, each with the difference at its far edge.  It may take some
// kilobytes, so lists of backends leave it out.
#pragma once

#include "fleet/truth.h"

#include <stdbool.h>

struct json_writer;

void truth_json_put(const struct truth *truth, uint64_t now_ms, bool has_histogram,
                    struct json_writer *json);
