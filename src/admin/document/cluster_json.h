// SPDX-License-Identifier: Apache-2.0
//
// cluster_json.h -- the state of the cluster, as this router sees it, as JSON.
//
//     {"router": "5f3a...", "name": "host/4711", "kind": "mesh", "up": true, "why": null,
//      "joining": false, "notes": 812, "batches_sent": 390, ..., "peers": [
//        {"router": "91c0...", "name": "host/4712", "address": "10.0.0.2:7946", "there": true,
//         "heard_ms": 12, "lag_ms": 1, "in_flight": 3, "batches": 388, "complete": true, ...}]}
//
// Ids are strings of 16 hexadecimal digits.  A peer that is there without a batch yet, or an
// address without a router behind it, has only what its connection says.
#pragma once

struct admin_options;
struct cluster_status;
struct json_writer;

// As member "cluster" of the present object.
void cluster_json_put(const struct cluster_status *status, struct json_writer *json);

// The same of this router's cluster, if it has one.  The keeper's.
void cluster_json_put_own(const struct admin_options *options, struct json_writer *json);
