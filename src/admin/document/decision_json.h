// SPDX-License-Identifier: Apache-2.0
//
// decision_json.h -- one decision that is kept, as JSON.
//
//     {"serial": 4711, "id": "req-1", "time_ms": …, "model": "m", "path": "/v1/chat/completions",
//      "policy": "warm", "backend": {"id": 1, "url": …}, "outcome": "ok", "status": 200, …,
//      "rivals": [{"id": 2, "url": …, "expected_tokens": 0, …}], "why": "warm chose …"}
//
// What is not known is null.  Rivals are known by their ids; the fleet tells their urls, as long as it has
// them.
#pragma once

struct chronicle_decision;
struct fleet;
struct text;

void decision_json_add(const struct chronicle_decision *decision, const struct fleet *fleet,
                       struct text *json);
