// SPDX-License-Identifier: Apache-2.0
//
// roster.h -- who is in the fleet: what the configuration says, what operators added, and what DNS
// makes of names.
//
// An origin is one line of the configuration or one call of the admin API.  An origin with an
// address is one backend.  An origin with a DNS name is one backend for each address of the name,
// followed as the records expire; while a name does not resolve, the last known addresses stay.  Where
// a server has data-parallel ranks, each rank of each address is a backend.
// What does not fit limits.backends waits until there is room.
//
//     http://10.0.0.7:8000           -> http://10.0.0.7:8000
//     http://engines:8000            -> http://engines:8000#10.0.0.7, http://engines:8000#10.0.0.8
//     http://10.0.0.7:8000, 2 ranks  -> http://10.0.0.7:8000#rank=0, http://10.0.0.7:8000#rank=1
//     http://engines:8000, 2 ranks   -> http://engines:8000#10.0.0.7#rank=0, ...
//
// Threads: the keeper's.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct backend;
struct config;
struct config_backend;
struct fleet;
struct kv_poller;
struct loop;
struct prober;
struct roster;
struct scraper;

struct roster_options {
    struct loop *loop;
    struct fleet *fleet;
    struct prober *prober;
    struct scraper *scraper;      // NULL: nobody asks for their load
    struct kv_poller *poller;     // NULL: nobody asks for their KV events
    const struct config *config;  // until roster_set_config
    void (*changed)(void *owner); // the fleet has news to publish
    void *owner;
};

// NULL when memory is short.  The backends of the configuration are in the fleet when it returns,
// those behind names as soon as DNS answers.
struct roster *roster_create(const struct roster_options *options);

// Between turns of the loop only.  Clears the caller's pointer, which may be NULL.
void roster_destroy(struct roster **roster);

// A new configuration: its backends come, those that only the old one had go, others stay as they
// are, with their new weights.  A line whose pool, models, key, ranks or events changed is a new backend.
// What operators added stays for as long as its pool does.  dns.servers is read once, at the first name.
void roster_set_config(struct roster *roster, const struct config *config);

// For the admin API.  `spec->pool` counts in the configuration in force.  MALFORMED: the url is there
// already.  EXHAUSTED: limits.backends, which origins are counted by as well, so that names without an
// address do not pile up.  The backend, or its first rank, is `*out`, NULL for a name that has yet to be resolved;
// untouched on failure.
enum status roster_add(struct roster *roster, const struct config_backend *spec,
                       struct backend **out);

// A backend behind a name that was added by the admin API goes with all others of that name, and a rank
// with all others of its server.
// MALFORMED: it stands behind a name of the configuration, whose records decide.
enum status roster_remove(struct roster *roster, struct backend *backend);

// Whether there is an origin of that url, spelt as it was added.
bool roster_has(const struct roster *roster, const char *url);

// Removes an origin with all its backends, of which it may have none: the way to be rid of a name
// that does not resolve.  MALFORMED: there is none, or it is a name of the configuration.
enum status roster_remove_url(struct roster *roster, const char *url);

// Whether every name has been resolved, or not, once.
bool roster_has_resolved_all(const struct roster *roster);
