// SPDX-License-Identifier: Apache-2.0
//
// backend_events.h -- where one backend publishes its KV events: its own rows and the defaults of
// all.
//
// A data-parallel server has a publisher for each rank, at ports that follow each other:
//
//     ranks: 4   events: tcp://*:5557          5557 5558 5559 5560
//                events_replay: tcp://*:5657   5657 5658 5659 5660
//
// Bases closer than that collide, in the engine as well: the second bind fails.
#pragma once

#include "base/slice.h"

struct config;
struct config_backend;
struct text;

struct config_events {
    const char *endpoint; // of rank 0; NULL: no events; `poll`: events are fetched
    const char *replay;   // of rank 0; NULL: none
    const char *topic;    // NULL: any
};

struct config_events config_backend_events(const struct config *config,
                                           const struct config_backend *backend);

bool config_events_are_polled(const char *endpoint);

// Whether KV events may arrive: a backend publishes, connects to us, or the admin API accepts them.
bool config_hears_events(const struct config *config);

// The shares of events.memory: the ledger takes 12 bytes for each block of each backend, the names
// that engines give to blocks take 16.  Both are 0 if config_hears_events is false.
struct config_events_memory {
    size_t ledger;
    size_t names;
};
struct config_events_memory config_events_memory(const struct config *config);

// Whether they can be.  If not, `why` got the reason, and `*row` is the row that it is about.
bool config_backend_events_check(const struct config *config, const struct config_backend *backend,
                                 const char **row, struct text *why);

// The ports where one backend publishes, to be compared with those of others.
struct config_ports {
    struct slice host; // or the path of ipc; empty: it publishes nowhere
    struct slice topic;
    uint32_t low; // both 0 for ipc
    uint32_t high;
};

// Of a backend that passed the check.
struct config_ports config_backend_ports(const struct config *config,
                                         const struct config_backend *backend);

// Whether messages of one could be taken for those of the other.
bool config_ports_collide(const struct config_ports *a, const struct config_ports *b);
