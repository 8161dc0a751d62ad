// SPDX-License-Identifier: Apache-2.0
//
// decision_json.h -- one decision as JSON, for /decisions, /explain and the dashboard.
//
//     {"serial": 4711, "id": "req-1", "time_ms": …, "model": "m", "path": "/v1/chat/completions",
//      "policy": "warm", "backend": {"id": 1, "url": …}, "outcome": "ok", "status": 200, …,
//      "rivals": [{"id": 2, "url": …, "expected_tokens": 0, …}], "why": "warm chose …"}
//
// Unknown values are null.  The chronicle knows rivals by id; their URLs come from the fleet, and
// are null after a backend has left it.
#pragma once

struct chronicle_decision;
struct decision;
struct decision_party;
struct fleet;
struct json_writer;
struct reason;

void decision_json_put(const struct chronicle_decision *decision, const struct fleet *fleet,
                       struct json_writer *json);

// The members that every candidate has, here and in /explain: expected_tokens, queued_tokens,
// running_requests, predicted_ms, cost.
void decision_json_put_party(const struct decision *decision, const struct decision_party *party,
                             struct json_writer *json);

// The member `key`: the sentence.
void decision_json_put_reason(const struct reason *reason, const char *key,
                              struct json_writer *json);
