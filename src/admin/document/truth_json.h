// SPDX-License-Identifier: Apache-2.0
//
// truth_json.h -- the record of truth of one backend, as JSON.
//
//     {"exact": null,
//      "believed": {"all":    {"count": 240, "equal": 231, "equal_share": 0.9625,
//                              "p1": -64, "p50": 0, "p99": 128, "wrong_percent": 1.4,
//                              "predicted_tokens": 245120, "actual_tokens": 243008},
//                   "recent": {...},
//                   "last": {"predicted": 960, "actual": 960},
//                   "histogram": [[-64, 3], [0, 231], [16, 2], [128, 4]]}}
//
// A kind of prediction that was never made is null, and so is a recent past without any.  The histogram is a list of buckets that are not empty,
// each with the difference at its far edge and its count (fleet/truth.h).  It may be some kilobytes, so
// lists of thousands of backends do without.
#pragma once

#include "base/text.h"
#include "fleet/truth.h"

// All of it.
void truth_json_add(const struct truth *truth, uint64_t now_ms, struct text *json);

// The same without histograms.
void truth_json_add_brief(const struct truth *truth, uint64_t now_ms, struct text *json);
