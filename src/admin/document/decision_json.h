// SPDX-License-Identifier: Apache-2.0
//
// decision_json.h -- one decision of the chronicle as JSON.
//
//     {"serial": 4711, "id": "req-1", "time_ms": …, "model": "m", "path": "/v1/chat/completions",
//      "policy": "warm", "backend": {"id": 1, "url": …}, "outcome": "ok", "status": 200, …,
//      "rivals": [{"id": 2, "url": …, "expected_tokens": 0, …}], "why": "warm chose …"}
//
// Unknown values are null.  The chronicle knows rivals by id; their URLs come from the fleet, and
// are null after a backend has left it.
#pragma once

struct chronicle_decision;
struct fleet;
struct json_writer;

void decision_json_put(const struct chronicle_decision *decision, const struct fleet *fleet,
                       struct json_writer *json);
